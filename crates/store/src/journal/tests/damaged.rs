//! Files that are damaged in the middle, and files of the first form.

use super::{JournalFindings, OWNER, keep, key, open, record, waiting};
use crate::journal::{
    file::FileJournal,
    frame::{self, HEADER_LEN, Mark},
};
use punctual_contract::{
    Journal as _,
    journal::{AppendResult, NewRecord},
};
use std::{fs, path::Path};

/// A file of the first form, as written before frames had marks.
fn first_form(tasks: std::ops::Range<i64>) -> Vec<u8> {
    let mut bytes = [&b"PNCTJNL1"[..], &OWNER].concat();
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    for NewRecord { key, digest, body } in tasks.map(record) {
        frame::write(&mut bytes, Mark(&[]), key, digest, &body).unwrap();
    }
    bytes
}

async fn tasks(journal: &FileJournal) -> Vec<i64> {
    waiting(journal).await.into_iter().map(|(_, task)| task).collect()
}

/// The lock of its file is free then.
async fn close(journal: FileJournal) {
    while !journal.is_idle() {
        tokio::task::yield_now().await;
    }
}

fn aside(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains("damaged")).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_behind_a_damaged_frame_is_found_and_the_damaged_file_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("outcomes-0.journal");
    let journal = open(directory.path()).0;
    keep(&journal, 0..5).await.unwrap();
    close(journal).await;
    let whole = fs::read(&file).unwrap();
    let frame_len = (whole.len() - HEADER_LEN) / 5;
    // Each bit of the second frame, and the length of the third; in the last case both, with a torn end.
    let mut damages: Vec<(Vec<usize>, Vec<i64>)> =
        (0..frame_len).map(|at| (vec![HEADER_LEN + frame_len + at], vec![0, 2, 3, 4])).collect();
    let third = HEADER_LEN + 2 * frame_len;
    damages.push((vec![HEADER_LEN, third + 9], vec![1, 3, 4]));
    for (damaged_at, left) in damages {
        let mut damaged = whole.clone();
        damaged_at.iter().for_each(|at| damaged[*at] ^= 0x55);
        fs::write(&file, &damaged).unwrap();
        let (journal, found) = open(directory.path());
        let lost = (5 - left.len()) * frame_len;
        assert_eq!((found.records, found.damaged_bytes), (left.len(), lost as u64), "{damaged_at:?}");
        assert_eq!((tasks(&journal).await, found.torn_bytes), (left.clone(), 0));
        assert_eq!(keep(&journal, 7..8).await.unwrap(), [AppendResult::New]);
        close(journal).await;
        let last = aside(directory.path()).pop().unwrap();
        assert_eq!(fs::read(directory.path().join(last)).unwrap(), damaged);
        let (journal, found) = open(directory.path());
        assert_eq!((found.damaged_bytes, found.torn_bytes), (0, 0), "it was written anew");
        assert_eq!(tasks(&journal).await, [left, vec![7]].concat());
        close(journal).await;
    }
    assert_eq!(aside(directory.path()).len(), 9, "no more are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_stands_in_a_result_is_not_found_behind_damage() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("outcomes-0.journal");
    let (journal, _) = open(directory.path());
    let mut forged = Vec::new();
    frame::write(&mut forged, Mark(&[]), key(66), 1, b"forged").unwrap();
    frame::write(&mut forged, Mark(b"any mark"), key(67), 1, b"forged").unwrap();
    journal.keep(vec![NewRecord { body: forged, ..record(1) }, record(2)]).await.unwrap();
    close(journal).await;
    let mut bytes = fs::read(&file).unwrap();
    bytes[HEADER_LEN + 10] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_eq!(tasks(&open(directory.path()).0).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_first_form_is_read_and_written_anew_and_its_damage_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("outcomes-0.journal");
    fs::write(&file, first_form(0..3)).unwrap();
    let (journal, found) = open(directory.path());
    assert_eq!(found, JournalFindings { records: 3, ..JournalFindings::default() });
    keep(&journal, 3..4).await.unwrap();
    assert_eq!(tasks(&journal).await, [0, 1, 2, 3]);
    close(journal).await;
    let journal = open(directory.path()).0;
    assert_eq!(tasks(&journal).await, [0, 1, 2, 3]);
    close(journal).await;
    assert_eq!(&fs::read(&file).unwrap()[..8], b"PNCTJNL2");
    let mut damaged = first_form(0..3);
    let second = HEADER_LEN + (damaged.len() - HEADER_LEN) / 3;
    damaged[second + 1] ^= 1;
    fs::write(&file, &damaged).unwrap();
    let (journal, found) = open(directory.path());
    assert_eq!((found.records, found.damaged_bytes), (1, (damaged.len() - second) as u64));
    assert_eq!(tasks(&journal).await, [0]);
    assert_eq!(fs::read(directory.path().join("outcomes-0.damaged-1")).unwrap(), damaged);
}
