//! The servers of other tests: they answer, they can be killed and restarted, and nothing of them is left
//! when the process that started them is killed.

use punctual_testkit::{
    patience::until,
    servers::{self, CallTally, MariaDb, Redis, RedisCluster, STATEMENT_LOG, Sentinels, StatementTally},
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Set for the process that another test kills.
const HELD: &str = "PUNCTUAL_TEST_HOLDS_ITS_SERVERS";

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Of `mysql://t:t@127.0.0.1:PORT/NAME`.
fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

#[tokio::test]
async fn servers_start_and_answer() {
    let (mariadb, redis) = (servers::mariadb().await, servers::redis().await);
    let url = mariadb.fresh_database().await;
    let rows = "create table a (b int); insert into a values (1), (2); select * from a";
    assert_eq!(mariadb.sql(name(&url), rows).await, "1\n2");
    assert_ne!(url, mariadb.fresh_database().await);
    assert_eq!(url, format!("mysql://t:t@127.0.0.1:{}/{}", mariadb.port(), name(&url)));
    assert_eq!(redis.command(&["SET", &redis.fresh_prefix(), "1"]).await, "OK");
    assert_eq!(redis.command(&["CONFIG", "GET", "maxmemory-policy"]).await, "maxmemory-policy\nnoeviction");
    if std::env::var_os(HELD).is_some() {
        println!("\nheld\t{}\t{}", mariadb.port(), mariadb.dir().display());
        println!("\nheld\t{}\t{}", redis.port(), redis.dir().display());
        drop(std::io::stdin().read(&mut [0]));
    }
}

#[tokio::test]
async fn what_a_mariadb_is_asked_is_counted() {
    if servers::is_mysql() {
        // Its log says of no statement what it changed.
        return;
    }
    let server = MariaDb::with(&STATEMENT_LOG).await;
    let url = server.fresh_database().await;
    let rows = "CREATE TABLE task (id INT PRIMARY KEY, state INT, attempt INT); INSERT INTO task VALUES (1, 1, 0), (2, 1, 0), (3, 1, 0)";
    server.sql(name(&url), rows).await;
    let statements = server.statements().await;
    assert_eq!(statements.tally(&server).await, StatementTally::default());
    let hands_over = "UPDATE task SET state = 4, attempt = attempt + 1 WHERE id";
    for text in [
        format!("BEGIN; SELECT id FROM task WHERE id < 3; {hands_over} < 3; SELECT 'b\n# c'; COMMIT"),
        "BEGIN; SELECT id FROM task FOR UPDATE; UPDATE task SET state = 5 WHERE id = 1; COMMIT".to_owned(),
        format!("BEGIN; SELECT id FROM task WHERE id = 3 FOR UPDATE; {hands_over} = 3; ROLLBACK"),
        "SELECT id FROM task".to_owned(),
    ] {
        server.sql(name(&url), &text).await;
    }
    let wanted = StatementTally {
        statements: 14,
        transactions: 3,
        undone: 1,
        hand_overs: 2,
        hand_overs_undone: 1,
        looks: 2,
        rows_looked_at: 3,
        rows_locked: 4,
        rows_locked_for_nothing: 3,
    };
    assert_eq!(statements.tally(&server).await, wanted);
}

#[tokio::test]
async fn what_a_redis_is_asked_is_counted() {
    let server = Redis::own().await;
    let calls = server.calls().await.unwrap();
    server.command(&["SET", "a", "b] \"evalsha\"\n"]).await;
    server.command(&["EVAL", "redis.call('GET', 'a') return redis.call('GET', 'a')", "0"]).await;
    assert_eq!(calls.tally(&server).await.unwrap(), CallTally { calls: 2, scripts: 1 });
}

#[tokio::test]
async fn the_shared_ones_are_the_same_in_every_runtime() {
    let ask =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let there = std::thread::spawn(move || ask().block_on(servers::redis()).port()).join().unwrap();
    assert_eq!(servers::redis().await.port(), there);
}

/// This binary once more, which starts its servers and then waits to be killed.
fn holder() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "servers::servers_start_and_answer", "--nocapture"]).env(HELD, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn nothing_is_left_when_the_process_that_started_them_is_killed() {
    let mut holder = holder();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    let held = lines.filter_map(|line| line.strip_prefix("held\t").map(str::to_owned)).take(2);
    let held: Vec<(u16, String)> = held
        .map(|text| text.split_once('\t').map(|(port, dir)| (port.parse().unwrap(), dir.to_owned())).unwrap())
        .collect();
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|(port, dir)| listens(*port) && Path::new(dir).is_dir()));
    holder.kill().unwrap();
    // The watchdogs write their errors there too: it ends when the last of them has gone.
    let mut errors = String::new();
    holder.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    for (port, dir) in held {
        assert!(!listens(port) && !Path::new(&dir).exists(), "{port} {dir} {errors}");
    }
    holder.wait().unwrap();
}

#[tokio::test]
async fn a_killed_mariadb_has_its_committed_rows_when_it_is_started_again() {
    let own = MariaDb::own().await;
    let (url, port) = (own.fresh_database().await, own.port());
    own.sql(name(&url), "create table a (b int); insert into a values (1)").await;
    own.kill();
    assert!(!listens(port));
    own.start_again().await;
    assert_eq!(own.port(), port);
    assert_eq!(own.sql(name(&url), "select b from a").await, "1");
    let dir = own.dir().to_owned();
    drop(own);
    assert!(!dir.exists() && !listens(port));
}

#[tokio::test]
async fn a_killed_redis_is_empty_when_it_is_started_again_and_a_paused_one_goes_on() {
    let own = Redis::own().await;
    let port = own.port();
    own.command(&["SET", "a", "1"]).await;
    own.pause();
    let mut asking = TcpStream::connect(("127.0.0.1", port)).unwrap();
    asking.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    asking.write_all(b"GET a\r\n").unwrap();
    assert!(asking.read(&mut [0; 7]).is_err(), "a paused server takes a question and does not answer");
    own.resume();
    asking.set_read_timeout(None).unwrap();
    let mut answer = [0; 7];
    asking.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"$1\r\n1\r\n");
    own.kill();
    assert!(!listens(port));
    own.start_again().await;
    assert_eq!((own.port(), own.command(&["GET", "a"]).await.as_str()), (port, ""));
}

#[tokio::test]
async fn a_cluster_takes_keys_of_every_node() {
    let cluster = RedisCluster::own().await;
    for node in cluster.nodes() {
        assert!(node.command(&["CLUSTER", "INFO"]).await.contains("cluster_slots_assigned:16384"));
    }
    let ports: Vec<String> =
        cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://{}", ports.join(",")));
    assert_eq!(cluster.nodes()[0].command(&["-c", "SET", "b", "1"]).await, "OK");
}

#[tokio::test]
async fn sentinels_put_the_replica_in_the_place_of_a_killed_master() {
    let set = Sentinels::own().await;
    let first = &set.sentinels()[0];
    let master = async || first.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]).await;
    assert_eq!(master().await, format!("127.0.0.1\n{}", set.master().port()));
    set.master().kill();
    let next = format!("127.0.0.1\n{}", set.replica().port());
    until("there is a new master", || async { master().await == next }).await;
}
