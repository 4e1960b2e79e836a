"""SQLAlchemy: an order and its mail commit together, or not at all.

pip install sqlalchemy pymysql
DATABASE_URL=mysql://user:password@host/shop python sqlalchemy_orders.py
"""

from __future__ import annotations

import json
import os

from sqlalchemy import Connection, column, create_engine, insert, table

orders = table("orders", column("id"), column("state"))
inbox = table("punctual_inbox", column("key"), column("queue"), column("delay_ms"), column("payload"))
engine = create_engine(os.environ["DATABASE_URL"].replace("mysql://", "mysql+pymysql://", 1))


def place(connection: Connection, name: str) -> None:
    connection.execute(insert(orders).values(id=name, state="placed"))
    payload = json.dumps({"order": name})
    connection.execute(insert(inbox).values(key=f"order-{name}", queue="mail", delay_ms=1_500, payload=payload))


with engine.begin() as connection:
    place(connection, "sqlalchemy-1")

try:
    with engine.begin() as connection:
        place(connection, "sqlalchemy-2")
        raise ValueError("the card was refused")
except ValueError as error:
    print(f"rolled back: {error}")
