//! Derives events from an engine's observations: the changes since the last snapshot. Pure; each difference is
//! reported once.

use punctual_contract::cluster::{Event, SignOfLife};
use punctual_domain::{event::EventKind, place::Partition, time::Millis};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// A longer silence is no news.
pub(crate) const OLD_NEWS_MS: i64 = 3_600_000;
/// Partitions that an event names.
const NAMED_MAX: usize = 64;

/// A snapshot of this engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterSnapshot {
    pub(crate) hot: HotSet,
    pub(crate) databases_away: Vec<usize>,
    pub(crate) held: BTreeSet<Partition>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HotSet {
    #[default]
    Answers,
    Away,
    OfAnother,
}

/// An event of this engine's own, with a key that no other has.
pub(crate) fn own(me: &str, at: Millis, kind: EventKind, text: String, details: serde_json::Value) -> Event {
    Event {
        at,
        kind,
        key: format!("{kind}:{me}:{at}"),
        engine: Some(me.to_owned()),
        text,
        details: details.to_string(),
    }
}

/// Events of the back ends, as this engine reaches them.
pub(crate) fn back_ends(
    me: &str,
    now: Millis,
    before: &ClusterSnapshot,
    after: &ClusterSnapshot,
) -> Vec<Event> {
    let mut events = Vec::new();
    if before.hot != after.hot {
        let (kind, text) = match after.hot {
            HotSet::Answers => (EventKind::HotSetBack, "the hot set answers again"),
            HotSet::Away => (EventKind::HotSetLost, "the hot set does not answer; tasks fire from the store"),
            HotSet::OfAnother => {
                (EventKind::HotSetLost, "the hot set is another cluster's; tasks fire from the store")
            }
        };
        events.push(own(me, now, kind, format!("engine {me}: {text}"), json!({})));
    }
    let is_in = |all: &[usize], number: &usize| all.contains(number);
    let away = after.databases_away.iter().filter(|away| !is_in(&before.databases_away, away));
    let back = before.databases_away.iter().filter(|back| !is_in(&after.databases_away, back));
    let away = away.map(|number| (EventKind::DatabaseAway, number, "cannot be written"));
    let back = back.map(|number| (EventKind::DatabaseBack, number, "can be written again"));
    for (kind, database, what) in away.chain(back) {
        let text = format!("engine {me}: database {database} {what}");
        let event = own(me, now, kind, text, json!({ "database": database }));
        events.push(Event { key: format!("{}:{database}", event.key), ..event });
    }
    events
}

/// Partitions that this engine acquired, gathered until a check finds no more.
#[derive(Debug, Default)]
pub(crate) struct TakenOver(BTreeSet<Partition>);

impl TakenOver {
    /// True if nothing is pending: the present owners can be remembered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.is_empty()
    }

    /// `owners`: the earlier owners, as far as known.
    pub(crate) fn look(
        &mut self,
        me: &str,
        now: Millis,
        (before, after): (&ClusterSnapshot, &ClusterSnapshot),
        owners: &BTreeMap<Partition, String>,
    ) -> Option<Event> {
        let new: Vec<Partition> = after.held.difference(&before.held).copied().collect();
        if !new.is_empty() {
            self.0.extend(new);
            return None;
        }
        let mut taken = std::mem::take(&mut self.0);
        // Partitions that were given away meanwhile are another engine's event.
        taken.retain(|partition| after.held.contains(partition));
        (!taken.is_empty()).then(|| taken_over(me, now, &taken, owners))
    }
}

fn taken_over(
    me: &str,
    now: Millis,
    taken: &BTreeSet<Partition>,
    owners: &BTreeMap<Partition, String>,
) -> Event {
    let mut from: BTreeMap<&str, usize> = BTreeMap::new();
    for partition in taken {
        let owner = owners.get(partition).map_or("", String::as_str);
        *from.entry(if owner == me { "" } else { owner }).or_default() += 1;
    }
    let of = |(engine, count): (&&str, &usize)| match *engine {
        "" => format!("{count} without an owner"),
        engine => format!("{count} of {engine}"),
    };
    let whose = from.iter().map(of).collect::<Vec<_>>().join(", ");
    let text = format!("engine {me} has taken over {} partitions: {whose}", taken.len());
    let named: Vec<u16> = taken.iter().take(NAMED_MAX).map(|partition| partition.0).collect();
    let from: BTreeMap<&str, usize> = from.into_iter().filter(|entry| !entry.0.is_empty()).collect();
    let details = json!({ "count": taken.len(), "partitions": named, "from": from });
    own(me, now, EventKind::PartitionsTakenOver, text, details)
}

/// Engines that are silent, and until when each counted as alive.
#[derive(Debug, Default)]
pub(crate) struct Silent(BTreeMap<String, Millis>);

impl Silent {
    /// The engine that notices the silence first: the key identifies the silence.
    pub(crate) fn look(&mut self, now: Millis, signs: &[SignOfLife]) -> Vec<Event> {
        self.0.retain(|engine, _| signs.iter().any(|sign| sign.engine == *engine));
        let mut events = Vec::new();
        for sign in signs {
            if sign.silent_ms > 0 && sign.silent_ms < OLD_NEWS_MS {
                if self.0.insert(sign.engine.clone(), sign.alive_until) != Some(sign.alive_until) {
                    events.push(lost(now, sign));
                }
            } else if let Some(alive_until) = self.0.remove(&sign.engine).filter(|_| sign.silent_ms == 0) {
                events.push(back(now, sign, alive_until));
            }
        }
        events
    }
}

fn lost(now: Millis, sign: &SignOfLife) -> Event {
    let (engine, kind) = (&sign.engine, EventKind::EngineLost);
    Event {
        at: now,
        kind,
        key: format!("{kind}:{engine}:{}", sign.alive_until),
        engine: Some(engine.clone()),
        text: format!("engine {engine} gives no sign of life; what it held goes to others"),
        details: json!({ "silent_ms": sign.silent_ms }).to_string(),
    }
}

fn back(now: Millis, sign: &SignOfLife, alive_until: Millis) -> Event {
    let (engine, kind) = (&sign.engine, EventKind::EngineBack);
    Event {
        at: now,
        kind,
        key: format!("{kind}:{engine}:{alive_until}"),
        engine: Some(engine.clone()),
        text: format!("engine {engine} gives signs of life again"),
        details: json!({}).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(events: &[Event]) -> Vec<EventKind> {
        events.iter().map(|event| event.kind).collect()
    }

    fn holds(held: &[u16]) -> ClusterSnapshot {
        ClusterSnapshot { held: held.iter().copied().map(Partition).collect(), ..ClusterSnapshot::default() }
    }

    #[test]
    fn a_back_end_that_goes_and_comes_is_said_once_each() {
        let well = ClusterSnapshot::default();
        let ill =
            ClusterSnapshot { hot: HotSet::Away, databases_away: vec![1, 2], ..ClusterSnapshot::default() };
        let less = ClusterSnapshot { databases_away: vec![2], ..ClusterSnapshot::default() };
        let seen = |a: &ClusterSnapshot, b: &ClusterSnapshot| kinds(&back_ends("a", Millis(7), a, b));
        use EventKind::{DatabaseAway, DatabaseBack, HotSetBack, HotSetLost};
        assert_eq!(seen(&well, &well), []);
        assert_eq!(seen(&well, &ill), [HotSetLost, DatabaseAway, DatabaseAway]);
        assert_eq!(seen(&ill, &ill), []);
        assert_eq!(seen(&ill, &less), [HotSetBack, DatabaseBack]);
        let events = back_ends("a", Millis(7), &well, &ill);
        let keys: BTreeSet<&str> = events.iter().map(|event| event.key.as_str()).collect();
        assert_eq!(keys.len(), events.len(), "each has a key of its own");
    }

    #[test]
    fn a_takeover_is_one_event_that_says_whose_they_were() {
        let owners = [(Partition(1), "b".to_owned()), (Partition(2), "b".to_owned())].into();
        let (none, one, all) = (holds(&[]), holds(&[1, 9]), holds(&[1, 2, 3, 9]));
        let mut taken = TakenOver::default();
        assert_eq!(taken.look("a", Millis(1), (&none, &one), &owners), None);
        assert_eq!(taken.look("a", Millis(2), (&one, &all), &owners), None, "there may be more");
        let without = holds(&[1, 2, 3]);
        let event = taken.look("a", Millis(3), (&all, &without), &owners).unwrap();
        assert_eq!(event.text, "engine a has taken over 3 partitions: 1 without an owner, 2 of b");
        assert_eq!(event.details, r#"{"count":3,"from":{"b":2},"partitions":[1,2,3]}"#);
        assert_eq!(taken.look("a", Millis(4), (&without, &without), &owners), None);
    }

    #[test]
    fn an_engine_is_lost_once_and_back_once_and_nobody_who_left_or_is_long_gone() {
        let sign = |engine: &str, alive_until: i64, silent_ms: i64| SignOfLife {
            engine: engine.to_owned(),
            alive_until: Millis(alive_until),
            silent_ms,
            has_hot: true,
        };
        let (mut silent, now) = (Silent::default(), Millis(9));
        let mut seen = |signs: &[SignOfLife]| {
            silent.look(now, signs).into_iter().map(|event| (event.kind, event.key)).collect::<Vec<_>>()
        };
        assert_eq!(seen(&[sign("a", 5, 0), sign("old", 1, OLD_NEWS_MS)]), []);
        let lost = (EventKind::EngineLost, "engine_lost:a:5".to_owned());
        assert_eq!(seen(&[sign("a", 5, 1)]), [lost]);
        assert_eq!(seen(&[sign("a", 5, 1_000)]), []);
        let back = (EventKind::EngineBack, "engine_back:a:5".to_owned());
        assert_eq!(seen(&[sign("a", 8, 0)]), [back]);
        assert_eq!(seen(&[sign("a", 8, 0)]), []);
        let again = (EventKind::EngineLost, "engine_lost:a:8".to_owned());
        assert_eq!(seen(&[sign("a", 8, 2)]), [again]);
        assert_eq!(seen(&[]), [], "it has left");
        assert_eq!(seen(&[sign("a", 12, 0)]), []);
    }
}
