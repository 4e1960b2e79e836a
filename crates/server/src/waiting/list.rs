//! The requests that wait for the end of a task, in the order of their last check. Must never import what uses the list.

use parking_lot::Mutex;
use punctual_domain::place::TaskRef;
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// The maximum number of tasks that one check reads. With more waiting requests, each task is checked less often.
const CHECK_MAX: usize = 500;

/// The requests that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingRequests(Mutex<WaitingList>);

#[derive(Debug, Default)]
struct WaitingList {
    /// The task that was checked longest ago is first.
    requests: VecDeque<WaitingRequest>,
    has_checker: bool,
}

#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) place: TaskRef,
    pub(super) ended: oneshot::Sender<()>,
}

impl WaitingRequests {
    /// Returns true if the caller must start the checker.
    pub(super) fn add(&self, request: WaitingRequest) -> bool {
        let mut list = self.0.lock();
        list.requests.push_back(request);
        !std::mem::replace(&mut list.has_checker, true)
    }

    /// The requests of the next check. Empty: nothing waits, and the checker has ended.
    pub(super) fn next(&self) -> Vec<WaitingRequest> {
        let mut list = self.0.lock();
        list.requests.retain(|request| !request.ended.is_closed());
        let count = list.requests.len().min(CHECK_MAX);
        let next: Vec<_> = list.requests.drain(..count).collect();
        list.has_checker = !next.is_empty();
        next
    }

    pub(super) fn put_back(&self, requests: Vec<WaitingRequest>) {
        self.0.lock().requests.extend(requests);
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = WaitingList::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{place::Partition, time::Millis};

    fn request(id: i64) -> (WaitingRequest, oneshot::Receiver<()>) {
        let (ended, has_ended) = oneshot::channel();
        (
            WaitingRequest { place: TaskRef { partition: Partition(0), due_at: Millis(0), id }, ended },
            has_ended,
        )
    }

    #[test]
    fn one_checker_serves_all_requests_and_ends_with_the_last() {
        let waiting = WaitingRequests::default();
        let (requests, receivers): (Vec<_>, Vec<_>) = (0..).map(request).take(CHECK_MAX + 2).unzip();
        let started: Vec<bool> = requests.into_iter().map(|request| waiting.add(request)).collect();
        assert_eq!(started.iter().filter(|is_first| **is_first).count(), 1);
        let first = waiting.next();
        assert_eq!((first.len(), first.first().map(|request| request.place.id)), (CHECK_MAX, Some(0)));
        waiting.put_back(first);
        let second = waiting.next();
        assert_eq!(second.first().map(|request| request.place.id), Some(CHECK_MAX as i64));
        waiting.put_back(second);
        drop(receivers);
        assert!(waiting.next().is_empty(), "requests whose caller is gone are not checked");
        let (request, _has_ended) = request(1);
        assert!(waiting.add(request), "the next request starts another checker");
    }
}
