//! The style of answers for people: the zone of times, colours, the width. Decided once, at the start; answers for
//! programs (`--json`) have none of it.

use clap::{
    Args, ValueEnum,
    builder::styling::{AnsiColor, Effects, Style},
};
use jiff::tz::TimeZone;
use std::{env, io::IsTerminal as _, sync::OnceLock};

#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Display")]
pub(crate) struct LookArgs {
    /// Show times in UTC instead of the time zone of this machine (or of TZ)
    #[arg(long, global = true)]
    utc: bool,
    /// When to use colours [default: on a terminal, unless NO_COLOR is set]
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Colours::Auto, hide_default_value = true)]
    color: Colours,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colours {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Debug)]
struct OutputStyle {
    zone: TimeZone,
    colours_on_stdout: bool,
    colours_on_stderr: bool,
    /// The width of tables. `None` is that of the terminal, if it is one.
    width: Option<u16>,
}

/// The style if nothing is known: in UTC, without colours.
static PLAIN: OutputStyle =
    OutputStyle { zone: TimeZone::UTC, colours_on_stdout: false, colours_on_stderr: false, width: None };
static LOOK: OnceLock<OutputStyle> = OnceLock::new();

/// Once, before anything is printed.
pub(crate) fn begin(args: LookArgs) {
    let is_plain = set("NO_COLOR").is_some() || set("TERM").is_some_and(|text| text == "dumb");
    let has_colours = |is_terminal: bool| match args.color {
        Colours::Always => true,
        Colours::Never => false,
        Colours::Auto => is_terminal && !is_plain,
    };
    let zone = if args.utc { TimeZone::UTC } else { TimeZone::try_system().unwrap_or(TimeZone::UTC) };
    let is_terminal = std::io::stdout().is_terminal();
    let _ = LOOK.set(OutputStyle {
        zone,
        colours_on_stdout: has_colours(is_terminal),
        colours_on_stderr: has_colours(std::io::stderr().is_terminal()),
        width: set("COLUMNS").filter(|_| !is_terminal).and_then(|text| text.parse().ok()),
    });
}

/// A variable that is not empty.
fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn look() -> &'static OutputStyle {
    LOOK.get().unwrap_or(&PLAIN)
}

pub(crate) fn zone() -> &'static TimeZone {
    &look().zone
}

/// The width for output that is no terminal (COLUMNS). `None` is that of the terminal, if it is one.
pub(crate) fn width() -> Option<u16> {
    look().width
}

pub(crate) fn has_colours() -> bool {
    look().colours_on_stdout
}

pub(crate) fn has_colours_on_stderr() -> bool {
    look().colours_on_stderr
}

/// The tone of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    /// It needs attention, or continues by itself.
    Doubtful,
    Bad,
}

impl Tone {
    /// The tone of a text that begins with the word of a state.
    pub(crate) fn of(text: &str) -> Option<Self> {
        const GOOD: &[&str] =
            &["succeeded", "alive", "active", "good", "sound", "done", "created", "compensated", "healthy"];
        const DOUBTFUL: &[&str] = &[
            "retrying",
            "paused",
            "disabled",
            "doubtful",
            "warning",
            "draining",
            "quiet",
            "deleting",
            "compensating",
            "missed",
            "skipped",
            "buffered",
            "cancelled",
            "stopped",
            "without",
        ];
        const BAD: &[&str] = &[
            "dead",
            "dispatch_failed",
            "failed",
            "wrong",
            "not",
            "silent",
            "lost",
            "critical",
            "expired",
            "revoked",
            "gone",
        ];
        let word = text
            .split(|letter: char| !letter.is_ascii_alphabetic() && letter != '_')
            .next()?
            .to_ascii_lowercase();
        let is_in = |words: &[&str]| words.contains(&word.as_str());
        [(Self::Good, GOOD), (Self::Doubtful, DOUBTFUL), (Self::Bad, BAD)]
            .into_iter()
            .find_map(|(tone, words)| is_in(words).then_some(tone))
    }

    pub(crate) const fn colour(self) -> AnsiColor {
        match self {
            Self::Good => AnsiColor::Green,
            Self::Doubtful => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
        }
    }
}

/// A text that begins with the word of a state, in its colour.
pub(crate) fn state(text: &str) -> String {
    match Tone::of(text).filter(|_| has_colours()) {
        Some(tone) => painted(text, tone.colour().on_default()),
        None => text.to_owned(),
    }
}

/// A failure, in the style of stderr.
pub(crate) fn failure(text: &str) -> String {
    let style = AnsiColor::Red.on_default().effects(Effects::BOLD);
    if has_colours_on_stderr() { painted(text, style) } else { text.to_owned() }
}

fn painted(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_says_the_tone() {
        for (text, tone) in [
            ("succeeded", Some(Tone::Good)),
            ("alive, leads", Some(Tone::Good)),
            ("dead", Some(Tone::Bad)),
            ("NOT SOUND", Some(Tone::Bad)),
            ("silent for 3 s", Some(Tone::Bad)),
            ("dispatch_failed", Some(Tone::Bad)),
            ("DOUBTFUL", Some(Tone::Doubtful)),
            ("retrying", Some(Tone::Doubtful)),
            ("deadline", None),
            ("scheduled", None),
            ("", None),
        ] {
            assert_eq!(Tone::of(text), tone, "{text}");
        }
    }

    #[test]
    fn what_is_painted_ends_as_it_began() {
        assert_eq!(painted("dead", Tone::Bad.colour().on_default()), "\u{1b}[31mdead\u{1b}[0m");
        assert_eq!(state("dead"), "dead", "no colours where nothing is known of the screen");
    }
}
