//! Months in an hour: what a store does with many tasks while its clock runs ahead, on private servers.
//!
//! ```text
//! cargo run --release -p punctual-testkit --example lapse -- bounds --tasks 10000000 --databases 2
//! cargo run --release -p punctual-testkit --example lapse -- retention --rows 20000000 --kept 20000000
//! ```
//!
//! Both accept `--store sqlite` (mysql) and `--buffer-pool 2G`. `bounds` spreads its tasks over `--days`
//! (30), and `--far` (1,000) of them over a hundred years; then the tasks of each day fire, are kept for
//! three days, archived and dropped, and a line shows how fast. `retention` shows the cost of one pass while
//! nothing waits, and while `--rows` do; then the cost of stopping successes and deleting them among `--kept`
//! finished ones (0), with the task rows that the server reads for it. No engine is involved: lateness and
//! memory with millions of waiting tasks are measured by `loadtest idle`.
#![expect(clippy::print_stdout, reason = "its purpose")]

const HELP: &str = "\
lapse bounds [--tasks 10000000] [--far 1000] [--days 30] [--databases 2]
lapse retention [--rows 20000000] [--kept 0]
Both: [--store mysql | sqlite] [--buffer-pool 2G]";

mod bounds;
mod retention;
mod rig;

use options::Args;

/// Options without a library: name and value.
mod options {
    use std::{collections::BTreeMap, str::FromStr};

    #[derive(Debug)]
    pub(crate) struct Args(BTreeMap<String, String>);

    impl Args {
        /// Panics on unknown options: only developers run this program.
        pub(crate) fn of(words: impl Iterator<Item = String>) -> Self {
            let words: Vec<String> = words.collect();
            let pairs = words.chunks(2).map(|chunk| match chunk {
                [name, value] if name.starts_with("--") => (name[2..].to_owned(), value.clone()),
                other => panic!("{other:?} is no option with its value"),
            });
            Self(pairs.collect())
        }

        pub(crate) fn take<T: FromStr>(&mut self, name: &str, default: T) -> T {
            let Some(text) = self.0.remove(name) else { return default };
            text.parse().unwrap_or_else(|_| panic!("--{name} {text}: not understood"))
        }

        pub(crate) fn end(self) {
            assert!(self.0.is_empty(), "unknown: {:?}", self.0.keys());
        }
    }
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let mut args = Args::of(words);
    let kind: rig::BenchKind = args.take("store", rig::BenchKind::Mysql);
    let buffer_pool: String = args.take("buffer-pool", "2G".to_owned());
    match command.as_str() {
        "bounds" => {
            let load = bounds::Load {
                tasks: args.take("tasks", 10_000_000),
                far: args.take("far", 1_000),
                days: args.take("days", 30),
                databases: args.take("databases", 2),
            };
            args.end();
            println!("{}", bounds::HEAD);
            let lapse = bounds::run(kind, load, &buffer_pool, |line| println!("{line}")).await;
            println!("{}", lapse.summary());
            assert!(lapse.is_whole, "something is missing");
        }
        "retention" => {
            let (rows, kept) = (args.take("rows", 20_000_000), args.take("kept", 0));
            args.end();
            let costs = retention::run(kind, (rows, kept), &buffer_pool, |line| println!("{line}")).await;
            println!("{}", costs.summary());
        }
        "--help" | "help" => println!("{HELP}"),
        other => panic!("{other:?}: bounds or retention; --help says what they take"),
    }
}
