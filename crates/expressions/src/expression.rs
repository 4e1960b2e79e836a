//! An expression that was read once, and is evaluated any number of times.

use crate::{
    budget::{Budget, EVALUATION_BYTES, EVALUATION_STEPS, Exceeded},
    check,
    error::Problem,
    evaluate::{Evaluator, count},
    json::{self, Unwritten},
    names::{Names, names},
    parse,
    tree::ExpressionNode,
    value::Value,
};

/// The variables of an expression, by name.
pub type Variables = Vec<(&'static str, Value)>;

#[derive(Clone, Debug)]
pub struct Expression {
    text: Box<str>,
    root: ExpressionNode,
}

impl Expression {
    /// # Errors
    /// Why it cannot be read, or cannot have a value whatever its variables are.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let root = parse::parse(text).map_err(|problem| problem.of(text))?;
        check::check(&root).map_err(|problem| problem.of(text))?;
        Ok(Self { text: text.into(), root })
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names in it; `of`: the variable whose entries are distinguished.
    #[must_use]
    pub fn names(&self, of: &str) -> Names {
        names(&self.root, of)
    }

    /// The expression's value, with common variables and its own, within the rest of the budget and the bounds of one
    /// evaluation.
    ///
    /// # Errors
    /// Why it has no value.
    pub fn value(
        &self,
        common: &[(&'static str, Value)],
        own: &[(&'static str, Value)],
        budget: &mut Budget,
    ) -> Result<Value, Problem> {
        budget.within(EVALUATION_STEPS, EVALUATION_BYTES, |part| self.value_within(common, own, part))
    }

    fn value_within(
        &self,
        common: &[(&'static str, Value)],
        own: &[(&'static str, Value)],
        budget: &mut Budget,
    ) -> Result<Value, Problem> {
        Evaluator::new([common, own], budget).value(&self.root).map_err(|problem| problem.of(&self.text))
    }

    /// Appends its value as JSON. `left`: bytes that the remaining values of a payload may have.
    pub(crate) fn append(
        &self,
        common: &[(&'static str, Value)],
        own: &[(&'static str, Value)],
        budget: &mut Budget,
        written: (&mut String, &mut Budget),
    ) -> Result<(), Problem> {
        budget.within(EVALUATION_STEPS, EVALUATION_BYTES, |part| {
            let value = self.value_within(common, own, part)?;
            let (text, of_payload) = written;
            let before = text.len();
            let appended = json::append(&value, text, part.left_bytes().min(of_payload.left_bytes()));
            appended.map_err(|problem| self.unwritten(&problem, of_payload))?;
            let bytes = count(text.len() - before);
            let spent = part.spend_bytes(bytes).and_then(|()| of_payload.spend_bytes(bytes));
            spent.map_err(|problem| Problem::exceeded(&self.text, problem))
        })
    }

    fn unwritten(&self, why: &Unwritten, budget: &mut Budget) -> Problem {
        match why {
            Unwritten::TooLong => Problem::exceeded(&self.text, budget.without_bytes()),
            Unwritten::Unknown(what) => Problem::wrong(&self.text, format!("JSON has nothing like {what}")),
        }
    }
}

impl Value {
    /// Converts to JSON of at most `max` bytes.
    ///
    /// # Errors
    /// It is longer, or JSON cannot represent it.
    pub fn to_json(&self, max: usize) -> Result<String, String> {
        json::write(self, max).map_err(|problem| match problem {
            Unwritten::TooLong => format!("its value has more than {max} bytes"),
            Unwritten::Unknown(what) => format!("JSON has nothing like {what}"),
        })
    }
}

impl Budget {
    fn left_bytes(&self) -> usize {
        usize::try_from(self.bytes_left()).unwrap_or(usize::MAX)
    }

    fn without_bytes(&mut self) -> Exceeded {
        let left = self.bytes_left();
        match self.spend_bytes(left.saturating_add(1)) {
            Err(exceeded) => exceeded,
            Ok(()) => Exceeded { bound: crate::Bound::Bytes, max: left, is_shared: false },
        }
    }
}
