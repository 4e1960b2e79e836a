//! Counts the statements sent to a private MariaDB: how many, in how many transactions, what was read and
//! locked before hand-overs, and what was rolled back. Read from its slow query log, which has every
//! statement with the rows that it read and changed, because a server does not count rows that were locked in
//! vain. Must not affect the counts, except by the cost of writing the log.

use crate::MariaDb;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

/// Settings of a server that writes down every statement.
pub const STATEMENT_LOG: [&str; 6] = [
    "--slow-query-log=1",
    "--slow-query-log-file=statements.log",
    "--long-query-time=0",
    "--log-output=FILE",
    "--log-slow-filter=",
    "--log-slow-admin-statements=1",
];
const FILE: &str = "data/statements.log";
const BEGINS: &str = "# User@Host: ";
/// The beginning of our own statements.
const MARK: &str = "DO 'mark ";

/// The statements sent to a server from one instant on.
#[derive(Debug)]
pub struct Statements {
    path: PathBuf,
    from: u64,
}

/// Counts of rows and reads include only those of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementTally {
    pub statements: u64,
    pub transactions: u64,
    pub undone: u64,
    /// Transactions that hand tasks over, those that were undone among them.
    pub hand_overs: u64,
    pub hand_overs_undone: u64,
    /// Reads in hand-overs before the move, and the rows that they found.
    pub looks: u64,
    pub rows_looked_at: u64,
    /// The number of rows that locking reads have locked.
    pub rows_locked: u64,
    /// Locked and not changed afterwards, or all that was locked or changed in a transaction that was undone.
    pub rows_locked_for_nothing: u64,
}

impl MariaDb {
    /// Counts the statements from now on. The server must run with [`STATEMENT_LOG`].
    ///
    /// # Panics
    /// When it was not.
    pub async fn statements(&self) -> Statements {
        let mut statements = Statements { path: self.dir().join(FILE), from: 0 };
        statements.from = statements.until_now(self).await.len() as u64;
        statements
    }
}

impl Statements {
    /// The statements sent and answered so far.
    ///
    /// # Panics
    /// When the log cannot be read.
    pub async fn tally(&self, server: &MariaDb) -> StatementTally {
        tally(&String::from_utf8_lossy(&self.until_now(server).await))
    }

    /// Ends with a statement of our own: earlier answers are in the log before it, or shortly afterwards.
    async fn until_now(&self, server: &MariaDb) -> Vec<u8> {
        let mark = format!("{:016x}", fastrand::u64(..));
        server.sql("mysql", &format!("{MARK}{mark}'")).await;
        let log = Mutex::new(Vec::new());
        crate::patience::until("the log has all that was asked", || {
            let bytes = self.read();
            let has_mark = bytes.windows(mark.len()).any(|some| some == mark.as_bytes());
            *log.lock() = bytes;
            std::future::ready(has_mark)
        })
        .await;
        log.into_inner()
    }

    fn read(&self) -> Vec<u8> {
        let read = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        };
        read().unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }
}

/// One statement.
#[derive(Debug, Default, PartialEq, Eq)]
struct Statement<'l> {
    thread: u64,
    rows_sent: u64,
    rows_affected: u64,
    text: &'l str,
}

/// A transaction that has not ended.
#[derive(Debug, Default)]
struct OpenStatements {
    hands_over: bool,
    looks: u64,
    rows_looked_at: u64,
    rows_locked: u64,
    rows_changed: u64,
}

/// The tally of a log, or of a part of one that begins with an entry.
fn tally(log: &str) -> StatementTally {
    let (mut tally, mut open) = (StatementTally::default(), HashMap::<u64, OpenStatements>::new());
    for statement in log.split(BEGINS).skip(1).filter_map(statement) {
        tally.add(&mut open, &statement);
    }
    tally
}

fn statement(entry: &str) -> Option<Statement<'_>> {
    let mut statement = Statement::default();
    let mut rest = entry.split_once('\n')?.1;
    while let Some(head) = rest.strip_prefix("# ") {
        let (head, after) = head.split_once('\n')?;
        if head.starts_with("administrator command") {
            return None;
        }
        let words: Vec<&str> = head.split_whitespace().collect();
        let number = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        statement.thread = number("Thread_id:").unwrap_or(statement.thread);
        statement.rows_sent = number("Rows_sent:").unwrap_or(statement.rows_sent);
        statement.rows_affected = number("Rows_affected:").unwrap_or(statement.rows_affected);
        rest = after;
    }
    for settings in ["use ", "SET timestamp="] {
        if rest.starts_with(settings) {
            rest = rest.split_once('\n')?.1;
        }
    }
    // An entry of another second is preceded by the time.
    let text = rest.rsplit_once("\n# Time: ").map_or(rest, |(text, _)| text);
    statement.text = text.trim_end().trim_end_matches(';').trim();
    Some(statement)
}

impl Statement<'_> {
    /// It names the table of tasks, as the product writes it.
    fn is_of_tasks(&self) -> bool {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        words.windows(2).any(|pair| {
            matches!(pair, ["FROM" | "JOIN" | "STRAIGHT_JOIN" | "UPDATE", table] if table.trim_end_matches(';') == "task")
        })
    }

    /// True for a hand-over as in the state machine: to a new attempt that an executor has.
    fn hands_over(&self) -> bool {
        self.text.contains("state = 4") && self.text.contains("attempt + 1")
    }

    fn begins(&self, word: &str) -> bool {
        self.text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
    }
}

impl StatementTally {
    fn add(&mut self, open: &mut HashMap<u64, OpenStatements>, statement: &Statement<'_>) {
        if statement.begins(MARK) {
            return;
        }
        self.statements += 1;
        if statement.begins("BEGIN") || statement.begins("START TRANSACTION") {
            open.insert(statement.thread, OpenStatements::default());
        } else if statement.begins("COMMIT") {
            open.remove(&statement.thread).into_iter().for_each(|transaction| self.end(&transaction, true));
        } else if statement.begins("ROLLBACK") {
            open.remove(&statement.thread).into_iter().for_each(|transaction| self.end(&transaction, false));
        } else if let Some(transaction) = open.get_mut(&statement.thread) {
            transaction.add(statement);
        }
    }

    fn end(&mut self, transaction: &OpenStatements, is_committed: bool) {
        let OpenStatements { hands_over, looks, rows_looked_at, rows_locked, rows_changed } = *transaction;
        self.transactions += 1;
        self.undone += u64::from(!is_committed);
        self.rows_locked += rows_locked;
        self.rows_locked_for_nothing += if is_committed {
            rows_locked.saturating_sub(rows_changed)
        } else {
            rows_locked.max(rows_changed)
        };
        if hands_over {
            self.hand_overs += 1;
            self.hand_overs_undone += u64::from(!is_committed);
            self.looks += looks;
            self.rows_looked_at += rows_looked_at;
        }
    }
}

impl OpenStatements {
    fn add(&mut self, statement: &Statement<'_>) {
        if statement.begins("SELECT") && statement.is_of_tasks() {
            self.looks += 1;
            self.rows_looked_at += statement.rows_sent;
            self.rows_locked += if statement.text.contains("FOR UPDATE") { statement.rows_sent } else { 0 };
        } else if statement.begins("UPDATE") && statement.is_of_tasks() {
            self.rows_changed += statement.rows_affected;
            self.hands_over |= statement.hands_over();
        }
    }
}
