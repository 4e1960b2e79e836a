//! Each verdict at the edges of its bounds.

use super::super::list::CheckVerdict::{self, Doubtful, Good, Wrong};
use super::*;

fn settings(pairs: &[(&str, &str)]) -> MysqlSettings {
    MysqlSettings::of(pairs)
}

fn ms(all: &[u64]) -> Vec<Duration> {
    all.iter().copied().map(Duration::from_millis).collect()
}

/// Every finding that is not good has a remedy.
fn is(judged: &Judged, wanted: CheckVerdict) {
    assert_eq!(judged.verdict, wanted, "{judged:?}");
    assert_eq!(judged.way_out.is_empty(), wanted == Good, "{judged:?}");
}

#[test]
fn limits_of_the_machine() {
    is(&descriptors(Some(255)), Wrong);
    is(&descriptors(Some(1_024)), Doubtful);
    is(&descriptors(Some(65_536)), Good);
    is(&descriptors(None), Good);
    is(&disk(255 * MIB, 100 * GIB), Wrong);
    is(&disk(3 * GIB, 100 * GIB), Doubtful);
    is(&disk(GIB, 4 * GIB), Doubtful);
    is(&disk(50 * GIB, 100 * GIB), Good);
    is(&own_clock(0), Wrong);
    is(&own_clock(MADE_AT_MS), Good);
}

#[test]
fn certificates_and_clocks() {
    is(&certificate(-1), Wrong);
    is(&certificate(13 * DAY_MS), Doubtful);
    is(&certificate(15 * DAY_MS), Good);
    is(&clock(-249), Good);
    is(&clock(-250), Doubtful);
    is(&clock(1_000), Wrong);
    assert!(clock(-7).finding.contains("7 ms behind"));
    let worse = both(certificate(90 * DAY_MS), certificate(DAY_MS));
    is(&worse, Doubtful);
    assert!(worse.finding.contains("90") && worse.finding.contains("1 days"), "{worse:?}");
}

#[test]
fn a_latency_is_judged_by_its_median() {
    is(&commits(&ms(&[1, 2, 3, 4, 5_000])), Good);
    is(&commits(&ms(&[60, 60, 60, 1, 1])), Doubtful);
    is(&commits(&ms(&[1_000; 5])), Wrong);
    is(&scripts(&ms(&[10; 5])), Doubtful);
    is(&scripts(&ms(&[1; 5])), Good);
    assert_eq!(median_and_worst(&ms(&[3, 1, 2])), (Duration::from_millis(2), Duration::from_millis(3)));
}

#[test]
fn the_way_to_mysql() {
    let tls = |cipher: Option<&str>, is_verified, is_named| MysqlTls {
        cipher: cipher.map(str::to_owned),
        is_verified,
        is_named,
        not_after: None,
    };
    is(&mysql_tls(&tls(Some("c"), true, true), false), Good);
    is(&mysql_tls(&tls(Some("c"), true, false), false), Doubtful);
    is(&mysql_tls(&tls(Some("c"), false, false), false), Doubtful);
    is(&mysql_tls(&tls(None, false, false), false), Doubtful);
    is(&mysql_tls(&tls(None, false, false), true), Good);
}

#[test]
fn settings_of_mysql() {
    is(&mysql_version(&settings(&[("version", "8.0.36")])), Good);
    is(&mysql_version(&settings(&[("version", "5.7.1")])), Wrong);
    let binlog = [("version", "8.0.36"), ("log_bin", "ON"), ("binlog_format", "STATEMENT")];
    is(&mysql_version(&settings(&binlog)), Wrong);
    for (bytes, wanted) in [("1048576", Wrong), ("4194304", Doubtful), ("67108864", Good)] {
        is(&packet(&settings(&[("max_allowed_packet", bytes)])), wanted);
    }
    is(&packet(&settings(&[])), Doubtful);
    is(&timeouts(&settings(&[("wait_timeout", "29")])), Doubtful);
    is(&timeouts(&settings(&[("wait_timeout", "28800")])), Good);
    is(&isolation("READ-COMMITTED"), Good);
    is(&isolation("REPEATABLE-READ"), Wrong);
    is(&time_zone(&settings(&[("time_zone", "SYSTEM")])), Good);
}

#[test]
fn what_an_engine_stands_on_in_mysql() {
    is(&schema(&Schema::Current), Good);
    is(&schema(&Schema::Empty), Doubtful);
    is(&schema(&Schema::Behind(vec!["0002"])), Doubtful);
    let weak = Weakness {
        at: "h/d".to_owned(),
        setting: "sync_binlog",
        value: 0,
        wanted: 1,
        consequence: "it loses tasks",
    };
    is(&durability(&[], false), Good);
    is(&durability(std::slice::from_ref(&weak), false), Wrong);
    is(&durability(&[weak], true), Doubtful);
    let lacks = |missing: &[&'static str], has_roles| MysqlRights { missing: missing.to_vec(), has_roles };
    is(&rights(&lacks(&[], false)), Good);
    is(&rights(&lacks(&["ALTER"], false)), Wrong);
    is(&rights(&lacks(&["ALTER"], true)), Doubtful);
    let until = |narrow_until, until| Some(BucketsAhead { narrow_until, until, wide: 0 });
    let wide = BucketsAhead { narrow_until: 8 * DAY_MS, until: 900 * DAY_MS, wide: 1 };
    is(&buckets(Some(wide), 0), Doubtful);
    is(&buckets(until(8 * DAY_MS, 900 * DAY_MS), 0), Good);
    is(&buckets(until(DAY_MS, 900 * DAY_MS), 0), Doubtful);
    is(&buckets(until(5, 5), 5), Wrong);
    is(&buckets(None, 0), Doubtful);
}

#[test]
fn what_redis_says_of_itself() {
    let good =
        RedisServer { version: "7.2".to_owned(), eviction: NO_EVICTION.to_owned(), ..RedisServer::default() };
    let evicts = RedisServer {
        eviction: "allkeys-lru".to_owned(),
        problem: Some("it evicts".to_owned()),
        ..good.clone()
    };
    let old = RedisServer { version: "6.2".to_owned(), problem: Some("too old".to_owned()), ..good.clone() };
    is(&redis_version(&[good.clone(), evicts.clone()]), Good);
    is(&redis_version(&[good.clone(), old]), Wrong);
    is(&eviction(&[good.clone(), evicts]), Wrong);
    is(&eviction(std::slice::from_ref(&good)), Good);
    let failed = RedisServer { has_append_file: true, append_file_is_well: false, ..good.clone() };
    is(&append_file(&[good.clone(), failed]), Doubtful);
    is(&append_file(std::slice::from_ref(&good)), Good);
    let bounded = |used_bytes| RedisServer { used_bytes, max_bytes: 100, ..good.clone() };
    is(&memory(&[bounded(80)], None), Doubtful);
    is(&memory(&[bounded(79)], None), Good);
    is(&memory(std::slice::from_ref(&good), None), Doubtful);
    is(&memory(&[bounded(79)], Some(79)), Doubtful);
    is(&marker(&Marker::None), Good);
    is(&marker(&Marker::Own), Good);
    is(&marker(&Marker::Stranger("another's".to_owned())), Wrong);
}

#[test]
fn the_embedded_file() {
    let facts = SqliteFacts { schema: (2, 2), ..SqliteFacts::default() };
    is(&file(&facts), Good);
    is(&file(&SqliteFacts { schema: (1, 2), ..facts }), Doubtful);
    is(&file(&SqliteFacts { is_missing: true, schema: (0, 2), ..facts }), Good);
    is(&log(&facts), Good);
    is(&log(&SqliteFacts { log_bytes: 2 * GIB, ..facts }), Doubtful);
    is(&integrity(&[]), Good);
    is(&integrity(&["row 3 missing from index".to_owned()]), Wrong);
}
