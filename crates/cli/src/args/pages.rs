//! Checks that the command line accepts every command of `punctual` in a page of the documentation, in a block or in
//! a line: names, flags and values. A command in a block is complete; one in a line may omit the reader's own values.
//! Runs nothing: the tests that run pages show what the commands do.

use super::Cli;
use clap::{Parser, error::ErrorKind};
use std::{fs, path::PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The words that may precede a command in its line.
const BEFORE: [&str; 10] = ["sudo", "env", "exec", "nohup", "do", "then", "if", "while", "!", "time"];

#[derive(Debug)]
struct PageCommand {
    page: String,
    words: Vec<String>,
    is_whole: bool,
}

/// Splits a line into words as a shell does, a list for each command of a pipeline or a list. Quotes are removed.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '<' | '>' | '(' | ')' | '\n') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    all.push(words);
    all
}

/// The words from the program on, if the command calls it.
fn of_punctual(words: &[String]) -> Option<&[String]> {
    let is_it = |text: &String| text == "punctual" || (text.ends_with("/punctual") && !text.contains('='));
    let of_user = |text: &String| ["-u", "-o", "-g"].contains(&text.as_str());
    let is_user = |nth: usize| nth > 0 && words.get(nth - 1).is_some_and(of_user);
    let nth = words.iter().enumerate().position(|(nth, word)| is_it(word) && !is_user(nth))?;
    let (before, from) = words.split_at_checked(nth)?;
    let is_setting = |text: &String| text.split_once('=').is_some_and(|parts| !parts.0.is_empty());
    let begins = before.first().is_none_or(|before| BEFORE.contains(&before.as_str()) || is_setting(before));
    // By itself it is a name: of the package, of the service.
    (begins && from.len() > 1).then_some(from)
}

fn of_page(page: &str, text: &str) -> Vec<PageCommand> {
    let (mut found, mut is_block, mut joined) = (Vec::new(), false, String::new());
    let mut take = |text: &str, is_whole: bool| {
        for words in commands(text) {
            if let Some(words) = of_punctual(&words) {
                found.push(PageCommand { page: page.to_owned(), words: words.to_vec(), is_whole });
            }
        }
    };
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block && line.trim_start().starts_with("```sh");
            continue;
        }
        if is_block {
            joined.push_str(line.strip_suffix('\\').unwrap_or(line));
            if !line.ends_with('\\') {
                take(&std::mem::take(&mut joined), true);
            }
        } else {
            line.split('`').skip(1).step_by(2).for_each(|part| take(part, false));
        }
    }
    found
}

/// A placeholder for something of the reader's own.
fn is_placeholder(word: &str) -> bool {
    let is_name = |text: &str| {
        text.len() > 1 && text.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    };
    let parts = word.split(['=', ',', '/', ':']).any(|part| is_name(part) || part == "N");
    parts || word.contains(['$', '…', '<']) || word.contains("...")
}

fn refusal(found: &PageCommand) -> Option<String> {
    let given = found.words.iter().filter(|word| !matches!(word.as_str(), "..." | "…" | "\\"));
    let error = Cli::try_parse_from(given).err()?;
    let is_open = found.words.iter().any(|word| is_placeholder(word));
    let is_good = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        // The page says that it is in the environment.
        ErrorKind::MissingRequiredArgument if error.to_string().contains("--store-url") => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !found.is_whole,
        ErrorKind::InvalidSubcommand => is_open && !found.is_whole,
        ErrorKind::InvalidValue if error.to_string().contains("none was supplied") => !found.is_whole,
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => is_open,
        _ => false,
    };
    (!is_good).then(|| format!("{}: {:?}\n{error}", found.page, found.words))
}

#[test]
fn every_command_that_a_page_names_is_one_that_there_is() {
    let mut pages = vec![PathBuf::from(ROOT).join("README.md")];
    let of_docs = fs::read_dir(PathBuf::from(ROOT).join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(of_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut found = Vec::new();
    for page in pages {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        // What one version was measured with stays as it was.
        if !name.starts_with("figures") {
            found.extend(of_page(&name, &fs::read_to_string(&page).unwrap()));
        }
    }
    assert!(found.len() > 100 && found.iter().filter(|found| found.is_whole).count() > 25, "{}", found.len());
    let refused: Vec<String> = found.iter().filter_map(refusal).collect();
    assert!(refused.is_empty(), "{} of {}:\n{}", refused.len(), found.len(), refused.join("\n"));
}

#[test]
fn what_the_command_line_does_not_take_is_found() {
    let page = "`punctual task lst`, `punctual shard`, `punctual token revoke ID`\n```sh\nsudo -u punctual punctual serve --nope  # x\npunctual task get\n\
                PUNCTUAL_URL=x punctual task list --limit none | jq '. | punctual nothing'\npunctual task list \\\n  --limit 5\n```\n";
    let refused: Vec<Vec<String>> = of_page("page", page)
        .into_iter()
        .filter(|found| refusal(found).is_some())
        .map(|found| found.words)
        .collect();
    let want: [&[&str]; 4] = [
        &["punctual", "task", "lst"],
        &["punctual", "serve", "--nope"],
        &["punctual", "task", "get"],
        &["punctual", "task", "list", "--limit", "none"],
    ];
    assert_eq!(refused, want);
}
