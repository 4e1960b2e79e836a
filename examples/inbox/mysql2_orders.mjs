// mysql2: an order and its mail commit together, or not at all.
//
// npm install mysql2
// DATABASE_URL=mysql://user:password@host/shop node mysql2_orders.mjs

import mysql from "mysql2/promise";

const connection = await mysql.createConnection(process.env.DATABASE_URL);

async function place(name) {
  await connection.execute("INSERT INTO orders (id, state) VALUES (?, 'placed')", [name]);
  const payload = JSON.stringify({ order: name });
  await connection.execute(
    "INSERT INTO punctual_inbox (`key`, queue, delay_ms, payload) VALUES (?, 'mail', 1500, ?)",
    [`order-${name}`, payload],
  );
}

await connection.beginTransaction();
await place("mysql2-1");
await connection.commit();

await connection.beginTransaction();
try {
  await place("mysql2-2");
  throw new Error("the card was refused");
} catch (error) {
  await connection.rollback();
  console.log(`rolled back: ${error.message}`);
}
await connection.end();
