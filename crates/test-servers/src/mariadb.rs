//! A private MariaDB, or the MySQL that a developer names, with small buffers, tuned for many short tests.
//! Isolation level, time zone and the rest are the defaults that an operator finds, so that the settings of
//! our sessions are tested. Must not contain SQL of the product.

use super::{
    beside, mysqld,
    process::{self, Process, program},
    tls::{self, TlsKeyPair},
    watchdog::{Watchdog, shown},
};
use crate::patience::until;
use parking_lot::Mutex;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, OnceLock},
};

pub(crate) const PACKAGE: &str = "mariadb-server";
/// The settings of both programs.
const SETTINGS: [&str; 11] = [
    "--socket=mariadb.sock",
    "--pid-file=mariadb.pid",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--skip-log-bin",
    "--character-set-server=utf8mb4",
    // Survives kill -9 of the server, which tests do; only not a power cut.
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=128M",
    // Seconds: a test that blocks itself says so soon.
    "--innodb-lock-wait-timeout=5",
    "--max-connections=2000",
    "--performance-schema=off",
];

#[derive(Debug)]
pub struct MariaDb {
    process: Arc<Process>,
    maker: Arc<Mutex<Option<Maker>>>,
}

impl MariaDb {
    /// Starts a server for one test alone, which may kill and pause it. Ends when it is dropped.
    pub async fn own() -> Self {
        beside(Self::start).await
    }

    /// One of the caller's own, with more settings, which win: `--innodb-buffer-pool-size=2G`.
    pub async fn with(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        beside(move || Self::start_with(&settings, None)).await
    }

    /// One of the caller's own that speaks TLS too, with more settings, which win: `--require-secure-transport=ON`.
    pub async fn over_tls(identity: &TlsKeyPair, settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let identity = identity.clone();
        beside(move || Self::start_with(&settings, Some(&identity))).await
    }

    /// Starts a server for many tests at once: hundreds of them would fill a small log in seconds, and then each
    /// commit waits for the disk. Table statistics are computed when a table is opened, not stored in tables: those
    /// took a fifth of the time of creating a database.
    pub(crate) fn shared() -> Self {
        Self::start_with(
            &["--innodb-log-file-size=512M".to_owned(), "--innodb-stats-persistent=0".to_owned()],
            None,
        )
    }

    fn start() -> Self {
        Self::start_with(&[], None)
    }

    fn start_with(more: &[String], identity: Option<&TlsKeyPair>) -> Self {
        let watchdog = Arc::new(Watchdog::start());
        let mut copy = vec!["cp".to_owned(), "-R".to_owned()];
        // Nine tenths of the files are zeros, and each of a hundred servers would have them in memory.
        copy.extend(cfg!(target_os = "linux").then(|| "--sparse=always".to_owned()));
        copy.extend([shown(installed()), shown(&data(watchdog.dir()))]);
        watchdog.run(&copy);
        Self { process: begun(&watchdog, more, identity), maker: Arc::default() }
    }

    /// A new, empty database: `mysql://t:t@127.0.0.1:PORT/NAME`. Its user may do everything. Over TLS with
    /// name verification, if the server supports it.
    pub async fn fresh_database(&self) -> String {
        let name = format!("t_{:016x}", fastrand::u64(..));
        self.sql("mysql", &format!("CREATE DATABASE {name}")).await;
        self.url(&name)
    }

    /// The statements that create the tables of a database and their rows.
    pub async fn dump(&self, database: &str) -> String {
        let (dir, database) = (self.dir().to_owned(), database.to_owned());
        beside(move || dump(&dir, &database)).await
    }

    /// A new database of such tables and rows, of a server that is never stopped.
    pub async fn restored(&self, dump: &str) -> String {
        let name = format!("t_{:016x}", fastrand::u64(..));
        let text = format!("CREATE DATABASE {name}; USE {name};\n{dump}");
        let (dir, maker) = (self.dir().to_owned(), Arc::clone(&self.maker));
        beside(move || maker.lock().get_or_insert_with(|| Maker::start(&dir)).run(&text)).await;
        self.url(&name)
    }

    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let plain = self.plain_url(database);
        match tls::authority_in(self.dir()) {
            Some(ca) => format!("{plain}?ssl-mode=VERIFY_IDENTITY&ssl-ca={}", shown(&ca)),
            None => plain,
        }
    }

    /// An address without TLS options.
    #[must_use]
    pub fn plain_url(&self, database: &str) -> String {
        format!("mysql://t:t@127.0.0.1:{}/{database}", self.port())
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The directory of its data and its log; removed with it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.process.watchdog.dir()
    }

    /// Runs statements as root; answers the rows, columns separated by tabs, without a header. Panics at an error.
    pub async fn sql(&self, database: &str, text: &str) -> String {
        self.try_sql(database, text).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, for a statement that the server may refuse.
    ///
    /// # Errors
    ///
    /// The error output of the server's client.
    pub async fn try_sql(&self, database: &str, text: &str) -> Result<String, String> {
        let (dir, database, text) = (self.dir().to_owned(), database.to_owned(), text.to_owned());
        beside(move || said(&dir, &database, &text)).await
    }

    /// Calls a procedure of a database's events until it is not blocked: a table change waits a second for
    /// the server's own use of that table, then gives up, and the event is repeated. Panics at any other
    /// error.
    pub async fn event(&self, database: &str, call: &str) {
        until("nothing is in the way of the event", || async {
            match self.try_sql(database, call).await {
                Ok(_) => true,
                Err(error) if error.contains("ERROR 1205") => false,
                Err(error) => panic!("{error}"),
            }
        })
        .await;
    }

    /// False if it has died by itself: then the test's result is meaningless.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// All that it has written since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Connections stay open without any answer, until `resume`.
    pub fn pause(&self) {
        self.process.pause();
    }

    pub fn resume(&self) {
        self.process.resume();
    }

    /// kill -9; the process has ended when this returns.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts again after `kill`: same port, same data, recovered and answering when this returns.
    pub async fn start_again(&self) {
        let process = Arc::clone(&self.process);
        beside(move || process.start_again()).await;
    }
}

/// A client process that creates one database after the other: starting a client takes half as long as
/// creating a database. It ends with this process, at the end of its input.
#[derive(Debug)]
struct Maker {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Maker {
    fn start(dir: &Path) -> Self {
        let mut child = client(dir, "mysql");
        let mut child = child.arg("--unbuffered").spawn().expect("it was found");
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, answers }
    }

    /// Panics at an error, at which the client has ended.
    fn run(&mut self, text: &str) {
        let sent = self.child.stdin.as_mut().expect("it was piped");
        // The client's error message is more useful than the failed write.
        let _ = writeln!(sent, "{text}\n{}", include_str!("made.sql"));
        let mut answer = String::new();
        while answer.trim_end() != "made" {
            answer.clear();
            if self.answers.read_line(&mut answer).unwrap_or(0) == 0 {
                let mut said = String::new();
                let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
                panic!("what makes databases has ended: {said}");
            }
        }
    }
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

/// The data of a server that was installed, has the tests' user and was shut down. Made once per process: a
/// copy takes a twentieth of the time of an installation.
fn installed() -> &'static Path {
    static ONE: OnceLock<(Arc<Watchdog>, PathBuf)> = OnceLock::new();
    let (_, data) = ONE.get_or_init(|| {
        let watchdog = Arc::new(Watchdog::start());
        watchdog.run(&mysqld::installing(base(&watchdog)));
        let process = begun(&watchdog, &[], None);
        said(watchdog.dir(), "mysql", include_str!("user.sql")).expect("a fresh server takes a user");
        said(watchdog.dir(), "mysql", "SHUTDOWN").expect("it ends when it is told to");
        assert!(process::until(|| !process.is_running()), "{process:?} does not end: {}", process.log());
        let data = data(watchdog.dir());
        (watchdog, data)
    });
    data
}

/// The common arguments of installing and running.
fn base(watchdog: &Watchdog) -> Vec<String> {
    let mut base = vec!["--no-defaults".to_owned(), format!("--datadir={}", shown(&data(watchdog.dir())))];
    // A server that starts removes the temporary tables (#sql*) of every other one in its directory for them.
    base.push(format!("--tmpdir={}", shown(watchdog.dir())));
    base.extend(watchdog.is_root().then(|| "--user=root".to_owned()));
    base
}

/// A server on the data in the watchdog's directory.
fn begun(watchdog: &Arc<Watchdog>, more: &[String], identity: Option<&TlsKeyPair>) -> Arc<Process> {
    let mut base = base(watchdog);
    base.extend(SETTINGS.map(str::to_owned));
    base.push(mysqld::spelled("--innodb-log-file-size=48M"));
    base.extend(mysqld::settings(identity.is_some()));
    if let Some(identity) = identity {
        identity.write_to(watchdog.dir());
        let of = |option: &str, name: &str| format!("{option}={}", tls::file(watchdog.dir(), name));
        base.extend([
            of("--ssl-ca", "ca.pem"),
            of("--ssl-cert", "server.pem"),
            of("--ssl-key", "server.key"),
        ]);
    }
    base.extend(more.iter().map(|setting| mysqld::spelled(setting)));
    let server = mysqld::server();
    let command = move |port: u16| {
        let mut words = vec![server.clone()];
        words.extend(base.iter().cloned());
        words.push(format!("--port={port}"));
        words
    };
    Process::start(watchdog, "mariadb", command, answers)
}

/// Checks the server by its socket, which only the server of this directory can have opened; no client is started
/// before it exists.
fn answers(process: &Process) -> bool {
    data(process.watchdog.dir()).join("mariadb.sock").exists()
        && said(process.watchdog.dir(), "mysql", "").is_ok()
}

fn dump(dir: &Path, database: &str) -> String {
    let mut dump = Command::new(program("mariadb-dump", PACKAGE));
    dump.args(["--no-defaults", "--socket=mariadb.sock", "--user=root", "--skip-ssl", "--skip-comments"]);
    // One transaction, without the statements around each table, which are useless for an empty one.
    dump.args(["--single-transaction", "--skip-add-drop-table", "--skip-add-locks", "--skip-disable-keys"]);
    let out = dump.arg(database).current_dir(data(dir)).output().expect("it was found");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("of an empty schema nothing is binary");
    // Three statements around each table set and put back the client's alphabet, for names that ours do not have.
    assert!(text.is_ascii(), "{text}");
    text.lines().filter(|line| !line.starts_with("/*")).flat_map(|line| [line, "\n"]).collect()
}

/// Runs the command line client, so that this crate needs no driver, by a relative socket: a path may be too long for
/// one.
fn client(dir: &Path, database: &str) -> Command {
    let mut client = Command::new(program("mariadb", PACKAGE));
    client.args(["--no-defaults", "--socket=mariadb.sock", "--user=root", "--batch", "--skip-column-names"]);
    // A socket of its own machine, and a certificate that may be a bad one.
    client.arg("--skip-ssl");
    client.args(["--database", database]).current_dir(data(dir));
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    client
}

fn said(dir: &Path, database: &str, text: &str) -> Result<String, String> {
    let mut child = client(dir, database).spawn().map_err(|error| error.to_string())?;
    let sent = child.stdin.take().expect("it was piped").write_all(text.as_bytes());
    let out = child.wait_with_output().map_err(|error| error.to_string())?;
    let written = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match sent {
        Ok(()) if out.status.success() => Ok(written(&out.stdout)),
        _ => Err(written(&out.stderr)),
    }
}
