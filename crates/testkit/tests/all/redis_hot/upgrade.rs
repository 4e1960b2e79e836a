//! What engines of 0.2 left in Redis, and whose it is: forgotten once and filled again, and nothing of another cluster is touched.

use super::{P0, entry, ids, in_partition, options};
use punctual_contract::{Hot, hot::Wholeness, ownership::Tenure};
use punctual_domain::{place::Partition, time::Millis};
use punctual_hot::{ClusterName, Marker, RedisDoctor, RedisHot, RedisOptions};
use punctual_testkit::{
    conformance::hot::PARTITIONS,
    patience::HANG_LIMIT,
    servers::{self, Redis},
};

const NUMBER: i64 = 0x4d;
const OLDER: &str = "000000000000004d (db:3306/punctual)";
/// With ready sets in Redis.
const LAST: &str = "h3:000000000000004d (db:3306/punctual)";
const OWN: &str = "h4:000000000000004d (db:3306/punctual)";
const STRANGERS: [&str; 3] = ["00000000000000ff (b)", "h3:00000000000000ff (b)", "h4:00000000000000ff (b)"];

/// What engines of 0.2 kept of a partition. Only the term stays.
const NAMES: [&str; 5] = ["due", "firing", "body", "whole", "term"];

fn named(prefix: &str) -> RedisOptions {
    let cluster = ClusterName { number: NUMBER, at: "db:3306/punctual".to_owned() };
    RedisOptions { cluster: Some(cluster), ..options(prefix.to_owned()) }
}

async fn upgraded(url: &str, prefix: &str) -> RedisHot {
    RedisHot::connect(url, named(prefix)).await.unwrap()
}

fn tenures(term: i64) -> Vec<Tenure> {
    (0..PARTITIONS).map(|number| Tenure { partition: Partition(number), term }).collect()
}

/// A server of a set that finds the others by itself.
struct Keys<'a> {
    server: &'a Redis,
    url: String,
    prefix: String,
}

impl Keys<'_> {
    async fn command(&self, words: &[&str]) -> String {
        let said = self.server.command(&[&["-c"], words].concat()).await;
        // Before it may stand which server was asked.
        said.lines().last().unwrap_or_default().to_owned()
    }

    fn of(&self, partition: u16, name: &str) -> String {
        format!("{}:{{p{partition}}}:{name}", self.prefix)
    }

    fn marker(&self) -> String {
        format!("{}:cluster", self.prefix)
    }

    /// As engines of 0.2 left them: in each partition something due, something that had fired, the newest term and the note; and the
    /// ready sets of two queues.
    async fn write_older(&self, marker: &str) {
        let nameless = RedisHot::connect(&self.url, options(self.prefix.clone())).await.unwrap();
        let loaded = (0..PARTITIONS).map(|number| in_partition(number, entry(i64::from(number), 5, 1)));
        assert_eq!(nameless.load(loaded.collect()).await.unwrap(), usize::from(PARTITIONS));
        for answer in nameless.drain(&tenures(6), Millis(4), 1).await {
            assert_eq!(answer.unwrap(), []);
        }
        nameless.is_whole(&tenures(6)).await.unwrap();
        for partition in 0..PARTITIONS {
            self.command(&["ZADD", &self.of(partition, "firing"), "5", "an id"]).await;
            self.command(&["HSET", &self.of(partition, "body"), "an id", "a body"]).await;
        }
        self.command(&["SADD", &self.queues(), "default/mail", "a/b"]).await;
        for queue in ["default/mail", "a/b"] {
            self.command(&["ZADD", &self.ready(queue, "order"), "1", "an id"]).await;
            self.command(&["HSET", &self.ready(queue, "tasks"), "an id", "a record"]).await;
        }
        self.command(&["SET", &self.marker(), marker]).await;
        assert_eq!(self.kept().await, NAMES.map(|name| (name, usize::from(PARTITIONS))));
    }

    /// Of each kind of key, in how many partitions it is.
    async fn kept(&self) -> Vec<(&'static str, usize)> {
        let mut kept = Vec::new();
        for name in NAMES {
            let mut count = 0;
            for partition in 0..PARTITIONS {
                count += usize::from(self.command(&["EXISTS", &self.of(partition, name)]).await == "1");
            }
            kept.push((name, count));
        }
        kept.retain(|(_, count)| *count > 0);
        kept
    }

    fn queues(&self) -> String {
        format!("{}:queues", self.prefix)
    }

    fn ready(&self, queue: &str, name: &str) -> String {
        format!("{}:{{q:{queue}}}:{name}", self.prefix)
    }

    /// Whether anything of the ready sets is there.
    async fn has_ready_sets(&self) -> bool {
        let mut keys = vec![self.queues()];
        for queue in ["default/mail", "a/b"] {
            keys.extend(["order", "tasks"].map(|name| self.ready(queue, name)));
        }
        let mut found = false;
        for key in keys {
            found |= self.command(&["EXISTS", &key]).await == "1";
        }
        found
    }

    async fn found_marker(&self) -> String {
        self.command(&["GET", &self.marker()]).await
    }
}

/// What older releases had is gone, and all partitions are to be filled.
async fn is_taken_over(keys: &Keys<'_>, hot: &RedisHot) {
    assert_eq!(keys.found_marker().await, OWN);
    assert_eq!(keys.kept().await, [("term", usize::from(PARTITIONS))]);
    assert_eq!(
        hot.is_whole(&tenures(5)).await.unwrap(),
        vec![Wholeness::NewerTerm(6); usize::from(PARTITIONS)]
    );
    assert_eq!(hot.is_whole(&tenures(6)).await.unwrap(), vec![Wholeness::Lost; usize::from(PARTITIONS)]);
    assert_eq!(hot.is_whole(&tenures(6)).await.unwrap(), vec![Wholeness::Whole; usize::from(PARTITIONS)]);
    assert!(!keys.has_ready_sets().await);
}

async fn is_forgotten_once(keys: Keys<'_>, marker: &str) {
    keys.write_older(marker).await;
    assert!(keys.has_ready_sets().await);
    let hot = upgraded(&keys.url, &keys.prefix).await;
    is_taken_over(&keys, &hot).await;
    assert_eq!(
        hot.load(vec![entry(1, 5, 1), entry(2, 6, 1)]).await.unwrap(),
        2,
        "no older body is in the way"
    );

    let second = upgraded(&keys.url, &keys.prefix).await;
    assert_eq!(keys.found_marker().await, OWN);
    assert_eq!(second.is_whole(&tenures(6)).await.unwrap(), vec![Wholeness::Whole; usize::from(PARTITIONS)]);
    assert_eq!(second.count_due().await.unwrap(), 2, "the second engine forgets nothing");
    assert_eq!(hot.is_whole(&tenures(6)).await.unwrap(), vec![Wholeness::Whole; usize::from(PARTITIONS)]);
    let answers = second.drain(&tenures(6)[..1], Millis(9), 9).await;
    assert_eq!(ids(answers[0].as_ref().unwrap()), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_engines_of_0_2_kept_is_forgotten_once_and_filled_again() {
    let server = servers::redis().await;
    for marker in [OLDER, LAST] {
        is_forgotten_once(Keys { server, url: server.url(), prefix: server.fresh_prefix() }, marker).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_on_a_cluster() {
    let cluster = servers::redis_cluster().await;
    let server = &cluster.nodes()[0];
    is_forgotten_once(Keys { server, url: cluster.url(), prefix: server.fresh_prefix() }, OLDER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_that_begin_at_once_take_over_together() {
    let server = servers::redis().await;
    let keys = Keys { server, url: server.url(), prefix: server.fresh_prefix() };
    keys.write_older(OLDER).await;
    let begin = || upgraded(&keys.url, &keys.prefix);
    let engines: [RedisHot; 4] = tokio::join!(begin(), begin(), begin(), begin()).into();
    is_taken_over(&keys, &engines[0]).await;
    assert_eq!(engines[1].load(vec![entry(1, 5, 1)]).await.unwrap(), 1);
    for engine in &engines {
        assert_eq!(engine.is_whole(&tenures(6)[..1]).await.unwrap(), [Wholeness::Whole]);
        assert_eq!(engine.count_due().await.unwrap(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_forgetting_and_renaming_repeats_both() {
    let server = Redis::own().await;
    let keys = Keys { server: &server, url: server.url(), prefix: "p".to_owned() };
    keys.write_older(OLDER).await;
    // It comes so far and no further.
    server.command(&["ACL", "SETUSER", "default", "-set"]).await;
    RedisHot::connect(&keys.url, named("p")).await.unwrap_err();
    assert_eq!(keys.kept().await, [("term", usize::from(PARTITIONS))], "forgotten");
    assert_eq!(keys.found_marker().await, OLDER, "not renamed");
    server.command(&["ACL", "SETUSER", "default", "+set"]).await;
    // An engine of 0.2 that still runs fills it again.
    keys.write_older(OLDER).await;
    let hot = upgraded(&keys.url, "p").await;
    is_taken_over(&keys, &hot).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_runs_takes_over_what_an_engine_of_0_2_began_anew() {
    let server = Redis::own().await;
    let keys = Keys { server: &server, url: server.url(), prefix: "p".to_owned() };
    let hot = upgraded(&keys.url, "p").await;
    assert_eq!(keys.found_marker().await, OWN);
    hot.is_whole(&tenures(6)).await.unwrap();
    server.command(&["FLUSHALL"]).await;
    keys.write_older(OLDER).await;
    let lost = vec![Wholeness::Lost; usize::from(PARTITIONS)];
    assert_eq!(hot.is_whole(&tenures(6)).await.unwrap(), lost, "the note was of 0.2");
    assert_eq!(keys.found_marker().await, OWN);
    assert_eq!(keys.kept().await, ["whole", "term"].map(|name| (name, usize::from(PARTITIONS))));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_clusters_keys_are_refused_whatever_release_wrote_them() {
    let server = servers::redis().await;
    for stranger in STRANGERS {
        let keys = Keys { server, url: server.url(), prefix: server.fresh_prefix() };
        keys.write_older(stranger).await;
        let refused = RedisHot::connect(&keys.url, named(&keys.prefix)).await.unwrap_err().to_string();
        for part in [stranger, OWN, "`hot.prefix`"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert_eq!(keys.found_marker().await, stranger);
        assert_eq!(
            keys.kept().await,
            NAMES.map(|name| (name, usize::from(PARTITIONS))),
            "nothing was touched"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_runs_leaves_alone_what_becomes_another_clusters() {
    let server = Redis::own().await;
    for stranger in STRANGERS {
        let keys = Keys { server: &server, url: server.url(), prefix: server.fresh_prefix() };
        let hot = upgraded(&keys.url, &keys.prefix).await;
        hot.load(vec![entry(1, 5, 1)]).await.unwrap();
        keys.command(&["SET", &keys.marker(), stranger]).await;
        hot.is_whole(&tenures(6)).await.unwrap_err();
        assert!(hot.stranger().unwrap().contains(stranger));
        assert!(hot.drain(&tenures(6), Millis(9), 9).await.iter().all(Result::is_err));
        hot.withdraw(P0, 1, 1).await.unwrap_err();
        assert_eq!(keys.command(&["ZCARD", &keys.of(0, "due")]).await, "1", "nothing was touched");
    }
}

/// As 0.2 compares: the first word of the marker with its own number.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_0_2_takes_the_new_name_for_a_strangers() {
    let server = servers::redis().await;
    let keys = Keys { server, url: server.url(), prefix: server.fresh_prefix() };
    upgraded(&keys.url, &keys.prefix).await;
    let found = keys.found_marker().await;
    let compared = |marker: &str| marker.split(' ').next() == OLDER.split(' ').next();
    assert!(compared(OLDER) && !compared(&found), "{found}");
    let doctor = RedisDoctor::new(&keys.url, &keys.prefix, HANG_LIMIT).unwrap();
    assert_eq!(doctor.marker(Some(NUMBER)).await.unwrap(), Marker::Own);
    keys.command(&["SET", &keys.marker(), OLDER]).await;
    assert_eq!(doctor.marker(Some(NUMBER)).await.unwrap(), Marker::Own, "it will be renamed");
    for stranger in STRANGERS {
        keys.command(&["SET", &keys.marker(), stranger]).await;
        assert!(matches!(doctor.marker(Some(NUMBER)).await.unwrap(), Marker::Stranger(_)), "{stranger}");
    }
}
