//! The judgement of facts: pure functions from a finding to good, doubtful or wrong, with the remedy. Must ask no
//! server.

use super::list::Judged;
use punctual_domain::time::Span;
use punctual_hot::{Marker, RedisServer};
use punctual_store::{BucketsAhead, MysqlRights, MysqlSettings, MysqlTls, Schema, SqliteFacts, Weakness};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_MS: i64 = 24 * 3_600_000;

/// The difference to this machine's clock from which a clock is doubtful.
const CLOCK_DOUBTFUL_MS: u64 = 250;
const CLOCK_WRONG_MS: u64 = 1_000;
/// The day before this program was made, at the earliest: 2026-11-22.
const MADE_AT_MS: i64 = 1_795_305_600_000;

pub(super) fn descriptors(most: Option<u64>) -> Judged {
    let way_out = "raise it: LimitNOFILE=65536 in the unit of systemd, or ulimit -n 65536 before it starts";
    match most {
        None => Judged::good("no limit"),
        Some(number) if number < 256 => {
            Judged::wrong(format!("{number} files and connections at most"), way_out)
        }
        Some(number) if number < 4_096 => {
            Judged::doubtful(format!("{number} files and connections at most"), way_out)
        }
        Some(number) => Judged::good(format!("{number} files and connections at most")),
    }
}

pub(super) fn own_clock(now_ms: i64) -> Judged {
    if now_ms < MADE_AT_MS {
        let way_out = "set it, and keep it by chrony or systemd-timesyncd";
        return Judged::wrong("the clock of this machine is before the build date of this program", way_out);
    }
    Judged::good("after the day this program was made")
}

/// Judges the free space of a disk. `free` and `whole` are bytes.
pub(super) fn disk(free: u64, whole: u64) -> Judged {
    let share = free.saturating_mul(100) / whole.max(1);
    let finding = format!("{} MiB free, {share} %", free / MIB);
    let way_out = "make room, or put it on a larger disk; see docs/capacity.md for what tasks need";
    match free {
        free if free < 256 * MIB => Judged::wrong(finding, way_out),
        free if free < 2 * GIB || share < 5 => Judged::doubtful(finding, way_out),
        _ => Judged::good(finding),
    }
}

/// `ends_in_ms`: from now on.
pub(super) fn certificate(ends_in_ms: i64) -> Judged {
    let days = ends_in_ms / DAY_MS;
    let way_out = "renew it; docs/tls.md says what takes the new one";
    match ends_in_ms {
        ends_in_ms if ends_in_ms <= 0 => {
            Judged::wrong(format!("the certificate ended {} days ago", -days), way_out)
        }
        ends_in_ms if ends_in_ms < 14 * DAY_MS => {
            Judged::doubtful(format!("the certificate ends in {days} days"), way_out)
        }
        _ => Judged::good(format!("the certificate holds for {days} more days")),
    }
}

/// The worse of two about one thing, with what both say.
pub(super) fn both(one: Judged, other: Judged) -> Judged {
    let finding = format!("{}; {}", one.finding, other.finding);
    let worse = if other.verdict > one.verdict { other } else { one };
    Judged { finding, ..worse }
}

pub(super) fn clock(ahead_ms: i64) -> Judged {
    let word = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let finding = format!("{} {word} this machine", Span(ahead_ms));
    let way_out = "compare both with a good clock, and set the one that is wrong (docs/clocks.md): an engine follows no \
                   clock that strays by more than engine.clock_bound_ms";
    match ahead_ms.unsigned_abs() {
        ahead_ms if ahead_ms >= CLOCK_WRONG_MS => Judged::wrong(finding, way_out),
        ahead_ms if ahead_ms >= CLOCK_DOUBTFUL_MS => Judged::doubtful(finding, way_out),
        _ => Judged::good(finding),
    }
}

fn median_and_worst(took: &[Duration]) -> (Duration, Duration) {
    let mut sorted = took.to_vec();
    sorted.sort();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (median, sorted.last().copied().unwrap_or_default())
}

fn latency(took: &[Duration], (doubtful_ms, wrong_ms): (u64, u64), way_out: &str) -> Judged {
    let (median, worst) = median_and_worst(took);
    let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
    let finding = format!("median {:.1} ms, worst {:.1} ms, of {}", ms(median), ms(worst), took.len());
    match median {
        median if median >= Duration::from_millis(wrong_ms) => Judged::wrong(finding, way_out),
        median if median >= Duration::from_millis(doubtful_ms) => Judged::doubtful(finding, way_out),
        _ => Judged::good(finding),
    }
}

pub(super) fn commits(took: &[Duration]) -> Judged {
    latency(
        took,
        (50, 1_000),
        "a faster disk for the server's log, or a shorter way to it: every insert waits for one commit",
    )
}

pub(super) fn scripts(took: &[Duration]) -> Judged {
    latency(
        took,
        (10, 500),
        "a shorter way to Redis, or a core of its own for it: SLOWLOG GET says what holds it up",
    )
}

/// `is_near`: the server is on this machine.
pub(super) fn mysql_tls(tls: &MysqlTls, is_near: bool) -> Judged {
    let way_out = "ssl-mode=VERIFY_IDENTITY&ssl-ca=/path/ca.pem at the end of the address (docs/tls.md)";
    let Some(cipher) = &tls.cipher else {
        return not_encrypted(is_near, way_out);
    };
    match (tls.is_verified, tls.is_named) {
        (true, true) => Judged::good(format!("encrypted ({cipher}), and its certificate is for this name")),
        (true, false) => Judged::doubtful(
            format!("encrypted ({cipher}), and its certificate may be for any name"),
            "ssl-mode=VERIFY_IDENTITY instead of VERIFY_CA",
        ),
        (false, _) if is_near => Judged::good(format!("encrypted ({cipher}), on this machine")),
        (false, _) => Judged::doubtful(
            format!("encrypted ({cipher}), but the server's identity is not verified"),
            way_out,
        ),
    }
}

pub(super) fn not_encrypted(is_near: bool, way_out: &str) -> Judged {
    if is_near {
        return Judged::good("not encrypted, and on this machine");
    }
    Judged::doubtful(
        "not encrypted: anyone on the network path can read and change tasks and passwords",
        way_out,
    )
}

pub(super) fn mysql_version(settings: &MysqlSettings) -> Judged {
    let version = settings.get("version").unwrap_or("unknown");
    settings.problem().map_or_else(
        || Judged::good(version.to_owned()),
        |problem| {
            Judged::wrong(problem, "a newer server, or the setting that is named; serve refuses it as it is")
        },
    )
}

pub(super) fn schema(schema: &Schema) -> Judged {
    let way_out = "punctual migrate, or the next start of serve";
    match schema {
        Schema::Current => Judged::good("up to date"),
        Schema::Empty => Judged::doubtful("an empty database", way_out),
        Schema::Behind(missing) => Judged::doubtful(format!("without {}", missing.join(", ")), way_out),
    }
}

/// `is_allowed`: the operator insists on running all the same.
pub(super) fn durability(weaknesses: &[Weakness], is_allowed: bool) -> Judged {
    if weaknesses.is_empty() {
        return Judged::good("what it acknowledges is on its disk");
    }
    let finding = weaknesses.iter().map(Weakness::finding).collect::<Vec<_>>().join("; ");
    let way_out = weaknesses.iter().map(Weakness::way_out).collect::<Vec<_>>().join("; ");
    if is_allowed { Judged::doubtful(finding, way_out) } else { Judged::wrong(finding, way_out) }
}

pub(super) fn isolation(found: &str) -> Judged {
    if found.eq_ignore_ascii_case("READ-COMMITTED") {
        return Judged::good("READ COMMITTED in connections of an engine");
    }
    let way_out = "see what sits between (a proxy that passes no SET SESSION on?) and take it out";
    Judged::wrong(format!("{found:?} in connections of an engine, which set READ COMMITTED"), way_out)
}

pub(super) fn time_zone(settings: &MysqlSettings) -> Judged {
    let zone = settings.get("time_zone").unwrap_or("unknown");
    let system = settings.get("system_time_zone").unwrap_or("unknown");
    Judged::good(format!("{zone} (the machine's: {system}); times are stored in UTC whatever it is"))
}

pub(super) fn packet(settings: &MysqlSettings) -> Judged {
    let Some(bytes) = settings.number("max_allowed_packet") else {
        return Judged::doubtful("the server does not say", "SHOW VARIABLES LIKE 'max_allowed_packet'");
    };
    let finding = format!("{} MiB", bytes / MIB);
    let way_out =
        "max_allowed_packet = 64M in the server's configuration: a batch with long payloads is one packet";
    match bytes {
        bytes if bytes < 4 * MIB => Judged::wrong(finding, way_out),
        bytes if bytes < 16 * MIB => Judged::doubtful(finding, way_out),
        _ => Judged::good(finding),
    }
}

pub(super) fn timeouts(settings: &MysqlSettings) -> Judged {
    let Some(seconds) = settings.number("wait_timeout") else {
        return Judged::doubtful("the server does not say", "SHOW VARIABLES LIKE 'wait_timeout'");
    };
    let finding = format!("wait_timeout is {seconds} s");
    if seconds < 30 {
        return Judged::doubtful(finding, "wait_timeout = 28800 in the server's configuration");
    }
    Judged::good(finding)
}

pub(super) fn rights(rights: &MysqlRights) -> Judged {
    if rights.missing.is_empty() {
        return Judged::good("all that an engine needs");
    }
    let missing = rights.missing.join(", ");
    let way_out = format!("GRANT {missing} ON database.* TO user");
    if rights.has_roles {
        return Judged::doubtful(
            format!("not granted by itself: {missing}; a role of it may have them"),
            way_out,
        );
    }
    Judged::wrong(format!("not granted: {missing}"), way_out)
}

pub(super) fn buckets(found: Option<BucketsAhead>, now_ms: i64) -> Judged {
    let way_out = "a running engine makes them each minute: look for the service buckets in its log and alerts, or run \
                   punctual shard archive";
    let Some(buckets_ahead) = found else {
        return Judged::doubtful(
            "none is made yet",
            "start an engine: it makes them before the first insert",
        );
    };
    let days = |until: i64| until.saturating_sub(now_ms) / DAY_MS;
    let finding = format!(
        "by the day for {} days, in wider pieces for {}",
        days(buckets_ahead.narrow_until),
        days(buckets_ahead.until)
    );
    match buckets_ahead.narrow_until.saturating_sub(now_ms) {
        _ if buckets_ahead.until <= now_ms => {
            Judged::wrong("none for the present: all go into the last one".to_owned(), way_out)
        }
        ahead if ahead < 2 * DAY_MS => Judged::doubtful(finding, way_out),
        _ if buckets_ahead.wide > 0 => Judged::doubtful(
            format!(
                "{finding}; {} wider than the rate asks for, with too many tasks to be cut",
                buckets_ahead.wide
            ),
            "nothing is lost: each goes as a whole, in its time, and keeps disk until then. At a quiet hour: punctual shard \
             archive --cut-rows",
        ),
        _ => Judged::good(finding),
    }
}

pub(super) fn redis_version(servers: &[RedisServer]) -> Judged {
    let mut versions: Vec<&str> = servers.iter().map(|server| server.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let old = servers
        .iter()
        .filter(|server| server.eviction == NO_EVICTION)
        .find_map(|server| server.problem.as_ref());
    match old {
        Some(problem) => Judged::wrong(problem.clone(), "a newer Redis; serve refuses it as it is"),
        None => Judged::good(versions.join(", ")),
    }
}

const NO_EVICTION: &str = "noeviction";

pub(super) fn eviction(servers: &[RedisServer]) -> Judged {
    let evicts = servers.iter().find(|server| server.eviction != NO_EVICTION);
    evicts.map_or_else(
        || Judged::good(format!("{NO_EVICTION} on {} masters", servers.len())),
        |redis_server| {
            let finding = format!(
                "maxmemory-policy is {:?}, which lets Redis throw away tasks that wait",
                redis_server.eviction
            );
            Judged::wrong(
                finding,
                "CONFIG SET maxmemory-policy noeviction, and in redis.conf; serve refuses it as it is",
            )
        },
    )
}

pub(super) fn append_file(servers: &[RedisServer]) -> Judged {
    if servers.iter().any(|server| server.has_append_file && !server.append_file_is_well) {
        let way_out = "see the log of Redis, and the room on its disk";
        return Judged::doubtful("an append-only file, and its last write failed", way_out);
    }
    if servers.iter().all(|server| server.has_append_file) {
        return Judged::good("an append-only file");
    }
    Judged::good("no append-only file: after a restart the hot set is filled again from the store")
}

/// `budget`: `hot.memory_max_mib` in bytes, of all masters together.
pub(super) fn memory(servers: &[RedisServer], budget: Option<u64>) -> Judged {
    let used: u64 = servers.iter().map(|server| server.used_bytes).sum();
    let is_bounded = servers.iter().all(|server| server.max_bytes > 0);
    let most = budget.or_else(|| is_bounded.then(|| servers.iter().map(|server| server.max_bytes).sum()));
    let Some(most) = most else {
        let way_out = "CONFIG SET maxmemory, or hot.memory_max_mib: near the bound less is loaded ahead, and nothing breaks";
        return Judged::doubtful(format!("{} MiB used, without a bound", used / MIB), way_out);
    };
    let share = used.saturating_mul(100) / most.max(1);
    let finding = format!("{} of {} MiB used, {share} %", used / MIB, most / MIB);
    if share >= 80 {
        return Judged::doubtful(
            finding,
            "more memory or more masters: only what is due within 30 s is loaded now",
        );
    }
    Judged::good(finding)
}

pub(super) fn marker(marker: &Marker) -> Judged {
    match marker {
        Marker::Own => Judged::good("this cluster's"),
        Marker::None => Judged::good("nobody's yet"),
        Marker::Stranger(said) => Judged::wrong(
            said.clone(),
            "another hot.prefix, or a Redis of its own; serve refuses it as it is",
        ),
    }
}

pub(super) fn file(facts: &SqliteFacts) -> Judged {
    let use_ = if facts.is_in_use { "an engine has it open" } else { "no engine has it open" };
    match facts.schema {
        _ if facts.is_missing => Judged::good("not there yet: the first start makes it"),
        (has, knows) if has < knows => Judged::doubtful(
            format!("has {has} of {knows} migrations; {use_}"),
            "punctual migrate, or the next start of serve",
        ),
        _ => Judged::good(format!("up to date, {} MiB; {use_}", facts.bytes / MIB)),
    }
}

pub(super) fn log(facts: &SqliteFacts) -> Judged {
    let finding = format!("{} MiB", facts.log_bytes / MIB);
    if facts.log_bytes > GIB {
        return Judged::doubtful(
            finding,
            "something reads for so long that the log cannot be cut: end it, or restart the engine",
        );
    }
    Judged::good(finding)
}

pub(super) fn integrity(said: &[String]) -> Judged {
    match said {
        [] => Judged::good("sound"),
        [first, ..] => Judged::wrong(first.clone(), "stop the engine, and restore the file from a backup"),
    }
}

#[cfg(test)]
#[path = "verdicts_tests.rs"]
mod tests;
