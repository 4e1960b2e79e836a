// knex: an order and its mail commit together, or not at all.
//
// npm install knex mysql2
// DATABASE_URL=mysql://user:password@host/shop node knex_orders.mjs

import knex from "knex";

const db = knex({ client: "mysql2", connection: process.env.DATABASE_URL });

async function place(trx, name) {
  await trx("orders").insert({ id: name, state: "placed" });
  const payload = JSON.stringify({ order: name });
  await trx("punctual_inbox").insert({ key: `order-${name}`, queue: "mail", delay_ms: 1500, payload });
}

await db.transaction((trx) => place(trx, "knex-1"));

try {
  await db.transaction(async (trx) => {
    await place(trx, "knex-2");
    throw new Error("the card was refused");
  });
} catch (error) {
  console.log(`rolled back: ${error.message}`);
}
await db.destroy();
