//! One figure beside its bar, and the table of all. A figure that is no number, or that could not be had, falls short.

use super::rows::BarRow;
use crate::parts::PartsReport;
use std::fmt::Write as _;

#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    /// A share, shown in per cent.
    Share,
    Times,
    Ms,
    Seconds,
    /// Percent of one core.
    CorePercent,
    Mb,
    Bytes,
    Ns,
}

impl Unit {
    fn shown(self, value: f64) -> String {
        match self {
            Self::Share => format!("{:.0} %", value * 100.0),
            Self::Times => format!("{value:.2}"),
            Self::Ms => format!("{value:.1} ms"),
            Self::Seconds => format!("{value:.1} s"),
            Self::CorePercent => format!("{value:.2} %"),
            Self::Mb => format!("{value:.0} MB"),
            Self::Bytes => format!("{value:.0} B"),
            Self::Ns => format!("{value:.0} ns"),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) row: &'static str,
    what: String,
    now: String,
    bar: String,
    /// The part of the bar that is reached: 1 or more is enough.
    ratio: f64,
}

impl Figure {
    pub(super) fn at_least(what: impl Into<String>, unit: Unit, now: f64, bar: f64) -> Self {
        let bar_shown = format!(">= {}", unit.shown(bar));
        Self { row: "", what: what.into(), now: unit.shown(now), bar: bar_shown, ratio: now / bar }
    }

    pub(super) fn at_most(what: impl Into<String>, unit: Unit, now: f64, bar: f64) -> Self {
        let bar_shown = format!("<= {}", unit.shown(bar));
        // Of nothing at all there is no ratio, and no shortfall.
        let ratio = if now == 0.0 { f64::INFINITY } else { bar / now };
        Self { row: "", what: what.into(), now: unit.shown(now), bar: bar_shown, ratio }
    }

    pub(super) fn failed(what: &str, error: &anyhow::Error) -> Self {
        let what = format!("{what}: {error:#}");
        Self { row: "", what, now: "failed".to_owned(), bar: String::new(), ratio: f64::NAN }
    }

    /// Adds the absolute figure, which holds for this run alone.
    pub(super) fn of(mut self, absolute: std::fmt::Arguments<'_>) -> Self {
        let _ = write!(self.now, " ({absolute})");
        self
    }

    fn is_reached(&self) -> bool {
        self.ratio >= 1.0
    }

    pub(super) fn line(&self) -> String {
        let Self { row, what, now, bar, .. } = self;
        let ratio = if self.ratio.is_finite() { format!("{:.2}", self.ratio) } else { "-".to_owned() };
        let verdict = if self.is_reached() { "ok" } else { "SHORT" };
        format!("{row:<15} {now:<28} {bar:<12} {ratio:>6} {verdict:<6} {what}")
    }
}

pub(crate) struct Table {
    text: String,
    is_reached: bool,
}

impl Table {
    pub(super) fn list(rows: &[&BarRow]) -> Self {
        let text = rows.iter().map(|row| format!("{:<15} {}\n", row.name, row.what)).collect();
        Self { text, is_reached: true }
    }

    /// `parts`: each time that they were measured, in that order.
    pub(super) fn measured(parts: Vec<PartsReport>, figures: Vec<Figure>) -> Self {
        let mut text = String::new();
        for report in parts {
            let (pipeline, inserts) = (report.pipeline, report.inserts);
            let _ = writeln!(
                text,
                "bare parts: {:.0} tasks/s at {:.1} us of CPU a task; inserts {:.0}/s in batches, {:.0}/s one by one",
                pipeline.tasks_per_s,
                pipeline.us(),
                inserts.batches_per_s,
                inserts.singles_per_s
            );
        }
        let (row, now, bar) = ("bar", "now", "to reach");
        let _ = writeln!(text, "\n{row:<15} {now:<28} {bar:<12} {:>6} {:<6} what", "ratio", "");
        figures.iter().for_each(|figure| text.extend([&*figure.line(), "\n"]));
        let short = figures.iter().filter(|figure| !figure.is_reached()).count();
        let _ = writeln!(text, "\n{} figures, {short} short", figures.len());
        Self { text, is_reached: short == 0 && !figures.is_empty() }
    }

    pub(crate) fn table(&self) -> String {
        self.text.clone()
    }

    pub(crate) fn ok(&self) -> bool {
        self.is_reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ok(figures: Vec<Figure>) -> bool {
        Table::measured(Vec::new(), figures).ok()
    }

    #[test]
    fn one_bar_that_falls_short_fails_the_table_and_one_that_is_just_reached_does_not() {
        let reached = || Figure::at_least("a", Unit::Share, 0.45, 0.45);
        assert!(is_ok(vec![reached(), Figure::at_most("b", Unit::Ms, 5.0, 5.0)]));
        for short in [
            Figure::at_least("c", Unit::Share, 0.449, 0.45),
            Figure::at_most("d", Unit::Ms, 5.1, 5.0),
            Figure::at_least("e", Unit::Times, f64::NAN, 1.0),
            Figure::at_most("f", Unit::Times, f64::NAN, 1.0),
            Figure::failed("g", &anyhow::anyhow!("no server")),
        ] {
            assert!(short.line().contains("SHORT"), "{short:?}");
            assert!(!is_ok(vec![reached(), short]));
        }
        assert!(!is_ok(Vec::new()), "nothing was measured");
    }

    #[test]
    fn a_line_has_figure_bar_and_ratio() {
        let figure = Figure::at_least("sustained", Unit::Share, 0.3, 0.6).of(format_args!("9,000/s"));
        for part in ["30 % (9,000/s)", ">= 60 %", "0.50 SHORT", "sustained"] {
            assert!(figure.line().contains(part), "{}", figure.line());
        }
    }
}
