//! The queue of jobs for a writer. Jobs of one tenant are in the order in which they came. The next job is of the tenant with the fewest
//! rows written since it began to wait. A flood of one tenant delays only that tenant: a job of another waits for the running
//! batch, and not for the backlog.

use punctual_contract::store::Grant;
use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// The tenant of a job. Two tenants with one hash wait for each other, without other effects.
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

    /// Grants of several tenants belong to none.
    pub(crate) fn of_grants(grants: &[Grant]) -> Self {
        let Some(first) = grants.first() else { return Self::NONE };
        let is_of_first = |grant: &Grant| grant.namespace == first.namespace;
        if grants.iter().all(is_of_first) { Self::of(first.namespace.as_str()) } else { Self::NONE }
    }
}

#[derive(Debug)]
pub(crate) struct Turns<J> {
    /// The tenants with waiting jobs.
    lines: Vec<TenantJobs<J>>,
    length: usize,
}

#[derive(Debug)]
struct TenantJobs<J> {
    tenant: Tenant,
    /// Rows, since it began to wait.
    served: usize,
    /// The jobs with their numbers of rows.
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

    /// Appends a job to its line.
    pub(crate) fn push(&mut self, tenant: Tenant, rows: usize, job: J) {
        self.length += 1;
        self.line(tenant).jobs.push_back((rows.max(1), job));
    }

    /// Returns a job that was not served to the front of its line.
    pub(crate) fn put_back(&mut self, tenant: Tenant, rows: usize, job: J) {
        self.length += 1;
        let line = self.line(tenant);
        line.served = line.served.saturating_sub(rows.max(1));
        line.jobs.push_front((rows.max(1), job));
    }

    /// The line of a tenant. A new line has had as much as the line that has had the least.
    fn line(&mut self, tenant: Tenant) -> &mut TenantJobs<J> {
        let at = self.lines.iter().position(|line| line.tenant == tenant).unwrap_or_else(|| {
            let served = self.lines.iter().map(|line| line.served).min().unwrap_or(0);
            self.lines.push(TenantJobs { tenant, served, jobs: VecDeque::new() });
            self.lines.len() - 1
        });
        self.lines.get_mut(at).expect("its place was just found")
    }

    /// The next line. Of two that have had the same, the one with fewer waiting jobs is next.
    fn next(&self, may: impl Fn(Tenant) -> bool) -> Option<usize> {
        let lines = self.lines.iter().enumerate().filter(|line| may(line.1.tenant));
        lines.min_by_key(|line| (line.1.served, line.1.jobs.len(), line.0)).map(|line| line.0)
    }

    /// The number of rows of the next job.
    pub(crate) fn next_rows(&self) -> Option<usize> {
        self.next_rows_of(|_| true)
    }

    /// The same of those that may.
    pub(crate) fn next_rows_of(&self, may: impl Fn(Tenant) -> bool) -> Option<usize> {
        Some(self.lines.get(self.next(may)?)?.jobs.front()?.0)
    }

    pub(crate) fn pop(&mut self) -> Option<J> {
        self.pop_of(|_| true).map(|popped| popped.1)
    }

    /// The same of those that may.
    pub(crate) fn pop_of(&mut self, may: impl Fn(Tenant) -> bool) -> Option<(Tenant, J)> {
        let at = self.next(may)?;
        let line = self.lines.get_mut(at)?;
        let (tenant, (rows, job)) = (line.tenant, line.jobs.pop_front()?);
        line.served += rows;
        if line.jobs.is_empty() {
            self.lines.remove(at);
        }
        self.length -= 1;
        Some((tenant, job))
    }

    /// Rows of the tenant with the fewest, if there are several. Jobs without a tenant count for none.
    pub(crate) fn least_of_several(&self) -> Option<usize> {
        let known = self.lines.iter().filter(|line| line.tenant != Tenant::NONE);
        let rows = |line: &TenantJobs<J>| line.jobs.iter().map(|job| job.0).sum::<usize>();
        if known.clone().count() < 2 { None } else { known.map(rows).min() }
    }

    /// Removes the first job of each tenant, and more up to so many rows. No jobs without a tenant.
    pub(crate) fn pop_of_each(&mut self, most: usize) -> Vec<J> {
        let (mut taken, mut popped) = (Vec::<(Tenant, usize)>::new(), Vec::new());
        loop {
            let of = |tenant: Tenant| taken.iter().find(|pair| pair.0 == tenant).map_or(0, |pair| pair.1);
            let fits = |line: &TenantJobs<J>| {
                let rows = line.jobs.front().map_or(0, |job| job.0);
                of(line.tenant) == 0 || of(line.tenant) + rows <= most
            };
            let fitting = self.lines.iter().filter(|line| line.tenant != Tenant::NONE && fits(line));
            let Some((tenant, rows)) =
                fitting.map(|line| (line.tenant, line.jobs.front().map_or(0, |job| job.0))).next()
            else {
                return popped;
            };
            popped.extend(self.pop_of(|this_tenant| this_tenant == tenant).map(|pair| pair.1));
            match taken.iter_mut().find(|pair| pair.0 == tenant) {
                Some(known) => known.1 += rows,
                None => taken.push((tenant, rows)),
            }
        }
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
        (1..=5).for_each(|number| turns.push(one, 100, number));
        assert_eq!((turns.len(), turns.next_rows()), (5, Some(100)));
        assert_eq!(all(&mut turns), [1, 2, 3, 4, 5]);
        assert!(turns.is_empty() && turns.next_rows().is_none());
    }

    #[test]
    fn whoever_comes_behind_a_flood_is_next_and_small_work_is_not_counted_as_large() {
        let (mut turns, one, other) = (Turns::default(), Tenant::of("one"), Tenant::of("other"));
        (1..=9).for_each(|number| turns.push(one, 500, number));
        assert_eq!(turns.pop(), Some(1));
        (11..=14).for_each(|number| turns.push(other, 100, number));
        assert_eq!(all(&mut turns), [11, 2, 12, 13, 14, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn who_comes_back_has_no_credit_for_having_been_away() {
        let (mut turns, one, other) = (Turns::default(), Tenant::of("one"), Tenant::of("other"));
        (1..=9).for_each(|number| turns.push(one, 100, number));
        (1..=5).for_each(|number| assert_eq!(turns.pop(), Some(number)));
        (11..=14).for_each(|number| turns.push(other, 100, number));
        assert_eq!(all(&mut turns), [6, 11, 7, 12, 8, 13, 9, 14], "one each");
    }

    #[test]
    fn of_several_tenants_each_has_as_much_as_the_one_with_the_least() {
        let (mut turns, one, other) = (Turns::default(), Tenant::of("one"), Tenant::of("other"));
        (1..=9).for_each(|number| turns.push(one, 2, number));
        turns.push(Tenant::NONE, 1, 21);
        assert_eq!(turns.least_of_several(), None, "what is nobody's is no tenant");
        (11..=13).for_each(|number| turns.push(other, 1, number));
        assert_eq!(turns.least_of_several(), Some(3));
        let mut popped = turns.pop_of_each(3);
        popped.sort_unstable();
        assert_eq!(popped, [1, 11, 12, 13]);
        assert_eq!((turns.least_of_several(), turns.len()), (None, 9));
        assert_eq!(turns.pop_of_each(1), [2], "the first is never left behind");
    }

    #[test]
    fn who_may_not_is_passed_over() {
        let (mut turns, one, other) = (Turns::default(), Tenant::of("one"), Tenant::of("other"));
        turns.push(one, 5, 1);
        assert_eq!((turns.next_rows_of(|tenant| tenant != one), turns.next_rows()), (None, Some(5)));
        turns.push(other, 1, 11);
        assert_eq!(turns.pop_of(|tenant| tenant != one), Some((other, 11)));
        assert_eq!(turns.pop_of(|tenant| tenant != one), None);
        assert_eq!(turns.pop(), Some(1));
    }

    #[test]
    fn what_is_put_back_is_the_first_of_its_line() {
        let (mut turns, one) = (Turns::default(), Tenant::of("one"));
        (1..=3).for_each(|number| turns.push(one, 1, number));
        let taken = [turns.pop(), turns.pop()];
        for job in taken.into_iter().rev().flatten() {
            turns.put_back(one, 1, job);
        }
        assert_eq!(all(&mut turns), [1, 2, 3]);
        assert_ne!(Tenant::of("one"), Tenant::of("other"));
    }
}
