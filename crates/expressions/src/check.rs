//! Mistakes that are found without evaluating: literals whose types no operator accepts together, and unknown
//! functions.

use crate::{
    error::Mistake,
    evaluate::{functions, no_overload_of},
    tree::{ExpressionNode, FunctionCall, Kind, Operator, Over},
};

pub(crate) fn check(node: &ExpressionNode) -> Result<(), Mistake> {
    type_of(node).map(drop)
}

/// The type of its value, where it is the same whatever the variables are.
fn type_of(node: &ExpressionNode) -> Result<Option<&'static str>, Mistake> {
    if let Kind::Walk(walk) = &node.kind {
        type_of(&walk.list)?;
        for part in walk.condition.iter().chain(&walk.result) {
            type_of(part)?;
        }
        let is_list = matches!(walk.over, Over::Map | Over::Filter);
        return Ok(Some(if is_list { "list" } else { "bool" }));
    }
    let parts = node.parts().into_iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
    let wrong = |problem| Mistake::new(node.at.into(), node.end.into(), problem);
    match &node.kind {
        Kind::Literal(value) => Ok(Some(value.type_name())),
        Kind::List(_) => Ok(Some("list")),
        Kind::Map(_) => Ok(Some("map")),
        Kind::Has(..) | Kind::And(_) | Kind::Or(_) | Kind::Not(_) => Ok(Some("bool")),
        Kind::Negate(_) => match parts.as_slice() {
            [Some(of)] if !["int", "double"].contains(of) => Err(wrong(no_overload_of("-", &[of]))),
            [of] => Ok(*of),
            _ => Ok(None),
        },
        Kind::Binary(operator, _) => match parts.as_slice() {
            [Some(one), Some(other)] => result_of(*operator, one, other)
                .map(Some)
                .ok_or_else(|| wrong(no_overload_of(operator.sign(), &[one, other]))),
            [Some(one), None] | [None, Some(one)] => Ok(like(*operator, one)),
            _ => Ok(None),
        },
        Kind::Conditional(_) => match parts.as_slice() {
            [_, one, other] if one == other => Ok(*one),
            _ => Ok(None),
        },
        Kind::Call(call) => called(call).map_err(wrong),
        Kind::Name(_) | Kind::Select(..) | Kind::Index(_) | Kind::Walk(_) => Ok(None),
    }
}

fn called(call: &FunctionCall) -> Result<Option<&'static str>, String> {
    if !functions::is_known(&call.function) {
        return Err(functions::unknown(&call.function));
    }
    Ok(match &*call.function {
        "size" | "int" => Some("int"),
        "contains" | "startsWith" | "endsWith" | "matches" | "bool" => Some("bool"),
        "string" => Some("string"),
        "bytes" => Some("bytes"),
        "double" => Some("double"),
        "uint" => Some("uint"),
        _ => None,
    })
}

/// Returns `None` if no such operation exists.
fn result_of(operator: Operator, one: &'static str, other: &'static str) -> Option<&'static str> {
    let are_numbers = [one, other].iter().all(|text| ["int", "uint", "double"].contains(text));
    let taken = match operator {
        Operator::Add => one == other && ["int", "uint", "double", "string", "bytes", "list"].contains(&one),
        Operator::Subtract | Operator::Multiply | Operator::Divide => one == other && are_numbers,
        Operator::Remainder => one == other && are_numbers && one != "double",
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            are_numbers || (one == other && ["bool", "string", "bytes"].contains(&one))
        }
        Operator::In => ["list", "map"].contains(&other),
        Operator::Equal | Operator::NotEqual => true,
    };
    taken.then(|| like(operator, one)).flatten()
}

/// The type of the result if one of its parts has this type, and it has a value.
const fn like(operator: Operator, part: &'static str) -> Option<&'static str> {
    match operator {
        Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
            Some(part)
        }
        _ => Some("bool"),
    }
}
