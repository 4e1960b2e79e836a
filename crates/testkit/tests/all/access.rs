//! Tokens, roles and the audit over the API, on both kinds of store: who may do what, in one table; what is hidden; how
//! tokens begin and end; what the audit says. Sabotage that must be seen stands with each test.

mod audit;
mod hidden;
mod life;
mod site;
mod table;
mod walk;
