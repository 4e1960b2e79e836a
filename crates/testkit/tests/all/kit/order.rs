//! The simulation's check of the order finds what passes over another.

use punctual_domain::{chooser::Level, settings::Retries, task::Priority, time::Millis};
use punctual_testkit::simulation::{Ready, judge};

fn ready(level: u8, due_at: i64, id: i64) -> Ready {
    let level = Level::of(Priority::new(level).unwrap(), 0, Retries::default());
    Ready { level, due_at: Millis(due_at), id, task_id: id, task_version: 0, is_retry: false, key: None }
}

fn version(task_id: i64, task_version: i64, of: Ready) -> Ready {
    Ready { task_id, task_version, ..of }
}

fn may_go(all: &[Ready]) -> Vec<i64> {
    let good = all.iter().filter(|given| judge(given, all).is_ok());
    good.map(|given| given.id).collect()
}

#[test]
fn of_each_level_the_oldest_may_go_and_no_other() {
    let all = [ready(3, 10, 1), ready(3, 10, 2), ready(1, 50, 3), ready(3, 9, 4)];
    assert_eq!(may_go(&all), [3, 4]);
    let to_most_urgent = |given: &Ready| judge(given, &all).unwrap().to_most_urgent;
    assert_eq!((to_most_urgent(&all[2]), to_most_urgent(&all[3])), (1, 0));
}

#[test]
fn the_newest_version_goes_in_the_place_of_the_oldest() {
    let [first, newest] = [version(7, 1, ready(3, 10, 1)), version(7, 3, ready(5, 90, 2))];
    let all = [first, newest, ready(3, 20, 3), ready(5, 30, 4)];
    assert_eq!(may_go(&all), [2, 4]);
    assert_eq!(judge(&all[1], &all).unwrap().by_version, 1);
}
