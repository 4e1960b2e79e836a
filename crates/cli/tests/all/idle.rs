//! What an engine with nothing to do asks MySQL: counted between its heartbeats, so that a slow machine counts the same.

use crate::binary::{DURABLE, Running, address, blocking, punctual, wait_for};
use punctual_testkit::servers::{MariaDb, Redis};

/// Twice a second, the only insert of an engine that has nothing to do, but for a sample each ten seconds and the like.
const HEARTBEATS: u64 = 30;
/// Statements from one heartbeat to the next: half a second. 15 to 20 are usual; 38 before there was an agenda.
const STATEMENTS_MAX: u64 = 27;

/// Statements that read or change rows, and inserts among them, since the start of the server. The question itself counts as none.
fn counted(server: &MariaDb) -> (u64, u64) {
    const KINDS: [&str; 4] = ["Com_insert", "Com_select", "Com_update", "Com_delete"];
    let names = KINDS.map(|kind| format!("'{kind}'")).join(", ");
    let rows = blocking(server.sql("mysql", &format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")));
    let value = |kind: &str| -> u64 {
        let row = rows.lines().find_map(|line| line.strip_prefix(kind));
        row.unwrap().trim().parse().unwrap()
    };
    (KINDS.into_iter().map(value).sum(), value(KINDS[0]))
}

#[test]
fn an_idle_engine_asks_mysql_little_from_one_heartbeat_to_the_next() {
    let (mariadb, redis) = blocking(async { (MariaDb::with(&DURABLE).await, Redis::own().await) });
    let store = blocking(mariadb.fresh_database());
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.env("PUNCTUAL_STORE_URL", store).env("PUNCTUAL_HOT_URL", redis.url());
    command.env("PUNCTUAL_STORE_PARTITIONS", "16");
    let mut process = Running::start(&mut command);
    address(&process.first_line());
    // It has taken its partitions over, and read them once.
    let after = |inserts: u64| {
        wait_for("heartbeats", || Some(counted(&mariadb)).filter(|counted| counted.1 >= inserts))
    };
    let from = after(counted(&mariadb).1 + HEARTBEATS);
    let to = after(from.1 + HEARTBEATS);
    let (statements, heartbeats) = (to.0 - from.0, to.1 - from.1);
    assert!(
        statements <= heartbeats * STATEMENTS_MAX,
        "{statements} statements in the time of {heartbeats} heartbeats"
    );
}
