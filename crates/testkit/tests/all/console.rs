//! The console, driven as a browser drives it but for its scripts: pages, sessions, forms, live parts. Over an engine in memory, and
//! where a page shows what a store has said, over MySQL and Redis too.

mod away;
mod browser;
mod forms;
mod injections;
mod live;
mod pages;
mod sessions;
