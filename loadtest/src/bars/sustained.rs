//! The rows that search for the highest rate that is held. Must not decide what holds: `is_held` does.

use super::{
    figure::{Figure, Unit},
    measure::{is_held, whole},
    rows::{EMBEDDED, ONE},
    site::BarsSite,
};

const P99_MAX_MS: f64 = 100.0;
/// Rates that are tried until one is held: the last is a sixth of the first.
const HELD_TRIES: u32 = 9;

impl BarsSite {
    pub(super) async fn sustained(&mut self, what: &str, server: &str, share: f64) -> anyhow::Result<Figure> {
        let bare = self.parts().await?.pipeline.tasks_per_s;
        let held = self.highest_held(server, share * bare).await?;
        Ok(Figure::at_least(what, Unit::Share, held / bare, share).of(format_args!("{held:.0}/s")))
    }

    /// The highest rate, in tasks a second, that the server holds with a lateness of at most `P99_MAX_MS`. Begins with a rate and
    /// lowers it by a fifth until one is held.
    async fn highest_held(&self, server: &str, from_per_s: f64) -> anyhow::Result<f64> {
        let mut tried = from_per_s;
        for _ in 0..HELD_TRIES {
            let rate = whole(tried);
            let words = format!("--scenario sustained --rate {rate} --duration 10s --grace 5s {server}");
            let report = self.pressed(&words).await?;
            if is_held(&report, rate) && report.lateness.p99_ms <= P99_MAX_MS {
                return Ok(tried);
            }
            tried *= 0.8;
        }
        anyhow::bail!("not even {tried:.0}/s are held")
    }

    /// The highest rate that the embedded store holds, over that of one engine on MySQL.
    pub(super) async fn embedded_sustained(&mut self, what: &str) -> anyhow::Result<Figure> {
        let from_per_s = 0.45 * self.parts().await?.pipeline.tasks_per_s;
        let embedded = self.highest_held(EMBEDDED, from_per_s).await?;
        let mysql = self.highest_held(ONE, from_per_s).await?;
        let figure = Figure::at_least(what, Unit::Times, embedded / mysql, 1.0);
        Ok(figure.of(format_args!("{embedded:.0} and {mysql:.0}/s")))
    }
}
