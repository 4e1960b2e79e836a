//! The content of a form. It is read only after the check that a page of ours sent it.

use crate::fault::Fault;
use std::str::FromStr;

#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

/// The field that proves where a form is from.
pub(crate) const TOKEN: &str = "form_token";

impl Form {
    pub(crate) fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// A form that was not sent: the fields with the stored values.
    pub(crate) fn of(fields: Vec<(String, String)>) -> Self {
        Self(fields)
    }

    /// A field without spaces around; an empty one is `None`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|pair| pair.0 == name).map(|form| form.1.trim()).filter(|form| !form.is_empty())
    }

    /// The field as it was sent.
    pub(crate) fn raw(&self, name: &str) -> &str {
        self.0.iter().find(|pair| pair.0 == name).map_or("", |form| form.1.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// A number, where there is one.
    pub(crate) fn number<T: FromStr>(&self, name: &str, label: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // People write thousands apart.
        let digits: String =
            text.chars().filter(|letter| !letter.is_whitespace() && *letter != '_').collect();
        match digits.parse() {
            Ok(digits) => Ok(Some(digits)),
            Err(_) => Err(Fault::Invalid(format!("{label}: {text:?} is not a number that can stand here."))),
        }
    }

    /// Milliseconds: a number of them, or such as `1 h 30 min`, `500ms`, `7d`.
    pub(crate) fn span(&self, name: &str, label: &str) -> Result<Option<i64>, Fault> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match crate::texts::read_duration(text) {
            Some(duration) => Ok(Some(duration)),
            None => Err(Fault::Invalid(format!(
                "{label}: {text:?} is not a time such as 500 ms, 30 s, 5 min, 2 h or 7 d."
            ))),
        }
    }
}
