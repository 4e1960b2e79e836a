//! What an entry costs, measured on the process: bar P8. Stands alone in its binary, so that nothing else
//! allocates meanwhile.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use punctual_contract::{
    Hot as _,
    hot::{Details, HotEntry},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{TaskRef, partition_of},
    state::State,
    task::Priority,
    time::Millis,
};
use punctual_hot::{MemoryHot, Options};
use std::{fs, sync::Arc};

/// As many in a partition as a million over 64: tables that double weigh the same.
const ENTRIES: i64 = 250_000;
const PARTITIONS: u16 = 16;
/// Bytes an entry, index and order included.
const BAR: usize = 150;

fn entry(id: i64, due_at: Millis) -> HotEntry {
    let namespace = Name::default_namespace();
    let partition = partition_of(&namespace, id, PARTITIONS);
    HotEntry {
        place: TaskRef { partition, due_at, id },
        due_at,
        fence: 1,
        // A name of its own each, as a store would hand them out.
        queue: Arc::new(QueueKey { namespace, queue: Name::new("mail").unwrap() }),
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

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// Both sets live until the end: what one gave back would hide what the next one takes.
struct HotSet {
    hot: MemoryHot,
    bytes_each: usize,
}

impl HotSet {
    async fn filled(due_at: impl Fn(i64) -> i64) -> Self {
        let before = resident_bytes();
        let hot = MemoryHot::new(Options { partitions: PARTITIONS });
        for first in (0..ENTRIES).step_by(1_000) {
            let ids = first..first + 1_000;
            hot.load(ids.map(|id| entry(id, Millis(due_at(id)))).collect()).await.unwrap();
        }
        let bytes_each = (resident_bytes() - before) / usize::try_from(ENTRIES).unwrap();
        Self { hot, bytes_each }
    }
}

#[tokio::test]
async fn an_entry_stays_below_the_bar_whatever_order_it_came_in() {
    let shuffled = HotSet::filled(|id| 1_000 + id * 7_919 % 3_600_000).await;
    let ascending = HotSet::filled(|id| 1_000 + id).await;
    println!("bytes an entry: {} shuffled, {} in due order", shuffled.bytes_each, ascending.bytes_each);
    assert!(shuffled.bytes_each <= BAR, "{} bytes, the bar is {BAR}", shuffled.bytes_each);
    assert!(ascending.bytes_each <= BAR, "{} bytes, the bar is {BAR}", ascending.bytes_each);
    assert_eq!(shuffled.hot.depth().await.unwrap(), ascending.hot.depth().await.unwrap());
}
