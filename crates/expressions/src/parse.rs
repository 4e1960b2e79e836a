//! Parses tokens into a tree, by precedence. Time and memory are proportional to the length of the text; the
//! nesting is bounded.

use crate::{
    error::Mistake,
    token::{Token, Word, tokens},
    tree::{ExpressionNode, FunctionCall, Kind, Operator, Over, Walk},
    value::Value,
};
use std::num::ParseIntError;

/// Longest expression, in bytes.
pub(crate) const TEXT_MAX: usize = 1_024;
/// Brackets, conditions and signs within each other.
const DEPTH_MAX: usize = 64;
/// Chained operations, each on the preceding value: fields of fields, terms of a sum. The evaluator recurses
/// this deep.
const TREE_DEPTH_MAX: usize = 150;
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn parse(text: &str) -> Result<ExpressionNode, Mistake> {
    if text.len() > TEXT_MAX {
        let problem = format!("it has {} bytes, and may have at most {TEXT_MAX}", text.len());
        return Err(Mistake::new(0, text.len(), problem));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let node = parser.expression()?;
    if *parser.peek() != Word::End {
        return Err(parser.unexpected("the end"));
    }
    if node.depth() > TREE_DEPTH_MAX {
        let problem = format!("more than {TREE_DEPTH_MAX} operations take the value of the one before");
        return Err(Mistake::new(0, text.len(), problem));
    }
    Ok(node)
}

struct Parser<'a> {
    /// The last one is the end.
    tokens: Vec<Token<'a>>,
    next: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn token(&self) -> &Token<'a> {
        self.tokens.get(self.next).or_else(|| self.tokens.last()).expect("there is always an end")
    }

    fn peek(&self) -> &Word<'a> {
        &self.token().word
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.token().clone();
        self.next = (self.next + 1).min(self.tokens.len());
        token
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.peek(), Word::Sign(text) if *text == sign);
        self.next += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Mistake> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(sign)) }
    }

    fn unexpected(&self, wanted: &str) -> Mistake {
        let Token { at, end, word } = self.token();
        let problem = match word {
            Word::End => format!("it ends, and {wanted} should follow"),
            _ => format!("here should stand {wanted}"),
        };
        Mistake::new(usize::from(*at), usize::from(*end), problem)
    }

    /// The end of the last token read.
    fn end(&self) -> u16 {
        self.next.checked_sub(1).and_then(|before| self.tokens.get(before)).map_or(0, |token| token.end)
    }

    fn node(&self, at: u16, kind: Kind) -> ExpressionNode {
        ExpressionNode { at, end: self.end(), kind }
    }

    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Mistake>) -> Result<T, Mistake> {
        if self.depth >= DEPTH_MAX {
            let Token { at, end, .. } = self.token();
            let problem = format!("it is written more than {DEPTH_MAX} deep within each other");
            return Err(Mistake::new(usize::from(*at), usize::from(*end), problem));
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    fn expression(&mut self) -> Result<ExpressionNode, Mistake> {
        self.within(|parser| {
            let at = parser.token().at;
            let condition = parser.any_of()?;
            if !parser.take_sign("?") {
                return Ok(condition);
            }
            let then = parser.any_of()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            Ok(parser.node(at, Kind::Conditional(Box::new([condition, then, otherwise]))))
        })
    }

    fn any_of(&mut self) -> Result<ExpressionNode, Mistake> {
        self.joined("||", Self::all_of, Kind::Or)
    }

    fn all_of(&mut self) -> Result<ExpressionNode, Mistake> {
        self.joined("&&", |parser| parser.binary(0), Kind::And)
    }

    fn joined(
        &mut self,
        sign: &str,
        read: impl Fn(&mut Self) -> Result<ExpressionNode, Mistake>,
        kind: impl Fn(Box<[ExpressionNode]>) -> Kind,
    ) -> Result<ExpressionNode, Mistake> {
        let at = self.token().at;
        let first = read(self)?;
        let mut all = Vec::new();
        while self.take_sign(sign) {
            all.push(read(self)?);
        }
        if all.is_empty() {
            return Ok(first);
        }
        all.insert(0, first);
        Ok(self.node(at, kind(all.into())))
    }

    fn operator(&self) -> Option<Operator> {
        Some(match self.peek() {
            Word::Sign("+") => Operator::Add,
            Word::Sign("-") => Operator::Subtract,
            Word::Sign("*") => Operator::Multiply,
            Word::Sign("/") => Operator::Divide,
            Word::Sign("%") => Operator::Remainder,
            Word::Sign("==") => Operator::Equal,
            Word::Sign("!=") => Operator::NotEqual,
            Word::Sign("<") => Operator::Less,
            Word::Sign("<=") => Operator::LessOrEqual,
            Word::Sign(">") => Operator::Greater,
            Word::Sign(">=") => Operator::GreaterOrEqual,
            Word::Name("in") => Operator::In,
            _ => return None,
        })
    }

    fn binary(&mut self, at_least: u8) -> Result<ExpressionNode, Mistake> {
        let at = self.token().at;
        let mut left = self.unary()?;
        while let Some(operator) = self.operator().filter(|operator| operator.precedence() >= at_least) {
            self.take();
            let right = self.binary(operator.precedence() + 1)?;
            left = self.node(at, Kind::Binary(operator, Box::new([left, right])));
        }
        Ok(left)
    }

    /// Two equal signs in a row cancel each other.
    fn unary(&mut self) -> Result<ExpressionNode, Mistake> {
        let at = self.token().at;
        let sign = match self.peek() {
            Word::Sign(sign @ ("!" | "-")) => *sign,
            _ => return self.member(),
        };
        let mut count = 0_usize;
        while self.take_sign(sign) {
            count += 1;
        }
        if count == 1 && sign == "-" && matches!(self.peek(), Word::Int(_) | Word::Double(_)) {
            let literal = self.number("-", at)?;
            return self.members(at, literal);
        }
        let of = self.within(Self::unary)?;
        Ok(match (count % 2, sign) {
            (0, _) => of,
            (_, "!") => self.node(at, Kind::Not(Box::new(of))),
            _ => self.node(at, Kind::Negate(Box::new(of))),
        })
    }

    fn member(&mut self) -> Result<ExpressionNode, Mistake> {
        let at = self.token().at;
        let first = self.primary()?;
        self.members(at, first)
    }

    fn members(&mut self, at: u16, first: ExpressionNode) -> Result<ExpressionNode, Mistake> {
        let mut node = first;
        loop {
            if self.take_sign(".") {
                let field = self.name_of_member()?;
                node = if self.take_sign("(") {
                    let args = self.list(")", false)?;
                    self.call(at, Some(node), field, args)?
                } else {
                    self.node(at, Kind::Select(Box::new(node), field.into()))
                };
            } else if self.take_sign("[") {
                let index = self.expression()?;
                self.expect("]")?;
                node = self.node(at, Kind::Index(Box::new([node, index])));
            } else if matches!((&node.kind, self.peek()), (Kind::Name(_) | Kind::Select(..), Word::Sign("{")))
            {
                return Err(self.wrong(at, "it makes an object of a type, and there are none"));
            } else {
                return Ok(node);
            }
        }
    }

    fn wrong(&self, at: u16, problem: impl Into<String>) -> Mistake {
        Mistake::new(usize::from(at), usize::from(self.end()), problem)
    }

    fn name_of_member(&mut self) -> Result<&'a str, Mistake> {
        match self.peek() {
            Word::Name(name) if !["true", "false", "null", "in"].contains(name) => {
                let name = *name;
                self.take();
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn primary(&mut self) -> Result<ExpressionNode, Mistake> {
        let Token { word, at, .. } = self.token().clone();
        match word {
            Word::Int(_) | Word::UInt(_) | Word::Double(_) => self.number("", at),
            Word::Text(text) => Ok(self.literal(at, Value::String(text))),
            Word::Bytes(bytes) => Ok(self.literal(at, Value::Bytes(bytes))),
            Word::Name("true") => Ok(self.literal(at, Value::Bool(true))),
            Word::Name("false") => Ok(self.literal(at, Value::Bool(false))),
            Word::Name("null") => Ok(self.literal(at, Value::Null)),
            Word::Name(_) => self.named(at),
            Word::Sign(".") => {
                self.take();
                self.named(at)
            }
            Word::Sign("(") => {
                self.take();
                let within = self.expression()?;
                self.expect(")")?;
                Ok(ExpressionNode { at, end: self.end(), ..within })
            }
            Word::Sign("[") => {
                self.take();
                let items = self.list("]", true)?;
                Ok(self.node(at, Kind::List(items.into())))
            }
            Word::Sign("{") => {
                self.take();
                self.map(at)
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    fn literal(&mut self, at: u16, value: Value) -> ExpressionNode {
        self.take();
        self.node(at, Kind::Literal(value))
    }

    fn number(&mut self, sign: &str, at: u16) -> Result<ExpressionNode, Mistake> {
        let word = self.take().word;
        let read = match word {
            Word::Int(text) => whole(sign, text, i64::from_str_radix).ok().map(Value::Int),
            Word::UInt(text) => whole(sign, text, u64::from_str_radix).ok().map(Value::UInt),
            Word::Double(text) => format!("{sign}{text}")
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite())
                .map(Value::Double),
            _ => None,
        };
        let value = read.ok_or_else(|| self.wrong(at, "it is no number that there is"))?;
        Ok(self.node(at, Kind::Literal(value)))
    }

    fn named(&mut self, at: u16) -> Result<ExpressionNode, Mistake> {
        let name = match self.peek() {
            Word::Name(name) if RESERVED.contains(name) => {
                return Err(self.unexpected("another name: this one is reserved"));
            }
            Word::Name(name) if *name != "in" => *name,
            _ => return Err(self.unexpected("a value")),
        };
        self.take();
        if !self.take_sign("(") {
            return Ok(self.node(at, Kind::Name(name.into())));
        }
        let args = self.list(")", false)?;
        self.call(at, None, name, args)
    }

    /// Parses a list after its opening sign, up to the closing one.
    fn list(&mut self, end: &'static str, may_end_in_comma: bool) -> Result<Vec<ExpressionNode>, Mistake> {
        let mut all = Vec::new();
        if self.take_sign(end) {
            return Ok(all);
        }
        if may_end_in_comma && self.take_sign(",") {
            self.expect(end)?;
            return Ok(all);
        }
        loop {
            all.push(self.expression()?);
            if !self.take_sign(",")
                || (may_end_in_comma && matches!(self.peek(), Word::Sign(sign) if *sign == end))
            {
                self.expect(end)?;
                return Ok(all);
            }
        }
    }

    fn map(&mut self, at: u16) -> Result<ExpressionNode, Mistake> {
        let mut entries = Vec::new();
        if self.take_sign(",") {
            self.expect("}")?;
            return Ok(self.node(at, Kind::Map(entries.into())));
        }
        while !self.take_sign("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.take_sign(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(self.node(at, Kind::Map(entries.into())))
    }

    /// A call, or the macro that it represents.
    fn call(
        &self,
        at: u16,
        target: Option<ExpressionNode>,
        function: &str,
        mut args: Vec<ExpressionNode>,
    ) -> Result<ExpressionNode, Mistake> {
        if target.is_none() && function == "has" && args.len() == 1 {
            return match args.pop().map(|arg| arg.kind) {
                Some(Kind::Select(of, field)) => Ok(self.node(at, Kind::Has(of, field))),
                _ => Err(self.wrong(at, "has() asks for a field, as in has(a.b)")),
            };
        }
        let over = match (function, args.len()) {
            ("all", 2) => Some(Over::All),
            ("exists", 2) => Some(Over::Exists),
            ("exists_one" | "existsOne", 2) => Some(Over::ExistsOne),
            ("map", 2 | 3) => Some(Over::Map),
            ("filter", 2) => Some(Over::Filter),
            _ => None,
        };
        let (list, over) = match (target, over) {
            (Some(list), Some(over)) => (list, over),
            (target, _) => {
                let call = FunctionCall { function: function.into(), target, args };
                return Ok(self.node(at, Kind::Call(Box::new(call))));
            }
        };
        let mut args = args.into_iter();
        let name = match args.next().map(|arg| arg.kind) {
            Some(Kind::Name(name)) => name,
            _ => {
                return Err(
                    self.wrong(at, format!("{function}() names each item first, as in {function}(x, x)"))
                );
            }
        };
        let last = args.next_back();
        let (condition, result) = if over == Over::Map { (args.next(), last) } else { (last, None) };
        Ok(self.node(at, Kind::Walk(Box::new(Walk { over, list, name, condition, result }))))
    }
}

/// Decimal, or hexadecimal after `0x`.
fn whole<T>(
    sign: &str,
    text: &str,
    read: impl Fn(&str, u32) -> Result<T, ParseIntError>,
) -> Result<T, ParseIntError> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => read(&format!("{sign}{digits}"), 16),
        None => read(&format!("{sign}{text}"), 10),
    }
}
