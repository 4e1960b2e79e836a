//! Looks for one order of the calls of a task that the specification allows and that no client can contradict: a call
//! that was answered before another was made comes first. Wing and Gong's search, which remembers each pair (calls
//! placed, state) that it has been at. Bounded: past the bound it answers "undecided", never "allowed".

use crate::{
    history::RecordedOp,
    spec::{Spec, SpecState},
};
use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Order,
    /// There is none. The longest beginning that there is: how many calls were placed, the state by then, and the calls
    /// that could come next and fit none.
    NoOrder {
        placed: usize,
        state: SpecState,
        next: Vec<usize>,
    },
    Undecided,
}

/// Which calls are placed.
type Placed = Vec<u64>;

fn has(placed: &Placed, nth: usize) -> bool {
    placed.get(nth / 64).is_some_and(|bits| bits >> (nth % 64) & 1 == 1)
}

fn with(placed: &Placed, nth: usize) -> Placed {
    let mut more = placed.clone();
    if let Some(bits) = more.get_mut(nth / 64) {
        *bits |= 1 << (nth % 64);
    }
    more
}

/// Those that may be the next: no call that is left was answered before they were made. Of calls that are the same and were
/// not answered, the first: they can change places.
fn candidates(ops: &[RecordedOp], placed: &Placed) -> Vec<usize> {
    let left = || ops.iter().enumerate().filter(|(nth, _)| !has(placed, *nth));
    let first_answer = left().filter_map(|(_, op)| op.returned).min().unwrap_or(i64::MAX);
    let is_later = |(nth, op): &(usize, &RecordedOp)| {
        let same = |(other, before): (usize, &RecordedOp)| {
            other < *nth && before.returned.is_none() && before.kind == op.kind
        };
        op.returned.is_none() && left().any(same)
    };
    let may_be_next = left().filter(|(_, op)| op.called <= first_answer);
    may_be_next.filter(|entry| !is_later(entry)).map(|(nth, _)| nth).collect()
}

fn is_whole(ops: &[RecordedOp], placed: &Placed) -> bool {
    ops.iter().enumerate().all(|(nth, op)| op.returned.is_none() || has(placed, nth))
}

/// `states` is counted up by each pair that is looked at, and no more than `states_max` of them are.
pub(crate) fn search(ops: &[RecordedOp], spec: &Spec, states_max: usize, states: &mut usize) -> Found {
    let nothing: Placed = vec![0; ops.len().div_ceil(64)];
    let mut open = vec![(nothing.clone(), SpecState::ABSENT, 0)];
    let mut seen: HashSet<(Placed, SpecState)> = HashSet::from([(nothing, SpecState::ABSENT)]);
    let mut longest = open.first().cloned();
    while let Some((placed, state, count)) = open.pop() {
        *states += 1;
        if is_whole(ops, &placed) {
            return Found::Order;
        }
        if seen.len() > states_max {
            return Found::Undecided;
        }
        if longest.as_ref().is_none_or(|(_, _, most)| count > *most) {
            longest = Some((placed.clone(), state, count));
        }
        for nth in candidates(ops, &placed) {
            let Some(op) = ops.get(nth) else { continue };
            for after in spec.after(state, op) {
                let next = (with(&placed, nth), after);
                if seen.insert(next.clone()) {
                    open.push((next.0, next.1, count + 1));
                }
            }
        }
    }
    let (placed, state, count) = longest.unwrap_or((Placed::new(), SpecState::ABSENT, 0));
    Found::NoOrder { placed: count, state, next: candidates(ops, &placed) }
}
