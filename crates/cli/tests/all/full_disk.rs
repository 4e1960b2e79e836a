//! Store and log on a disk that is full for a while: what is inserted meanwhile is refused, with a clear error, and what
//! was accepted before fires; afterwards everything continues, without a restart.

use crate::binary::{Server, wait_for};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// A disk of its own, small, in memory.
pub(crate) struct Disk {
    dir: TempDir,
}

impl Disk {
    pub(crate) fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path());
        let mounted = mount.status().expect("`mount` can be run");
        assert!(mounted.success(), "this test mounts a tmpfs: run it as root, or where that is allowed");
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Until not a byte more can be written.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = File::create(&path).unwrap();
        for piece in [vec![0; 1 << 16], vec![0; 1]] {
            while file.write_all(&piece).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: the server may still be ending.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn task(delay_ms: u32) -> Value {
    // Larger than what may be left of the last page.
    json!({ "queue": "q", "delay_ms": delay_ms, "payload": "x".repeat(20_000) })
}

fn fires(server: &Server, task: &Value) {
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(leased["ref"], task["ref"]);
    assert_eq!(server.succeed(&leased), "accepted");
}

#[test]
fn a_disk_that_is_full_for_a_while_stops_nothing_for_good() {
    let disk = Disk::new("16m");
    let log = File::create(disk.path().join("log")).unwrap();
    let server = Server::start_saying_to(disk.path(), &["--log-filter", "debug"], log);
    let before = server.insert(task(0));
    fires(&server, &before);
    // Due while the disk is full.
    let accepted = server.insert(task(1_000));
    assert_eq!(server.get("/readyz").0, 200);

    let filler = disk.fill();
    let refused = wait_for("a refusal", || {
        let (status, answer) = server.post("/v1/tasks", task(3_600_000));
        (status != 201).then_some((status, answer))
    });
    assert_eq!((refused.0, &refused.1["code"]), (503, &json!("store.unavailable")), "{}", refused.1);
    let problem = wait_for("not ready", || {
        let (status, problem) = server.get("/readyz");
        (status == 503).then_some(problem)
    });
    let writers = problem["parts"].as_array().unwrap().iter().find(|part| part["name"] == "writers").unwrap();
    assert_eq!(writers["ok"], false, "{problem}");
    // What panics or ends now must have had its turn.
    for _ in 0..50 {
        server.post("/v1/tasks", task(0));
    }

    fs::remove_file(filler).unwrap();
    wait_for("ready again", || (server.get("/readyz").0 == 200).then_some(()));
    fires(&server, &accepted);
    let after = wait_for("an insert", || {
        let (status, task) = server.post("/v1/tasks", task(0));
        (status == 201).then_some(task)
    });
    fires(&server, &after);
    assert_eq!(server.metric("punctual_panics_total"), 0.0);
}
