//! JSON as people read it: folded, in levels, in the order and with the digits in which it was written. It is never made into numbers on the
//! way: what one sees is what is there.

use crate::{parts, texts};
use maud::{Markup, html};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The size up to which text is formatted, in bytes. A longer text is shown as it is, to this length.
const SHOWN_MAX_BYTES: usize = 64 << 10;
/// The maximum depth on a page.
const DEPTH_MAX: usize = 40;
/// Levels that are open at first.
const OPEN: usize = 3;

pub(crate) fn json(text: &str) -> Markup {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) if text.len() <= SHOWN_MAX_BYTES => html! { div.json { (node(value.get(), 0)) } },
        Ok(_) | Err(_) => parts::long_text(text),
    }
}

/// Fields in their order.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Each).map(Self)
    }
}

fn node(text: &str, depth: usize) -> Markup {
    let text = text.trim();
    let count = |number: usize, one, many| texts::count(u64::try_from(number).unwrap_or(u64::MAX), one, many);
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth > DEPTH_MAX => html! { (text) },
        Some(b'{') => match serde_json::from_str::<Fields<'_>>(text) {
            Ok(Fields(fields)) if fields.is_empty() => html! { "{}" },
            Ok(Fields(fields)) => html! {
                details open[depth < OPEN] {
                    summary { "{" span.dim { (count(fields.len(), "field", "fields")) } "}" }
                    ul { @for (name, json) in fields { li { span.j-key { (name) } ": " (node(json.get(), depth + 1)) } } }
                }
            },
            Err(_) => html! { (text) },
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(items) if items.is_empty() => html! { "[]" },
            Ok(items) => html! {
                details open[depth < OPEN] {
                    summary { "[" span.dim { (count(items.len(), "item", "items")) } "]" }
                    ol start="0" { @for json in items { li { (node(json.get(), depth + 1)) } } }
                }
            },
            Err(_) => html! { (text) },
        },
        Some(b'"') => html! { span.j-str { (text) } },
        Some(b't' | b'f') => html! { span.j-bool { (text) } },
        Some(b'n') => html! { span.j-null { (text) } },
        _ => html! { span.j-num { (text) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        json(text).into_string()
    }

    #[test]
    fn order_and_digits_are_as_they_were_written_and_nothing_is_markup() {
        let text = shown(
            r#"{"b": 123456789012345678901234567890.10, "a": ["<b>", {}, [], true, null], "": "\u003cb"}"#,
        );
        let places: Vec<_> =
            ["b</span>: ", "123456789012345678901234567890.10", "a</span>: ", "&lt;b&gt;", "true", "null"]
                .map(|members| text.find(members).unwrap())
                .into();
        assert!(places.is_sorted(), "{text}");
        assert!(!text.contains("<b>"));
        assert!(text.contains("3 fields") && text.contains("5 items"));
    }

    #[test]
    fn what_is_no_json_or_too_long_or_too_deep_is_shown_as_it_is() {
        assert!(shown("{\"a\":").contains("<pre class=\"text\">{&quot;a&quot;:"));
        assert!(shown(&format!("\"{}\"", "x".repeat(70_000))).contains("<pre"));
        let deep = format!("{}1{}", "[".repeat(90), "]".repeat(90));
        assert_eq!(shown(&deep).matches("<details").count(), DEPTH_MAX + 1);
    }
}
