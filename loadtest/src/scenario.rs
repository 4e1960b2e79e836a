//! The common code of the programs of load: servers are prepared, filled and loaded; they are ended; the results are
//! judged. Must not know a program.

use crate::{
    http::Target,
    report::{Report, write_verdict},
    server::Server,
};
use serde::Serialize;

/// The servers of a scenario, and the promises that were seen broken while load ran.
#[derive(Debug)]
pub(crate) struct LoadSite {
    pub(crate) server: Server,
    pub(crate) target: Target,
    pub(crate) broken: Vec<String>,
}

impl LoadSite {
    /// The present memory of the engines together. `None` without a process to read.
    pub(crate) fn rss_mib(&self) -> Option<f64> {
        Some(self.server.used().engines?.rss_kib as f64 / 1024.0)
    }

    /// The peak of their memory.
    pub(crate) fn rss_peak_mib(&self) -> Option<f64> {
        Some(self.server.used().engines?.rss_peak_kib as f64 / 1024.0)
    }
}

pub(crate) trait Scenario {
    type Report: Report;

    /// Checks the options, and starts the servers.
    async fn prepare(&self) -> anyhow::Result<(Server, Target)>;

    /// Fills the servers, loads them, and measures.
    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<Self::Report>;

    /// The violations in the report, beyond what `measure` has found.
    fn judge(&self, _report: &Self::Report) -> Vec<String> {
        Vec::new()
    }
}

/// A report, with the judgement whether every promise was kept.
#[derive(Debug, Serialize)]
pub(crate) struct JudgedReport<R> {
    pub(crate) ok: bool,
    /// Why not.
    pub(crate) broken: Vec<String>,
    #[serde(flatten)]
    pub(crate) report: R,
}

impl<R: Report> JudgedReport<R> {
    pub(crate) fn new(broken: Vec<String>, report: R) -> Self {
        Self { ok: broken.is_empty(), broken, report }
    }

    /// An error when a promise was broken.
    pub(crate) fn kept(self) -> anyhow::Result<R> {
        anyhow::ensure!(self.ok, "{}", self.broken.join("; "));
        Ok(self.report)
    }

    pub(crate) fn table(&self) -> String {
        let mut table = self.report.table();
        write_verdict(&mut table, self.ok, &self.broken);
        table
    }
}

pub(crate) async fn perform<S: Scenario>(scenario: &S) -> anyhow::Result<JudgedReport<S::Report>> {
    let (server, target) = scenario.prepare().await?;
    let mut site = LoadSite { server, target, broken: Vec::new() };
    let report = scenario.measure(&mut site).await?;
    site.server.end().await?;
    let mut broken = site.broken;
    broken.extend(scenario.judge(&report));
    Ok(JudgedReport::new(broken, report))
}

/// The violation of a bound on the engines' memory.
pub(crate) fn too_much_memory(allowed_mib: Option<f64>, peak_mib: Option<f64>) -> Option<String> {
    let (allowed, peak) = allowed_mib.zip(peak_mib).filter(|(allowed, peak)| peak > allowed)?;
    Some(format!("the engines had {peak:.0} MiB, and {allowed:.0} are allowed"))
}
