//! The list of the cases, for who stamps a test of each.

/// Cases of a hot set: `async fn(Arc<dyn Hot>)`, on an empty one each, with at least `hot::PARTITIONS` partitions.
#[macro_export]
macro_rules! for_each_hot_case {
    ($stamp:ident) => {
        $crate::for_each_due_case!($stamp);
        $crate::for_each_ready_case!($stamp);
    };
}

/// Of what is due.
#[macro_export]
macro_rules! for_each_due_case {
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
            drain::a_withdrawal_does_not_touch_a_ready_set,
            drain::a_withdrawal_and_a_drain_never_both_get_it,
            drain::of_many_who_drain_each_entry_goes_to_one,
            drain::a_partition_is_whole_from_the_second_question_of_a_term,
            drain::a_question_with_an_older_term_than_has_drained_is_answered_with_the_newer,
            drain::what_is_due_is_cleared_for_the_newest_term_only,
            drain::fullness_is_a_share_and_an_empty_hot_set_is_not_full,
        }
    };
}

/// Of what has fired.
#[macro_export]
macro_rules! for_each_ready_case {
    ($stamp:ident) => {
        $stamp! {
            ready::admitted_by_priority_then_age,
            ready::of_two_versions_the_newer_goes_first,
            ready::each_queue_has_a_ready_set_of_its_own,
            ready::what_was_discarded_is_passed_over_unless_its_fence_is_newer,
            ready::offering_counts_what_was_put_in,
            ready::the_same_or_an_older_fence_changes_nothing_that_is_ready,
            ready::a_newer_fence_takes_the_place_of_an_older,
            ready::what_is_ready_is_known_by_its_fence,
            ready::of_two_versions_each_is_ready_for_itself,
            ready::what_is_offered_twice_is_admitted_once,
            ready::what_was_admitted_is_the_callers_and_can_be_offered_again,
            ready::admitting_is_bounded,
            ready::depth_says_what_is_where,
            ready::of_many_who_admit_each_entry_goes_to_one,
            ready::of_many_who_offer_the_same_each_entry_stands_once,
            ready::the_chooser_says_which_level_goes_next,
            parked::what_is_parked_is_not_admitted_until_it_is_brought_back,
            parked::the_first_of_a_lane_come_back_first_and_to_their_place,
            parked::lanes_do_not_mix_and_are_listed_page_by_page,
            parked::offered_or_parked_again_it_stays_where_it_is,
            parked::what_stands_in_the_order_is_taken_out_of_it,
            parked::what_is_discarded_leaves_its_lane_unless_its_fence_is_newer,
            parked::a_newer_fence_takes_the_place_of_what_is_parked,
            parked::a_newer_fence_is_parked_in_place_of_what_is_in_the_order,
            parked::of_two_versions_the_parked_one_does_not_hold_up_the_other,
            parked::depth_tells_the_parked_from_the_ready,
            parked::of_many_who_park_and_admit_nothing_is_lost_or_doubled,
        }
    };
}
