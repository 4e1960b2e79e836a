//! Parses a crontab line by line, as Debian's cron does. Pure: uses no server, and omits nothing in silence.

use std::collections::BTreeMap;

/// One line with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: usize,
    pub(super) text: String,
    /// An expression of five fields, or a nickname.
    pub(super) cron: String,
    /// `None` is the time zone of the machine.
    pub(super) time_zone: Option<String>,
    pub(super) user: Option<String>,
    pub(super) command: String,
    /// The stdin of the command.
    pub(super) input: Option<String>,
    /// The variables that were assigned above the line.
    pub(super) env: BTreeMap<String, String>,
}

/// A line of which no schedule is made, or not what it seems to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) number: usize,
    pub(super) text: String,
    pub(super) what: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Crontab {
    pub(super) jobs: Vec<Job>,
    /// Lines that are omitted, or translated in another way than cron's.
    pub(super) warnings: Vec<Remark>,
    /// Lines that cron would refuse too.
    pub(super) faults: Vec<Remark>,
}

/// `has_user`: lines name a user after their fields, as those of `/etc/crontab` do.
pub(super) fn read(text: &str, has_user: bool) -> Crontab {
    let (mut env, mut time_zone) = (BTreeMap::new(), None);
    let mut found = Crontab::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let remark = |what: &str| Remark { number, text: line.to_owned(), what: what.to_owned() };
        match assignment(line) {
            Ok(Some((name, value))) => {
                if name == "TZ" {
                    found.warnings.push(remark(
                        "is taken for the commands below and for their instants; with cron it is for the commands alone",
                    ));
                }
                if matches!(name.as_str(), "TZ" | "CRON_TZ") {
                    time_zone = Some(value.clone());
                }
                if name != "CRON_TZ" {
                    env.insert(name, value);
                }
                continue;
            }
            Ok(None) => {}
            Err(fault) => {
                found.faults.push(remark(fault));
                continue;
            }
        }
        match entry(line, has_user) {
            Ok(CrontabEntry { cron, .. }) if cron.eq_ignore_ascii_case("@reboot") => {
                found.warnings.push(remark("is left out: @reboot has no instant"));
            }
            Ok(CrontabEntry { cron, user, command, input }) => found.jobs.push(Job {
                number,
                text: line.to_owned(),
                cron,
                time_zone: time_zone.clone(),
                user,
                command,
                input,
                env: env.clone(),
            }),
            Err(fault) => found.faults.push(remark(&fault)),
        }
    }
    found
}

/// `NAME = value`, either of them in quotes of one kind or in none. `None` if the line is no assignment.
fn assignment(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let Some((name, value)) = line.split_once('=') else { return Ok(None) };
    let Ok(name) = unquoted(name.trim()) else { return Ok(None) };
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if !name.starts_with(|letter: char| is_part(letter) && !letter.is_ascii_digit())
        || !name.chars().all(is_part)
    {
        return Ok(None);
    }
    Ok(Some((name.to_owned(), unquoted(value.trim())?.to_owned())))
}

/// Removes the quotes around a text. Quotes inside of others stay.
fn unquoted(text: &str) -> Result<&str, &'static str> {
    let Some(quote) = text.chars().next().filter(|letter| matches!(letter, '"' | '\'')) else {
        return Ok(text);
    };
    let inner =
        text.get(1..).and_then(|rest| rest.strip_suffix(quote)).filter(|inner| !inner.contains(quote));
    inner.ok_or("has a quote that is not closed, or text behind the one that closes it")
}

struct CrontabEntry {
    cron: String,
    user: Option<String>,
    command: String,
    input: Option<String>,
}

fn entry(line: &str, has_user: bool) -> Result<CrontabEntry, String> {
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let (mut rest, mut words) = (line, Vec::new());
    for _ in 0..fields + usize::from(has_user) {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        words.push(word);
        rest = after.trim_start();
    }
    if rest.is_empty() {
        let user = if has_user { " and its user" } else { "" };
        let count = if fields == 1 { "field" } else { "fields" };
        return Err(format!("has no command after its {fields} {count}{user}"));
    }
    let user = has_user.then(|| words.pop().map(str::to_owned)).flatten();
    let (command, input) = command_and_input(rest);
    let fields: Vec<String> = words.iter().zip(RANGES).map(|(field, range)| listed(field, range)).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    Ok(CrontabEntry { cron: days_by_both_fields(&fields), user, command, input })
}

/// The range of each field.
const RANGES: [&str; 5] = ["0-59", "0-23", "1-31", "1-12", "0-6"];

/// A list with a `*` in it covers the range. The beginning of the field is preserved: one that begins with `*` has
/// another meaning.
fn listed(field: &str, range: &str) -> String {
    let has_everything = field.contains(',') && field.split(',').any(|part| part == "*" || part == "*/1");
    match (has_everything, field.starts_with('*')) {
        (false, _) => field.to_owned(),
        (true, true) => "*".to_owned(),
        (true, false) => range.to_owned(),
    }
}

/// If a day field begins with `*`, a day must match both fields; otherwise one of them, and that is the rule of
/// schedules too. `+` before the weekday requires both.
fn days_by_both_fields(words: &[&str]) -> String {
    match words {
        [minute, hour, day, month, weekday]
            if (day.starts_with('*') || weekday.starts_with('*')) && *day != "*" && *weekday != "*" =>
        {
            [*minute, *hour, *day, *month, &format!("+{weekday}")].join(" ")
        }
        _ => words.join(" "),
    }
}

/// The first `%` ends the command, and each further one is the end of a line of its input; `\%` is the sign itself.
fn command_and_input(text: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '\\' if letters.next_if_eq(&'%').is_some() => '%',
            '%' => {
                parts.push(String::new());
                continue;
            }
            other => other,
        };
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let mut parts = parts.into_iter();
    let command = parts.next().unwrap_or_default().trim_end().to_owned();
    let lines: Vec<String> = parts.collect();
    let input = lines.join("\n");
    let is_given = !lines.is_empty();
    let end = if input.is_empty() || input.ends_with('\n') { "" } else { "\n" };
    (command, is_given.then(|| format!("{input}{end}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Job {
        let mut found = read(text, false);
        assert_eq!((found.faults.as_slice(), found.jobs.len()), ([].as_slice(), 1), "{text}");
        found.jobs.remove(0)
    }

    fn cron(line: &str) -> String {
        only(line).cron
    }

    #[test]
    fn a_line_is_fields_and_a_command() {
        let job = only("*/5  0-6 * * 1-5\t/bin/a  b  ");
        assert_eq!((job.cron.as_str(), job.command.as_str()), ("*/5 0-6 * * 1-5", "/bin/a  b"));
        assert_eq!((cron("@daily run"), job.input), ("@daily".to_owned(), None));
        let system = read("0 0 * * * root run\n@daily www-data run", true).jobs;
        assert_eq!(system[0].user.as_deref(), Some("root"));
        assert_eq!((system[1].user.as_deref(), system[1].command.as_str()), (Some("www-data"), "run"));
    }

    #[test]
    fn a_day_field_that_begins_with_a_star_restricts_nothing_by_itself() {
        for (line, want) in [
            ("0 0 */2 * 1 run", "0 0 */2 * +1"),
            ("0 0 1 * */2 run", "0 0 1 * +*/2"),
            ("0 0 */2 * */3 run", "0 0 */2 * +*/3"),
            ("0 0 1,15 * 5 run", "0 0 1,15 * 5"),
            ("0 0 * * 5 run", "0 0 * * 5"),
            ("0 0 */2 * * run", "0 0 */2 * *"),
            ("0 0 1 * * run", "0 0 1 * *"),
            ("0 0 *,1 * 1 run", "0 0 * * 1"),
            ("0 0 1,* * 1 run", "0 0 1-31 * 1"),
            ("0 0 1 * *,2 run", "0 0 1 * *"),
            ("0 0 1 * 2,* run", "0 0 1 * 0-6"),
            ("*,5 3,* * 1,* * run", "* 0-23 * 1-12 *"),
        ] {
            assert_eq!(cron(line), want, "{line}");
        }
    }

    #[test]
    fn percent_signs_end_the_command_and_the_lines_of_its_input() {
        for (text, command, input) in [
            (r"date +\%F", "date +%F", None),
            (r"echo \%\%a%b", "echo %%a", Some("b\n")),
            ("mail ada%Dear Ada,%%yours%", "mail ada", Some("Dear Ada,\n\nyours\n")),
            (r"cat%100\%%\n", "cat", Some("100%\n\\n\n")),
            (r"cat \\%", r"cat \%", None),
            ("cat%", "cat", Some("")),
            (r"printf 'a\tb'", r"printf 'a\tb'", None),
        ] {
            let job = only(&format!("0 0 * * * {text}"));
            assert_eq!((job.command.as_str(), job.input.as_deref()), (command, input), "{text}");
        }
    }

    #[test]
    fn an_assignment_is_for_the_lines_below_it_and_quotes_are_taken_off_in_pairs() {
        let text = "\u{feff}MAILTO = \"ada\"\r\n0 0 * * * one\r\nA='it \"is\"'\n\"B\"=b c \nC=\nMAILTO=\"\"\n1 0 * * * A=1 two\n";
        let jobs = read(text, false).jobs;
        let env = |nth: usize| {
            jobs[nth].env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(env(0), ["MAILTO=ada"]);
        assert_eq!(env(1), [r#"A=it "is""#, "B=b c", "C=", "MAILTO="]);
        assert_eq!((jobs[1].command.as_str(), jobs[1].number), ("A=1 two", 7));
        for bad in ["A=\"b", "A='b\"", "A=\"b\" c", "A='it's'"] {
            let found = read(bad, false);
            assert_eq!((found.faults.len(), found.faults[0].number), (1, 1), "{bad}");
        }
    }

    #[test]
    fn a_time_zone_is_for_the_instants_and_that_of_tz_for_the_command_too() {
        let found = read("CRON_TZ=Europe/Berlin\n0 9 * * * one\nTZ=Asia/Tokyo\n0 9 * * * two\n", false);
        let zones: Vec<_> = found.jobs.iter().map(|job| job.time_zone.as_deref()).collect();
        assert_eq!(zones, [Some("Europe/Berlin"), Some("Asia/Tokyo")]);
        assert_eq!(found.jobs[0].env, BTreeMap::new());
        assert_eq!(found.jobs[1].env["TZ"], "Asia/Tokyo");
        assert_eq!((found.warnings.len(), found.warnings[0].number), (1, 3));
    }

    #[test]
    fn each_line_that_cannot_be_carried_is_named_and_the_others_are_read() {
        let found = read("@reboot start\n1 2 3\n0 0 * * * run\n@Reboot again\n0 0 * * *\n@daily\n", false);
        let numbers = |remarks: &[Remark]| remarks.iter().map(|remark| remark.number).collect::<Vec<_>>();
        assert_eq!((numbers(&found.warnings), numbers(&found.faults)), (vec![1, 4], vec![2, 5, 6]));
        assert_eq!((found.jobs.len(), found.jobs[0].number), (1, 3));
    }
}
