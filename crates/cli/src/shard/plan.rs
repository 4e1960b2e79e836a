//! `punctual shard plan`: what a load needs, by arithmetic alone. Opens nothing and reads no clock. Every cost is a
//! constant with its source; `docs/capacity.md` works the arithmetic through for 200 million tasks a day.

mod costs;
mod delay;
mod need;

use crate::{
    duration,
    output::{self, Form},
};
use anyhow::Result;
use clap::Args;
use delay::Delay;
use need::{Load, Mode, Need};
use std::{collections::BTreeMap, ops::RangeInclusive, process::ExitCode, time::Duration};

/// Calculate shards, buckets, memory and machines for a load; opens and changes nothing
#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Tasks per second, on average
    #[arg(long, value_name = "TASKS", required_unless_present = "per_day", conflicts_with = "per_day")]
    rate: Option<f64>,
    /// Tasks per day, such as 200000000
    #[arg(long, value_name = "TASKS")]
    per_day: Option<u64>,
    /// Load of the busiest hour, relative to the average
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0)]
    peak: f64,
    /// How long tasks wait: points of the distribution, such as p50=1h,p99=2d,max=7d, or the mean, mean=6h
    #[arg(long, value_name = "PROFILE", default_value = "mean=1h")]
    delay: Delay,
    /// Average size of a payload, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    payload: u32,
    /// How long finished tasks stay in their bucket, in whole days
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, default_value = "7d")]
    keep: Duration,
    /// How far ahead tasks are held in Redis, 10s to 7d
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, default_value = "1h")]
    horizon: Duration,
    /// Maximum number of rows of one bucket in one database
    #[arg(long, value_name = "ROWS", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    row_limit: u64,
    /// Cores of each database server and of each engine's machine
    #[arg(long, value_name = "CORES", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    cores: u32,
    /// Number of engines [default: as many as the peak needs, and one that may fail]
    #[arg(long, value_name = "ENGINES", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    engines: Option<u64>,
    /// How executors get their tasks
    #[arg(long, value_enum, default_value_t = Mode::Pull)]
    mode: Mode,
    /// Print only the settings, as a configuration file for `serve`
    #[arg(long, conflicts_with = "json")]
    settings: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &PlanArgs) -> Result<ExitCode> {
    let load = args.load()?;
    let need = Need::of(&load);
    let settings = need.settings(&load);
    match Form::json_if(args.json) {
        Form::Json => {
            let settings: BTreeMap<_, _> = settings.into_iter().collect();
            output::json(&serde_json::json!({ "load": load, "need": need, "settings": settings }))?;
        }
        Form::Text => {
            if !args.settings {
                output::table(["WHAT", "HOW MUCH", "WHY"], need.rows(&load));
                output::line("");
            }
            file(&settings).iter().for_each(|text| output::line(text));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of a configuration file.
fn file(settings: &[(&str, u64)]) -> Vec<String> {
    let (mut lines, mut section) = (Vec::new(), "");
    for (key, value) in settings {
        let (of, name) = key.split_once('.').unwrap_or(("", key));
        if of != section {
            section = of;
            lines.push(format!("[{section}]"));
        }
        lines.push(format!("{name} = {value}"));
    }
    lines
}

const DAY_S: f64 = 86_400.0;
/// More than any of the constants was ever measured for.
const RATE_MAX: f64 = 10_000_000.0;
/// The maximum of `archive.after_days` and `engine.horizon_ms`.
const KEEP_DAYS_MAX: u32 = 3_650;
const HORIZON: RangeInclusive<u64> = 10..=604_800;

impl PlanArgs {
    fn load(&self) -> Result<Load> {
        let per_day = self.per_day.map(|number| need::exact(number) / DAY_S);
        let rate = self.rate.or(per_day).unwrap_or_default();
        let is_rate = |number: f64| number > 0.0 && number <= RATE_MAX;
        anyhow::ensure!(is_rate(rate), "the rate must be above 0 and at most {RATE_MAX} tasks per second");
        let is_peak = self.peak >= 1.0 && self.peak <= 1_000.0;
        anyhow::ensure!(is_peak, "--peak must be from 1 to 1000, and is {}", self.peak);
        let keep_days = u32::try_from(self.keep.as_secs().div_ceil(86_400).max(1)).unwrap_or(u32::MAX);
        anyhow::ensure!(keep_days <= KEEP_DAYS_MAX, "--keep is at most {KEEP_DAYS_MAX} days");
        let is_horizon = HORIZON.contains(&self.horizon.as_secs());
        anyhow::ensure!(is_horizon, "--horizon must be from 10s to 7d");
        let load = Load {
            rate,
            peak: self.peak,
            delay: self.delay.clone(),
            payload_bytes: self.payload,
            keep_days,
            horizon_s: self.horizon.as_secs_f64(),
            row_limit: self.row_limit,
            cores: self.cores,
            engines: self.engines,
            mode: self.mode,
        };
        let least = load.engines_least();
        anyhow::ensure!(
            self.engines.is_none_or(|engines| engines >= least),
            "so few engines cannot carry the peak: {least} of {} cores can, and one more if one may fail",
            self.cores
        );
        Ok(load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        plan: PlanArgs,
    }

    fn load(words: &str) -> Result<Load> {
        Program::try_parse_from(["plan"].into_iter().chain(words.split_whitespace()))?.plan.load()
    }

    const DOC: &str = include_str!("../../../../docs/capacity.md");

    /// The cells of the table whose first header is WHAT.
    fn documented() -> Vec<Vec<String>> {
        let table = DOC.lines().skip_while(|line| !line.starts_with("| WHAT")).skip(2);
        let cells =
            |line: &str| line.trim_matches('|').split('|').map(|part| part.trim().to_owned()).collect();
        table.take_while(|text| text.starts_with('|')).map(cells).collect()
    }

    #[test]
    fn the_documented_plan_is_what_the_program_says() {
        let command = DOC.lines().find_map(|line| line.strip_prefix("punctual shard plan ")).unwrap();
        let load = load(command).unwrap();
        let said: Vec<Vec<String>> = Need::of(&load).rows(&load).into_iter().map(Vec::from).collect();
        let shown = said.iter().map(|list| format!("| {} |\n", list.join(" | "))).collect::<String>();
        assert_eq!(documented(), said, "docs/capacity.md should have\n{shown}");
        let settings = file(&Need::of(&load).settings(&load)).join("\n");
        assert!(
            DOC.contains(&format!("```toml\n{settings}\n```")),
            "docs/capacity.md should have\n{settings}"
        );
    }

    #[test]
    fn every_constant_stands_in_the_document_with_its_value() {
        for (name, value) in costs::ALL {
            let row = DOC.lines().find(|line| line.contains(&format!("`{name}`"))).unwrap_or_default();
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            assert!(cells.contains(&value.to_string().as_str()), "{name} = {value}: {row:?}");
        }
    }

    #[test]
    fn a_rate_by_the_day_is_the_same_by_the_second() {
        assert!((load("--per-day 200000000").unwrap().rate - 2_314.8).abs() < 0.1);
        assert!((load("--rate 10").unwrap().rate - 10.0).abs() < 1e-9);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "",
            "--rate 0",
            "--rate -1",
            "--rate nan",
            "--rate 1e12",
            "--rate 5 --per-day 7",
            "--rate 5 --peak 0.5",
            "--rate 5 --delay p50=2h,max=1h",
            "--rate 5 --cores 0",
            "--rate 5 --row-limit 0",
            "--rate 5 --engines 0",
            "--rate 100000 --engines 2",
            "--rate 5 --horizon 9s",
            "--rate 5 --horizon 8d",
            "--rate 5 --keep 4000d",
            "--rate 5 --mode neither",
            "--rate 5 --json --settings",
        ] {
            assert!(load(words).is_err(), "{words}");
        }
    }
}
