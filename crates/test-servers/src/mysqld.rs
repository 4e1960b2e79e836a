//! The program of a private MySQL server, and the differences of its command line: the distribution's
//! MariaDB, or the program that `PUNCTUAL_TEST_MYSQLD` names, which must be a MySQL (8.0.30 or newer). Must
//! not start anything.

use super::{mariadb::PACKAGE, process::program};

const VARIABLE: &str = "PUNCTUAL_TEST_MYSQLD";

/// The MySQL that the tests must use.
fn named() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|path| !path.is_empty())
}

/// True if the private servers are MySQL: for features of only one of the two programs.
#[must_use]
pub fn is_mysql() -> bool {
    named().is_some()
}

/// A table of one column, `seq`, for statements of tests. MySQL lacks MariaDB's.
#[must_use]
pub fn numbers(first: i64, last: i64) -> String {
    if !is_mysql() {
        return format!("seq_{first}_to_{last}");
    }
    let (first, last) = (first.to_string(), last.to_string());
    include_str!("numbers.sql").replace("{first}", &first).replace("{last}", &last)
}

pub(crate) fn server() -> String {
    named().unwrap_or_else(|| program("mariadbd", PACKAGE))
}

/// The command that makes a data directory in which root has no password.
pub(crate) fn installing(base: Vec<String>) -> Vec<String> {
    let (program, own) = match named() {
        Some(server) => (server, vec!["--initialize-insecure", NO_FILES]),
        None => (
            program("mariadb-install-db", PACKAGE),
            vec!["--auth-root-authentication-method=normal", "--skip-test-db"],
        ),
    };
    let mut words = vec![program];
    words.extend(base);
    words.extend(own.into_iter().map(str::to_owned));
    words
}

/// The setting without file access: its default is a directory of the package, without which the server does not
/// start.
const NO_FILES: &str = "--secure-file-priv=NULL";

/// Settings of only one of the programs. Without `tls`, MariaDB has no TLS. MySQL always has it, by certificates that
/// it makes for itself: the driver sends a password of its kind (`caching_sha2_password`) over TLS only.
pub(crate) fn settings(tls: bool) -> Vec<String> {
    let words: &[&str] = match (is_mysql(), tls) {
        // One port, which is ours; events as on MariaDB.
        (true, _) => &[NO_FILES, "--mysqlx=OFF", "--event-scheduler=OFF"],
        (false, true) => &["--ssl"],
        (false, false) => &["--skip-ssl"],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

const LOG_SIZE: &str = "--innodb-log-file-size=";

/// A caller's setting, in MariaDB's words, as the program knows it. MySQL 9 does not start with MariaDB's size
/// of the redo log.
pub(crate) fn spelled(setting: &str) -> String {
    spelled_for(is_mysql(), setting)
}

fn spelled_for(is_mysql: bool, setting: &str) -> String {
    match setting.strip_prefix(LOG_SIZE) {
        Some(size) if is_mysql => format!("--innodb-redo-log-capacity={size}"),
        _ => setting.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_gets_the_mysql_name_of_the_redo_log_size() {
        let size = "--innodb-log-file-size=128M";
        assert_eq!(spelled_for(true, size), "--innodb-redo-log-capacity=128M");
        assert_eq!(spelled_for(false, size), size);
        assert_eq!(spelled_for(true, "--innodb-buffer-pool-size=1G"), "--innodb-buffer-pool-size=1G");
    }
}
