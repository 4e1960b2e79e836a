//! The Redis of `hot.url`, however many servers it is.

use super::{
    certificate,
    findings::{Findings, LIMIT, finding, limited, unanswered},
    list::{
        Check, Judged, REDIS_AOF, REDIS_CLOCK, REDIS_EVICTION, REDIS_MARKER, REDIS_MEMORY, REDIS_REACH,
        REDIS_SCRIPT, REDIS_TLS, REDIS_VERSION,
    },
    machine, verdicts,
};
use crate::{
    clock::SystemClock,
    config::{SharedPlace, shown_hot_url},
};
use futures_util::future::join_all;
use punctual_contract::Clock as _;
use punctual_hot::{RedisDoctor, RedisServer};

/// Scripts that are measured.
const SCRIPTS: usize = 5;

/// `cluster`: the number of the store's, or why it is not known.
pub(super) async fn examine(
    place: &SharedPlace,
    redis_url: &str,
    cluster: Result<Option<i64>, String>,
    clock: &SystemClock,
) -> Findings {
    let at = shown_hot_url(redis_url);
    let doctor = match RedisDoctor::new(redis_url, &place.prefix, LIMIT) {
        Ok(doctor) => doctor,
        Err(error) => return vec![unreachable(&at, &error.to_string())],
    };
    let servers = match limited(doctor.servers()).await {
        Ok(redis_servers) => redis_servers,
        Err(said) => return vec![unreachable(&at, &said)],
    };
    let marker = async {
        let own = cluster.map_err(|why| format!("the number of this cluster is not known: {why}"))?;
        limited(doctor.marker(own)).await
    };
    let (marker, script, tls) =
        tokio::join!(marker, limited(doctor.script(SCRIPTS, clock)), encrypted(&doctor, clock));
    let mut found = vec![
        finding(&REDIS_REACH, &at, Judged::good("reached, and the login is taken")),
        finding(&REDIS_TLS, &at, tls),
    ];
    found.extend(of_servers(&at, &servers, place.memory_max_bytes));
    let mut add = |check: &Check, judged: Result<Judged, String>| {
        found.push(finding(check, &at, judged.unwrap_or_else(|why| unanswered(&why))));
    };
    add(&REDIS_MARKER, marker.map(|marker| verdicts::marker(&marker)));
    add(&REDIS_CLOCK, script.clone().map(|script| verdicts::clock(script.ahead_ms)));
    add(&REDIS_SCRIPT, script.map(|script| verdicts::scripts(&script.took)));
    found
}

fn unreachable(at: &str, said: &str) -> super::list::Finding {
    let way_out = "see that the server runs, and host, port, user and password of hot.url";
    finding(&REDIS_REACH, at, Judged::wrong(said, way_out))
}

fn of_servers(at: &str, servers: &[RedisServer], budget: Option<u64>) -> Findings {
    [
        (&REDIS_VERSION, verdicts::redis_version(servers)),
        (&REDIS_EVICTION, verdicts::eviction(servers)),
        (&REDIS_AOF, verdicts::append_file(servers)),
        (&REDIS_MEMORY, verdicts::memory(servers, budget)),
    ]
    .into_iter()
    .map(|(check, judged)| finding(check, at, judged))
    .collect()
}

/// The way to all of them, and the certificate that ends first.
async fn encrypted(doctor: &RedisDoctor, clock: &SystemClock) -> Judged {
    let hosts = match limited(doctor.hosts()).await {
        Ok(list) => list,
        Err(why) => return unanswered(&why),
    };
    if !doctor.is_tls() {
        let is_near = hosts.iter().all(|host| machine::is_near(&host.0));
        return verdicts::not_encrypted(is_near, "rediss:// in hot.url, and hot.tls_ca (docs/tls.md)");
    }
    let way = Judged::good("encrypted, and its certificate is for this name");
    let shown = join_all(hosts.iter().map(|(host, port)| limited(certificate::shown(host, *port)))).await;
    let ends = shown.into_iter().flatten().min();
    match ends {
        Some(ends_at) => verdicts::both(way, verdicts::certificate(ends_at - clock.now().0)),
        None => way,
    }
}
