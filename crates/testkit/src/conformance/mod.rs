//! The suites: one case for each promise in the prose of the contract. A back end is correct if it passes its
//! suite. Every case must be listed here, in the one list that every back end's tests are stamped from; a
//! test verifies that. Cases know no back end; they report by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "test code in library clothing: it reports by panicking"
)]

pub mod bus;
pub mod evaluations;
pub mod hot;
pub mod limiter;
pub mod ownership;
pub mod schedules;
pub mod signals;
pub mod store;
pub mod workflows;

/// Cases of a store: `async fn(Arc<dyn Store>)`, on an empty store each; `store::conserved` afterwards.
#[macro_export]
macro_rules! for_each_store_case {
    ($stamp:ident) => {
        $stamp! {
            insert::a_new_task_stands_as_it_was_asked,
            insert::a_task_is_due_no_earlier_than_it_was_accepted,
            insert::its_partition_is_the_one_that_placement_says,
            insert::what_stands_is_treated_as_the_rule_says_in_every_state,
            insert::what_is_to_be_kept_stays_in_every_state,
            insert::a_lower_version_is_refused_and_shown_the_highest,
            insert::a_version_under_a_higher_one_is_refused_even_if_it_exists,
            insert::a_replacement_is_a_new_wish_in_the_old_place,
            insert::one_id_twice_in_a_batch_is_stored_once,
            insert::versions_in_one_batch_see_each_other,
            insert::results_stand_in_the_order_of_what_was_asked,
            insert::ids_that_follow_each_other_are_each_decided_by_what_stands,
            insert::plain_tasks_and_others_come_in_one_batch,
            insert::an_empty_batch_is_nothing,
            insert::what_arrives_too_late_is_not_stored,
            insert::tasks_without_an_id_get_one_that_is_free,
            insert::the_same_id_in_another_namespace_is_another_task,
            insert::a_thousand_at_once_of_one_id_create_it_once,
            insert::ids_given_to_many_at_once_are_all_different,
            insert::the_insert_is_the_first_line_of_the_history,
            identity::a_key_is_kept_with_its_task_and_stands_for_an_id,
            identity::keys_are_compared_letter_for_letter,
            identity::versions_of_a_key_are_decided_as_those_of_an_id,
            identity::a_key_whose_id_another_has_takes_its_second_and_keeps_it,
            identity::the_id_of_a_key_is_not_to_be_had_without_it,
            identity::a_key_is_free_again_when_its_task_is_gone,
            identity::a_hundred_at_once_of_one_key_create_it_once,
            identity::whoever_must_be_first_is_refused_in_every_state,
            content::a_megabyte_of_any_bytes_comes_back_identical,
            content::a_result_of_any_bytes_comes_back_identical,
            content::a_reference_to_what_is_outside_comes_back_as_one,
            content::an_empty_payload_is_not_no_payload,
            content::text_of_any_script_comes_back_identical,
            content::the_furthest_numbers_come_back_identical,
            content::the_last_instant_can_be_waited_for,
            moves::every_legal_move_is_made_and_recorded,
            moves::a_move_that_ends_an_attempt_says_whose_it_was,
            moves::every_other_pair_is_lost_and_leaves_the_task_alone,
            moves::a_fence_that_is_not_the_tasks_is_refused_for_every_move,
            moves::without_a_fence_any_is_accepted,
            moves::a_task_that_does_not_exist_is_lost,
            moves::a_place_that_is_out_of_date_still_finds_its_task,
            moves::results_of_steps_stand_in_their_order,
            moves::one_task_twice_in_a_batch_moves_step_by_step,
            moves::no_steps_are_nothing,
            moves::of_many_who_claim_one_task_one_gets_it,
            moves::an_abandoned_call_leaves_no_half,
            moves::the_given_time_is_the_only_clock,
            changes::firing_sets_when_and_keeps_the_plan,
            changes::a_retry_sets_the_next_time_and_keeps_the_attempt,
            changes::a_snooze_gives_the_attempt_back_and_sets_the_time,
            changes::a_retry_or_a_snooze_does_not_move_the_deadline,
            changes::the_next_attempt_is_due_no_earlier_than_the_change,
            changes::a_release_gives_the_attempt_back_and_keeps_the_fence,
            changes::a_success_keeps_its_result,
            changes::the_dead_keep_their_last_error,
            changes::a_finished_task_says_how_long_it_is_kept,
            changes::the_last_outcome_says_when_its_attempt_fired,
            changes::each_of_many_outcomes_says_when_its_own_attempt_fired,
            changes::a_reschedule_changes_what_is_given_and_only_that,
            changes::a_reschedule_into_the_past_is_due_now,
            changes::a_dead_task_is_changed_where_it_stands_and_only_what_is_given,
            changes::a_redriven_task_starts_its_attempts_again,
            changes::histories_chain_from_the_insert_to_the_present,
            changes::a_line_says_by_whom_why_and_with_what_error,
            changes::errors_of_64_kib_are_kept_whole_and_longer_ones_say_that_they_were_cut,
            changes::a_long_history_keeps_its_first_line_and_says_how_many_it_has_lost,
            dispatch::a_dispatch_spends_an_attempt_and_makes_fence_and_lease,
            dispatch::each_of_many_keeps_its_own_instant_of_firing,
            dispatch::an_assignment_says_all_that_an_executor_needs,
            dispatch::a_lease_ends_no_later_than_the_timeout_allows,
            dispatch::an_old_fence_is_not_dispatched,
            dispatch::one_task_twice_in_a_batch_is_handed_over_once,
            dispatch::grants_are_answered_in_their_order,
            dispatch::of_many_who_dispatch_one_task_one_gets_it,
            dispatch::a_cancel_and_a_dispatch_never_both_win,
            dispatch::each_attempt_has_a_higher_fence_than_the_last,
            facts::a_hand_over_with_facts_is_one_without,
            facts::a_next_attempt_is_handed_over_with_facts,
            facts::what_is_scanned_brings_what_a_hand_over_needs,
            facts::what_is_known_is_not_looked_at,
            facts::rows_that_are_not_alike_are_handed_over_with_facts,
            facts::tasks_that_are_otherwise_are_looked_at,
            facts::facts_of_an_old_fence_hand_nothing_over,
            facts::of_many_who_know_one_task_one_gets_it,
            facts::a_paused_queue_hands_nothing_over_to_who_knows_its_tasks,
            facts::a_success_with_facts_is_one_without,
            facts::attempts_that_are_otherwise_are_looked_at,
            leases::a_beat_extends_the_lease,
            leases::a_beat_never_extends_beyond_the_timeout,
            leases::an_attempt_that_is_leased_ahead_begins_when_it_fires,
            leases::whoever_was_handed_a_task_is_written_down_and_has_not_begun,
            leases::when_an_attempt_fired_is_told_after_its_end_too,
            leases::a_lease_that_has_ended_is_lost,
            leases::a_beat_with_another_fence_is_lost,
            leases::a_beat_for_a_finished_or_unknown_task_is_lost,
            leases::the_first_beat_starts_the_task_and_later_ones_do_not,
            leases::progress_is_kept_until_there_is_new,
            leases::what_a_handler_says_is_kept_with_the_task,
            leases::a_long_log_loses_its_oldest_lines_only,
            leases::a_replacement_begins_a_new_log,
            leases::beats_are_answered_in_their_order,
            leases::an_outcome_after_the_lease_is_accepted_while_the_fence_holds,
            leases::an_outcome_of_an_earlier_attempt_is_refused,
            leases::a_stop_request_reaches_the_executor_at_its_next_beat,
            leases::only_a_task_in_flight_can_be_asked_to_stop,
            leases::a_new_attempt_has_not_been_asked_to_stop,
            leases::all_that_is_in_flight_is_found_page_by_page,
            leases::ended_leases_are_found_the_longest_ended_first,
            leases::leases_that_were_given_back_are_not_found,
            retries::every_retry_policy_comes_back_identical,
            retries::a_retry_is_due_at_the_instant_of_the_next_attempt,
            scan::only_what_waits_is_found,
            scan::entries_come_in_order_of_due_time_and_id,
            scan::pages_follow_each_other_without_gap_or_overlap,
            scan::until_is_inclusive_and_after_is_exclusive,
            scan::a_partition_shows_only_its_own,
            scan::scans_that_are_answered_together_answer_as_each_does,
            scan::an_entry_says_what_its_task_says,
            scan::a_new_time_moves_the_entry,
            overdue::only_what_has_not_fired_is_overdue,
            overdue::a_walk_meets_everything_and_stops_where_it_was_told,
            overdue::what_a_scan_has_passed_is_seen_all_the_same,
            lookup::reading_answers_in_order_with_gaps_where_nothing_is,
            lookup::versions_come_the_highest_first,
            lookup::the_highest_version_of_each_of_several_ids_is_one_read,
            lookup::a_list_is_newest_first_and_bounded,
            lookup::the_oldest_first_is_the_same_list_the_other_way_round,
            lookup::each_filter_holds_and_all_hold_together,
            lookup::the_dead_are_found_by_when_they_died_and_of_what,
            lookup::pages_of_a_list_find_everything_once,
            chunks::thirty_two_of_sixty_five_thousand_are_one_page,
            chunks::what_goes_into_another_queue_is_found_there,
            chunks::a_replacement_is_found_in_its_new_queue_and_kind,
            labels::what_is_inserted_with_a_declared_label_is_found_along_it,
            labels::what_stood_before_a_label_was_declared_is_found_along_it_when_all_is_entered,
            labels::a_replacement_is_found_under_its_new_label_only,
            labels::what_goes_into_another_queue_is_found_as_that_has_declared,
            labels::what_is_deleted_is_found_no_more_and_its_id_can_come_again,
            labels::without_a_queue_each_that_has_tasks_must_have_declared_the_label,
            labels::what_is_no_longer_declared_is_walked_to_until_it_is_whole_again,
            labels::the_dead_of_a_namespace_are_found_among_the_dead_alone,
            labels::a_search_along_due_times_finds_everything_once_the_latest_first,
            retire::a_success_is_stopped_first_and_deleted_later,
            retire::other_finished_tasks_are_deleted_when_their_time_is_over,
            retire::what_is_kept_or_unfinished_is_left_alone,
            retire::a_batch_is_bounded_and_the_rest_comes_next,
            retire::what_was_deleted_can_be_asked_for_again,
            namespaces::tasks_are_deleted_in_every_state_and_those_of_others_are_not,
            namespaces::those_that_executors_are_at_are_left_until_they_are_asked_for,
            namespaces::a_batch_of_a_deletion_is_bounded_and_the_next_goes_on_behind_it,
            namespaces::a_finished_task_is_deleted_as_it_was_seen_and_no_other,
            namespaces::answers_and_traces_of_a_namespace_are_deleted_and_those_of_others_are_not,
            books::an_empty_store_has_empty_books,
            books::books_are_sorted_and_say_where_every_task_is,
            books::a_replacement_that_changes_queue_moves_the_account,
            books::a_task_that_goes_into_another_queue_takes_its_account_along,
            books::books_have_the_bytes_of_payloads_as_long_as_their_tasks_wait,
            books::every_accepted_task_stays_accounted_for_to_its_end,
            books::books_balance_while_many_write,
            books::to_check_the_writers_is_counted_nowhere,
            ledger::a_count_says_where_every_task_is,
            ledger::what_is_deleted_is_in_no_register,
            ledger::a_count_beside_traffic_finds_nothing_false,
            ledger::a_report_is_kept_and_answers_the_requests_before_it,
            settings::nothing_is_set_in_an_empty_store,
            settings::what_is_saved_stands_as_it_was_saved,
            settings::each_change_has_a_higher_revision_than_all_before,
            settings::a_save_on_another_revision_is_a_conflict_and_changes_nothing,
            settings::what_is_removed_is_gone_and_its_history_stays,
            settings::removing_what_is_not_set_is_nothing,
            settings::the_history_of_a_scope_is_its_own_newest_first_and_in_pages,
            settings::of_many_who_save_on_one_revision_one_does,
            settings::nothing_of_a_paused_queue_is_handed_over_until_it_is_resumed,
            settings::what_has_begun_is_written_in_a_pause,
            settings::a_pause_is_of_one_queue_in_one_namespace,
            settings::a_refused_grant_is_as_good_as_it_was,
            settings::a_task_that_is_cancelled_while_its_queue_is_paused_is_lost,
            settings::no_dispatch_ends_later_than_the_answer_to_a_pause,
            settings::removing_the_settings_of_a_paused_queue_resumes_it,
            executors::an_executor_is_shown_as_it_told_of_itself,
            executors::what_a_sign_does_not_say_stays,
            executors::an_older_sign_changes_nothing,
            executors::executors_are_listed_by_name_from_a_name_on,
            executors::a_wish_stands_until_another_or_the_farewell,
            executors::each_death_is_found_once_and_the_dead_are_forgotten,
            tokens::an_empty_store_has_no_tokens,
            tokens::a_token_comes_back_as_it_was_saved,
            tokens::each_change_of_a_token_has_a_higher_revision_than_all_before,
            tokens::a_token_is_changed_on_the_revision_that_stands_only,
            tokens::of_many_who_change_one_token_one_does,
            tokens::a_revoked_token_keeps_its_row,
            tokens::tokens_that_ended_long_ago_are_forgotten_and_nothing_falls_open,
            tokens::the_last_use_of_a_token_is_kept_beside_its_changes,
            audit::an_empty_audit_has_no_entries,
            audit::an_entry_is_completed_once_and_comes_back_as_it_was_written,
            audit::an_entry_that_is_appended_again_by_its_key_stands_once,
            audit::each_condition_on_the_audit_holds_and_all_hold_together,
            audit::pages_of_the_audit_find_everything_once_the_newest_first,
            audit::the_oldest_entries_are_forgotten_first_and_so_many_at_most,
            replies::a_reply_is_kept_under_its_key_and_namespace,
            replies::a_reply_expires,
            replies::a_key_can_be_used_again_after_its_time,
            replies::a_reply_comes_back_identical,
            replies::one_owner_at_a_time_has_a_key,
            replies::an_answer_takes_the_place_of_a_reservation_and_stays,
            replies::of_many_who_reserve_one_key_at_once_one_has_it,
        }
    };
}

/// Cases of marks of evaluations: `async fn(Arc<dyn EvaluationStore>)`, on an empty store each.
#[macro_export]
macro_rules! for_each_evaluation_case {
    ($stamp:ident) => {
        $stamp! {
            evaluations::what_is_ended_was_no_death,
            evaluations::what_an_engine_died_of_is_marked_alone_and_after_two_deaths_not_at_all,
            evaluations::an_engine_counts_once_however_many_turns_it_had,
            evaluations::a_turn_ends_its_own_marks_only,
            evaluations::kinds_do_not_mix,
            evaluations::what_is_released_was_no_death_and_own_marks_stay,
            evaluations::an_engine_that_leaves_leaves_no_mark,
            evaluations::more_than_one_statement_holds_is_marked_and_ended,
        }
    };
}

/// Cases of a store of schedules: `async fn(Arc<dyn ScheduleStore>)`, on an empty one each.
#[macro_export]
macro_rules! for_each_schedule_case {
    ($stamp:ident) => {
        $stamp! {
            schedules::a_schedule_comes_back_as_it_was_saved,
            schedules::each_change_of_a_schedule_has_a_higher_revision_than_all_before,
            schedules::a_save_on_another_step_changes_nothing,
            schedules::of_many_who_decide_on_one_step_one_is_applied,
            schedules::the_runs_of_an_advance_are_there_if_it_is_applied,
            schedules::only_what_is_due_and_of_the_asked_slots_is_found,
            schedules::a_run_is_settled_once,
            schedules::the_tasks_of_runs_are_found_together_in_order,
            schedules::runs_that_are_put_off_stand_behind_all_others,
            schedules::what_is_taken_back_stays_cancelled,
            schedules::what_an_advance_takes_back_is_cancelled_if_it_is_applied,
            schedules::the_first_secret_that_was_offered_stays,
            schedules::pages_of_runs_tear_no_instant_apart,
            schedules::old_runs_are_forgotten_and_young_ones_stay,
            schedules::schedules_are_listed_by_name_page_by_page,
            schedules::a_schedule_that_is_forgotten_is_gone_for_good,
        }
    };
}

/// Cases of a store of workflows: `async fn(Arc<dyn WorkflowStore>)`, on an empty one each.
#[macro_export]
macro_rules! for_each_workflow_case {
    ($stamp:ident) => {
        $stamp! {
            workflows::a_workflow_comes_back_as_it_was_created,
            workflows::documents_that_are_alike_are_one_and_others_are_the_next_version,
            workflows::of_two_creations_with_one_key_one_is_made,
            workflows::of_many_who_decide_on_one_step_one_is_applied_with_its_rows,
            workflows::rows_are_written_again_and_keep_what_they_must,
            workflows::a_reference_is_noted_once_and_for_its_attempt,
            workflows::ten_thousand_rows_are_one_step,
            workflows::only_what_is_to_be_looked_at_and_of_the_asked_slots_is_found,
            workflows::marks_are_found_by_age_and_slot_until_they_are_deleted,
            workflows::a_mark_is_made_with_the_step_that_it_is_of_or_not_at_all,
            workflows::workflows_are_listed_newest_first_page_by_page,
            workflows::what_is_over_is_forgotten_with_its_rows_and_what_runs_stays,
        }
    };
}

/// Cases of a store of bulk operations: `async fn(Arc<dyn BulkStore>, Arc<dyn Store>)`, on an empty one each, which is both.
#[macro_export]
macro_rules! for_each_bulk_case {
    ($stamp:ident) => {
        $stamp! {
            bulk::an_operation_comes_back_as_it_was_made,
            bulk::an_advance_on_another_step_changes_nothing,
            bulk::of_many_who_advance_one_step_one_is_applied,
            bulk::failures_stand_and_go_with_their_advance,
            bulk::no_more_failures_are_kept_than_are_promised,
            bulk::only_what_is_due_and_of_the_asked_slots_is_found,
            bulk::operations_are_listed_the_newest_first_of_their_namespace,
            bulk::what_has_ended_long_ago_is_forgotten_and_what_is_at_work_stays,
            bulk::each_condition_of_a_look_holds_and_all_hold_together,
            bulk::a_look_at_some_partitions_finds_what_is_there_and_nothing_else,
            bulk::a_look_along_a_declared_label_finds_the_same,
            bulk::pages_of_a_look_find_everything_once_whatever_is_changed_meanwhile,
            bulk::a_deleted_namespace_takes_its_operations_along,
        }
    };
}

/// Cases of a cluster's stored state: `async fn(Arc<dyn ClusterStore>, Arc<dyn Store>)`, on an empty store
/// each, which is both.
#[macro_export]
macro_rules! for_each_cluster_case {
    ($stamp:ident) => {
        $stamp! {
            cluster::an_event_comes_back_as_it_was_appended,
            cluster::no_partition_moves_unless_somebody_moves_one,
            cluster::of_events_with_one_key_the_first_stands,
            cluster::each_condition_on_events_holds_and_pages_find_everything_once,
            cluster::events_are_bounded_in_time_and_number,
            cluster::a_sample_takes_the_place_of_its_engines_last_of_that_step,
            cluster::samples_of_queues_are_kept_beside_and_read_by_queue,
            cluster::what_waits_for_its_time_is_counted_by_step_and_nothing_else,
            cluster::a_database_says_its_name,
        }
    };
}

/// Cases of a store that survives its process: `async fn(&dyn Fn() -> Arc<dyn Store>)`; each call of the function
/// opens the same medium again.
#[macro_export]
macro_rules! for_each_durable_case {
    ($stamp:ident) => {
        $stamp! {
            durable::what_was_acknowledged_is_there_after_reopening,
            durable::fences_and_given_ids_are_not_used_again,
            durable::the_number_of_partitions_is_fixed_at_creation,
        }
    };
}

/// Cases of a limiter: `async fn(Arc<dyn Limiter>)`, on an empty one each, whose rates run on the caller's clock.
#[macro_export]
macro_rules! for_each_limiter_case {
    ($stamp:ident) => {
        $stamp! {
            cases::what_has_lost_its_members_grants_nothing_until_it_is_made_whole,
            cases::no_scope_gets_more_members_than_its_limit,
            cases::a_wish_gets_all_of_its_scopes_or_none,
            cases::a_member_that_holds_a_place_is_granted_again_at_no_cost,
            cases::a_grant_is_taken_back_only_by_whoever_had_it_last,
            cases::only_who_began_last_to_restore_says_that_all_is_there,
            cases::a_place_is_given_up_once_and_says_what_it_was,
            cases::time_alone_frees_nothing,
            cases::members_are_found_by_when_to_look_at_them,
            cases::what_is_restored_holds_whatever_the_limit_and_takes_the_place_of_what_was,
            cases::holders_say_who_they_are_and_scopes_do_not_mix,
            cases::scopes_are_counted_each_by_itself_and_in_order,
            cases::demands_are_known_to_all_and_forgotten_when_nobody_says_them_again,
            cases::room_is_what_could_be_granted_and_says_what_bounds_it,
            cases::a_rate_gives_its_burst_and_then_as_it_flows,
            cases::a_rate_of_a_namespace_or_of_everything_is_shared_by_all_its_queues,
            cases::a_clock_that_is_behind_brings_nothing_and_a_new_rate_keeps_what_fits,
            cases::of_many_who_ask_at_once_no_more_than_the_limit_get_a_place,
        }
    };
}

/// Cases of a bus: `async fn(Arc<dyn Bus>)`, on an empty one each.
#[macro_export]
macro_rules! for_each_bus_case {
    ($stamp:ident) => {
        $stamp! {
            bus::a_message_arrives_as_it_was_sent,
            bus::publishing_answers_once_a_message,
            bus::a_receive_is_bounded_and_leaves_the_rest,
            bus::a_receive_without_wait_answers_at_once,
            bus::a_receive_gives_up_after_its_wait,
            bus::a_waiting_receive_is_woken_by_a_message,
            bus::every_waiting_receive_gets_its_share,
            bus::a_message_is_with_one_consumer_at_a_time,
            bus::queues_do_not_mix,
            bus::ids_are_unique_in_a_queue,
            bus::what_is_acknowledged_never_comes_again,
            bus::an_unknown_acknowledgement_is_passed_over,
            bus::what_is_not_acknowledged_is_reclaimed_and_counted,
            bus::a_reclaim_takes_only_what_was_delivered_before,
            bus::a_reclaim_wakes_who_waits,
            bus::a_receive_that_is_dropped_loses_nothing,
            bus::of_many_consumers_each_message_goes_to_one,
        }
    };
}

/// Cases of an ownership: `async fn(Arc<dyn Ownership>)`, on an empty one each.
#[macro_export]
macro_rules! for_each_ownership_case {
    ($stamp:ident) => {
        $stamp! {
            ownership::what_is_free_is_acquired_and_answered_in_order,
            ownership::what_another_owns_is_not_acquired,
            ownership::who_owns_may_acquire_again_and_keeps_the_term,
            ownership::renewing_makes_the_lease_last_and_keeps_the_term,
            ownership::what_is_lost_is_answered_when_it_is_renewed,
            ownership::a_lease_that_has_ended_goes_to_who_asks_with_a_higher_term,
            ownership::what_is_released_is_free_at_once_and_gets_a_higher_term,
            ownership::releasing_what_is_not_held_frees_nothing,
            ownership::terms_ascend_with_each_change_of_owner,
            ownership::whoever_holds_a_partition_raises_its_term_and_nobody_else_does,
            ownership::what_an_engine_says_of_the_hot_set_is_said_to_the_others,
            ownership::what_databases_an_engine_does_not_reach_is_said_to_the_others,
            ownership::who_beats_is_alive_and_the_living_come_sorted,
            ownership::who_is_silent_is_dead_and_who_leaves_is_gone_at_once,
            ownership::the_clock_that_is_told_is_the_one_that_leases_run_on,
            ownership::who_leaves_keeps_its_leases_until_they_are_released,
            ownership::owners_are_listed_in_order_with_what_is_left,
            ownership::of_many_who_acquire_each_partition_goes_to_one,
            ownership::empty_lists_are_nothing,
        }
    };
}

/// Cases of signals: `async fn(Arc<dyn Signals>, Arc<dyn Signals>)`, the ends of two engines.
#[macro_export]
macro_rules! for_each_signals_case {
    ($stamp:ident) => {
        $stamp! {
            signals::what_one_announces_another_hears_as_it_was_sent,
            signals::announcing_nothing_is_nothing,
            signals::who_stops_waiting_can_wait_again,
            signals::many_signals_at_once_arrive,
        }
    };
}
