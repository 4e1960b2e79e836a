//! The checks: one list, which the code, the page of the documentation and its test are made from.

use serde::Serialize;

/// The verdicts from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckVerdict {
    Good,
    /// It works, and something about it may go wrong.
    Doubtful,
    /// It does not work, or breaks a promise.
    Wrong,
}

impl CheckVerdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Doubtful => "DOUBTFUL",
            Self::Wrong => "WRONG",
        }
    }
}

/// The judgement of a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) verdict: CheckVerdict,
    pub(crate) finding: String,
    /// Empty where it is good.
    pub(crate) way_out: String,
}

impl Judged {
    pub(crate) fn good(finding: impl Into<String>) -> Self {
        Self { verdict: CheckVerdict::Good, finding: finding.into(), way_out: String::new() }
    }

    pub(crate) fn doubtful(finding: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { verdict: CheckVerdict::Doubtful, finding: finding.into(), way_out: way_out.into() }
    }

    pub(crate) fn wrong(finding: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { verdict: CheckVerdict::Wrong, finding: finding.into(), way_out: way_out.into() }
    }
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    /// The server, file or place.
    #[serde(rename = "where")]
    pub(crate) place: String,
    pub(crate) verdict: CheckVerdict,
    pub(crate) finding: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) way_out: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// The description for the page.
    #[cfg_attr(not(test), expect(dead_code, reason = "written into docs/doctor.md, which a test holds"))]
    pub(crate) about: &'static str,
}

macro_rules! checks {
    ($($constant:ident $name:literal $about:literal)*) => {
        $(pub(crate) const $constant: Check = Check { name: $name, about: $about };)*
        #[cfg(test)]
        pub(crate) const ALL: &[Check] = &[$($constant),*];
    };
}

checks! {
    DESCRIPTORS "machine.descriptors"
        "How many files and connections this process may have open: doubtful below 4,096, wrong below 256."
    CLOCK "machine.clock"
        "The clock of this machine is after the build date of this program."
    CERTIFICATE "machine.certificate"
        "The certificate of `tls.cert`, where that is set: doubtful in its last 14 days, wrong when it has ended or cannot be read."
    KEY "machine.key"
        "The keys of `tls.key` and `hot.tls_key`, where those are set, can be read by their owner and group alone: doubtful where everybody may."
    CALLERS "machine.callers"
        "Where plain HTTP is served on a network (`listen_plain`), `trusted_proxies` names the proxies in front of it, so that callers are distinguished: doubtful where it names none."
    PLACE_WRITABLE "place.writable"
        "The directories of data, archives and long payloads can be written. Object stores (`s3://`) are not tried."
    PLACE_DISK "place.disk"
        "Room on their disks, and on the database's own where that is on this machine: doubtful below 2 GiB or 5 %, wrong below 256 MiB."
    FILE_SCHEMA "file.schema"
        "The embedded store's file is ours and not newer than this program; older is brought up to date at the next start."
    FILE_INTEGRITY "file.integrity"
        "SQLite's quick check of the whole file. Doubtful when that takes more than 10 s: it is not waited for."
    FILE_LOG "file.log"
        "Length of its write-ahead log: doubtful above 1 GiB."
    MYSQL_REACH "mysql.reach"
        "The server can be reached, takes the login, and names the database. Nothing else is asked of one that cannot."
    MYSQL_TLS "mysql.tls"
        "The way is encrypted and the certificate is looked at, unless the server is on this machine; the certificate's last 14 days are doubtful."
    MYSQL_VERSION "mysql.version"
        "MySQL 8.0 or MariaDB 10.6, or newer, and no binary log of statements. `serve` refuses what is wrong here."
    MYSQL_SCHEMA "mysql.schema"
        "The schema is this program's: doubtful when it is behind (the next start or `punctual migrate` brings it up to date), wrong when it is newer or foreign."
    MYSQL_DURABILITY "mysql.durability"
        "`innodb_flush_log_at_trx_commit` and `sync_binlog` are 1, `read_only` is 0. `serve` refuses what is wrong here, and looks again every 15 s."
    MYSQL_ISOLATION "mysql.isolation"
        "Connections of an engine get READ COMMITTED, whatever the server's default is."
    MYSQL_TIME_ZONE "mysql.time_zone"
        "For information only: times are stored in UTC, whatever zone the server has."
    MYSQL_PACKET "mysql.packet"
        "`max_allowed_packet`: doubtful below 16 MiB, wrong below 4 MiB."
    MYSQL_TIMEOUTS "mysql.timeouts"
        "`wait_timeout`: doubtful below 30 s, because idle connections are then made anew all the time."
    MYSQL_RIGHTS "mysql.rights"
        "Its user may SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP and INDEX in the database."
    MYSQL_CLOCK "mysql.clock"
        "How far the server's clock is from this machine's, by the quickest of five questions: doubtful from 250 ms on, wrong from 1 s on."
    MYSQL_COMMIT "mysql.commit"
        "Median and worst of five commits of one row (`doctor` in the table `meta`, there for nothing else), from here to the server and back: doubtful from 50 ms on, wrong from 1 s on."
    MYSQL_BUCKETS "mysql.buckets"
        "How far ahead the table of tasks is cut into buckets: doubtful below two days, or where one is wider than the rate asks for and cannot be cut; wrong when there is none for the present."
    REDIS_REACH "redis.reach"
        "Redis can be reached, takes the login, and takes our scripts. Nothing else is asked of one that cannot."
    REDIS_TLS "redis.tls"
        "The way is encrypted, unless the server is on this machine; the certificate's last 14 days are doubtful."
    REDIS_VERSION "redis.version"
        "Redis 7.0 or newer, on every master. `serve` refuses what is wrong here."
    REDIS_EVICTION "redis.eviction"
        "`maxmemory-policy` is `noeviction`, on every master. `serve` refuses what is wrong here."
    REDIS_AOF "redis.aof"
        "Whether there is an append-only file, and its last write went well. Without one it is good all the same: the store has every task, and the hot set is filled again."
    REDIS_MEMORY "redis.memory"
        "Used of `maxmemory`, or of `hot.memory_max_mib`: doubtful from 80 % on, and where there is no bound."
    REDIS_MARKER "redis.marker"
        "The keys of `hot.prefix` are this cluster's, or nobody's yet. `serve` refuses what is wrong here."
    REDIS_CLOCK "redis.clock"
        "How far the server's clock is from this machine's, as `mysql.clock`."
    REDIS_SCRIPT "redis.script"
        "Median and worst of five scripts that ask for the time, from here to the server and back: doubtful from 10 ms on, wrong from 500 ms on."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_check_and_no_other() {
        let page = include_str!("../../../../docs/doctor.md");
        let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let wanted: Vec<String> =
            ALL.iter().map(|check| format!("| `{}` | {} |", check.name, check.about)).collect();
        assert_eq!(listed, wanted, "docs/doctor.md should say:\n{}", wanted.join("\n"));
    }
}
