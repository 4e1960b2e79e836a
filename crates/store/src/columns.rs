//! A row of either back end, in the form that the common code reads (`rows`): columns by number, each an integer, a
//! text or bytes, or NULL. Must not convert one into another: a column of another type is an error.

use punctual_domain::{name::Name, time::Millis};
use rusqlite::types::Type;
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use std::error::Error;

pub(crate) trait Columns {
    type Error;

    fn maybe_int(&self, at: usize) -> Result<Option<i64>, Self::Error>;
    fn int(&self, at: usize) -> Result<i64, Self::Error>;
    fn maybe_text(&self, at: usize) -> Result<Option<&str>, Self::Error>;
    fn text(&self, at: usize) -> Result<&str, Self::Error>;
    fn bytes(&self, at: usize) -> Result<Vec<u8>, Self::Error>;

    /// A column has a value that it should not have.
    fn odd(at: usize, problem: impl Into<Box<dyn Error + Send + Sync>>) -> Self::Error;

    fn maybe_string(&self, at: usize) -> Result<Option<String>, Self::Error> {
        Ok(self.maybe_text(at)?.map(str::to_owned))
    }

    fn string(&self, at: usize) -> Result<String, Self::Error> {
        self.text(at).map(str::to_owned)
    }

    /// A number that is narrower than its column.
    fn small<T: TryFrom<i64, Error: Error + Send + Sync + 'static>>(
        &self,
        at: usize,
    ) -> Result<T, Self::Error> {
        T::try_from(self.int(at)?).map_err(|error| Self::odd(at, error))
    }

    fn maybe_millis(&self, at: usize) -> Result<Option<Millis>, Self::Error> {
        Ok(self.maybe_int(at)?.map(Millis))
    }

    fn millis(&self, at: usize) -> Result<Millis, Self::Error> {
        self.int(at).map(Millis)
    }

    fn name(&self, at: usize) -> Result<Name, Self::Error> {
        Name::new(self.text(at)?).map_err(|error| Self::odd(at, error))
    }

    fn json<T: DeserializeOwned>(&self, at: usize) -> Result<T, Self::Error> {
        serde_json::from_str(self.text(at)?).map_err(|error| Self::odd(at, error))
    }
}

impl Columns for sqlx::mysql::MySqlRow {
    type Error = sqlx::Error;

    fn maybe_int(&self, at: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(at)
    }

    fn int(&self, at: usize) -> sqlx::Result<i64> {
        self.try_get(at)
    }

    fn maybe_text(&self, at: usize) -> sqlx::Result<Option<&str>> {
        self.try_get(at)
    }

    fn text(&self, at: usize) -> sqlx::Result<&str> {
        self.try_get(at)
    }

    fn bytes(&self, at: usize) -> sqlx::Result<Vec<u8>> {
        self.try_get(at)
    }

    fn odd(at: usize, problem: impl Into<Box<dyn Error + Send + Sync>>) -> sqlx::Error {
        sqlx::Error::ColumnDecode { index: at.to_string(), source: problem.into() }
    }
}

impl Columns for rusqlite::Row<'_> {
    type Error = rusqlite::Error;

    fn maybe_int(&self, at: usize) -> rusqlite::Result<Option<i64>> {
        self.get(at)
    }

    fn int(&self, at: usize) -> rusqlite::Result<i64> {
        self.get(at)
    }

    fn maybe_text(&self, at: usize) -> rusqlite::Result<Option<&str>> {
        Ok(self.get_ref(at)?.as_str_or_null()?)
    }

    fn text(&self, at: usize) -> rusqlite::Result<&str> {
        Ok(self.get_ref(at)?.as_str()?)
    }

    fn bytes(&self, at: usize) -> rusqlite::Result<Vec<u8>> {
        self.get(at)
    }

    fn odd(at: usize, problem: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(at, Type::Text, problem.into())
    }
}
