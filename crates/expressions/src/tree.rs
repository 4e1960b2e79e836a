//! A parsed expression. Macros over lists (`all`, `exists`, `exists_one`, `map`, `filter`) are nodes of their
//! own: the meaning of a name is known from its place in the tree, never from its text.

use crate::value::Value;

/// A part of an expression, and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpressionNode {
    /// Bytes of the text.
    pub(crate) at: u16,
    pub(crate) end: u16,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Literal(Value),
    Name(Box<str>),
    /// `of.field`
    Select(Box<ExpressionNode>, Box<str>),
    /// `has(of.field)`
    Has(Box<ExpressionNode>, Box<str>),
    /// `of[index]`
    Index(Box<[ExpressionNode; 2]>),
    Call(Box<FunctionCall>),
    Not(Box<ExpressionNode>),
    Negate(Box<ExpressionNode>),
    Binary(Operator, Box<[ExpressionNode; 2]>),
    /// Two or more.
    And(Box<[ExpressionNode]>),
    Or(Box<[ExpressionNode]>),
    Conditional(Box<[ExpressionNode; 3]>),
    List(Box<[ExpressionNode]>),
    Map(Box<[(ExpressionNode, ExpressionNode)]>),
    Walk(Box<Walk>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FunctionCall {
    pub(crate) function: Box<str>,
    pub(crate) target: Option<ExpressionNode>,
    pub(crate) args: Vec<ExpressionNode>,
}

/// `list.map(name, result)` and its like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Walk {
    pub(crate) over: Over,
    pub(crate) list: ExpressionNode,
    pub(crate) name: Box<str>,
    /// The condition on each item: for `map` with three arguments, and for all other macros.
    pub(crate) condition: Option<ExpressionNode>,
    /// The result expression of `map`.
    pub(crate) result: Option<ExpressionNode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Operator {
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }

    /// Operators with higher precedence are evaluated first.
    pub(crate) const fn precedence(self) -> u8 {
        match self {
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessOrEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::In => 3,
            Self::Add | Self::Subtract => 4,
            Self::Multiply | Self::Divide | Self::Remainder => 5,
        }
    }
}

impl ExpressionNode {
    /// The depth of the deepest part, without a call for each.
    pub(crate) fn depth(&self) -> usize {
        let (mut open, mut deepest) = (vec![(self, 1)], 0);
        while let Some((node, depth)) = open.pop() {
            deepest = deepest.max(depth);
            open.extend(node.parts().into_iter().map(|part| (part, depth + 1)));
            if let Kind::Walk(walk) = &node.kind {
                let parts = walk.condition.iter().chain(&walk.result).chain([&walk.list]);
                open.extend(parts.map(|part| (part, depth + 1)));
            }
        }
        deepest
    }

    /// The parts in the order of the text, except those of a macro.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::Literal(_) | Kind::Name(_) | Kind::Walk(_) => Vec::new(),
            Kind::Select(of, _) | Kind::Has(of, _) | Kind::Not(of) | Kind::Negate(of) => vec![of],
            Kind::Index(parts) | Kind::Binary(_, parts) => parts.iter().collect(),
            Kind::Conditional(parts) => parts.iter().collect(),
            Kind::And(parts) | Kind::Or(parts) | Kind::List(parts) => parts.iter().collect(),
            Kind::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            Kind::Call(call) => call.target.iter().chain(&call.args).collect(),
        }
    }
}
