//! A payload with expressions: parsed once, and filled in any number of times. Everything else stays
//! verbatim.

use crate::{
    budget::{Budget, EVALUATION_BYTES},
    error::Problem,
    expression::Expression,
    json::{self, MARK},
    names::Names,
    value::Value,
};

/// Expressions of one payload.
const EXPRESSIONS_MAX: usize = 100;

#[derive(Clone, Debug)]
pub struct Template {
    text: Box<str>,
    /// The expressions in order, none within another.
    places: Box<[ExpressionSpan]>,
}

#[derive(Clone, Debug)]
struct ExpressionSpan {
    /// Bytes of the text.
    at: usize,
    end: usize,
    path: Box<str>,
    expression: Expression,
}

impl Template {
    /// True if a payload can have expressions at all. One that cannot need not be read.
    #[must_use]
    pub fn may_be(text: &str) -> bool {
        text.contains(MARK)
    }

    /// Returns `None` if it has no expression.
    ///
    /// # Errors
    /// The expression that cannot be parsed; or that the text is not JSON.
    pub fn parse(text: &str) -> Result<Option<Self>, Problem> {
        if !Self::may_be(text) {
            return Ok(None);
        }
        let found = json::expressions(text).map_err(Problem::plain)?;
        if found.len() > EXPRESSIONS_MAX {
            let problem = format!("has {} expressions, and may have at most {EXPRESSIONS_MAX}", found.len());
            return Err(Problem::plain(problem));
        }
        let place = |found: json::FoundExpression| {
            let expression = Expression::parse(&found.text)?;
            Ok(ExpressionSpan { at: found.at, end: found.end, path: found.path.into(), expression })
        };
        let places = found.into_iter().map(place).collect::<Result<Box<[_]>, _>>()?;
        Ok((!places.is_empty()).then(|| Self { text: text.into(), places }))
    }

    /// The names in each expression, with its path in the payload.
    pub fn names(&self, of: &str) -> impl Iterator<Item = (&str, Names)> {
        self.places.iter().map(move |place| (&*place.path, place.expression.names(of)))
    }

    /// The size of the texts of all expressions.
    #[must_use]
    pub fn bytes_of_expressions(&self) -> usize {
        self.places.iter().map(|place| place.expression.text().len()).sum()
    }

    /// The payload with every expression replaced by its value.
    ///
    /// # Errors
    /// Fails for an expression without a value, and names it with the reason. All values together are at most 1 MiB
    /// long.
    pub fn fill(
        &self,
        common: &[(&'static str, Value)],
        own: &[(&'static str, Value)],
        budget: &mut Budget,
    ) -> Result<String, Problem> {
        let mut filled = String::with_capacity(self.text.len());
        let mut values = Budget::new(0, EVALUATION_BYTES);
        let mut copied = 0;
        for place in &self.places {
            filled.push_str(self.text.get(copied..place.at).unwrap_or_default());
            place.expression.append(common, own, budget, (&mut filled, &mut values))?;
            copied = place.end;
        }
        filled.push_str(self.text.get(copied..).unwrap_or_default());
        Ok(filled)
    }
}
