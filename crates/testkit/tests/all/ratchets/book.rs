//! The documentation as a book: each page is in the summary once, each link and anchor leads somewhere, and nothing grows beyond
//! its bound. Must not judge what a page says; that it can be built is shown by the tests of `cli`.

use super::tree::{File, all, root};
use std::collections::{BTreeMap, BTreeSet};

const SUMMARY: &str = "docs/SUMMARY.md";
const PARTS: [&str; 5] = ["Tutorial", "How-to", "Reference", "Explanation", "Appendix"];
const WORDS_MAX: usize = 35_000;
const LINES_OF_A_RELEASE_MAX: usize = 150;
const README_WORDS_MAX: usize = 700;
/// Pages outside of the book whose links are looked at too.
const BESIDE: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "llms.txt", "loadtest/README.md"];

fn pages() -> Vec<File> {
    let is_page = |file: &File| {
        let is_of_the_book = file.path.starts_with("docs/") && file.path.ends_with(".md");
        is_of_the_book || BESIDE.contains(&file.path.as_str())
    };
    all().into_iter().filter(is_page).collect()
}

fn page(path: &str) -> File {
    pages().into_iter().find(|file| file.path == path).expect(path)
}

/// What stands outside of blocks, without what is between backticks.
fn prose(text: &str) -> String {
    let mut is_block = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if !is_block {
            lines.push(line.split('`').step_by(2).collect::<Vec<_>>().join(""));
        }
    }
    lines.join("\n")
}

/// Targets of links and pictures, but for those of other hosts.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// As GitHub and mdBook make them of headings.
fn anchor(heading: &str) -> String {
    let kept = |letter: char| letter.is_alphanumeric() || " -_".contains(letter);
    heading.trim().to_lowercase().chars().filter(|letter| kept(*letter)).collect::<String>().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_block = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        is_block ^= line.trim_start().starts_with("```");
        if !is_block && line.starts_with('#') {
            found.insert(anchor(line.trim_start_matches('#')));
        }
    }
    found
}

/// `docs/a/../b.md` as `docs/b.md`.
fn joined(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Links of pages that lead nowhere.
fn broken(pages: &[File], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let texts: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|file| (file.path.as_str(), anchors(&file.text))).collect();
    let is_broken = |file: &File, link: &str| {
        let (target, wanted) = link.split_once('#').unwrap_or((link, ""));
        let path = if target.is_empty() { file.path.clone() } else { joined(&file.path, target) };
        let has_anchor =
            wanted.is_empty() || texts.get(path.as_str()).is_some_and(|known| known.contains(wanted));
        !exists(&path) || !has_anchor
    };
    let of = |file: &File| {
        let found = links(&file.text).into_iter().filter(|link| is_broken(file, link));
        found.map(|link| format!("{}: {link}", file.path)).collect::<Vec<_>>()
    };
    pages.iter().flat_map(of).collect()
}

#[test]
fn each_link_and_anchor_leads_somewhere() {
    let pages = pages();
    let count: usize = pages.iter().map(|file| links(&file.text).len()).sum();
    assert!(count > 200, "{count}");
    assert_eq!(broken(&pages, |path| root().join(path).exists()), [""; 0]);
    let bad = "# A b, `c`!\n[x](#a-b-c) [y](#nothing) [z](none.md) [w](https://example.org) `[v](none)`\n```sh\n[u](none)\n```\n";
    let bad = [File::new("docs/a.md", bad)];
    assert_eq!(broken(&bad, |path| path == "docs/a.md"), ["docs/a.md: #nothing", "docs/a.md: none.md"]);
    assert_eq!(joined("docs/decisions/0001.md", "../b.md"), "docs/b.md");
}

/// Pages that the summary lacks, has twice, or names although they do not exist.
fn differences(summary: &str, pages: &[&str]) -> Vec<String> {
    let named: Vec<String> = links(summary).iter().map(|link| joined(SUMMARY, link)).collect();
    let times = |page: &str| named.iter().filter(|path| *path == page).count();
    let missing =
        pages.iter().filter(|page| times(page) != 1).map(|page| format!("{page}: {} times", times(page)));
    let unknown =
        named.iter().filter(|path| !pages.contains(&path.as_str())).map(|path| format!("{path}: no page"));
    missing.chain(unknown).collect()
}

#[test]
fn the_summary_has_each_page_once_in_its_parts() {
    let (pages, summary) = (pages(), page(SUMMARY));
    let of_the_book = |file: &&File| file.path.starts_with("docs/") && file.path != SUMMARY;
    let paths: Vec<&str> = pages.iter().filter(of_the_book).map(|file| file.path.as_str()).collect();
    assert!(paths.len() > 60, "{}", paths.len());
    assert_eq!(differences(&summary.text, &paths), [""; 0]);
    let parts: Vec<&str> = summary.text.lines().filter_map(|line| line.strip_prefix("# ")).skip(1).collect();
    assert_eq!(parts, PARTS);
    let wrong = differences("- [a](a.md)\n- [a](a.md)\n- [c](c.md)", &["docs/a.md", "docs/b.md"]);
    assert_eq!(wrong, ["docs/a.md: 2 times", "docs/b.md: 0 times", "docs/c.md: no page"]);
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn the_book_and_the_readme_stay_short() {
    let of_the_book = pages().into_iter().filter(|file| file.path.starts_with("docs/"));
    let count: usize = of_the_book.map(|file| words(&file.text)).sum();
    assert!(count > 10_000 && count <= WORDS_MAX, "{count} words, {WORDS_MAX} are allowed");
    let readme = words(&page("README.md").text);
    assert!(readme <= README_WORDS_MAX, "{readme} words in README.md, {README_WORDS_MAX} are allowed");
}

/// The releases of a changelog that are too long.
fn too_long(changelog: &str) -> Vec<&str> {
    let releases = changelog.split("\n## ").skip(1);
    let long = releases.filter(|release| release.lines().count() >= LINES_OF_A_RELEASE_MAX);
    long.map(|release| release.lines().next().unwrap_or_default()).collect()
}

#[test]
fn a_release_has_few_lines_in_the_changelog() {
    let changelog = page("CHANGELOG.md").text;
    assert!(changelog.matches("\n## ").count() > 1);
    assert_eq!(too_long(&changelog), [""; 0]);
    let long = format!("# C\n\n## 2\n- a\n\n## 1\n{}", "- a\n".repeat(LINES_OF_A_RELEASE_MAX));
    assert_eq!(too_long(&long), ["1"]);
}

#[test]
fn the_first_screen_has_the_two_commands() {
    let readme = page("README.md").text;
    let screen: Vec<&str> = readme.lines().take(12).collect();
    for command in ["cargo run --release -- dev", "./scripts/test"] {
        assert!(screen.iter().any(|line| line.starts_with(command)), "{command}");
    }
}
