//! The same with Redis, into which due tasks are loaded, and from which they are drained.

use super::*;

dies_on! {
    OnServers::ground();
    after_the_insert_before_the_load: At::Hot(HotGroup::Load);
    after_the_load_before_the_drain: At::Hot(HotGroup::Drain);
}
