//! The same with Redis, into which what is due is loaded, from which it is drained, and to which what has fired is offered; and of an
//! engine with a stand-in for it.

use super::*;

dies_on! {
    OnServers::ground();
    after_the_insert_before_the_load: At::Hot(HotGroup::Load);
    after_the_load_before_the_drain: At::Hot(HotGroup::Drain);
    after_the_instant_before_the_offer: At::Hot(HotGroup::Ready);
}

mod stand_in {
    use super::*;

    dies_on! {
        Embedded::with_due_in_hot_set();
        after_the_instant_before_the_offer: At::Hot(HotGroup::Ready);
    }
}
