//! The settings as the program uses them, made from the layers at once: every fault is reported before anything
//! starts.

use super::{
    Error, InboxPlace, JournalPlace, Layers, Listening, Payloads,
    inboxes::inboxes,
    journal::journal,
    keys::{
        AHEAD_MS, ARCHIVE_AFTER_DAYS, ARCHIVE_URL, AUDIT_KEEP_DAYS, AUTH_ADMIN_TOKEN, BUCKETS_AHEAD_HOURS,
        BUCKETS_CARRY_ROWS, BUCKETS_WIDTH_HOURS, BULK_MS, CANCELLED_MS, CLOCK_BOUND_MS,
        COMPENSATE_INTERVAL_MS, DEAD_MS, EVENTS_MS, HORIZON_MS, INSERT_WAIT_MAX_MS, LEASE_CHECK_INTERVAL_MS,
        LOG_FILTER, LOG_FORMAT, LOOKAHEAD_MS, NAMESPACES_EXPLICIT, OVERDUE_LOOK_INTERVAL_MS, PUSH_LEASE_MS,
        PUSH_QUEUES, RECONCILE_INTERVAL_MS, RETIRE_INTERVAL_MS, SCHEDULE_RUNS_MS, STOPPED_MS, SUCCEEDED_MS,
        SWEEP_INTERVAL_MS, TRIGGER_INTERVAL_MS, WORKFLOWS_MS,
    },
    place::{SharedPlace, StoreLocation, memory_max_bytes, place, sqlite_path, yes_or_no},
    telemetry,
};
use punctual_domain::{
    access::SecretHash,
    name::{Name, QueueKey},
};
use punctual_engine::Options;
use punctual_store::BucketOptions;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listening: Listening,
    pub(crate) place: StoreLocation,
    pub(crate) archive: Archive,
    pub(crate) engine: Options,
    pub(crate) schedules: punctual_schedules::Options,
    pub(crate) workflows: punctual_workflows::Options,
    pub(crate) bulk: punctual_bulk::Options,
    pub(crate) cluster: punctual_cluster::Options,
    /// `None` if traces are off.
    pub(crate) traces: Option<punctual_traces::Options>,
    pub(crate) payloads: Payloads,
    /// Tables of users whose rows become tasks.
    pub(crate) inboxes: Vec<InboxPlace>,
    /// `None` if the journal is off.
    pub(crate) journal: Option<JournalPlace>,
    /// The interval of the search for due schedules.
    pub(crate) trigger_interval: Duration,
    /// The limit of an embedded hot set. `None` derives it from the machine's memory.
    pub(crate) memory_max_bytes: Option<u64>,
    pub(crate) log_filter: String,
    pub(crate) log_format: LogFormat,
    /// Configuration warnings, for the log.
    pub(crate) warnings: Vec<String>,
}

/// The archive, where tasks are stored before they are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Archive {
    /// `None` if there is no archive.
    pub(crate) url: Option<String>,
    /// The age of buckets that are archived; the embedded store has none.
    pub(crate) after_days: u32,
    pub(crate) bucket_width_hours: u32,
    pub(crate) buckets_ahead_hours: u32,
    pub(crate) bucket_carry_rows: u32,
}

impl Default for Archive {
    fn default() -> Self {
        let BucketOptions { width_hours, ahead_hours, carry_rows, .. } = BucketOptions::default();
        Self {
            url: None,
            after_days: 7,
            bucket_width_hours: width_hours,
            buckets_ahead_hours: ahead_hours,
            bucket_carry_rows: carry_rows,
        }
    }
}

const MINUTE_MS: i64 = 60_000;
const WEEK_MS: i64 = 7 * 24 * 60 * MINUTE_MS;
const TEN_YEARS_MS: i64 = 315_576_000_000;

impl Settings {
    pub(crate) fn from_layers(layers: &Layers) -> Result<Self, Error> {
        let (place, listening) = (place(layers)?, Listening::from_layers(layers)?);
        let payloads = Payloads::from_layers(layers, &place)?;
        Ok(Self {
            archive: archive(layers)?,
            engine: Options {
                inline_max_bytes: payloads.inline_max_bytes,
                can_push: can_push(layers, &place)?,
                ..engine(layers)?
            },
            schedules: schedules(layers)?,
            workflows: workflows(layers)?,
            bulk: bulk(layers)?,
            cluster: cluster(layers)?,
            traces: telemetry::traces(layers)?,
            inboxes: inboxes(layers)?,
            journal: journal(layers, &place)?,
            place,
            payloads,
            trigger_interval: Duration::from_millis(layers.number(TRIGGER_INTERVAL_MS, 50..=10_000)?),
            memory_max_bytes: memory_max_bytes(layers)?,
            log_filter: log_filter(layers)?,
            log_format: log_format(layers)?,
            warnings: layers.warnings.iter().cloned().chain(listening.warnings()).collect(),
            listening,
        })
    }
}

fn archive(layers: &Layers) -> Result<Archive, Error> {
    let url = object_url(layers, ARCHIVE_URL, "archive", "no archives")?;
    Ok(Archive {
        url,
        after_days: layers.number(ARCHIVE_AFTER_DAYS, 1..=3_650)?,
        bucket_width_hours: layers.number(BUCKETS_WIDTH_HOURS, 1..=168)?,
        buckets_ahead_hours: layers.number(BUCKETS_AHEAD_HOURS, 24..=8_760)?,
        bucket_carry_rows: layers.number(BUCKETS_CARRY_ROWS, 0..=10_000_000)?,
    })
}

/// A directory or a bucket. `None` means empty. `folder` is for the examples, and `without` is what empty means.
pub(super) fn object_url(
    layers: &Layers,
    key: &'static str,
    folder: &str,
    without: &str,
) -> Result<Option<String>, Error> {
    let url = layers.get(key).text;
    if let Some(mistake) = object_url_mistake(&url, folder, without, punctual_store::HAS_OBJECT_STORES) {
        return Err(match mistake {
            Mistake::OfBuild(reason) => layers.refused(key, reason),
            Mistake::OfValue(reason) => layers.invalid(key, reason),
        });
    }
    Ok(Some(url).filter(|url| !url.is_empty()))
}

/// Why the URL of an object store is refused.
#[derive(Debug, PartialEq, Eq)]
enum Mistake {
    /// Another build would take it.
    OfBuild(String),
    OfValue(String),
}

fn object_url_mistake(url: &str, folder: &str, without: &str, has_object_stores: bool) -> Option<Mistake> {
    let is_s3 = url.strip_prefix("s3://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let is_directory =
        url.strip_prefix("file://").is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
    if is_s3 && !has_object_stores {
        return Some(Mistake::OfBuild(format!(
            "this program was built without object stores; use one that was built with the feature s3, or a \
             directory, such as file:///var/lib/punctual/{folder}"
        )));
    }
    let is_good = url.is_empty() || is_s3 || is_directory;
    (!is_good).then(|| {
        Mistake::OfValue(format!(
            "must be a directory named from the root, such as file:///var/lib/punctual/{folder}, or \
             s3://bucket/prefix; or empty, for {without}"
        ))
    })
}

/// The default of `store.url`.
pub(super) fn store_url(layers: &Layers) -> Result<String, Error> {
    Ok(format!("sqlite://{}", sqlite_path(layers)?.display()))
}

fn schedules(layers: &Layers) -> Result<punctual_schedules::Options, Error> {
    let keep_runs_ms = layers.number(SCHEDULE_RUNS_MS, 60 * MINUTE_MS..=TEN_YEARS_MS)?;
    Ok(punctual_schedules::Options { keep_runs_ms, ..punctual_schedules::Options::default() })
}

fn workflows(layers: &Layers) -> Result<punctual_workflows::Options, Error> {
    let keep_ms = layers.number(WORKFLOWS_MS, 60 * MINUTE_MS..=TEN_YEARS_MS)?;
    Ok(punctual_workflows::Options { keep_ms, ..punctual_workflows::Options::default() })
}

fn bulk(layers: &Layers) -> Result<punctual_bulk::Options, Error> {
    let keep_ms = layers.number(BULK_MS, 60 * MINUTE_MS..=TEN_YEARS_MS)?;
    Ok(punctual_bulk::Options { keep_ms, ..punctual_bulk::Options::default() })
}

fn cluster(layers: &Layers) -> Result<punctual_cluster::Options, Error> {
    let keep_events_ms = layers.number(EVENTS_MS, 120 * MINUTE_MS..=TEN_YEARS_MS)?;
    Ok(punctual_cluster::Options { keep_events_ms, ..punctual_cluster::Options::default() })
}

fn engine(layers: &Layers) -> Result<Options, Error> {
    let lookahead_ms = layers.number(LOOKAHEAD_MS, 50..=MINUTE_MS)?;
    Ok(Options {
        lookahead_ms,
        ahead_ms: layers.number(AHEAD_MS, 0..=200)?,
        clock_bound_ms: layers.number(CLOCK_BOUND_MS, 20..=10_000)?,
        sweep_interval_ms: layers.number(SWEEP_INTERVAL_MS, 100..=60_000)?,
        reconcile_interval_ms: layers.number(RECONCILE_INTERVAL_MS, 200..=600_000)?,
        compensate_interval_ms: layers.number(COMPENSATE_INTERVAL_MS, 100..=600_000)?,
        lease_check_interval_ms: layers.number(LEASE_CHECK_INTERVAL_MS, 50..=10_000)?,
        // Schedules are found by the agenda.
        agenda_interval_ms: Options::default()
            .agenda_interval_ms
            .min(layers.number(TRIGGER_INTERVAL_MS, 50..=10_000)?),
        overdue_look_interval_ms: layers.number(OVERDUE_LOOK_INTERVAL_MS, 1_000..=3_600_000)?,
        retire_interval_ms: layers.number(RETIRE_INTERVAL_MS, 100..=3_600_000)?,
        insert_wait_max_ms: layers.number(INSERT_WAIT_MAX_MS, 50..=600_000)?,
        // Below the look-ahead, a task would be drained before it is preloaded.
        horizon_ms: layers.number(HORIZON_MS, lookahead_ms.max(10_000)..=WEEK_MS)?,
        keep_succeeded_ms: layers.number(SUCCEEDED_MS, 0..=TEN_YEARS_MS)?,
        keep_stopped_ms: layers.number(STOPPED_MS, 0..=TEN_YEARS_MS)?,
        keep_cancelled_ms: layers.number(CANCELLED_MS, 0..=TEN_YEARS_MS)?,
        keep_dead_ms: layers.number(DEAD_MS, 0..=TEN_YEARS_MS)?,
        push_queues: push_queues(layers)?,
        push_lease_ms: layers.number(PUSH_LEASE_MS, 1_000..=WEEK_MS)?,
        admin_token: admin_token(layers)?,
        explicit_namespaces: yes_or_no(layers, NAMESPACES_EXPLICIT)?,
        keep_audit_ms: layers.number(AUDIT_KEEP_DAYS, 1..=3_650)? * 24 * 60 * MINUTE_MS,
        ..Options::default()
    })
}

/// Too long to be guessed. `None` means empty.
fn admin_token(layers: &Layers) -> Result<Option<SecretHash>, Error> {
    const CHARS_MIN: usize = 24;
    let text = layers.get(AUTH_ADMIN_TOKEN).text;
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() < CHARS_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let reason = format!("must have at least {CHARS_MIN} characters, all of them visible ASCII");
        return Err(layers.invalid(AUTH_ADMIN_TOKEN, reason));
    }
    Ok(Some(SecretHash::of(&text)))
}

/// True if tasks can be published. Without Redis the bus is the engine's own memory, which no executor reaches.
fn can_push(layers: &Layers, place: &StoreLocation) -> Result<bool, Error> {
    let can = matches!(place, StoreLocation::Shared(SharedPlace { redis_url: Some(_), .. }));
    if !can && !layers.get(PUSH_QUEUES).text.is_empty() {
        return Err(layers.refused(
            PUSH_QUEUES,
            "executors subscribe by way of Redis, and this engine has none: let them ask for tasks, and leave this empty; or \
             run it on a mysql store and Redis (store.url, hot.url)",
        ));
    }
    Ok(can)
}

/// `queue` or `namespace/queue`, several with commas.
fn push_queues(layers: &Layers) -> Result<Vec<QueueKey>, Error> {
    let text = layers.get(PUSH_QUEUES).text;
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let key = |text: &str| {
        let (namespace, queue) = match text.split_once('/') {
            Some((namespace, queue)) => (Name::chosen(namespace).ok()?, queue),
            None => (Name::default_namespace(), text),
        };
        Some(QueueKey { namespace, queue: Name::chosen(queue).ok()? })
    };
    let odd = |text: &str| {
        layers.invalid(
            PUSH_QUEUES,
            format!("must be names of queues with commas between them, and {text:?} is none"),
        )
    };
    names.map(|name| key(name).ok_or_else(|| odd(name))).collect()
}

fn log_filter(layers: &Layers) -> Result<String, Error> {
    let text = layers.get(LOG_FILTER).text;
    match EnvFilter::try_new(&text) {
        Ok(_) => Ok(text),
        Err(said) => {
            Err(layers
                .invalid(LOG_FILTER, format!("must be like info or warn,punctual_engine=debug ({said})")))
        }
    }
}

fn log_format(layers: &Layers) -> Result<LogFormat, Error> {
    match layers.get(LOG_FORMAT).text.as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(layers.invalid(LOG_FORMAT, "must be text or json")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn with(flags: &[(&str, &str)]) -> Result<Settings, Error> {
        let mut layers = Layers::defaults();
        for (key, value) in flags {
            layers.flag("--set", key, (*value).to_owned())?;
        }
        Settings::from_layers(&layers)
    }

    fn said(key: &str, value: &str) -> (bool, String) {
        let error = with(&[(key, value)]).unwrap_err();
        (error.is_usage(), error.to_string())
    }

    #[test]
    fn without_settings_it_runs_on_loopback_and_a_file_below_the_data_directory() {
        let settings = with(&[]).unwrap();
        assert_eq!(settings.listening.address, "127.0.0.1:7450".parse().unwrap());
        assert_eq!(settings.place.shown(), "sqlite://./punctual-data/punctual.db");
    }

    #[test]
    fn the_store_follows_the_data_directory_unless_it_is_set() {
        assert_eq!(with(&[("data", "/x")]).unwrap().place.shown(), "sqlite:///x/punctual.db");
        let both = with(&[("data", "/x"), ("store.url", "sqlite:///y/z.db")]).unwrap();
        assert_eq!(both.place.shown(), "sqlite:///y/z.db");
    }

    #[test]
    fn the_environment_goes_over_the_file_and_a_flag_over_both() {
        let mut layers = Layers::defaults();
        layers.file(Path::new("p.toml"), "listen = '127.0.0.1:1'\n[engine]\nhorizon_ms = 20000\n").unwrap();
        let listen = |layers: &Layers| Settings::from_layers(layers).unwrap().listening.address.port();
        assert_eq!((listen(&layers), Settings::from_layers(&layers).unwrap().engine.horizon_ms), (1, 20_000));
        layers.environment([("PUNCTUAL_LISTEN".to_owned(), "127.0.0.1:2".to_owned())]).unwrap();
        assert_eq!(listen(&layers), 2);
        layers.flag("--listen", "listen", "localhost:3".to_owned()).unwrap();
        assert_eq!(listen(&layers), 3);
    }

    #[test]
    fn a_shared_store_and_a_shared_hot_set_go_together_or_the_message_says_what_to_set() {
        for (key, url, way_out) in [
            ("hot.url", "redis://h", "mysql://user:password@host/database"),
            ("hot.url", "redis+cluster://h", "leave hot.url empty"),
        ] {
            let (usage, said) = said(key, url);
            assert!(!usage && said.contains(way_out), "{said}");
        }
        let memory = with(&[("store.url", "mysql://h/d"), ("hot.url", "memory://")]).unwrap_err();
        let said = memory.to_string();
        for part in ["hot.url = \"memory://\"", "redis://host:port", "leave it empty"] {
            assert!(!memory.is_usage() && said.contains(part), "{part:?} is not in {said}");
        }
    }

    #[test]
    fn databases_need_no_redis_and_no_executor_can_subscribe_then() {
        let store = ("store.url", "mysql://h/d");
        for hot in [None, Some(("hot.url", "")), Some(("hot.url", "none"))] {
            let flags: Vec<_> = [store].into_iter().chain(hot).collect();
            let settings = with(&flags).unwrap();
            let StoreLocation::Shared(place) = settings.place else { panic!("a database is shared") };
            assert_eq!((place.redis_url, settings.engine.can_push), (None, false), "{hot:?}");
        }
        assert!(with(&[store, ("hot.url", "redis://h")]).unwrap().engine.can_push);
        let said = with(&[store, ("queues.push", "q")]).unwrap_err().to_string();
        assert!(said.contains("queues.push") && said.contains("hot.url"), "{said}");
        for nothing in ["", "none"] {
            let place = with(&[("hot.url", nothing)]).unwrap().place;
            assert!(matches!(place, StoreLocation::Embedded { .. }), "{nothing:?}: a file has its memory");
        }
    }

    #[test]
    fn several_databases_are_named_with_commas_and_shown_without_their_passwords() {
        let urls = "mysql://u:geheim@a:3306/p0, mysql://u:gehe@im@b/p1";
        let settings = with(&[("store.url", urls), ("hot.url", "redis://h:6379")]).unwrap();
        assert_eq!(settings.place.shown(), "mysql://u@a:3306/p0,mysql://u@b/p1");
        let StoreLocation::Shared(place) = settings.place else { panic!("two databases are shared") };
        assert_eq!((place.mysql_urls.len(), place.partitions), (2, 16));
        let odd = [("store.url", "mysql://a/p0,mysql://u:geheim@b"), ("hot.url", "redis://h")];
        let said = with(&odd).unwrap_err().to_string();
        assert!(said.contains("mysql://u@b\" is not"), "{said}");
    }

    #[test]
    fn archives_are_off_unless_a_place_is_named_and_object_stores_need_their_build() {
        assert_eq!(with(&[]).unwrap().archive, Archive::default());
        let named = with(&[("archive.url", "file:///a"), ("archive.after_days", "30")]).unwrap();
        assert_eq!(
            named.archive,
            Archive { url: Some("file:///a".to_owned()), after_days: 30, ..Archive::default() }
        );
        let s3 = with(&[("archive.url", "s3://bucket/prefix")]);
        assert_eq!(s3.is_ok(), punctual_store::HAS_OBJECT_STORES);
        assert!(!s3.is_err_and(|error| error.is_usage()), "another build would take it");
        let mistake = |has| object_url_mistake("s3://bucket/prefix", "archive", "none", has);
        assert_eq!(mistake(true), None);
        let Some(Mistake::OfBuild(said)) = mistake(false) else { panic!("this build takes it") };
        assert!(said.contains("the feature s3") && said.contains("file:///"), "{said}");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_its_key_and_where_it_came_from() {
        for (key, value) in [
            ("listen", "7450"),
            ("store.url", "postgres://x"),
            ("store.url", "sqlite://"),
            ("hot.url", "disk://"),
            ("engine.horizon_ms", "1h"),
            ("engine.horizon_ms", "-1"),
            ("engine.lookahead_ms", "0"),
            ("engine.ahead_ms", "201"),
            ("retention.dead_ms", "1.5"),
            ("limits.payload_max_bytes", "0"),
            ("limits.payload_max_bytes", "99999999999"),
            ("log.filter", "punctual=loud"),
            ("log.format", "xml"),
            ("archive.url", "/var/lib/archive"),
            ("archive.url", "file://archive"),
            ("archive.url", "s3:///prefix"),
            ("archive.url", "ftp://host/x"),
            ("archive.after_days", "0"),
        ] {
            let (usage, said) = said(key, value);
            assert!(
                usage && said.contains(key) && said.contains(value) && said.contains("flag --set"),
                "{said}"
            );
        }
    }

    #[test]
    fn an_unknown_key_is_refused_in_the_file_and_as_a_flag() {
        let mut layers = Layers::defaults();
        let in_file =
            layers.file(Path::new("p.toml"), "[engine]\nhorizont_ms = 1\n").unwrap_err().to_string();
        assert!(in_file.contains("file p.toml") && in_file.contains("mean engine.horizon_ms?"), "{in_file}");
        assert!(with(&[("lisen", "x")]).unwrap_err().to_string().contains("\"lisen\""));
        assert!(layers.file(Path::new("p.toml"), "listen = [1]").unwrap_err().to_string().contains("array"));
        assert!(layers.file(Path::new("p.toml"), "listen =").unwrap_err().to_string().contains("not TOML"));
    }

    #[test]
    fn variables_that_are_no_setting_are_told_and_not_refused() {
        let mut layers = Layers::defaults();
        let variables = ["PUNCTUAL_LISEN", "PUNCTUAL_URL", "PATH"];
        layers.environment(variables.map(|name| (name.to_owned(), "x".to_owned()))).unwrap();
        assert_eq!(layers.unused_variables, ["PUNCTUAL_LISEN"]);
        assert!(Settings::from_layers(&layers).is_ok());
    }
}
