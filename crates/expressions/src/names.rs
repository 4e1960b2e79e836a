//! The names in an expression, without evaluating it.

use crate::{
    evaluate::functions,
    tree::{ExpressionNode, Kind},
};
use std::collections::BTreeSet;

/// Variables, and the entries of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub variables: BTreeSet<String>,
    /// Entries of the given variable, named as `of.entry` or `of["entry"]`.
    pub entries: BTreeSet<String>,
    /// True if the variable is named without an entry.
    pub whole: bool,
}

/// `of`: the variable whose entries are distinguished.
pub(crate) fn names(node: &ExpressionNode, of: &str) -> Names {
    let mut reader = Reader { of, names: Names::default(), bound: Vec::new() };
    reader.read(node);
    reader.names
}

struct Reader<'a> {
    of: &'a str,
    names: Names,
    /// Names of the walks around.
    bound: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn is_asked(&self, node: &ExpressionNode) -> bool {
        matches!(&node.kind, Kind::Name(name) if **name == *self.of && !self.bound.contains(&&**name))
    }

    fn entry(&mut self, name: &str) {
        self.names.variables.insert(self.of.to_owned());
        self.names.entries.insert(name.to_owned());
    }

    fn read(&mut self, node: &'a ExpressionNode) {
        match &node.kind {
            Kind::Name(name) if self.bound.contains(&&**name) => {}
            // A type's name, to compare with `type()`.
            Kind::Name(name) if **name != *self.of && functions::type_named(name).is_some() => {}
            Kind::Name(name) => {
                self.names.whole |= **name == *self.of;
                self.names.variables.insert(name.to_string());
            }
            Kind::Select(of, field) | Kind::Has(of, field) if self.is_asked(of) => self.entry(field),
            Kind::Index(parts) => match &**parts {
                [of, ExpressionNode { kind: Kind::Literal(crate::Value::String(name)), .. }]
                    if self.is_asked(of) =>
                {
                    self.entry(name);
                }
                [of, index] => [of, index].into_iter().for_each(|node| self.read(node)),
            },
            Kind::Walk(walk) => {
                self.read(&walk.list);
                self.bound.push(&walk.name);
                walk.condition.iter().chain(&walk.result).for_each(|node| self.read(node));
                self.bound.pop();
            }
            _ => node.parts().into_iter().for_each(|node| self.read(node)),
        }
    }
}
