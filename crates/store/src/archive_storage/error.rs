//! The errors of archive storage. Each names the object, so that an operator can check it. None is answered by a
//! guess: a damaged archive is an error, never "no such task".

use super::format::FORMAT;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cold storage {url:?} cannot be used: {problem}")]
    Address { url: String, problem: String },
    #[error("cold storage, {object}: {source}")]
    Objects { object: String, source: object_store::Error },
    #[error("cold storage, {object}: is no archive of this program: {problem}")]
    Foreign { object: String, problem: &'static str },
    #[error(
        "archive storage, {object}: has archive format {found}, and this program reads up to {FORMAT}; use the newer \
         program, or see docs/archive.md for how to read it by hand"
    )]
    NewerFormat { object: String, found: u32 },
    #[error("cold storage, {object}: is damaged: {problem}; restore it from a copy")]
    Damaged { object: String, problem: String },
    #[error("cold storage: a task of {bytes} bytes is too long for a block")]
    TooLong { bytes: usize },
    #[error("the tasks to archive could not be read: {0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("archiving was broken off: {0}")]
    BrokenOff(String),
}

impl Error {
    pub(super) fn objects(object: &object_store::path::Path) -> impl FnOnce(object_store::Error) -> Self {
        let object = object.to_string();
        |source| Self::Objects { object, source }
    }

    pub(super) fn damaged(object: &str, problem: impl Into<String>) -> Self {
        Self::Damaged { object: object.to_owned(), problem: problem.into() }
    }
}
