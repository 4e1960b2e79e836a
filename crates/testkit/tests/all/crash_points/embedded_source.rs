//! The same for an embedded engine, which reads due tasks from its store, and hands fired ones out from its
//! table.

use super::*;

dies_on! {
    Embedded::ground();
    before_it_has_read_what_is_far: At::Store(StoreGroup::Scan);
    after_the_read_before_the_instant: At::ReadAhead;
    after_the_instant_before_the_mark: At::Store(StoreGroup::Apply);
    after_the_mark_before_an_executor_asks: At::Ready;
}
