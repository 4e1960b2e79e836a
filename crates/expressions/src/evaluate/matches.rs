//! `matches`: regular expressions (RE2's, as CEL requires), by an automaton whose time is proportional to the
//! text and to its own states, both of which are counted. No pattern causes backtracking.

use super::{Evaluator, count};
use crate::{error::Mistake, tree::ExpressionNode};
use regex_automata::{
    nfa::thompson::{
        Compiler, Config, WhichCaptures,
        pikevm::{Cache, PikeVM},
    },
    util::syntax,
};
use std::sync::Arc;

/// Longest pattern, in bytes.
const PATTERN_MAX: usize = 256;
/// The maximum size of an automaton. `\w{50}` is larger.
const AUTOMATON_MAX_BYTES: usize = 64 << 10;
/// Groups within each other.
const NEST_MAX: u32 = 32;
/// The cost of compiling a pattern: some hundred microseconds.
const PATTERN_STEPS: u64 = 1_000;
/// States times bytes that are one step.
const STATES_PER_STEP: u64 = 64;
/// Patterns that one evaluation keeps.
const KEPT_MAX: usize = 8;

pub(super) struct Pattern {
    text: Arc<str>,
    automaton: PikeVM,
    cache: Cache,
}

impl Evaluator<'_> {
    pub(super) fn matches(
        &mut self,
        node: &ExpressionNode,
        text: &str,
        pattern: &Arc<str>,
    ) -> Result<bool, Mistake> {
        let known = self.patterns.iter().position(|candidate| candidate.text == *pattern);
        let place = match known {
            Some(place) => place,
            None => {
                self.steps(node, PATTERN_STEPS)?;
                let made = compiled(pattern).map_err(|problem| Self::wrong(node, problem))?;
                // Some patterns take much longer than others.
                self.budget.look().map_err(|problem| Self::exceeded(node, problem))?;
                if self.patterns.len() >= KEPT_MAX {
                    self.patterns.clear();
                }
                self.patterns.push(made);
                self.patterns.len() - 1
            }
        };
        let states =
            self.patterns.get(place).map_or(0, |pattern| count(pattern.automaton.get_nfa().states().len()));
        self.steps(node, states.saturating_mul(count(text.len()).saturating_add(1)) / STATES_PER_STEP)?;
        let found =
            self.patterns.get_mut(place).map(|pattern| pattern.automaton.is_match(&mut pattern.cache, text));
        Ok(found.unwrap_or(false))
    }
}

fn compiled(pattern: &Arc<str>) -> Result<Pattern, String> {
    if pattern.len() > PATTERN_MAX {
        return Err(format!("a pattern has {} bytes, and may have at most {PATTERN_MAX}", pattern.len()));
    }
    let config = Config::new().nfa_size_limit(Some(AUTOMATON_MAX_BYTES)).which_captures(WhichCaptures::None);
    let automaton = Compiler::new()
        .configure(config)
        .syntax(syntax::Config::new().nest_limit(NEST_MAX))
        .build(pattern)
        .and_then(PikeVM::new_from_nfa)
        .map_err(|problem| format!("the pattern {pattern:?} cannot be used: {}", with_causes(&problem)))?;
    let cache = automaton.create_cache();
    Ok(Pattern { text: Arc::clone(pattern), automaton, cache })
}

/// The useful part of the automaton's error is in its cause.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}
