//! The configured place of the tasks: a file and memory, or databases with Redis or without. Opens nothing.

use super::{
    Error, Layers,
    keys::{
        DATA, HOT_MEMORY_MAX_MIB, HOT_PREFIX, HOT_TLS_CA, HOT_TLS_CERT, HOT_TLS_KEY, HOT_URL, PARTITIONS,
        PUSH_STREAMS, STORE_URL, WEAK_DURABILITY,
    },
    secrets::shown,
};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The place of the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// A file, and memory: one engine.
    Embedded { sqlite_path: PathBuf },
    /// MySQL databases, and Redis or none: as many engines as one likes.
    Shared(SharedPlace),
}

/// Shown without its addresses, which have passwords in them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SharedPlace {
    /// The first one is the catalog.
    pub(crate) mysql_urls: Vec<String>,
    /// `None` if there is no Redis, and tasks fire from the databases.
    pub(crate) redis_url: Option<String>,
    /// The prefix of every key in Redis.
    pub(crate) prefix: String,
    /// `None` selects the servers' own limits.
    pub(crate) memory_max_bytes: Option<u64>,
    /// The number of streams of a queue, on the bus.
    pub(crate) streams: u8,
    /// Counts only when the store is made.
    pub(crate) partitions: u16,
    /// It runs on servers that may lose what they have acknowledged.
    pub(crate) allows_weak_durability: bool,
}

impl fmt::Debug for SharedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPlace")
            .field("mysql", &shown(STORE_URL, &self.mysql_urls.join(",")))
            .field("redis", &self.redis_url.as_ref().map(|url| shown(HOT_URL, url)))
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl StoreLocation {
    /// A file that the first start makes.
    pub(crate) fn is_new_file(&self) -> bool {
        matches!(self, Self::Embedded { sqlite_path } if !sqlite_path.exists())
    }

    /// The meaning of an empty `hot.url`.
    pub(crate) const fn hot_if_unset(&self) -> &'static str {
        match self {
            Self::Embedded { .. } => "memory://",
            Self::Shared(_) => "none",
        }
    }

    /// The place without passwords, for people and logs.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Embedded { sqlite_path } => format!("sqlite://{}", sqlite_path.display()),
            Self::Shared(place) => shown(STORE_URL, &place.mysql_urls.join(",")),
        }
    }
}

/// Both halves of one kind: a hot set in memory is that of one engine, and a file is that of one process. Databases need none.
pub(super) fn place(layers: &Layers) -> Result<StoreLocation, Error> {
    let (store, hot) = (layers.get(STORE_URL).text, layers.get(HOT_URL).text);
    let in_redis = REDIS_SCHEMES
        .iter()
        .any(|redis_scheme| hot.starts_with(redis_scheme) && hot.len() > redis_scheme.len());
    let is_none = matches!(hot.as_str(), "" | "none");
    if !in_redis && !is_none && hot != "memory://" {
        let schemes = REDIS_SCHEMES.join(", ");
        let reason = format!("must be one of {schemes}; or memory:// on a file; or empty, for none");
        return Err(layers.invalid(HOT_URL, reason));
    }
    match (store.starts_with("mysql://"), in_redis || is_none) {
        (false, _) if !in_redis => Ok(StoreLocation::Embedded { sqlite_path: sqlite_path(layers)? }),
        (true, true) => Ok(StoreLocation::Shared(SharedPlace {
            mysql_urls: mysql_urls(layers, &store)?,
            redis_url: if in_redis { Some(over_tls(layers, hot)?) } else { None },
            prefix: prefix(layers)?,
            memory_max_bytes: memory_max_bytes(layers)?,
            streams: layers.number(PUSH_STREAMS, 1..=16)?,
            partitions: layers.number(PARTITIONS, 1..=1_024)?,
            allows_weak_durability: yes_or_no(layers, WEAK_DURABILITY)?,
        })),
        (true, false) => Err(layers.refused(
            HOT_URL,
            "a mysql store is shared by several engines, and memory is that of one; set it to redis://host:port, or leave it \
             empty to run from the databases alone",
        )),
        (false, _) => Err(layers.refused(
            STORE_URL,
            "a hot set in redis is shared by several engines, and a file is that of one process; set it to \
             mysql://user:password@host/database, or leave hot.url empty",
        )),
    }
}

const REDIS_SCHEMES: [&str; 6] = [
    "redis://",
    "redis+cluster://",
    "redis+sentinel://",
    "rediss://",
    "rediss+cluster://",
    "rediss+sentinel://",
];

/// The address with the files that settings name, at its end; what is there already wins.
fn over_tls(layers: &Layers, mut url: String) -> Result<String, Error> {
    for (key, parameter) in [(HOT_TLS_CA, "tls_ca"), (HOT_TLS_CERT, "tls_cert"), (HOT_TLS_KEY, "tls_key")] {
        let path = layers.get(key).text;
        if path.is_empty() || url.contains(&format!("{parameter}=")) {
            continue;
        }
        if !url.starts_with("rediss") {
            return Err(
                layers.refused(key, "it is for TLS, and hot.url is a plain address; use rediss:// there")
            );
        }
        if path.contains(['?', '&']) {
            return Err(layers.invalid(key, "must be a path without ? and &"));
        }
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&format!("{parameter}={path}"));
    }
    Ok(url)
}

fn mysql_urls(layers: &Layers, text: &str) -> Result<Vec<String>, Error> {
    let urls: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
    let names_a_database = |text: &String| {
        let rest = text.strip_prefix("mysql://").and_then(|rest| rest.split_once('/'));
        rest.is_some_and(|(host, database)| !host.is_empty() && !database.is_empty())
    };
    if let Some(odd) = urls.iter().find(|url| !names_a_database(url)) {
        let reason = format!(
            "each of them must be mysql://user:password@host:port/database, and {:?} is not",
            shown(STORE_URL, odd)
        );
        return Err(layers.invalid(STORE_URL, reason));
    }
    Ok(urls)
}

/// `store.url`, or the file in `data`.
pub(super) fn sqlite_path(layers: &Layers) -> Result<PathBuf, Error> {
    let data = layers.get(DATA).text;
    if data.is_empty() {
        return Err(layers.invalid(DATA, "must name a directory"));
    }
    let url = layers.get(STORE_URL).text;
    if url.is_empty() {
        return Ok(Path::new(&data).join("punctual.db"));
    }
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => Err(layers.invalid(STORE_URL, "must be sqlite:// and a path, such as sqlite://./punctual.db, or mysql://user:password@host/database")),
    }
}

fn prefix(layers: &Layers) -> Result<String, Error> {
    let text = layers.get(HOT_PREFIX).text;
    if text.is_empty() || text.contains(['{', '}']) {
        return Err(layers.invalid(HOT_PREFIX, "must not be empty or hold a brace"));
    }
    Ok(text)
}

pub(super) fn yes_or_no(layers: &Layers, key: &'static str) -> Result<bool, Error> {
    let text = layers.get(key).text;
    text.parse().map_err(|_| layers.invalid(key, "must be true or false"))
}

pub(super) fn memory_max_bytes(layers: &Layers) -> Result<Option<u64>, Error> {
    const MIB: u64 = 1 << 20;
    let mib: u64 = layers.number(HOT_MEMORY_MAX_MIB, 0..=MIB * 16)?;
    Ok((mib > 0).then_some(mib * MIB))
}
