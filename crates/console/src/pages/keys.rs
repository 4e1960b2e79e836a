//! Audit, tokens, namespaces and settings of everything.

mod audit;
mod namespaces;
mod settings;
mod tokens;

use crate::view::Page;

pub(super) fn pages() -> Vec<Page> {
    let tables: [fn() -> Vec<Page>; 4] = [audit::pages, tokens::pages, namespaces::pages, settings::pages];
    tables.into_iter().flat_map(|table| table()).collect()
}
