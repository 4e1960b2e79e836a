//! What waits for a writer, in turns: each tenant's in the order in which they came, and of the tenants whoever has had the
//! fewest rows written since it began to wait. A flood of one stands in nobody's way but its own: whoever comes after it
//! waits for what is being written, and not for what waits.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// Whose work it is. Two that are taken for one wait for each other, and nothing else comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenant(u64);

impl Tenant {
    /// The store's own work, and what is not known to be anybody's.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of(namespace: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        Self(hasher.finish())
    }
}

#[derive(Debug)]
pub(crate) struct Turns<J> {
    /// Those with something that waits.
    lines: Vec<Line<J>>,
    length: usize,
}

#[derive(Debug)]
struct Line<J> {
    tenant: Tenant,
    /// Rows, since it began to wait.
    served: usize,
    /// With their rows.
    jobs: VecDeque<(usize, J)>,
}

impl<J> Default for Turns<J> {
    fn default() -> Self {
        Self { lines: Vec::new(), length: 0 }
    }
}

impl<J> Turns<J> {
    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// At the end of its line.
    pub(crate) fn push(&mut self, tenant: Tenant, rows: usize, job: J) {
        self.length += 1;
        self.line(tenant).jobs.push_back((rows.max(1), job));
    }

    /// What was taken and not served is the first of its line again.
    pub(crate) fn put_back(&mut self, tenant: Tenant, rows: usize, job: J) {
        self.length += 1;
        let line = self.line(tenant);
        line.served = line.served.saturating_sub(rows.max(1));
        line.jobs.push_front((rows.max(1), job));
    }

    /// Who begins to wait has had as much as the one who has had the least.
    fn line(&mut self, tenant: Tenant) -> &mut Line<J> {
        let at = self.lines.iter().position(|it| it.tenant == tenant).unwrap_or_else(|| {
            let served = self.lines.iter().map(|it| it.served).min().unwrap_or(0);
            self.lines.push(Line { tenant, served, jobs: VecDeque::new() });
            self.lines.len() - 1
        });
        self.lines.get_mut(at).expect("its place was just found")
    }

    /// Of two that have had the same, the one with less that waits.
    fn next(&self) -> Option<usize> {
        let lines = self.lines.iter().enumerate();
        lines.min_by_key(|it| (it.1.served, it.1.jobs.len(), it.0)).map(|it| it.0)
    }

    /// Rows of what comes next.
    pub(crate) fn next_rows(&self) -> Option<usize> {
        Some(self.lines.get(self.next()?)?.jobs.front()?.0)
    }

    pub(crate) fn pop(&mut self) -> Option<J> {
        let at = self.next()?;
        let line = self.lines.get_mut(at)?;
        let (rows, job) = line.jobs.pop_front()?;
        line.served += rows;
        if line.jobs.is_empty() {
            self.lines.remove(at);
        }
        self.length -= 1;
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(turns: &mut Turns<u32>) -> Vec<u32> {
        std::iter::from_fn(|| turns.pop()).collect()
    }

    #[test]
    fn one_tenant_is_served_in_its_order() {
        let (mut turns, one) = (Turns::default(), Tenant::of("one"));
        (1..=5).for_each(|it| turns.push(one, 100, it));
        assert_eq!((turns.len(), turns.next_rows()), (5, Some(100)));
        assert_eq!(all(&mut turns), [1, 2, 3, 4, 5]);
        assert!(turns.is_empty() && turns.next_rows().is_none());
    }

    #[test]
    fn whoever_comes_behind_a_flood_is_next_and_small_work_is_not_counted_as_large() {
        let (mut turns, one, other) = (Turns::default(), Tenant::of("one"), Tenant::of("other"));
        (1..=9).for_each(|it| turns.push(one, 500, it));
        assert_eq!(turns.pop(), Some(1));
        (11..=14).for_each(|it| turns.push(other, 100, it));
        assert_eq!(all(&mut turns), [11, 2, 12, 13, 14, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn who_comes_back_has_no_credit_for_having_been_away() {
        let (mut turns, one, other) = (Turns::default(), Tenant::of("one"), Tenant::of("other"));
        (1..=9).for_each(|it| turns.push(one, 100, it));
        (1..=5).for_each(|it| assert_eq!(turns.pop(), Some(it)));
        (11..=14).for_each(|it| turns.push(other, 100, it));
        assert_eq!(all(&mut turns), [6, 11, 7, 12, 8, 13, 9, 14], "one each");
    }

    #[test]
    fn what_is_put_back_is_the_first_of_its_line() {
        let (mut turns, one) = (Turns::default(), Tenant::of("one"));
        (1..=3).for_each(|it| turns.push(one, 1, it));
        let taken = [turns.pop(), turns.pop()];
        for it in taken.into_iter().rev().flatten() {
            turns.put_back(one, 1, it);
        }
        assert_eq!(all(&mut turns), [1, 2, 3]);
        assert_ne!(Tenant::of("one"), Tenant::of("other"));
    }
}
