//! The settings as the program uses them, made from the layers in one go: what is wrong is said before anything starts.

use super::{
    Error, Layers,
    keys::{
        BATCH_BODY_MAX_BYTES, CANCELLED_MS, DATA, DEAD_MS, HORIZON_MS, HOT_URL, LISTEN, LOG_FILTER,
        LOG_FORMAT, LOOKAHEAD_MS, PAYLOAD_MAX_BYTES, STOPPED_MS, STORE_URL, SUCCEEDED_MS,
    },
};
use punctual_engine::Options;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Loopback only, as long as there are no tokens.
    pub(crate) listen: SocketAddr,
    /// The file of the store.
    pub(crate) sqlite_path: PathBuf,
    pub(crate) engine: Options,
    pub(crate) batch_body_max_bytes: usize,
    pub(crate) payload_max_bytes: usize,
    pub(crate) log_filter: String,
    pub(crate) log_format: LogFormat,
}

const MINUTE_MS: i64 = 60_000;
const WEEK_MS: i64 = 7 * 24 * 60 * MINUTE_MS;
const TEN_YEARS_MS: i64 = 315_576_000_000;
const GIB: usize = 1 << 30;

impl Settings {
    pub(crate) fn from_layers(layers: &Layers) -> Result<Self, Error> {
        only_memory(layers)?;
        let batch_body_max_bytes = layers.number(BATCH_BODY_MAX_BYTES, 1_024..=GIB)?;
        Ok(Self {
            listen: listen(layers)?,
            sqlite_path: sqlite_path(layers)?,
            engine: engine(layers)?,
            batch_body_max_bytes,
            payload_max_bytes: layers.number(PAYLOAD_MAX_BYTES, 1..=batch_body_max_bytes)?,
            log_filter: log_filter(layers)?,
            log_format: log_format(layers)?,
        })
    }
}

fn listen(layers: &Layers) -> Result<SocketAddr, Error> {
    let text = layers.get(LISTEN).text.replace("localhost:", "127.0.0.1:");
    let address: SocketAddr = text
        .parse()
        .map_err(|_| layers.invalid(LISTEN, "must be an address and a port, such as 127.0.0.1:7450"))?;
    if !address.ip().is_loopback() {
        let reason = "this build has no tokens yet, and whoever reaches that address could insert, read and \
                      cancel every task; listen on a loopback address, such as 127.0.0.1:7450, and put a proxy that \
                      checks its callers in front of it";
        return Err(layers.refused(LISTEN, reason));
    }
    Ok(address)
}

/// `store.url`, or the file in `data`.
fn sqlite_path(layers: &Layers) -> Result<PathBuf, Error> {
    let data = layers.get(DATA).text;
    if data.is_empty() {
        return Err(layers.invalid(DATA, "must name a directory"));
    }
    let url = layers.get(STORE_URL).text;
    if url.is_empty() {
        return Ok(Path::new(&data).join("punctual.db"));
    }
    if url.starts_with("mysql://") {
        return Err(layers.refused(STORE_URL, "mysql is not in this build yet; use sqlite://path"));
    }
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => Err(layers.invalid(STORE_URL, "must be sqlite:// and a path, such as sqlite://./punctual.db")),
    }
}

/// What `store.url` is when nobody set it.
pub(super) fn store_url(layers: &Layers) -> Result<String, Error> {
    Ok(format!("sqlite://{}", sqlite_path(layers)?.display()))
}

fn only_memory(layers: &Layers) -> Result<(), Error> {
    let url = layers.get(HOT_URL).text;
    if url == "memory://" {
        Ok(())
    } else if url.starts_with("redis") {
        Err(layers.refused(HOT_URL, "redis is not in this build yet; use memory://"))
    } else {
        Err(layers.invalid(HOT_URL, "must be memory://"))
    }
}

fn engine(layers: &Layers) -> Result<Options, Error> {
    let lookahead_ms = layers.number(LOOKAHEAD_MS, 50..=MINUTE_MS)?;
    Ok(Options {
        lookahead_ms,
        // Below the look-ahead, a task would be claimed from where it has not been loaded yet.
        horizon_ms: layers.number(HORIZON_MS, lookahead_ms.max(10_000)..=WEEK_MS)?,
        keep_succeeded_ms: layers.number(SUCCEEDED_MS, 0..=TEN_YEARS_MS)?,
        keep_stopped_ms: layers.number(STOPPED_MS, 0..=TEN_YEARS_MS)?,
        keep_cancelled_ms: layers.number(CANCELLED_MS, 0..=TEN_YEARS_MS)?,
        keep_dead_ms: layers.number(DEAD_MS, 0..=TEN_YEARS_MS)?,
        ..Options::default()
    })
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
        assert_eq!(settings.listen, "127.0.0.1:7450".parse().unwrap());
        assert_eq!(settings.sqlite_path, Path::new("./punctual-data/punctual.db"));
    }

    #[test]
    fn the_store_follows_the_data_directory_unless_it_is_set() {
        assert_eq!(with(&[("data", "/x")]).unwrap().sqlite_path, Path::new("/x/punctual.db"));
        let both = with(&[("data", "/x"), ("store.url", "sqlite:///y/z.db")]).unwrap();
        assert_eq!(both.sqlite_path, Path::new("/y/z.db"));
    }

    #[test]
    fn the_environment_goes_over_the_file_and_a_flag_over_both() {
        let mut layers = Layers::defaults();
        layers.file(Path::new("p.toml"), "listen = '127.0.0.1:1'\n[engine]\nhorizon_ms = 20000\n").unwrap();
        let listen = |layers: &Layers| Settings::from_layers(layers).unwrap().listen.port();
        assert_eq!((listen(&layers), Settings::from_layers(&layers).unwrap().engine.horizon_ms), (1, 20_000));
        layers.environment([("PUNCTUAL_LISTEN".to_owned(), "127.0.0.1:2".to_owned())]);
        assert_eq!(listen(&layers), 2);
        layers.flag("--listen", "listen", "localhost:3".to_owned()).unwrap();
        assert_eq!(listen(&layers), 3);
    }

    #[test]
    fn what_is_not_in_this_build_is_refused_and_says_so() {
        for (key, url) in
            [("store.url", "mysql://h/d"), ("hot.url", "redis://h"), ("hot.url", "redis+cluster://h")]
        {
            let (usage, said) = said(key, url);
            assert!(!usage && said.contains(url) && said.contains("not in this build yet"), "{said}");
        }
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_the_reason_and_the_way_out() {
        for address in ["0.0.0.0:7450", "192.168.1.5:80", "[::]:7450"] {
            let (usage, said) = said("listen", address);
            assert!(
                !usage && said.contains(address) && said.contains("tokens") && said.contains("proxy"),
                "{said}"
            );
        }
        assert!(with(&[("listen", "[::1]:7450")]).is_ok());
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
            ("retention.dead_ms", "1.5"),
            ("limits.payload_max_bytes", "0"),
            ("limits.payload_max_bytes", "99999999999"),
            ("log.filter", "punctual=loud"),
            ("log.format", "xml"),
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
        assert!(in_file.contains("file p.toml") && in_file.contains("\"engine.horizont_ms\""), "{in_file}");
        assert!(with(&[("lisen", "x")]).unwrap_err().to_string().contains("\"lisen\""));
        assert!(layers.file(Path::new("p.toml"), "listen = [1]").unwrap_err().to_string().contains("array"));
        assert!(layers.file(Path::new("p.toml"), "listen =").unwrap_err().to_string().contains("not TOML"));
    }

    #[test]
    fn variables_that_are_no_setting_are_told_and_not_refused() {
        let mut layers = Layers::defaults();
        let variables = ["PUNCTUAL_LISEN", "PUNCTUAL_URL", "PATH"];
        layers.environment(variables.map(|name| (name.to_owned(), "x".to_owned())));
        assert_eq!(layers.unused_variables, ["PUNCTUAL_LISEN"]);
        assert!(Settings::from_layers(&layers).is_ok());
    }
}
