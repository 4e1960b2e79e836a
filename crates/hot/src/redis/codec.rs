//! Entries as bytes: a format byte, the fields that scripts compare at fixed positions, and the rest as MessagePack.
//! Compact, because millions of them are stored: arrays, not maps, which the format byte allows. A format is never
//! changed, only followed by another; an unreadable entry is dropped and loaded again.

use punctual_contract::{
    Ask,
    hot::{Details, HotEntry, ParkReason},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    task::{Content, Demands, Priority},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The size of a body with short names and without dispatch data.
const BODY_BYTES: usize = 128;

/// A first attempt without demands, of a release that stored neither the kind nor the dispatch data.
const PLAIN: u8 = 1;
/// The same with `Demanded`.
const WITH_DEMANDS: u8 = 2;
/// `More` follows.
const WITH_MORE: u8 = 3;

/// A number as eight bytes that are ordered as the numbers are.
pub(crate) const fn ordered(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

pub(crate) fn number(bytes: &[u8]) -> Option<i64> {
    Some((u64::from_be_bytes(bytes.try_into().ok()?) ^ (1 << 63)).cast_signed())
}

#[derive(Serialize, Deserialize)]
struct Rest<'a> {
    due_at: i64,
    /// The difference from `due_at` to the due time in the task's reference; nearly always 0.
    moved_ms: i64,
    namespace: &'a str,
    queue: &'a str,
    priority: u8,
    task_id: i64,
    task_version: i64,
    /// `None` is `Millis::MAX`.
    deadline_at: Option<i64>,
    state: u8,
}

impl<'a> Rest<'a> {
    fn of(entry: &'a HotEntry) -> Self {
        Self {
            due_at: entry.due_at.0,
            moved_ms: entry.place.due_at.0.wrapping_sub(entry.due_at.0),
            namespace: entry.queue.namespace.as_str(),
            queue: entry.queue.queue.as_str(),
            priority: entry.priority.level(),
            task_id: entry.task_id,
            task_version: entry.task_version,
            deadline_at: (entry.deadline_at != Millis::MAX).then_some(entry.deadline_at.0),
            state: entry.state.code(),
        }
    }
}

/// The additional fields of `WITH_DEMANDS`.
#[derive(Default, Serialize, Deserialize)]
struct Demanded {
    attempt: u32,
    concurrency_key: Option<String>,
    handler_versions: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct More<'a> {
    demanded: Demanded,
    kind: Option<&'a str>,
    #[serde(borrow)]
    ask: Option<WireAsked<'a>>,
}

/// The dispatch data, as encoded.
#[derive(Serialize, Deserialize)]
struct WireAsked<'a> {
    content: u8,
    #[serde(borrow, with = "serde_bytes")]
    payload: &'a [u8],
    max_attempts: u32,
    /// The difference from `execute_at` to `due_at`; 0 for a first attempt.
    late_ms: i64,
    timeout_ms: Option<i64>,
    #[serde(borrow)]
    labels: BTreeMap<&'a str, &'a str>,
    traceparent: Option<&'a str>,
}

impl<'a> More<'a> {
    fn of(entry: &'a HotEntry) -> Self {
        let Demands { concurrency_key, handler_versions } = entry.demands().clone();
        let demanded = Demanded { attempt: entry.attempt, concurrency_key, handler_versions };
        let ask = entry.ask().map(|ask| WireAsked {
            content: ask.payload.code(),
            payload: &ask.payload.bytes,
            max_attempts: ask.max_attempts,
            late_ms: entry.due_at.0.wrapping_sub(ask.execute_at.0),
            timeout_ms: ask.timeout_ms,
            labels: ask.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            traceparent: ask.traceparent.as_deref(),
        });
        Self { demanded, kind: entry.kind().map(Name::as_str), ask }
    }
}

impl Demanded {
    fn demands(self) -> Demands {
        let Self { concurrency_key, handler_versions, .. } = self;
        Demands { concurrency_key, handler_versions }
    }
}

impl WireAsked<'_> {
    fn ask(self, due_at: i64) -> Option<Arc<Ask>> {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Some(Arc::new(Ask {
            payload: Content::from_code(self.content, self.payload.to_vec())?,
            max_attempts: self.max_attempts,
            execute_at: Millis(due_at.wrapping_sub(self.late_ms)),
            timeout_ms: self.timeout_ms,
            labels: self.labels.into_iter().map(owned).collect(),
            traceparent: self.traceparent.map(str::to_owned),
        }))
    }
}

/// The value that a partition stores under an entry's id.
pub(crate) fn body_of(entry: &HotEntry) -> Vec<u8> {
    let mut body = Vec::with_capacity(BODY_BYTES + entry.ask().map_or(0, |ask| ask.bytes()));
    body.push(WITH_MORE);
    body.extend(ordered(entry.fence));
    write(&mut body, &(Rest::of(entry), More::of(entry)));
    body
}

/// A lane in a message: its kind, the length of its text, the text.
pub(crate) fn lane_word(lane: &ParkReason) -> Vec<u8> {
    let (kind, text) = match lane {
        ParkReason::Key(key) => (b'k', key.as_str()),
        ParkReason::Retries => (b'r', ""),
        ParkReason::Version(version) => (b'v', version.as_str()),
        ParkReason::Kind(kind) => (b'w', kind.as_str()),
    };
    let mut word = vec![kind];
    word.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    word.extend(text.as_bytes());
    word
}

pub(crate) fn lane_of(word: &[u8]) -> Option<ParkReason> {
    let (head, text) = word.split_at_checked(3)?;
    let text = str::from_utf8(text).ok()?.to_owned();
    match head.first()? {
        b'k' => Some(ParkReason::Key(text)),
        b'r' => Some(ParkReason::Retries),
        b'v' => Some(ParkReason::Version(text)),
        b'w' => Some(ParkReason::Kind(text)),
        _ => None,
    }
}

fn write(bytes: &mut Vec<u8>, value: &impl Serialize) {
    rmp_serde::encode::write(bytes, value).expect("numbers and names are written to memory");
}

/// Reads many entries; adjacent entries of one queue and kind share these names.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    queue: Option<Arc<QueueKey>>,
    /// The details of the last entry, which equal entries share.
    last: Arc<Details>,
}

impl Reader {
    pub(crate) fn body(
        &mut self,
        partition: Partition,
        id: &[u8],
        body: &[u8],
        fired_at: Millis,
    ) -> Option<HotEntry> {
        let (head, rest) = body.split_at_checked(9)?;
        let [format, fence @ ..] = head else { return None };
        let (rest, more) = match *format {
            PLAIN => (rmp_serde::from_slice(rest).ok()?, More::default()),
            WITH_DEMANDS => {
                let (rest, demanded) = rmp_serde::from_slice::<(Rest<'_>, Demanded)>(rest).ok()?;
                (rest, More { demanded, ..More::default() })
            }
            WITH_MORE => rmp_serde::from_slice::<(Rest<'_>, More<'_>)>(rest).ok()?,
            _ => return None,
        };
        self.entry(partition, (number(id)?, number(fence)?), fired_at, &rest, more)
    }

    fn entry(
        &mut self,
        partition: Partition,
        (id, fence): (i64, i64),
        fired_at: Millis,
        rest: &Rest<'_>,
        more: More<'_>,
    ) -> Option<HotEntry> {
        let More { demanded, kind, ask } = more;
        Some(HotEntry {
            place: TaskRef { partition, due_at: Millis(rest.due_at.wrapping_add(rest.moved_ms)), id },
            due_at: Millis(rest.due_at),
            fence,
            queue: self.queue(rest.namespace, rest.queue)?,
            priority: Priority::new(rest.priority).ok()?,
            task_id: rest.task_id,
            task_version: rest.task_version,
            deadline_at: rest.deadline_at.map_or(Millis::MAX, Millis),
            state: State::from_code(rest.state)?,
            fired_at,
            attempt: demanded.attempt,
            details: self.details(kind, demanded.demands(), ask.and_then(|asked| asked.ask(rest.due_at))),
        })
    }

    fn queue(&mut self, namespace: &str, queue: &str) -> Option<Arc<QueueKey>> {
        let is_same =
            |known: &&Arc<QueueKey>| known.queue.as_str() == queue && known.namespace.as_str() == namespace;
        if let Some(known) = self.queue.as_ref().filter(is_same) {
            return Some(Arc::clone(known));
        }
        let key = QueueKey { namespace: Name::new(namespace).ok()?, queue: Name::new(queue).ok()? };
        Some(Arc::clone(self.queue.insert(Arc::new(key))))
    }

    fn details(&mut self, kind: Option<&str>, demands: Demands, ask: Option<Arc<Ask>>) -> Arc<Details> {
        let is_last = self.last.kind.as_ref().map(Name::as_str) == kind;
        if !is_last {
            let kind = kind.and_then(|kind| Name::new(kind).ok());
            self.last = Arc::new(Details { kind, ..Details::default() });
        }
        if demands.is_none() && ask.is_none() {
            return Arc::clone(&self.last);
        }
        Arc::new(Details { kind: self.last.kind.clone(), demands, ask })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::redis) fn sample(id: i64, due_at: i64, fence: i64) -> HotEntry {
        let queue = Name::new("mail").unwrap();
        HotEntry {
            place: TaskRef { partition: Partition(0), due_at: Millis(due_at), id },
            due_at: Millis(due_at),
            fence,
            queue: Arc::new(QueueKey { namespace: Name::default_namespace(), queue }),
            priority: Priority::default(),
            task_id: id,
            task_version: 0,
            deadline_at: Millis::MAX,
            state: State::Scheduled,
            fired_at: Millis::ZERO,
            attempt: 0,
            details: Arc::new(Details { kind: Name::new("k").ok(), ..Details::default() }),
        }
    }

    #[test]
    fn bytes_are_ordered_as_their_numbers() {
        let numbers = [i64::MIN, -256, -1, 0, 1, 255, 256, 1 << 53, (1 << 53) + 1, i64::MAX];
        assert!(numbers.map(ordered).is_sorted());
        assert_eq!(numbers.map(|count| number(&ordered(count)).unwrap()), numbers);
    }

    fn with_ask(entry: HotEntry, payload: usize, labels: &[(&str, &str)]) -> HotEntry {
        let ask = Ask {
            payload: Content::binary(vec![b'x'; payload]),
            max_attempts: 5,
            execute_at: entry.due_at.plus(-3),
            timeout_ms: Some(60_000),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        };
        let kind = Some(Name::new("charge-card").unwrap());
        let details = Details { kind, ask: Some(Arc::new(ask)), ..Details::default() };
        HotEntry { details: Arc::new(details), ..entry }
    }

    #[test]
    fn an_ordinary_body_is_small() {
        let task = HotEntry {
            place: TaskRef { due_at: Millis(1_800_000_000_000), ..sample(1 << 40, 0, 1).place },
            task_id: 1 << 52,
            ..sample(1 << 40, 1_800_000_000_000, 1_000)
        };
        // Redis: 3 bytes before the text, 1 after; its allocator gives the next size, which is a quarter more at most.
        assert!(body_of(&task).len() + 4 <= 80, "{}", body_of(&task).len());
        let long = with_ask(task, 200, &[("region", "eu-west-1"), ("tenant", "42")]);
        assert!(body_of(&long).len() + 4 <= 448, "{}", body_of(&long).len());
    }

    #[test]
    fn what_was_asked_for_comes_back_as_it_went() {
        let entry = with_ask(sample(7, 9_000, 2), 0, &[("a", "b"), ("", "é")]);
        let mut outside = entry.clone();
        let ask = Ask { payload: Content::outside(true, "k", 70_000), ..(**entry.ask().unwrap()).clone() };
        Arc::make_mut(&mut outside.details).ask = Some(Arc::new(ask));
        let mut reader = Reader::default();
        for entry in [entry, outside] {
            let read = reader.body(Partition(0), &ordered(7), &body_of(&entry), Millis::ZERO).unwrap();
            assert_eq!(read, entry);
        }
    }

    #[test]
    fn what_an_older_release_wrote_is_read() {
        let entry = HotEntry { attempt: 2, details: Arc::default(), ..sample(7, 1, 2) };
        let demanded = Demanded { attempt: 2, ..Demanded::default() };
        let mut body = vec![WITH_DEMANDS];
        body.extend(ordered(2));
        write(&mut body, &(Rest::of(&entry), &demanded));
        let mut reader = Reader::default();
        assert_eq!(reader.body(Partition(0), &ordered(7), &body, Millis::ZERO).unwrap(), entry);
        let (mut body, first) = (vec![PLAIN], HotEntry { attempt: 0, ..entry });
        body.extend(ordered(2));
        write(&mut body, &Rest::of(&first));
        assert_eq!(reader.body(Partition(0), &ordered(7), &body, Millis::ZERO).unwrap(), first);
    }

    #[test]
    fn what_another_release_wrote_is_not_misread() {
        let entry = with_ask(sample(7, 1, 2), 9, &[("a", "b")]);
        let mut body = body_of(&entry);
        let mut reader = Reader::default();
        assert_eq!(reader.body(Partition(0), &ordered(7), &body, Millis::ZERO).unwrap(), entry);
        for length in 0..body.len() {
            assert_eq!(reader.body(Partition(0), &ordered(7), &body[..length], Millis::ZERO), None);
        }
        let mut retry = HotEntry { attempt: 2, ..entry };
        Arc::make_mut(&mut retry.details).demands =
            Demands { concurrency_key: Some("k".repeat(256)), handler_versions: Some(">=2".into()) };
        assert_eq!(reader.body(Partition(0), &ordered(7), &body_of(&retry), Millis::ZERO).unwrap(), retry);
        body[0] = WITH_MORE + 1;
        assert_eq!(reader.body(Partition(0), &ordered(7), &body, Millis::ZERO), None);
    }

    #[test]
    fn lanes_come_back_as_they_went() {
        for lane in [
            ParkReason::Key(String::new()),
            ParkReason::Key("é/:".into()),
            ParkReason::Retries,
            ParkReason::Version(">=2".into()),
            ParkReason::Kind("mail".into()),
        ] {
            assert_eq!(lane_of(&lane_word(&lane)), Some(lane));
        }
        assert_eq!(lane_of(b"x\0\0"), None);
    }
}
