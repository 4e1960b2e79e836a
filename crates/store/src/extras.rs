//! Rare fields of a task, as one JSON text in one column, so that other tasks do not pay for them: the column
//! `demands`, named after its first content. A reader of the demands skips the rest. A durable format: a field is
//! never renamed, new ones are optional.

use punctual_domain::{
    key::Key,
    task::{Demands, NewTask},
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Extras<'a> {
    #[serde(flatten)]
    pub(crate) demands: Cow<'a, Demands>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Cow<'a, Key>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Cow<'a, str>>,
}

/// Returns `None` if the task has none of these fields.
pub(crate) fn text(ask: &NewTask) -> Option<String> {
    let extras = Extras {
        demands: Cow::Borrowed(&ask.demands),
        key: ask.key.as_ref().map(Cow::Borrowed),
        name: ask.name.as_deref().map(Cow::Borrowed),
    };
    let text = || serde_json::to_string(&extras).expect("strings always have a JSON form");
    (!is_none(ask)).then(text)
}

pub(crate) fn is_none(ask: &NewTask) -> bool {
    ask.demands.is_none() && ask.key.is_none() && ask.name.is_none()
}

pub(crate) fn read(text: Option<&str>) -> serde_json::Result<(Demands, Option<Key>, Option<String>)> {
    let Some(text) = text else { return Ok(Default::default()) };
    let Extras { demands, key, name } = serde_json::from_str(text)?;
    Ok((demands.into_owned(), key.map(Cow::into_owned), name.map(Cow::into_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        name::{Name, QueueKey},
        time::Millis,
    };

    fn ask() -> NewTask {
        let name = |text| Name::new(text).unwrap();
        NewTask::new(QueueKey { namespace: name("n"), queue: name("q") }, name("k"), Millis(0))
    }

    #[test]
    fn it_is_pinned_because_it_is_stored_and_older_readers_pass_over_what_is_new() {
        let demands = Demands { concurrency_key: Some("c".to_owned()), handler_versions: None };
        let of_today = NewTask { demands: demands.clone(), ..ask() };
        assert_eq!(text(&of_today).unwrap(), r#"{"concurrency_key":"c"}"#);
        let (key, name) = (Some(Key::Caller("é\u{1}".to_owned())), Some("Anna's".to_owned()));
        let whole = NewTask { key: key.clone(), name: name.clone(), ..of_today };
        let stored = r#"{"concurrency_key":"c","key":{"caller":"é\u0001"},"name":"Anna's"}"#;
        assert_eq!(text(&whole).unwrap(), stored);
        assert_eq!(read(Some(stored)).unwrap(), (demands.clone(), key, name));
        assert_eq!(serde_json::from_str::<Demands>(stored).unwrap(), demands);
        assert_eq!((text(&ask()), read(None).unwrap()), (None, (Demands::default(), None, None)));
        assert_eq!(
            text(&NewTask { key: Some(Key::Request("r".to_owned())), ..ask() }).unwrap(),
            r#"{"key":{"request":"r"}}"#
        );
    }
}
