//! The content of a stream entry: a version byte, then MessagePack with short names, so that fields can be
//! added and omitted. A durable format: messages outlive the build that wrote them. The queue is not
//! included: the stream's key names it.

use crate::error::Error;
use punctual_contract::store::Assignment;
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    task::{Content, Priority},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) const VERSION: u8 = 1;

/// Names are never used again for something else.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    /// RedisEndpoints of the task: partition, due (ms), id.
    p: u16,
    d: i64,
    i: i64,
    task: i64,
    ver: i64,
    fence: i64,
    try_no: u32,
    tries: u32,
    kind: &'a str,
    prio: u8,
    json: bool,
    #[serde(with = "serde_bytes")]
    body: &'a [u8],
    /// Milliseconds.
    due: i64,
    /// `None` if it equals `due`, as nearly always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<i64>,
    fired: i64,
    lease: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
}

/// Rough size of all but the payload, to allocate once.
const HEAD_LEN: usize = 192;

pub(crate) fn encode(lease: &Assignment) -> Result<Vec<u8>, Error> {
    let body = Body {
        p: lease.place.partition.0,
        d: lease.place.due_at.0,
        i: lease.place.id,
        task: lease.task_id,
        ver: lease.task_version,
        fence: lease.fence,
        try_no: lease.attempt,
        tries: lease.max_attempts,
        kind: lease.kind.as_str(),
        prio: lease.priority.level(),
        json: lease.payload.is_json,
        body: &lease.payload.bytes,
        due: lease.due_at.0,
        asked: (lease.execute_at != lease.due_at).then_some(lease.execute_at.0),
        fired: lease.fired_at.0,
        lease: lease.lease_until.0,
        limit: lease.timeout_ms,
        trace: lease.traceparent.as_deref(),
        labels: lease.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
    };
    let mut bytes = Vec::with_capacity(HEAD_LEN + lease.payload.bytes.len());
    bytes.push(VERSION);
    rmp_serde::encode::write_named(&mut bytes, &body)?;
    Ok(bytes)
}

pub(crate) fn decode(queue: &QueueKey, bytes: &[u8]) -> Result<Assignment, Error> {
    let (version, packed) = bytes.split_first().ok_or(Error::Reply("an entry without a body"))?;
    if *version != VERSION {
        return Err(Error::Version(*version));
    }
    let body: Body<'_> = rmp_serde::from_slice(packed)?;
    Ok(Assignment {
        place: TaskRef { partition: Partition(body.p), due_at: Millis(body.d), id: body.i },
        queue: queue.clone(),
        task_id: body.task,
        task_version: body.ver,
        fence: body.fence,
        attempt: body.try_no,
        max_attempts: body.tries,
        kind: Name::new(body.kind).map_err(|error| Error::Content(error.to_string()))?,
        priority: Priority::new(body.prio).map_err(|error| Error::Content(error.to_string()))?,
        payload: Content::inside(body.json, body.body.to_vec()),
        execute_at: Millis(body.asked.unwrap_or(body.due)),
        due_at: Millis(body.due),
        fired_at: Millis(body.fired),
        // Subscribers need no other instant.
        leased_since: Millis(body.fired),
        lease_until: Millis(body.lease),
        timeout_ms: body.limit,
        traceparent: body.trace.map(str::to_owned),
        labels: body.labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn queue() -> QueueKey {
        QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() }
    }

    pub(in crate::redis) fn assignment() -> Assignment {
        with(Content::default(), None)
    }

    fn with(payload: Content, traceparent: Option<String>) -> Assignment {
        Assignment {
            place: TaskRef { partition: Partition(u16::MAX), due_at: Millis::MAX, id: i64::MIN },
            queue: queue(),
            task_id: i64::MAX,
            task_version: -1,
            fence: i64::MAX,
            attempt: u32::MAX,
            max_attempts: 1,
            kind: Name::new("k:1").unwrap(),
            priority: Priority::LOWEST,
            payload,
            execute_at: Millis(i64::from(traceparent.is_none())),
            due_at: Millis(1),
            fired_at: Millis(2),
            leased_since: Millis(2),
            lease_until: Millis(3),
            timeout_ms: traceparent.as_ref().map(|_| i64::MAX),
            labels: traceparent.iter().map(|traceparent| (traceparent.clone(), "v".to_owned())).collect(),
            traceparent,
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for payload in [Content::default(), Content::json("{}"), Content::binary((0..=255).collect())] {
            for trace in [None, Some("00-a".to_owned())] {
                let lease = with(payload.clone(), trace);
                assert_eq!(decode(&queue(), &encode(&lease).unwrap()).unwrap(), lease);
            }
        }
    }

    /// Messages of older builds are read.
    #[test]
    fn the_format_is_pinned() {
        let lease = with(Content::binary(vec![0xff]), None);
        let hex: String = encode(&lease).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, PINNED);
    }
    const PINNED: &str = "018fa170cdffffa164cf0000e677d21fdbffa169d38000000000000000a47461736bcf7fffffffffffffffa3766572ff\
        a566656e6365cf7fffffffffffffffa67472795f6e6fceffffffffa5747269657301a46b696e64a36b3a31a47072696f05a46a736f6e\
        c2a4626f6479c401ffa364756501a5666972656402a56c6561736503";

    #[test]
    fn payload_bytes_take_one_byte_each() {
        let empty = encode(&with(Content::default(), None)).unwrap().len();
        assert!(empty <= HEAD_LEN, "{empty}");
        let full = encode(&with(Content::binary(vec![0xff; 1_000]), None)).unwrap().len();
        assert!(full - empty <= 1_002, "{}", full - empty);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let good = encode(&with(Content::default(), None)).unwrap();
        assert!(matches!(decode(&queue(), &[]), Err(Error::Reply(_))));
        assert!(matches!(decode(&queue(), &[9, 1]), Err(Error::Version(9))));
        for len in 1..good.len() {
            assert!(decode(&queue(), &good[..len]).is_err(), "cut at {len}");
        }
    }
}
