//! The maximum number of descriptors of the process. The soft limit is commonly 1,024 for the sake of old programs,
//! and the hard one is the operator's limit: a server raises its soft limit to it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Each costs the kernel memory; more connections than this one engine does not serve.
const ENOUGH: u64 = 65_536;

pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wished = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if current.is_none_or(|current| current >= wished) {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wished), maximum }) {
        Ok(()) => tracing::debug!(from = current, to = wished, "raised the limit of descriptors"),
        Err(error) => tracing::debug!(%error, "the limit of descriptors could not be raised"),
    }
}
