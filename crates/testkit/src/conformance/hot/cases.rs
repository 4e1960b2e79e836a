//! The list of the cases, for who stamps a test of each.

/// Cases of a hot set: `async fn(Arc<dyn Hot>)`, on an empty one each, with at least `hot::PARTITIONS` partitions.
#[macro_export]
macro_rules! for_each_hot_case {
    ($stamp:ident) => {
        $stamp! {
            due::loading_puts_into_due_and_counts,
            due::loading_twice_is_harmless,
            due::an_entry_comes_back_as_it_went_in,
            due::an_older_fence_never_replaces_a_newer_in_due,
            due::a_newer_fence_replaces_an_older_in_due,
            due::one_id_twice_in_a_load_stands_once,
            due::a_partition_has_only_its_own,
            due::empty_batches_are_nothing,
            drain::what_is_drained_stands_nowhere,
            drain::what_was_drained_may_be_loaded_again_with_the_same_fence,
            drain::nothing_is_drained_beyond_until,
            drain::the_earliest_are_drained_first_up_to_the_limit,
            drain::several_partitions_answer_in_the_order_of_their_tenures,
            drain::a_partition_that_fails_keeps_nothing_from_the_others,
            drain::an_older_term_drains_nothing,
            drain::what_was_due_and_is_withdrawn_is_gone,
            drain::a_newer_fence_is_not_withdrawn,
            drain::what_is_unknown_is_absent,
            drain::a_withdrawal_and_a_drain_never_both_get_it,
            drain::of_many_who_drain_each_entry_goes_to_one,
            drain::a_partition_is_whole_from_the_second_question_of_a_term,
            drain::a_question_with_an_older_term_than_has_drained_is_answered_with_the_newer,
            drain::what_is_due_is_cleared_for_the_newest_term_only,
            drain::fullness_is_a_share_and_an_empty_hot_set_is_not_full,
        }
    };
}
