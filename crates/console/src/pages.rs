//! All pages, in the order of the menu. Each is one file.

mod bulk;
mod dead;
mod engines;
mod executors;
mod hour;
mod keys;
mod lateness;
mod overview;
mod queue;
mod queues;
mod schedules;
mod task;
mod tasks;
mod workflows;

use crate::view::Page;

pub(crate) fn all() -> Vec<Page> {
    let tables: [fn() -> Vec<Page>; 13] = [
        overview::pages,
        queues::pages,
        queue::pages,
        tasks::pages,
        task::pages,
        schedules::pages,
        workflows::pages,
        dead::pages,
        bulk::pages,
        executors::pages,
        engines::pages,
        lateness::pages,
        keys::pages,
    ];
    tables.into_iter().flat_map(|table| table()).collect()
}
