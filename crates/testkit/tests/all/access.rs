//! Tokens, roles and the audit over the API, on both kinds of store: who may do what, in one table; what is hidden; how
//! tokens begin and end; what the audit says. What each file was seen to fail with is at its top.

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
