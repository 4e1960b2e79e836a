//! Tokens, roles and the audit over the API, on both kinds of store: permissions in one table; hidden
//! objects; the life of tokens; the entries of the audit. The head of each file lists the faults that it was
//! seen to detect.

mod audit;
mod bulk_roles;
mod deletion;
mod flows;
mod hidden;
mod isolation;
mod life;
mod namespaces;
mod nothing_done;
mod order;
mod pages;
mod quotas;
mod ready;
mod recorded;
mod replaced;
pub(crate) mod site;
mod stays;
mod table;
mod walk;
