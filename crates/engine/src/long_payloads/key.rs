//! Names of objects. A key names its task and the time of the put, so that the task can be found from the
//! object alone; each key is unique. A durable format: an unreadable key is left alone.

use punctual_domain::{name::Name, time::Millis};
use std::{fmt, str::FromStr};

const DAY_MS: i64 = 86_400_000;

/// The task of a content, and when it was put:
/// `020777/n-<namespace>/<task_id>.<task_version>.<put_at_ms>.<number>`. The folder is the day of `put_at`
/// (since 1970, UTC), so that keys sort by day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobKey {
    pub(crate) namespace: Name,
    pub(crate) task_id: i64,
    pub(crate) task_version: i64,
    pub(crate) put_at: Millis,
    /// Random.
    pub(crate) number: u64,
}

/// The folder of a day. Keys of later days sort after all keys of earlier ones.
fn folder(at: Millis) -> String {
    format!("{:06}", at.0.max(0) / DAY_MS)
}

/// True if a key was put on a later day; then all keys that follow it were put later, too.
pub(crate) fn is_of_a_later_day(key: &str, than: Millis) -> bool {
    key.split('/').next().is_some_and(|part| part > folder(than).as_str())
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, namespace) = (folder(self.put_at), self.namespace.as_str());
        let Self { task_id, task_version, put_at, number, .. } = self;
        write!(f, "{folder}/n-{namespace}/{task_id}.{task_version}.{}.{number:016x}", put_at.0)
    }
}

#[derive(Debug)]
pub(crate) struct NoKey;

impl FromStr for BlobKey {
    type Err = NoKey;
    fn from_str(text: &str) -> Result<Self, NoKey> {
        let mut parts = text.splitn(3, '/').skip(1);
        let namespace = parts.next().and_then(|part| part.strip_prefix("n-")).ok_or(NoKey)?;
        let mut fields = parts.next().ok_or(NoKey)?.split('.');
        let mut number = || fields.next().and_then(|field| field.parse::<i64>().ok()).ok_or(NoKey);
        let (task_id, task_version, put_at) = (number()?, number()?, Millis(number()?));
        let key = Self {
            namespace: Name::new(namespace).map_err(|_| NoKey)?,
            task_id,
            task_version,
            put_at,
            number: fields.next().and_then(|field| u64::from_str_radix(field, 16).ok()).ok_or(NoKey)?,
        };
        if key.to_string() == text { Ok(key) } else { Err(NoKey) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, put_at: i64) -> BlobKey {
        let namespace = Name::new(namespace).unwrap();
        BlobKey { namespace, task_id: -7, task_version: i64::MAX, put_at: Millis(put_at), number: 255 }
    }

    #[test]
    fn keys_are_pinned_because_rows_have_them_and_read_back() {
        let text = "020454/n-a.b:c/-7.9223372036854775807.1767225600000.00000000000000ff";
        assert_eq!(key("a.b:c", 1_767_225_600_000).to_string(), text);
        assert_eq!(text.parse::<BlobKey>().unwrap(), key("a.b:c", 1_767_225_600_000));
        for odd in ["", "x", "020454/n-a/1.2.3", "020454/a/1.2.3.ff", &text.replace("020454", "020455")] {
            assert!(odd.parse::<BlobKey>().is_err(), "{odd}");
        }
    }

    #[test]
    fn keys_stand_in_the_order_of_days_whatever_their_namespaces() {
        let (early, late) = (key("z", DAY_MS * 9), key("a", DAY_MS * 10));
        assert!(early.to_string() < late.to_string());
        assert!(is_of_a_later_day(&late.to_string(), early.put_at));
        assert!(!is_of_a_later_day(&early.to_string(), Millis(DAY_MS * 10 - 1)));
    }
}
