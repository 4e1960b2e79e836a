//! The components of pages, so that a time, a state, a reference look alike everywhere. Maud escapes all text that
//! comes from outside.

use crate::{context::Context, fault::Fault, texts};
use maud::{Markup, PreEscaped, Render, html};
use punctual_protocol::{SetAside, State};

/// Longest text of a payload or an error that a page shows, in characters.
const SHOWN_MAX_CHARS: usize = 64 << 10;
/// Bytes of a payload that are shown as hex.
const HEX_MAX_BYTES: usize = 4 << 10;

/// A frame with a title.
pub(crate) fn panel(title: &str, inside: &Markup) -> Markup {
    html! { section.panel { h2 { (title) } (inside) } }
}

/// The same, with something beside the title.
pub(crate) fn panel_with(title: &str, beside: &Markup, inside: &Markup) -> Markup {
    html! { section.panel { div.panel-head { h2 { (title) } div.beside { (beside) } } (inside) } }
}

/// A time to the second, with its distance.
pub(crate) fn time(context: &Context, ms: i64) -> Markup {
    html! { span.when { (absolute(context, ms)) " " (relative(context, ms)) } }
}

pub(crate) fn time_or(context: &Context, ms: Option<i64>, otherwise: &str) -> Markup {
    match ms {
        Some(ms) => time(context, ms),
        None => html! { span.dim { (otherwise) } },
    }
}

/// A time to the millisecond.
pub(crate) fn exact(context: &Context, ms: i64) -> Markup {
    html! { time datetime=(texts::rfc3339(ms)) title=(texts::rfc3339(ms)) { (context.zone.exact(ms)) } }
}

pub(crate) fn absolute(context: &Context, ms: i64) -> Markup {
    html! { time datetime=(texts::rfc3339(ms)) title=(texts::rfc3339(ms)) { (context.zone.second(ms)) } }
}

/// Scripts keep it true; without them it is as of the page.
pub(crate) fn relative(context: &Context, ms: i64) -> Markup {
    html! { span.rel data-rel=(ms) { @if !context.is_live { (texts::relative(ms, context.now_ms)) } } }
}

/// Only how far it is; when, is in the title.
pub(crate) fn ago(context: &Context, ms: i64) -> Markup {
    html! {
        time.rel datetime=(texts::rfc3339(ms)) title=(context.zone.exact(ms)) data-rel=(ms) {
            @if !context.is_live { (texts::relative(ms, context.now_ms)) }
        }
    }
}

pub(crate) fn badge(word: &str, tone: &str) -> Markup {
    html! { span class={ "badge " (tone) } { (word) } }
}

pub(crate) fn state(state: State) -> Markup {
    let word = texts::state(state);
    html! { span class={ "badge " (texts::tone_of_state(word)) } title=(texts::state_means(state)) { (word.replace('_', " ")) } }
}

pub(crate) fn number(number: impl Into<i128>) -> Markup {
    html! { (texts::number(number)) }
}

/// Absent is a dash, and not 0.
pub(crate) fn number_or_dash<T: Into<i128>>(value: Option<T>) -> Markup {
    match value {
        Some(value) => number(value),
        None => dash(),
    }
}

pub(crate) fn duration_or_dash(number: Option<i64>) -> Markup {
    match number {
        Some(number) => html! { (texts::duration(number)) },
        None => dash(),
    }
}

pub(crate) fn text_or_dash(text: Option<&str>) -> Markup {
    match text {
        Some(text) => html! { (text) },
        None => dash(),
    }
}

pub(crate) fn dash() -> Markup {
    html! { span.dim title="none" { "–" } }
}

/// Lateness as in the API: upper bounds of buckets.
pub(crate) fn lateness(ms: Option<i64>) -> Markup {
    match ms {
        Some(300_001) => html! { "> 5 min" },
        ms => duration_or_dash(ms),
    }
}

/// A text in one piece, with a button that copies it.
pub(crate) fn copyable(text: &str) -> Markup {
    html! { span.copyable { code { (text) } (copy(text, "Copy")) } }
}

/// Only there where scripts run.
pub(crate) fn copy(text: &str, label: &str) -> Markup {
    html! { button.copy type="button" data-copy=(text) aria-label={ (label) ": " (short(text, 80)) } title=(label) {
            svg viewBox="0 0 16 16" aria-hidden="true" { rect x="5" y="5" width="9" height="9" rx="1.5" {} path d="M11 3.5V3a1.5 1.5 0 0 0-1.5-1.5h-6A1.5 1.5 0 0 0 2 3v6a1.5 1.5 0 0 0 1.5 1.5H4" {} }
        }
    }
}

pub(crate) fn task_link(context: &Context, reference: &str) -> Markup {
    html! { a.ref href=(context.href(&format!("/console/tasks/{}", crate::api::segment(reference)), &[])) { (reference) } }
}

pub(crate) fn queue_link(context: &Context, queue: &str) -> Markup {
    html! { a href=(context.href(&format!("/console/queues/{}", crate::api::segment(queue)), &[])) { (queue) } }
}

/// A link that looks like a button, or a disabled button with the reason.
pub(crate) fn button(context: &Context, permission: &str, address: &str, label: &str, tone: &str) -> Markup {
    match context.lacks(permission) {
        None => html! { a class={ "button " (tone) } href=(address) data-dialog { (label) } },
        Some(why) => dead_button(label, &why),
    }
}

/// The same, to a page that is not a question.
pub(crate) fn link_button(
    context: &Context,
    permission: &str,
    address: &str,
    label: &str,
    tone: &str,
) -> Markup {
    match context.lacks(permission) {
        None => html! { a class={ "button " (tone) } href=(address) { (label) } },
        Some(why) => dead_button(label, &why),
    }
}

/// The used part of a capacity. A full one is highlighted.
pub(crate) fn meter(part: u64, whole: u64) -> Markup {
    bar(part, whole, "fill full")
}

/// The completed part of some work.
pub(crate) fn progress(part: u64, whole: u64) -> Markup {
    bar(part, whole, "fill done")
}

fn bar(part: u64, whole: u64, when_whole: &str) -> Markup {
    let share = if whole == 0 { 0.0 } else { texts::share(part, whole) };
    html! {
        svg.meter viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={ (format!("{:.0}", share * 100.0)) " percent" } {
            rect.back width="100" height="8" rx="2" {}
            rect class=(if share >= 1.0 { when_whole } else { "fill" }) width=(format!("{:.1}", (share * 100.0).min(100.0))) height="8" rx="2" {}
        }
    }
}

pub(crate) fn dead_button(label: &str, why: &str) -> Markup {
    html! { button.button type="button" disabled title=(why) { (label) } }
}

/// Advice for an empty list.
pub(crate) fn empty(what: &str, next: &Markup) -> Markup {
    html! { div.empty { p { strong { (what) } } p { (next) } } }
}

/// The replacement of a part that cannot be shown.
pub(crate) fn missing(fault: &Fault) -> Markup {
    html! {
        div class=(if fault.is_denied() { "note" } else { "note bad" }) {
            strong { (if fault.is_denied() { "Not for your token." } else { fault.title() }) } " " (fault.detail())
            @if let Some(code) = fault.code() { " " a href={ "/docs/errors/" (code) } { code { (code) } } }
        }
    }
}

/// The faults of a form.
pub(crate) fn faults(fault: &Fault) -> Markup {
    html! {
        div.note.bad #faults role="alert" tabindex="-1" {
            p { strong { (fault.title()) } " " (fault.detail())
                @if let Some(code) = fault.code() { " " a href={ "/docs/errors/" (code) } { code { (code) } } } }
            @if !fault.fields().is_empty() {
                ul { @for error in fault.fields() { li { code { (error.pointer) } " " (error.detail) } } }
            }
        }
    }
}

/// A label, its field, and what to know of it.
pub(crate) fn field(
    id: &str,
    label: &str,
    help: Option<&str>,
    input: &Markup,
    fault: Option<&str>,
) -> Markup {
    html! {
        div class=(if fault.is_some() { "field faulty" } else { "field" }) {
            label for=(id) { (label) }
            div.input { (described(id, input, help.is_some(), fault.is_some())) }
            @if let Some(help) = help { p.hint id={ (id) "-hint" } { (help) } }
            @if let Some(fault) = fault { p.fault id={ (id) "-fault" } { (fault) } }
        }
    }
}

/// Describes the field of this id to a screen reader with the text below it, and marks a wrong value. Quotes in texts
/// are escaped, so that no text can look like the attribute that is searched for.
fn described(id: &str, input: &Markup, has_hint: bool, has_fault: bool) -> Markup {
    let own = format!(" id=\"{id}\"");
    let below: Vec<String> = [("hint", has_hint), ("fault", has_fault)]
        .iter()
        .filter(|pair| pair.1)
        .map(|pair| format!("{id}-{}", pair.0))
        .collect();
    let mut more = own.clone();
    if !below.is_empty() {
        more.push_str(&format!(" aria-describedby=\"{}\"", below.join(" ")));
    }
    if has_fault {
        more.push_str(" aria-invalid=\"true\"");
    }
    PreEscaped(input.0.replacen(&own, &more, 1))
}

pub(crate) fn input(id: &str, value: &str, placeholder: &str) -> Markup {
    html! {
        input id=(id) name=(id) value=(value) placeholder=(placeholder) autocomplete="off" spellcheck="false" autocapitalize="none";
    }
}

/// A list of choices; empty is the first of them.
pub(crate) fn choice(id: &str, options: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        select id=(id) name=(id) {
            @for (value, label) in options { option value=(value) selected[*value == chosen] { (label) } }
        }
    }
}

/// A pair of a list of what is known.
pub(crate) fn fact(label: &str, value: impl Render) -> Markup {
    html! { div { dt { (label) } dd { (value) } } }
}

/// A number that one reads across the room.
pub(crate) fn figure(label: &str, value: &Markup, below: &Markup, tone: &str) -> Markup {
    html! { div class={ "figure " (tone) } { div.label { (label) } div.value { (value) } div.below { (below) } } }
}

/// A text as it is, truncated to a length.
pub(crate) fn long_text(text: &str) -> Markup {
    let is_long = text.chars().nth(SHOWN_MAX_CHARS).is_some();
    html! {
        pre.text { (short(text, SHOWN_MAX_CHARS)) }
        @if is_long { p.dim { "Only the first " (texts::number(SHOWN_MAX_CHARS as u64)) " characters are shown; the JSON of this page has all." } }
    }
}

/// Bytes: offset, hex, characters.
pub(crate) fn hex(bytes: &[u8]) -> Markup {
    let lines = bytes.chunks(16).take(HEX_MAX_BYTES / 16).enumerate();
    html! {
        p.dim { (texts::bytes(i64::try_from(bytes.len()).unwrap_or(i64::MAX))) " of bytes" }
        pre.hex {
            @for (nth, line) in lines {
                (format!("{:06x}  ", nth * 16))
                @for byte in line { (format!("{byte:02x} ")) }
                @for _ in line.len()..16 { "   " }
                " "
                @for byte in line { @if byte.is_ascii_graphic() || *byte == b' ' { (char::from(*byte)) } @else { "·" } }
                "\n"
            }
        }
        @if bytes.len() > HEX_MAX_BYTES { p.dim { "The first 4 KiB." } }
    }
}

/// The link to the next page, and one to the first page.
pub(crate) fn pager(context: &Context, next_cursor: Option<&str>, columns: usize, shown: usize) -> Markup {
    let is_first = context.query("cursor").is_none();
    html! {
        @if next_cursor.is_some() || !is_first {
            tr.pager { td colspan=(columns) {
                @if !is_first { a href=(context.here_with("cursor", "")) { "From the beginning" } " " }
                @if let Some(next) = next_cursor {
                    a.next rel="next" href=(context.here_with("cursor", next)) data-more
                        hx-get=(context.here_with("cursor", next)) hx-target="closest tr" hx-swap="outerHTML"
                        hx-select="[data-rows] > tr" hx-trigger="click, revealed" { "The next ones" }
                } @else { span.dim { "The end: " (texts::count(shown as u64, "row", "rows")) " on this page." } }
            } }
        }
    }
}

/// The first so many characters.
pub(crate) fn short(text: &str, max: usize) -> String {
    let mut chars = text.chars();
    let mut short: String = chars.by_ref().take(max).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

/// The author and the reason of a pause, so that one need not open it.
pub(crate) fn paused(by: &str, reason: Option<&str>) -> Markup {
    html! { (badge("paused", "warn")) " " span.dim.by { "by " (by) @if let Some(reason) = reason { ": " (short(reason, 120)) } } }
}

/// The note about expressions of which engines have died.
pub(crate) fn set_aside(context: &Context, set_aside: &SetAside) -> Markup {
    html! { div.note.bad #set-aside { strong { "Set aside" } " " (ago(context, set_aside.since_ms)) ": " (set_aside.reason) "." } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_tells_what_stands_below_it_and_that_it_is_wrong() {
        let shown = |help, fault| {
            field("rate", "Rate", help, &input("rate", "", " id=\"rate\""), fault).into_string()
        };
        assert!(!shown(None, None).contains("aria-"));
        assert!(
            shown(Some("a second"), None).contains("<input id=\"rate\" aria-describedby=\"rate-hint\" name")
        );
        let faulty = shown(Some("a second"), Some("no number"));
        assert!(
            faulty.contains("aria-describedby=\"rate-hint rate-fault\" aria-invalid=\"true\""),
            "{faulty}"
        );
        assert!(faulty.contains("id=\"rate-fault\""), "{faulty}");
    }
}
