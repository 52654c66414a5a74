//! The conformance suite: the numbered promises of `docs/store-contract.md`,
//! each as a test that any store can be put through.
//!
//! ```ignore
//! windlass_testkit::conformance!(MySubject);
//! ```
//!
//! What it does not do: kill processes, break disks or cut wires. Each store
//! has its own tests for the faults of what it is built on.

pub mod scene;

mod budgets;
mod caps;
mod concurrent;
mod dedupe;
mod durable;
mod epochs;
mod events;
mod faults;
mod generated;
mod leases;
mod lives;
mod looking;
mod order;
mod outages;
mod records;
mod repeats;
mod revisions;
mod schedules;
mod steering;

pub use budgets::*;
pub use caps::*;
pub use concurrent::*;
pub use dedupe::*;
pub use durable::*;
pub use epochs::*;
pub use events::*;
pub use faults::*;
pub use generated::*;
pub use leases::*;
pub use lives::*;
pub use looking::*;
pub use order::*;
pub use outages::*;
pub use records::*;
pub use repeats::*;
pub use revisions::*;
pub use schedules::*;
pub use steering::*;

use crate::subject::Subject;

/// Calls a macro with the names of all promises. The one list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! each_promise {
    ($then:ident, $($given:tt)*) => {
        $crate::$then! { $($given)*;
            p01_what_was_answered_survives_a_restart
            p01_a_lease_survives_a_restart
            p02_a_job_has_one_lease
            p02_the_fence_rises_with_each_claim
            p02_a_renewal_moves_the_expiry
            p03_a_key_runs_once
            p03_a_queue_keeps_its_limit
            p04_a_stale_fence_changes_nothing
            p04_one_lost_write_does_not_spoil_a_batch
            p04_a_call_ends_a_job_once
            p04_a_job_that_is_gone_spoils_no_batch
            p04_a_ticket_is_a_hint
            p05_a_final_state_stays
            p05_a_retry_starts_a_new_life
            p05_a_retry_respects_the_dedupe_key
            p06_a_stored_step_stays
            p07_attempts_end_with_the_ladder
            p07_a_job_may_have_its_own_rule
            p07_crashes_end_in_quarantine
            p07_a_crash_can_be_the_end
            p07_release_and_park_give_the_attempt_back
            p08_first_come_first_served
            p08_a_job_keeps_its_place
            p08_only_what_was_asked_for
            p08_who_is_held_back_holds_back_nobody
            p08_a_crowd_hides_nobody
            p08_what_others_store_costs_a_claim_nothing
            p08_the_hint_is_never_late
            p08_ageing_bounds_the_wait
            p09_a_dedupe_key_has_one_unfinished_job
            p09_the_same_id_is_the_same_job
            p09_twins_in_one_batch
            p09_a_conflict_leaves_nothing
            p10_a_canceled_queued_job_never_starts
            p10_a_canceled_running_job_is_told_and_ends
            p10_many_are_steered_in_one_call
            p11_slots
            p11_per_second
            p11_per_minute
            p11_per_day
            p11_a_cool_down_is_ended
            p11_cool_down
            p11_all_budgets_or_none
            p11_spend
            p11_what_was_spent_stays_spent
            p12_one_clock_decides
            p13_history_is_bounded
            p13_steps_are_bounded
            p13_finished_jobs_go_by_age
            p13_finished_jobs_go_by_number
            p13_a_queue_may_keep_nothing
            p13_memories_are_forgotten
            p13_events_are_bounded
            p15_a_repeated_claim_gives_the_same_leases
            p15_a_request_of_another_is_a_conflict
            p15_an_empty_claim_is_not_remembered
            p15_a_repeated_settlement_is_done
            p15_twins_in_one_batch_count_once
            p15_repeats_by_two_handles_end_one_job
            p15_an_id_that_is_used_again_is_settled
            p15_a_repeated_claim_gives_no_later_life
            p16_json_comes_back_exactly
            p17_pages_show_each_job_once
            p17_filters_find_what_they_say
            p17_explain_names_every_hold
            p17_explain_tells_where_a_job_stands
            p17_queues_and_pause
            p17_workers
            p18_a_run_fires_once
            p18_overlap
            p18_missed_runs
            p18_schedules_change
            p18_another_line_counts_from_now
            p19_batches_have_a_limit
            p19_senseless_policies_are_refused
            p19_a_claim_is_bounded_in_bytes
            p20_events_tell_every_move
            p20_events_follow_a_position
            p20_what_operators_did_is_told
            p20_new_work_wakes
            p20_new_work_says_where
            p20_a_registration_ends
            p21_generated_sequences_match_the_book
            p22_concurrent_claimers_keep_every_promise
            p23_a_batch_is_all_or_nothing
            p23_a_batch_with_jobs_wakes
            p23_a_revision_guards_a_write
            p23_a_lost_lease_writes_nothing
            p23_a_repeated_batch_is_written_once
            p23_batches_have_a_limit
            p24_records_come_in_every_order
            p24_a_prefix_finds_what_begins_so
            p24_records_are_counted_by_label
            p24_records_expire
            p24_reads_are_bounded_and_exact
            p25_a_follower_misses_no_change
            p25_no_change_is_lost
            p26_a_late_write_counts
            p26_two_looks_take_a_lease
            p26_a_dead_worker_is_noticed_in_time
            p26_an_old_mark_is_none
            p26_a_renewal_clears_the_mark
            p26_a_claim_takes_nothing_back
            p27_a_cut_history_is_a_new_epoch
            p27_fences_rise_over_epochs
            p27_what_others_may_hold_waits
            p27_a_limit_waits
            p27_the_longest_lease_is_waited_for
            p27_a_day_of_leases_is_remembered
            p27_a_pause_is_fixed_when_it_begins
            p27_a_renewal_says_how_long_to_stand_still
            p27_a_position_of_another_epoch_is_refused
            p27_a_position_beyond_the_end_is_refused
            p27_a_second_and_a_minute_are_spent
            p28_a_job_is_run_now
            p28_run_now_lifts_no_other_hold
            p28_a_job_is_run_again_from_a_step
            p28_a_job_is_deleted
            p28_deleted_jobs_leave_their_place
            p28_a_queue_is_deleted_when_it_is_empty
            p28_a_budget_is_deleted
            fault_26_29_the_fence_is_the_token_and_only_rises
            fault_54_the_first_final_word_wins
        }
    };
}

/// Puts a [`Subject`] through the suite: one test per promise.
#[macro_export]
macro_rules! conformance {
    ($subject:ty) => {
        $crate::each_promise!(conformance_tests, $subject);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($subject:ty; $($promise:ident)*) => {
        mod conformance {
            use super::*;
            $(
                #[test]
                fn $promise() {
                    $crate::conformance::run($crate::conformance::$promise::<$subject>());
                }
            )*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_table {
    ($subject:ident; $($promise:ident)*) => {
        vec![$((stringify!($promise), (|| run($promise::<$subject>())) as fn())),*]
    };
}

/// All promises by name, to be called one by one.
pub fn promises<S: Subject>() -> Vec<(&'static str, fn())> {
    crate::each_promise!(conformance_table, S)
}

/// Runs one test on a runtime of its own.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a tokio runtime for a test");
    runtime.block_on(test);
}
