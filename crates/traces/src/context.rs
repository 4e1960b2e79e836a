//! W3C trace context, version 00: which trace a task belongs to, and the ids of the spans that are made for it. Pure.

use std::fmt;

/// The trace context of the caller that inserted a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    /// The caller's span.
    parent: u64,
    is_sampled: bool,
}

impl TraceContext {
    /// Returns `None` for text that is not a context of a known version.
    #[must_use]
    pub fn read(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_known = version == "00" && parts.next().is_none();
        if !is_known || (trace.len(), parent.len(), flags.len()) != (32, 16, 2) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|number| *number != 0)?;
        let parent = u64::from_str_radix(parent, 16).ok().filter(|number| *number != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(Self { trace, parent, is_sampled: flags & 1 == 1 })
    }

    /// The caller sampled it, and its id falls into this percentage: every engine decides the same.
    #[must_use]
    pub fn is_reported(&self, percent: u8) -> bool {
        let drawn = (self.trace % 10_000) as u16;
        self.is_sampled && drawn < u16::from(percent.min(100)) * 100
    }

    pub(crate) fn trace_bytes(&self) -> Vec<u8> {
        self.trace.to_be_bytes().to_vec()
    }

    /// `None` is the caller's span.
    pub(crate) fn span_bytes(&self, span: Option<SpanId>) -> Vec<u8> {
        span.map_or(self.parent, |id| id.0).to_be_bytes().to_vec()
    }

    /// Every engine computes the same: a span that is sent twice is one.
    pub(crate) fn span(&self, task: i64, attempt: u32, name: &str) -> SpanId {
        let words = [task.cast_unsigned(), u64::from(attempt), self.parent];
        let bytes = self.trace.to_be_bytes().into_iter();
        let bytes = bytes.chain(words.into_iter().flat_map(u64::to_be_bytes)).chain(name.bytes());
        let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        SpanId((mixed ^ (mixed >> 27)).max(1))
    }

    /// The context of an executor: its spans are below the one of its attempt.
    #[must_use]
    pub fn of_attempt(&self, task: i64, attempt: u32) -> String {
        let (run, flags) = (self.span(task, attempt, RUN), u8::from(self.is_sampled));
        format!("00-{:032x}-{run}-{flags:02x}", self.trace)
    }
}

/// The span in which an executor works.
pub(crate) const RUN: &str = "run";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId(u64);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_read_and_handed_on_under_the_attempts_span() {
        let context = TraceContext::read(CALLER).unwrap();
        assert_eq!(context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(context.span_bytes(None), 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
        let handed = context.of_attempt(7, 1);
        let again = TraceContext::read(&handed).unwrap();
        assert_eq!((again.trace, again.is_sampled), (context.trace, true));
        assert_ne!(handed, context.of_attempt(7, 2));
        assert_eq!(handed, context.of_attempt(7, 1));
    }

    #[test]
    fn what_is_no_context_is_none() {
        for text in [
            "",
            "00-0-0-0",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(TraceContext::read(text), None, "{text}");
        }
    }

    #[test]
    fn what_the_caller_does_not_sample_is_not_told_and_of_the_rest_so_many_in_a_hundred() {
        let context = |trace: u128, is_sampled| TraceContext { trace, parent: 1, is_sampled };
        assert!(!context(1, false).is_reported(100) && context(9_999, true).is_reported(100));
        let reported = (0..10_000).filter(|nth| context(*nth, true).is_reported(10)).count();
        assert_eq!((reported, context(1, true).is_reported(0)), (1_000, false));
    }
}
