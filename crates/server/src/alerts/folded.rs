//! Converts the reports of engines to a list for people: one alert for one subject, and consequences with their
//! cause. Pure. Must never drop a report: it is in an alert, or among the consequences of one.

use punctual_domain::{name::QueueKey, time::Millis};
use punctual_engine::AlertKind;
use punctual_protocol::{Alert, At, Consequence, Severity};

/// The time by which a failure may have begun before its cause was known: a service is reported after its third
/// failure, a database after two checks.
const KNOWN_LATE_MS: i64 = 15_000;

/// A cause, and what follows from it while it lasts.
const CAUSES: [(AlertKind, &[AlertKind]); 3] = [
    (
        AlertKind::DatabaseAway,
        &[
            AlertKind::ServiceFailing,
            AlertKind::ScanFailing,
            AlertKind::OverdueNotFired,
            AlertKind::LateTasks,
            AlertKind::WaitingLong,
        ],
    ),
    (AlertKind::HotSetOfAnother, &[AlertKind::ServiceFailing, AlertKind::LateTasks]),
    (AlertKind::HotSetAway, &[AlertKind::ServiceFailing, AlertKind::LateTasks]),
];

/// An alert of one engine.
#[derive(Clone, Debug)]
pub(crate) struct AlertReport {
    pub(crate) name: String,
    pub(crate) is_critical: bool,
    pub(crate) since: Millis,
    pub(crate) queue: Option<QueueKey>,
    pub(crate) engine: String,
    pub(crate) text: String,
    pub(crate) what_to_do: String,
    /// The number of events within the last minute; 0 for a state, or for an engine of an older version.
    pub(crate) count: u64,
}

impl AlertReport {
    /// Counts of one kind add up. A state of a queue is one, however each engine words it; of an engine the text says what it is.
    fn is_same_as(&self, other: &Self) -> bool {
        let is_one = self.queue.is_some() || self.count > 0 && other.count > 0 || self.text == other.text;
        self.name == other.name && self.queue == other.queue && is_one
    }
}

/// Merges reports, in their order: equal reports of several engines are one alert, since the earliest report.
pub(super) fn merge(reports: Vec<AlertReport>) -> Vec<Alert> {
    let mut groups: Vec<Vec<AlertReport>> = Vec::new();
    for report in reports {
        let same =
            groups.iter_mut().find(|group| group.first().is_some_and(|first| first.is_same_as(&report)));
        match same {
            Some(group) => group.push(report),
            None => groups.push(vec![report]),
        }
    }
    groups.into_iter().filter_map(alert).collect()
}

fn alert(mut reports: Vec<AlertReport>) -> Option<Alert> {
    // The oldest is the one that says most: a task that has waited for long, a service that has failed often.
    reports.sort_by_key(|report| report.since);
    let count = reports.iter().map(|report| report.count).sum();
    let mut engines: Vec<String> = reports.iter().map(|report| report.engine.clone()).collect();
    engines.sort_unstable();
    engines.dedup();
    let oldest = reports.into_iter().next()?;
    let counted = AlertKind::named(&oldest.name).filter(|_| count > 0).and_then(|kind| kind.counted(count));
    let (namespace, queue) =
        oldest.queue.map(|key| (key.namespace.as_str().to_owned(), key.queue.as_str().to_owned())).unzip();
    let is_one = engines.len() == 1;
    Some(Alert {
        name: oldest.name,
        severity: if oldest.is_critical { Severity::Critical } else { Severity::Warning },
        since: At::from_ms(oldest.since.0),
        since_ms: oldest.since.0,
        namespace,
        queue,
        engine: engines.first().filter(|_| is_one).cloned(),
        engines: if is_one { Vec::new() } else { engines },
        text: counted.unwrap_or(oldest.text),
        what_to_do: oldest.what_to_do,
        consequences: Vec::new(),
    })
}

/// Moves alerts into the consequences of their cause: those that began while it lasted, or shortly before it was
/// known.
pub(super) fn fold(mut alerts: Vec<Alert>) -> Vec<Alert> {
    for (cause, consequences) in CAUSES {
        let Some(since_ms) =
            alerts.iter().filter(|alert| alert.name == cause.name()).map(|alert| alert.since_ms).min()
        else {
            continue;
        };
        let follows = |alert: &Alert| {
            consequences.iter().any(|kind| kind.name() == alert.name)
                && alert.since_ms >= since_ms.saturating_sub(KNOWN_LATE_MS)
        };
        let (explained, others): (Vec<_>, Vec<_>) = alerts.into_iter().partition(follows);
        alerts = others;
        if let Some(alert) = alerts.iter_mut().find(|alert| alert.name == cause.name()) {
            alert.consequences.extend(explained.into_iter().map(|explained| Consequence {
                name: explained.name,
                namespace: explained.namespace,
                queue: explained.queue,
                text: explained.text,
            }));
        }
    }
    alerts
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    fn report(kind: AlertKind, engine: &str, since: i64, text: &str) -> AlertReport {
        AlertReport {
            name: kind.name().to_owned(),
            is_critical: kind.is_critical(),
            since: Millis(since),
            queue: None,
            engine: engine.to_owned(),
            text: text.to_owned(),
            what_to_do: String::new(),
            count: 0,
        }
    }

    fn of_queue(kind: AlertKind, engine: &str, namespace: &str, count: u64) -> AlertReport {
        let name = |text| Name::new(text).unwrap();
        let queue = Some(QueueKey { namespace: name(namespace), queue: name("mail") });
        AlertReport { queue, count, ..report(kind, engine, 1, "as the engine words it") }
    }

    #[test]
    fn what_two_engines_report_is_one_alert_and_counts_add_up() {
        let merged = merge(vec![
            of_queue(AlertKind::DeadLetters, "a", "acme", 1),
            of_queue(AlertKind::DeadLetters, "b", "acme", 11),
            of_queue(AlertKind::DeadLetters, "b", "default", 1),
            report(AlertKind::HotSetAway, "a", 20, "the hot set does not answer"),
            report(AlertKind::HotSetAway, "b", 10, "the hot set does not answer"),
            report(AlertKind::ServiceFailing, "a", 10, "service \"index\" has failed 3 times in a row"),
            report(AlertKind::ServiceFailing, "a", 10, "service \"bulk\" has failed 4 times in a row"),
        ]);
        let shown = |alert: &Alert| {
            let namespace = alert.namespace.as_deref().unwrap_or("-");
            format!("{namespace} {:?} {:?} {}: {}", alert.engine, alert.engines, alert.since_ms, alert.text)
        };
        assert_eq!(
            merged.iter().map(shown).collect::<Vec<_>>(),
            [
                r#"acme None ["a", "b"] 1: 12 tasks died within the last minute"#,
                r#"default Some("b") [] 1: 1 task died within the last minute"#,
                r#"- None ["a", "b"] 10: the hot set does not answer"#,
                r#"- Some("a") [] 10: service "index" has failed 3 times in a row"#,
                r#"- Some("a") [] 10: service "bulk" has failed 4 times in a row"#,
            ]
        );
    }

    #[test]
    fn a_waiting_task_is_one_alert_with_the_words_of_who_has_seen_it_longest() {
        let waits = |engine, since, text: &str| AlertReport {
            since: Millis(since),
            text: text.to_owned(),
            ..of_queue(AlertKind::WaitingLong, engine, "acme", 0)
        };
        let merged = merge(vec![waits("a", 50, "for 61 s"), waits("b", 10, "for 101 s")]);
        assert_eq!(merged.len(), 1);
        assert_eq!((merged[0].text.as_str(), merged[0].since_ms), ("for 101 s", 10));
    }

    #[test]
    fn consequences_stand_under_their_cause_and_what_was_before_it_stays() {
        let alerts = merge(vec![
            report(AlertKind::ServiceFailing, "a", 10_000, "service \"access\" has failed 15 times in a row"),
            report(AlertKind::ServiceFailing, "a", 90_000, "service \"bulk\" has failed 12 times in a row"),
            report(AlertKind::DatabaseAway, "a", 100_000, "database 0 cannot be written"),
            of_queue(AlertKind::DeadLetters, "a", "acme", 3),
            AlertReport { since: Millis(120_000), ..of_queue(AlertKind::LateTasks, "a", "acme", 2) },
        ]);
        let folded = fold(alerts);
        let names: Vec<_> = folded.iter().map(|alert| alert.name.as_str()).collect();
        assert_eq!(names, ["service_failing", "database_away", "dead_letters"]);
        assert_eq!(folded[0].since_ms, 10_000, "it failed long before");
        let consequences = folded[1].consequences.iter();
        let consequences: Vec<_> = consequences
            .map(|one| (one.name.as_str(), one.namespace.as_deref(), one.text.as_str()))
            .collect();
        assert_eq!(
            consequences,
            [
                ("service_failing", None, "service \"bulk\" has failed 12 times in a row"),
                ("late_tasks", Some("acme"), "2 tasks fired later than the budget within the last minute"),
            ]
        );
        let without_cause = merge(vec![report(AlertKind::ServiceFailing, "a", 1, "x")]);
        assert_eq!(fold(without_cause.clone()), without_cause);
    }
}
