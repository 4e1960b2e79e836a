//! Measures the cost of the web console over very many queues and tasks in every state: the time of each page, the
//! first time too, and the cost of open live pages in percent of a core, of the engines and of their servers, and in
//! lateness of a load beside them. Judged, and a figure that could not be measured is a failure.

mod fill;
mod open;
pub(crate) mod options;
mod page;
mod visit;

use crate::{
    beside::{SteadyLoad, load_beside},
    clock::{now_ms, now_us, seconds},
    http::Target,
    job::RunJob,
    measure::Percentiles,
    options::{Hot, ServerOptions, Store},
    proc::Usage,
    progress::note,
    report::Report,
    run::prepare_as,
    scenario::{LoadSite, Scenario},
    server::Server,
};
use open::{Counted, Sent};
use options::ConsoleOptions;
use page::PageReport;
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, sync::Arc};
use visit::Visitors;

/// Lateness is reported in milliseconds: so much more is noise.
const LATENESS_NOISE_MS: f64 = 2.0;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConsoleReport {
    pub(crate) tasks: usize,
    pub(crate) queues: usize,
    /// The content of the store during the measurement.
    pub(crate) states: Vec<(String, i64)>,
    pub(crate) pages: Vec<PageReport>,
    /// The times of all pages at their first request.
    pub(crate) first: Option<PageReport>,
    /// Open and live while it was measured.
    pub(crate) open: usize,
    pub(crate) sent: Sent,
    pub(crate) peace: Measured,
    pub(crate) looked_at: Measured,
}

/// The processor use under the load, without open pages or with all of them; of one core.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) engines_percent: Option<f64>,
    pub(crate) mariadb_percent: Option<f64>,
    pub(crate) redis_percent: Option<f64>,
    pub(crate) lateness: Percentiles,
}

impl Scenario for ConsoleOptions {
    type Report = ConsoleReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        let with_token = self.server.spawn || self.server.token.is_some();
        anyhow::ensure!(with_token, "logins need tokens: give --token, of an admin");
        let mut server_options = self.server.clone();
        server_options.with_token = self.server.spawn;
        prepare_as(&server_options, None, &["admin"]).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<ConsoleReport> {
        let base = now_ms() * 1_000;
        let filled = fill::fill(self, &site.target, base).await?;
        let visitors = Visitors::sign_in(&site.target, self.open.max(1)).await?;
        let mut report = ConsoleReport {
            tasks: self.tasks,
            queues: self.queues,
            open: self.open,
            states: filled.states.clone(),
            ..ConsoleReport::default()
        };
        let addresses = visit::addresses(&visitors, &filled, base).await?;
        note(&format!("asking for {} pages", addresses.len()));
        report.pages = visit::measure(self, &visitors, &addresses).await?;
        let first = report.pages.iter().map(|page| page.first_ms).collect();
        report.first = Some(PageReport::new("all, the first time".to_owned(), 0, first));
        note("the load without open pages");
        report.peace = under_load(self, site, || Ok(())).await?;
        note("the load with all pages open");
        let counted = Arc::new(Counted::default());
        let mut watchers = open::open(self, &visitors, &filled, &counted).await?;
        let before = counted.sent();
        report.looked_at = under_load(self, site, || open::check(&mut watchers)).await?;
        report.sent = counted.sent().since(before);
        watchers.shutdown().await;
        Ok(report)
    }

    fn judge(&self, report: &ConsoleReport) -> Vec<String> {
        report.judge(self)
    }
}

async fn under_load(
    options: &ConsoleOptions,
    site: &mut LoadSite,
    mut check: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Measured> {
    let (before, began_us) = (site.server.used(), now_us());
    let load = SteadyLoad { rate: options.rate, duration_ms: options.measure, executors: 2 };
    let each_look = async |_: &mut Server, _: &RunJob| check();
    let (lateness, broken) = load_beside(load, &mut site.server, &site.target, each_look).await?;
    site.broken.extend(broken);
    let (after, took_s) = (site.server.used(), seconds(now_us() - began_us));
    let percent = |before: Option<Usage>, after: Option<Usage>| {
        let spent_us = after?.cpu_us().saturating_sub(before?.cpu_us());
        Some(spent_us as f64 / 1e6 / took_s * 100.0)
    };
    Ok(Measured {
        engines_percent: percent(before.engines, after.engines),
        mariadb_percent: percent(before.mariadb, after.mariadb),
        redis_percent: percent(before.redis, after.redis),
        lateness,
    })
}

impl ConsoleReport {
    fn judge(&self, options: &ConsoleOptions) -> Vec<String> {
        let mut broken = Vec::new();
        let within_ms = f64::from(options.within_ms);
        for one in self.pages.iter().chain(&self.first).filter(|one| one.p95_ms > within_ms) {
            broken.push(format!("{}: {:.0} ms at p95", one.path, one.p95_ms));
        }
        if self.pages.is_empty() || self.first.is_none() {
            broken.push("no page was timed".to_owned());
        }
        if self.sent.looks < self.open {
            broken.push(format!("{} open pages were sent only {} looks", self.open, self.sent.looks));
        }
        if self.sent.faults > 0 {
            broken.push(format!("open pages were sent {} faults", self.sent.faults));
        }
        match self.taken_percent(&options.server) {
            None => broken.push("what open pages take of a core could not be measured".to_owned()),
            Some(taken) if taken > options.core_percent => {
                broken.push(format!("{} open pages took {taken:.1} % of a core", self.open));
            }
            Some(_) => {}
        }
        let (peace, looked_at) = (self.peace.lateness, self.looked_at.lateness);
        if options.rate == 0 || peace.count == 0 || looked_at.count == 0 {
            broken.push("no lateness was measured".to_owned());
        }
        let more = peace.p99_ms * f64::from(options.lateness_percent) / 100.0;
        let most = peace.p99_ms + more.max(LATENESS_NOISE_MS);
        if looked_at.p99_ms > most {
            let text = format!(
                "p99 lateness of the load: {:.1} ms with nobody looking, {:.1} ms with all pages open",
                peace.p99_ms, looked_at.p99_ms
            );
            broken.push(text);
        }
        broken
    }

    /// The additional processor use of engines and of the servers that were started for them. `None` if a part of it
    /// is not known.
    fn taken_percent(&self, server: &ServerOptions) -> Option<f64> {
        let (before, after) = (self.peace, self.looked_at);
        let more = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
        let mut taken = more(before.engines_percent, after.engines_percent)?;
        if server.spawn && server.store == Store::Mysql {
            taken += more(before.mariadb_percent, after.mariadb_percent)?;
        }
        if server.spawn && server.hot == Hot::Redis {
            taken += more(before.redis_percent, after.redis_percent)?;
        }
        Some(taken)
    }
}

impl Report for ConsoleReport {
    fn table(&self) -> String {
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
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn options(words: &str) -> ConsoleOptions {
        let words = format!("loadtest console --spawn {words}");
        match crate::command::Options::parse_from(words.split_whitespace()).command {
            crate::command::LoadCommand::Console(one) => one,
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
        report.judge(&options(words))
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
