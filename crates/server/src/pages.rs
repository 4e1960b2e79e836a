//! Pages of the items that a token reaches. A store knows no tokens: its answers are filtered here, and read on until
//! the page is full, so that a limited token does not get empty pages.

use crate::{access::Who, refusal::Refusal};
use std::future::Future;

/// Pages of the store that one answer may cost.
const ROUNDS_MAX: usize = 20;
/// The minimum number of items that a page that is filtered here requests from the store at a time.
pub(crate) const SIFTED_MIN: usize = 1_000;

/// A page, in its order, with the positions of its items: ids, mostly.
pub(crate) struct Numbered<T, P = i64> {
    pub(crate) items: Vec<(P, T)>,
    /// The next page is behind this position, or `None` if this was the last.
    pub(crate) next: Option<P>,
}

impl<T, P> Numbered<T, P> {
    pub(crate) const fn empty() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

/// The number of items to request from the store for a page of this length.
pub(crate) fn asked(who: &Who, limit: usize) -> usize {
    if who.reaches_everything() { limit } else { limit.max(SIFTED_MIN) }
}

/// The first `limit` of what is seen. Fewer, and a next page, only where very little of very much is seen.
pub(crate) async fn filled<T, P, F>(
    limit: usize,
    behind: Option<P>,
    page: impl Fn(Option<P>) -> F,
    is_seen: impl Fn(&T) -> bool,
) -> Result<Numbered<T, P>, Refusal>
where
    P: Copy,
    F: Future<Output = Result<Numbered<T, P>, Refusal>>,
{
    let mut all = Numbered { items: Vec::new(), next: behind };
    for _ in 0..ROUNDS_MAX {
        let found = page(all.next).await?;
        all.items.extend(found.items.into_iter().filter(|pair| is_seen(&pair.1)));
        all.next = found.next;
        if all.items.len() > limit {
            all.items.truncate(limit);
            all.next = all.items.last().map(|pair| pair.0);
        }
        if all.items.len() == limit || all.next.is_none() {
            break;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from 100 down, ten a page.
    async fn ten(before: Option<i64>) -> Result<Numbered<i64>, Refusal> {
        let first = before.unwrap_or(101) - 1;
        let items: Vec<_> = (1..=first).rev().take(10).map(|number| (number, number)).collect();
        let next = items.last().map(|pair| pair.0).filter(|number| *number > 1);
        Ok(Numbered { items, next })
    }

    #[tokio::test]
    async fn pages_are_full_until_the_last_and_each_item_is_in_one() {
        for every in [1, 3, 7, 50] {
            let (mut before, mut found) = (None, Vec::new());
            loop {
                let page = filled(4, before, ten, |number| number % every == 0).await.unwrap();
                assert!(page.items.len() == 4 || page.next.is_none(), "a page is short: {every}");
                found.extend(page.items.iter().map(|pair| pair.1));
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            let wanted: Vec<i64> = (1..=100).rev().filter(|number| number % every == 0).collect();
            assert_eq!(found, wanted);
        }
    }

    #[tokio::test]
    async fn where_nothing_is_seen_the_page_is_the_last() {
        let page = filled(4, None, ten, |_| false).await.unwrap();
        assert!(page.items.is_empty() && page.next.is_none());
    }
}
