//! What an expression names, without evaluating it.

use super::{apart, compile, expression, guard, guard_text, with_expressions, wrong};
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;
use std::collections::BTreeSet;

/// Variables, and the entries of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub variables: BTreeSet<String>,
    /// Of the variable that was asked for: those named as `of.entry` or `of["entry"]`.
    pub entries: BTreeSet<String>,
    /// That variable is named without an entry.
    pub whole: bool,
}

/// What an expression names; `of`: the variable whose entries are told apart.
///
/// # Errors
/// Why it cannot be read.
pub fn names_of(text: &str, of: &'static str) -> Result<Names, String> {
    guard_text(text)?;
    let text = text.to_owned();
    apart(move || read(&text, of))
}

/// What each expression of a payload names, with the path to it below the payload.
///
/// # Errors
/// Which cannot be read, and the path to it.
pub fn names_in_payload(text: &str, of: &'static str) -> Result<Vec<(String, Names)>, String> {
    let Some(payload) = with_expressions(text)? else { return Ok(Vec::new()) };
    guard::guard(&payload)?;
    apart(move || {
        let mut all = Vec::new();
        walk(&payload, "", of, &mut all)?;
        Ok(all)
    })
}

fn walk(value: &Value, path: &str, of: &str, all: &mut Vec<(String, Names)>) -> Result<(), String> {
    match value {
        Value::Array(items) => {
            (0..).zip(items).try_for_each(|(nth, it): (usize, _)| walk(it, &format!("{path}/{nth}"), of, all))
        }
        Value::Object(object) => match expression(object)? {
            Some(text) => {
                all.push((path.to_owned(), read(text, of)?));
                Ok(())
            }
            None => object.iter().try_for_each(|(name, it)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                walk(it, &format!("{path}/{name}"), of, all)
            }),
        },
        _ => Ok(()),
    }
}

fn read(text: &str, of: &str) -> Result<Names, String> {
    let program = compile(text)?;
    let mut reader = Reader { of, names: Names::default(), bound: Vec::new() };
    reader.expression(program.expression()).map_err(|it| wrong(text, &it))?;
    Ok(reader.names)
}

struct Reader<'a> {
    of: &'a str,
    names: Names,
    /// Variables of the macros around.
    bound: Vec<String>,
}

impl Reader<'_> {
    fn is_asked(&self, it: &IdedExpr) -> bool {
        matches!(&it.expr, Expr::Ident(name) if name == self.of && !self.bound.contains(name))
    }

    fn entry(&mut self, name: &str) {
        self.names.variables.insert(self.of.to_owned());
        self.names.entries.insert(name.to_owned());
    }

    fn expression(&mut self, it: &IdedExpr) -> Result<(), String> {
        match &it.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) if self.bound.contains(name) => {}
            Expr::Ident(name) => {
                self.names.whole |= name == self.of;
                self.names.variables.insert(name.clone());
            }
            Expr::Select(select) if self.is_asked(&select.operand) => self.entry(&select.field),
            Expr::Select(select) => self.expression(&select.operand)?,
            Expr::Call(call) => {
                if let (
                    operators::INDEX,
                    [list, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }],
                ) = (call.func_name.as_str(), call.args.as_slice())
                    && self.is_asked(list)
                {
                    self.entry(name.inner());
                    return Ok(());
                }
                call.target.iter().try_for_each(|it| self.expression(it))?;
                call.args.iter().try_for_each(|it| self.expression(it))?;
            }
            Expr::List(list) => list.elements.iter().try_for_each(|it| self.expression(it))?,
            Expr::Map(map) => {
                for it in &map.entries {
                    self.pair(&it.expr)?;
                }
            }
            Expr::Struct(_) => return Err("it makes an object of a type, and there are none".to_owned()),
            Expr::Comprehension(it) => {
                self.expression(&it.iter_range)?;
                self.expression(&it.accu_init)?;
                let before = self.bound.len();
                self.bound.extend([it.iter_var.clone(), it.accu_var.clone()]);
                self.bound.extend(it.iter_var2.clone());
                for within in [&it.loop_cond, &it.loop_step, &it.result] {
                    self.expression(within)?;
                }
                self.bound.truncate(before);
            }
        }
        Ok(())
    }

    fn pair(&mut self, it: &EntryExpr) -> Result<(), String> {
        match it {
            EntryExpr::MapEntry(it) => {
                self.expression(&it.key)?;
                self.expression(&it.value)
            }
            EntryExpr::StructField(it) => self.expression(&it.value),
        }
    }
}
