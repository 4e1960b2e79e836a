"""Django: the inbox is a model that Django does not manage.

pip install django pymysql
DATABASE_URL=mysql://user:password@host/shop python django_orders.py
"""

from __future__ import annotations

import json
import os
from urllib.parse import unquote, urlsplit

import django
import pymysql
from django.conf import settings

pymysql.install_as_MySQLdb()
url = urlsplit(os.environ["DATABASE_URL"])
database = {
    "ENGINE": "django.db.backends.mysql",
    "NAME": url.path.lstrip("/"),
    "HOST": url.hostname,
    "PORT": url.port or 3306,
    "USER": unquote(url.username or ""),
    "PASSWORD": unquote(url.password or ""),
}
settings.configure(DATABASES={"default": database}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()

from django.db import models, transaction  # noqa: E402 (the settings come first)


class Order(models.Model):
    id = models.CharField(primary_key=True, max_length=64)
    state = models.CharField(max_length=16)

    class Meta:
        app_label = "shop"
        db_table = "orders"
        managed = False


class InboxTask(models.Model):
    """Only what is set here is in the INSERT; other columns take their defaults."""

    key = models.CharField(max_length=128, null=True)
    queue = models.CharField(max_length=128)
    delay_ms = models.BigIntegerField(null=True)
    payload = models.TextField(null=True)

    class Meta:
        app_label = "shop"
        db_table = "punctual_inbox"
        managed = False


def place(name: str) -> None:
    Order.objects.create(id=name, state="placed")
    payload = json.dumps({"order": name})
    InboxTask.objects.create(key=f"order-{name}", queue="mail", delay_ms=1_500, payload=payload)


with transaction.atomic():
    place("django-1")

try:
    with transaction.atomic():
        place("django-2")
        raise ValueError("the card was refused")
except ValueError as error:
    print(f"rolled back: {error}")
