//! Keys with unexpected contents.

use super::connect;
use punctual_contract::{
    Hot as _,
    hot::{HotEntry, Wholeness},
    ownership::Tenure,
};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use punctual_testkit::{
    conformance::hot::{PARTITIONS, entry},
    servers,
};

/// A key of another type, as a person or another program writes it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_in_one_partition_fails_that_one_alone() {
    let server = servers::redis().await;
    let prefix = server.fresh_prefix();
    let hot = connect(&server.url(), &prefix).await;
    let key = |name: &str| format!("{prefix}:{{p1}}:{name}");
    let of = |partition: u16, id: i64| {
        let entry = entry(id, 5, 1);
        HotEntry { place: TaskRef { partition: Partition(partition), ..entry.place }, ..entry }
    };
    let tenures: Vec<Tenure> =
        (0..PARTITIONS).map(|nth| Tenure { partition: Partition(nth), term: 6 }).collect();
    hot.is_whole(&tenures).await.unwrap();
    for broken in ["due", "body"] {
        server.command(&["DEL", &key("due"), &key("body")]).await;
        server.command(&["SET", &key(broken), "written by hand"]).await;
        let all = (0..PARTITIONS).map(|nth| of(nth, i64::from(nth) + 1)).collect();
        let refused = hot.load(all).await.unwrap_err();
        assert!(refused.to_string().contains("a count for each partition"), "{refused}");
        let drained = hot.drain(&tenures, Millis(9), 9).await;
        for (nth, drained) in drained.into_iter().enumerate() {
            let wanted = usize::from(nth != 1);
            assert_eq!(drained.map_or(0, |entries| entries.len()), wanted, "{broken}: partition {nth}");
        }
        assert!(hot.is_whole(&tenures).await.unwrap().iter().all(|found| *found == Wholeness::Whole));
    }
    server.command(&["DEL", &key("whole")]).await;
    server.command(&["LPUSH", &key("whole"), "written by hand"]).await;
    let found = hot.is_whole(&tenures).await.unwrap();
    for (nth, found) in found.into_iter().enumerate() {
        let wanted = if nth == 1 { Wholeness::Broken } else { Wholeness::Whole };
        assert_eq!(found, wanted, "partition {nth}");
    }
}
