//! A private network for a test, with addresses that are not loopback: the test runs again, as a process in a
//! network namespace that has only loopback and these. It does not affect the machine's own network, and ends
//! with the process. Must never skip: if no namespace can be made, the test fails with the reason.

use crate::process::program;
use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

/// The variable that marks the process inside the network.
const INSIDE: &str = "TEST_NETWORK_INSIDE";

/// Runs `work` in such a process. `test`: the full name of the calling test, by which the process finds it;
/// `addresses`: IPv4 addresses of the network, within one /24.
///
/// # Panics
/// If `work` does, with its message; or if no namespace can be made.
pub fn on_a_network_of_its_own(test: &str, addresses: &[&str], work: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        make(addresses);
        work();
        return;
    }
    must_be_permitted();
    let itself = std::env::current_exe().expect("a process knows its program");
    let mut inside = unshare();
    inside.arg(itself).args([test, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let ended = inside.stdin(Stdio::null()).output().expect("unshare was there a moment ago");
    let said = said(&ended);
    // An unknown test name would pass with zero tests.
    assert!(ended.status.success() && said.contains("1 passed"), "on a network of its own: {said}");
}

/// A process that ends with its parent, in its own network namespace.
fn unshare() -> Command {
    let mut unshare = Command::new(program("unshare", "util-linux"));
    unshare.args(["--net", "--fork", "--kill-child=KILL", "--"]);
    unshare
}

fn must_be_permitted() {
    let ip = program("ip", "iproute2");
    let tried = unshare().arg(ip).args(["link", "set", "lo", "up"]).output().expect("unshare can be run");
    assert!(
        tried.status.success(),
        "this test needs a network namespace, and none can be made here: run the tests as root, in a container with the \
         capabilities SYS_ADMIN and NET_ADMIN. {}",
        said(&tried)
    );
}

/// One interface with all addresses. Its other end is in the same namespace: no packet leaves it.
fn make(addresses: &[&str]) {
    let mut batch = String::from("link set lo up\n");
    batch.push_str("link add net0 type veth peer name net1\nlink set net0 up\nlink set net1 up\n");
    for address in addresses {
        batch.push_str(&format!("address add {address}/24 dev net0\n"));
    }
    let mut ip = Command::new(program("ip", "iproute2"));
    ip.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut ip = ip.spawn().expect("ip can be run");
    let mut stdin = ip.stdin.take().expect("it was piped");
    stdin.write_all(batch.as_bytes()).expect("ip reads its batch");
    drop(stdin);
    let made = ip.wait_with_output().expect("ip ends");
    assert!(made.status.success(), "the network of this test cannot be made: {}", said(&made));
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}
