//! One database: asked side by side, each question on a connection of its own.

use super::{
    certificate,
    findings::{Findings, finding, limited, unanswered},
    list::{
        Check, Judged, MYSQL_BUCKETS, MYSQL_CLOCK, MYSQL_COMMIT, MYSQL_DURABILITY, MYSQL_ISOLATION,
        MYSQL_PACKET, MYSQL_REACH, MYSQL_RIGHTS, MYSQL_SCHEMA, MYSQL_TIME_ZONE, MYSQL_TIMEOUTS, MYSQL_TLS,
        MYSQL_VERSION, PLACE_DISK,
    },
    machine, verdicts,
};
use crate::clock::SystemClock;
use punctual_contract::Clock as _;
use punctual_store::{MysqlDoctor, MysqlSettings, MysqlStore, MysqlTls, Schema};
use std::path::Path;

/// Commits that are measured.
const COMMITS: usize = 5;

/// The number of the cluster whose catalog this is, if it has one.
pub(super) async fn cluster(url: &str) -> Result<Option<i64>, String> {
    let doctor = MysqlDoctor::new(url).map_err(|error| error.to_string())?;
    limited(doctor.cluster()).await
}

pub(super) async fn examine(url: &str, allows_weak_durability: bool, clock: &SystemClock) -> Findings {
    let doctor = match MysqlDoctor::new(url) {
        Ok(doctor) => doctor,
        Err(error) => return vec![unreachable("store.url", &error.to_string())],
    };
    let at = doctor.at();
    let tls = match limited(doctor.tls()).await {
        Ok(tls) => tls,
        Err(said) => return vec![unreachable(&at, &said)],
    };
    let host = doctor.host();
    let is_near = machine::is_near(&host);
    let urls = [url.to_owned()];
    let (settings, weaknesses, isolation, rights, ahead, current) = tokio::join!(
        limited(doctor.settings()),
        limited(MysqlStore::weaknesses(&urls)),
        limited(doctor.isolation()),
        limited(doctor.rights()),
        limited(doctor.clock(clock)),
        current(&doctor, clock),
    );
    let mut found = vec![
        finding(&MYSQL_REACH, &at, Judged::good("reached, and the login is taken")),
        finding(&MYSQL_TLS, &at, encrypted(&tls, is_near, clock)),
    ];
    found.extend(of_settings(&at, &settings));
    let mut add = |check: &Check, judged: Result<Judged, String>| {
        found.push(finding(check, &at, judged.unwrap_or_else(|why| unanswered(&why))));
    };
    add(
        &MYSQL_DURABILITY,
        weaknesses.map(|weaknesses| verdicts::durability(&weaknesses, allows_weak_durability)),
    );
    add(&MYSQL_ISOLATION, isolation.map(|isolation| verdicts::isolation(&isolation)));
    add(&MYSQL_RIGHTS, rights.map(|mysql_rights| verdicts::rights(&mysql_rights)));
    add(&MYSQL_CLOCK, ahead.map(|ahead| verdicts::clock(ahead.ahead_ms)));
    for (check, judged) in current {
        found.push(finding(check, &at, judged));
    }
    // Only its own machine can be looked at.
    let data = settings.ok().and_then(|mysql_settings| mysql_settings.get("datadir").map(str::to_owned));
    if let Some(data) = data.filter(|text| is_near && Path::new(text).is_dir()) {
        found.push(finding(&PLACE_DISK, &data, machine::disk(Path::new(&data))));
    }
    found
}

fn unreachable(at: &str, said: &str) -> super::list::Finding {
    let way_out = "see that the server runs, and host, port, user, password and database of store.url";
    finding(&MYSQL_REACH, at, Judged::wrong(said, way_out))
}

fn encrypted(tls: &MysqlTls, is_near: bool, clock: &SystemClock) -> Judged {
    let way = verdicts::mysql_tls(tls, is_near);
    let ends_at = tls.not_after.as_deref().and_then(certificate::instant);
    match ends_at {
        Some(ends_at) => verdicts::both(way, verdicts::certificate(ends_at - clock.now().0)),
        None => way,
    }
}

fn of_settings(at: &str, settings: &Result<MysqlSettings, String>) -> Findings {
    type Judge = fn(&MysqlSettings) -> Judged;
    let checks: [(&Check, Judge); 4] = [
        (&MYSQL_VERSION, verdicts::mysql_version),
        (&MYSQL_TIME_ZONE, verdicts::time_zone),
        (&MYSQL_PACKET, verdicts::packet),
        (&MYSQL_TIMEOUTS, verdicts::timeouts),
    ];
    let judged = |judge: Judge| settings.as_ref().map_or_else(|why| unanswered(why), judge);
    checks.into_iter().map(|(check, judge)| finding(check, at, judged(judge))).collect()
}

/// Checks the content of the database; only one of ours has more than a schema.
async fn current(doctor: &MysqlDoctor, clock: &SystemClock) -> Vec<(&'static Check, Judged)> {
    let schema = match limited(doctor.schema()).await {
        Ok(schema) => schema,
        Err(said) => {
            let way_out =
                "the program that made it, or an empty database of its own; serve refuses it as it is";
            return vec![(&MYSQL_SCHEMA, Judged::wrong(said, way_out))];
        }
    };
    let judged = verdicts::schema(&schema);
    if schema == Schema::Empty {
        return vec![(&MYSQL_SCHEMA, judged)];
    }
    let now = clock.now();
    let (commits, buckets) = tokio::join!(limited(doctor.commits(COMMITS)), limited(doctor.buckets(now)));
    vec![
        (&MYSQL_SCHEMA, judged),
        (&MYSQL_COMMIT, commits.map_or_else(|why| not_written(&why), |commits| verdicts::commits(&commits))),
        (
            &MYSQL_BUCKETS,
            buckets
                .map_or_else(|why| unanswered(&why), |buckets_ahead| verdicts::buckets(buckets_ahead, now.0)),
        ),
    ]
}

fn not_written(why: &str) -> Judged {
    Judged::wrong(
        format!("nothing could be committed: {why}"),
        "see what the server's log says: no task can be stored",
    )
}
