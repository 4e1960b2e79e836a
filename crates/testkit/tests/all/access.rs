//! Tokens, roles and the audit over the API, on both kinds of store: who may do what, in one table; what is hidden; how
//! tokens begin and end; what the audit says. What each file was seen to fail with stands at its top.

mod audit;
mod deletion;
mod flows;
mod hidden;
mod isolation;
mod life;
mod namespaces;
mod pages;
mod ready;
mod site;
mod table;
mod walk;
