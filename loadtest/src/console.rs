//! What the web console costs over very many queues and tasks in every state: how soon each page is there, the first time too, and
//! what open pages that are live take of a core, of the engines and of what they stand on, and of the lateness of a load beside them.
//! Judged, and a figure that could not be taken is a failure.

mod load;
mod open;
mod stand;
mod visit;

use crate::{
    clock::{now_ms, now_us, seconds},
    http::Target,
    measure::Percentiles,
    options::{ServerOptions, Store, parse_ms},
    progress::note,
    report::write_verdict,
    run::prepare_as,
    server::Server,
};
use clap::Args;
use open::{Counted, Sent};
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, sync::Arc, time::Duration};
use visit::Visitors;

#[derive(Args, Debug, Clone)]
pub(crate) struct ConsoleOptions {
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) tasks: usize,
    #[arg(long, default_value_t = 10_000)]
    pub(crate) queues: usize,
    /// Of the tasks, those that are due within the hour, so that the hot set has them [default: a tenth]
    #[arg(long)]
    pub(crate) near: Option<usize>,
    /// How often each page is asked for
    #[arg(long, default_value_t = 40)]
    pub(crate) repeat: usize,
    /// Each page comes within this at the 95th percentile, and so do all pages the first time they are asked for, ms
    #[arg(long, default_value_t = 200)]
    pub(crate) within_ms: u32,
    /// Pages that are open and live, each with a login of its own
    #[arg(long, default_value_t = 50)]
    pub(crate) open: usize,
    /// What they may take of one core, in percent, engines, MariaDB and Redis together, beyond what the load takes alone
    #[arg(long, default_value_t = 5.0)]
    pub(crate) core_percent: f64,
    /// Tasks a second of the load beside them
    #[arg(long, default_value_t = 200)]
    pub(crate) rate: u64,
    /// Its 99th percentile of lateness may be so many percent higher with all pages open, or 2 ms
    #[arg(long, default_value_t = 20)]
    pub(crate) lateness_percent: u32,
    /// How long that is measured, twice
    #[arg(long, default_value = "30s", value_parser = parse_ms)]
    pub(crate) measure: i64,
    /// Connections that insert
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Lateness is told by the millisecond: so much more is noise.
const LATENESS_NOISE_MS: f64 = 2.0;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConsoleReport {
    pub(crate) tasks: usize,
    pub(crate) queues: usize,
    pub(crate) ok: bool,
    pub(crate) broken: Vec<String>,
    /// What is in the store when it is measured.
    pub(crate) states: Vec<(String, i64)>,
    pub(crate) pages: Vec<PageReport>,
    /// Of all pages, the first time each was asked for.
    pub(crate) first: Option<PageReport>,
    /// Open and live while it was measured.
    pub(crate) open: usize,
    pub(crate) sent: Sent,
    pub(crate) peace: Measured,
    pub(crate) looked_at: Measured,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PageReport {
    pub(crate) path: String,
    pub(crate) bytes: usize,
    pub(crate) first_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) max_ms: f64,
}

/// Under the load, with nobody looking or with all pages open; of one core.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) engines_percent: Option<f64>,
    pub(crate) mariadb_percent: Option<f64>,
    pub(crate) redis_percent: Option<f64>,
    pub(crate) lateness: Percentiles,
}

impl PageReport {
    /// In the order in which they were taken.
    fn new(path: String, bytes: usize, mut took_ms: Vec<f64>) -> Self {
        let first_ms = took_ms.first().copied().unwrap_or(0.0);
        took_ms.sort_by(f64::total_cmp);
        // The nearest rank: of few it is the last.
        let at = |percent: usize| {
            let rank = (took_ms.len() * percent).div_ceil(100).max(1);
            took_ms.get(rank - 1).copied().unwrap_or(0.0)
        };
        Self { path, bytes, first_ms, p50_ms: at(50), p95_ms: at(95), max_ms: at(100) }
    }
}

pub(crate) async fn console(options: &ConsoleOptions) -> anyhow::Result<ConsoleReport> {
    let with_token = options.server.spawn || options.server.token.is_some();
    anyhow::ensure!(with_token, "logins need tokens: give --token, of an admin");
    let mut server_options = options.server.clone();
    server_options.with_token = options.server.spawn;
    let (mut server, target) = prepare_as(&server_options, None, &["admin"]).await?;
    let base = now_ms() * 1_000;
    let stood = stand::stand(options, &target, base).await?;
    let visitors = Visitors::sign_in(&target, options.open.max(1)).await?;
    let mut report = ConsoleReport {
        tasks: options.tasks,
        queues: options.queues,
        open: options.open,
        states: stood.states.clone(),
        ..ConsoleReport::default()
    };
    let addresses = visit::addresses(&visitors, &stood, base).await?;
    note(&format!("asking for {} pages", addresses.len()));
    report.pages = visit::measure(options, &visitors, &addresses).await?;
    let first = report.pages.iter().map(|one| one.first_ms).collect();
    report.first = Some(PageReport::new("all, the first time".to_owned(), 0, first));
    note("the load with nobody looking");
    let (measured, broken) = under_load(options, &mut server, &target, || Ok(())).await?;
    report.peace = measured;
    report.broken.extend(broken);
    note("the load with all pages open");
    let counted = Arc::new(Counted::default());
    let mut watchers = open::open(options, &visitors, &stood, &counted).await?;
    let before = counted.sent();
    let (measured, broken) = under_load(options, &mut server, &target, || open::check(&mut watchers)).await?;
    report.looked_at = measured;
    report.broken.extend(broken);
    report.sent = counted.sent().since(before);
    watchers.shutdown().await;
    report.judge(options);
    server.end().await?;
    Ok(report)
}

async fn under_load(
    options: &ConsoleOptions,
    server: &mut Server,
    target: &Target,
    check: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(Measured, Vec<String>)> {
    let (before, began_us) = (server.used(), now_us());
    let (lateness, broken) = load::run((options.rate, options.measure), server, target, check).await?;
    let (after, took_s) = (server.used(), seconds(now_us() - began_us));
    let percent = |before: Option<crate::proc::Usage>, after: Option<crate::proc::Usage>| {
        let spent_us = after?.cpu_us().saturating_sub(before?.cpu_us());
        Some(spent_us as f64 / 1e6 / took_s * 100.0)
    };
    let measured = Measured {
        engines_percent: percent(before.engines, after.engines),
        mariadb_percent: percent(before.mariadb, after.mariadb),
        redis_percent: percent(before.redis, after.redis),
        lateness,
    };
    Ok((measured, broken))
}

impl ConsoleReport {
    fn judge(&mut self, options: &ConsoleOptions) {
        let within_ms = f64::from(options.within_ms);
        for one in self.pages.iter().chain(&self.first).filter(|one| one.p95_ms > within_ms) {
            self.broken.push(format!("{}: {:.0} ms at p95", one.path, one.p95_ms));
        }
        if self.pages.is_empty() || self.first.is_none() {
            self.broken.push("no page was timed".to_owned());
        }
        if self.sent.looks < self.open {
            self.broken.push(format!("{} open pages were sent only {} looks", self.open, self.sent.looks));
        }
        if self.sent.faults > 0 {
            self.broken.push(format!("open pages were sent {} faults", self.sent.faults));
        }
        match self.taken_percent(&options.server) {
            None => self.broken.push("what open pages take of a core could not be measured".to_owned()),
            Some(taken) if taken > options.core_percent => {
                self.broken.push(format!("{} open pages took {taken:.1} % of a core", self.open));
            }
            Some(_) => {}
        }
        let (peace, looked_at) = (self.peace.lateness, self.looked_at.lateness);
        if options.rate == 0 || peace.count == 0 || looked_at.count == 0 {
            self.broken.push("no lateness was measured".to_owned());
        }
        let more = peace.p99_ms * f64::from(options.lateness_percent) / 100.0;
        let most = peace.p99_ms + more.max(LATENESS_NOISE_MS);
        if looked_at.p99_ms > most {
            let text = format!(
                "p99 lateness of the load: {:.1} ms with nobody looking, {:.1} ms with all pages open",
                peace.p99_ms, looked_at.p99_ms
            );
            self.broken.push(text);
        }
        self.ok = self.broken.is_empty();
    }

    /// Of engines and of what was started for them, together. None: something of it is not known.
    fn taken_percent(&self, server: &ServerOptions) -> Option<f64> {
        let (before, after) = (self.peace, self.looked_at);
        let more = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
        let mut taken = more(before.engines_percent, after.engines_percent)?;
        if server.spawn && server.store == Store::Mysql {
            taken += more(before.mariadb_percent, after.mariadb_percent)?;
        }
        if server.spawn && server.hot == crate::options::Hot::Redis {
            taken += more(before.redis_percent, after.redis_percent)?;
        }
        Some(taken)
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{} tasks in {} queues", self.tasks, self.queues);
        for (state, tasks) in &self.states {
            let _ = write!(text, "  {state} {tasks}");
        }
        text.push('\n');
        for one in self.pages.iter().chain(&self.first) {
            let path: String = one.path.chars().take(60).collect();
            let _ = writeln!(
                text,
                "{path:<60} first {:>7.1}  p50 {:>7.1}  p95 {:>7.1}  max {:>7.1} ms  {:>8} bytes",
                one.first_ms, one.p50_ms, one.p95_ms, one.max_ms, one.bytes
            );
        }
        let shown = |one: Option<f64>| one.map_or_else(|| "–".to_owned(), |one| format!("{one:.1} %"));
        for (name, one) in [("nobody looking", self.peace), ("all pages open", self.looked_at)] {
            let _ = writeln!(
                text,
                "{name}: engines {}, MariaDB {}, Redis {} of a core; lateness of the load p50 {:.1}  p99 {:.1}  max {:.1} ms ({} tasks)",
                shown(one.engines_percent),
                shown(one.mariadb_percent),
                shown(one.redis_percent),
                one.lateness.p50_ms,
                one.lateness.p99_ms,
                one.lateness.max_ms,
                one.lateness.count
            );
        }
        let Sent { looks, slow, parts, faults } = self.sent;
        let _ = writeln!(
            text,
            "{} pages were open and live: {looks} looks, {slow} of them slow, {parts} parts that had changed, {faults} faults",
            self.open
        );
        write_verdict(&mut text, self.ok, &self.broken);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn options(words: &str) -> ConsoleOptions {
        let words = format!("loadtest console --spawn {words}");
        match crate::options::Options::parse_from(words.split_whitespace()).command {
            crate::options::LoadCommand::Console(one) => one,
            other => panic!("{other:?}"),
        }
    }

    fn measured(percent: f64, p99_ms: f64) -> Measured {
        Measured {
            engines_percent: Some(percent),
            mariadb_percent: Some(percent),
            redis_percent: Some(percent),
            lateness: Percentiles { count: 10, p99_ms, ..Percentiles::default() },
        }
    }

    fn report() -> ConsoleReport {
        let page = PageReport::new("/console".to_owned(), 1, vec![10.0, 20.0]);
        ConsoleReport {
            open: 2,
            pages: vec![page.clone()],
            first: Some(page),
            sent: Sent { looks: 2, ..Sent::default() },
            peace: measured(10.0, 5.0),
            looked_at: measured(11.0, 6.9),
            ..ConsoleReport::default()
        }
    }

    fn broken(words: &str, change: impl FnOnce(&mut ConsoleReport)) -> Vec<String> {
        let mut report = report();
        change(&mut report);
        report.judge(&options(words));
        assert_eq!(report.ok, report.broken.is_empty());
        report.broken
    }

    #[test]
    fn each_bar_is_held_and_what_is_not_known_is_a_failure() {
        assert_eq!(broken("", |_| ()), Vec::<String>::new());
        assert_eq!(broken("--store mysql --hot redis --core-percent 3.1", |_| ()), Vec::<String>::new());
        for (words, change, what) in [
            ("--within-ms 19", (|_| ()) as fn(&mut ConsoleReport), "/console: 20 ms at p95"),
            ("--core-percent 0.5", |_| (), "took 1.0 % of a core"),
            ("--store mysql --hot redis --core-percent 2.9", |_| (), "took 3.0 % of a core"),
            ("", |one| one.looked_at.engines_percent = None, "could not be measured"),
            ("--store mysql", |one| one.peace.mariadb_percent = None, "could not be measured"),
            ("", |one| one.looked_at.lateness.p99_ms = 7.1, "p99 lateness"),
            ("", |one| one.looked_at.lateness.count = 0, "no lateness was measured"),
            ("", |one| one.sent.looks = 1, "only 1 looks"),
            ("", |one| one.sent.faults = 1, "1 faults"),
            ("", |one| one.pages.clear(), "no page was timed"),
            ("", |one| one.broken.push("the load lost one".to_owned()), "the load lost one"),
        ] {
            let broken = broken(words, change);
            assert!(broken.iter().any(|one| one.contains(what)), "{what}: {broken:?}");
        }
    }

    #[test]
    fn a_percentile_is_the_nearest_rank_and_of_few_the_worst_counts() {
        let of = |count: u32| PageReport::new(String::new(), 0, (1..=count).rev().map(f64::from).collect());
        assert_eq!((of(40).p95_ms, of(40).first_ms, of(10).p95_ms, of(1).p50_ms), (38.0, 40.0, 10.0, 1.0));
    }
}
