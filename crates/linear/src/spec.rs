//! One task, as a client may see it: what each call does to it, and which answers it may give. Moves that no client
//! sees (a lease ends, a hand-over whose answer was lost, retention) happen only where a call needs one, and only where
//! time allows. Must be at least as strict as the promises, and never stricter.

use crate::history::{AttemptEnd, ChangeAnswer, InsertAnswer, OpKind, OutcomeAnswer, ReadState, RecordedOp};

/// What differs from run to run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SpecRules {
    /// Each hand-over of a task has a greater token than all before.
    pub tokens_rise: bool,
    /// Once "already fired" was answered, no later change is confirmed before a hand-over. Not where engines die: what
    /// one has fired and not stored, the next owner fires again.
    pub keeps_fired: bool,
    /// A lease may be made so long before the instant. If its engine is silent then, it counts as fired.
    pub ahead_us: i64,
    /// A finished task may be gone after so long. None: not during the run.
    pub kept_us: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SpecPhase {
    Absent,
    Waiting,
    /// A caller knows that it has fired.
    Fired,
    /// With an executor, or on its way to one.
    InHand,
    Succeeded,
    Dead,
    Cancelled,
    /// Finished, and past its retention.
    Stopped,
}

use SpecPhase::{Absent, Cancelled, Dead, Fired, InHand, Stopped, Succeeded, Waiting};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SpecState {
    pub(crate) phase: SpecPhase,
    queue: u32,
    due_us: i64,
    deadline_us: i64,
    max_attempts: u32,
    /// The last attempt that was handed over, and the last that was spent for good.
    attempt: u32,
    spent: u32,
    /// Of the last hand-over that an executor has seen.
    token: i64,
    is_seen: bool,
    lease_until_us: i64,
    is_stop_requested: bool,
    /// Hand-overs that no executor has seen.
    unseen: u32,
    over_since_us: i64,
}

impl SpecState {
    pub(crate) const ABSENT: Self = Self {
        phase: Absent,
        queue: 0,
        due_us: i64::MIN,
        deadline_us: i64::MAX,
        max_attempts: 0,
        attempt: 0,
        spent: 0,
        token: i64::MIN,
        is_seen: false,
        lease_until_us: i64::MIN,
        is_stop_requested: false,
        unseen: 0,
        over_since_us: i64::MIN,
    };

    fn is_over(self) -> bool {
        matches!(self.phase, Succeeded | Dead | Cancelled | Stopped)
    }

    const fn into_phase(self, phase: SpecPhase) -> Self {
        Self { phase, ..self }
    }

    const fn over(self, phase: SpecPhase, since_us: i64) -> Self {
        Self { phase, over_since_us: since_us, is_stop_requested: false, ..self }
    }

    /// Waits for a next attempt.
    const fn again(self, due_us: i64) -> Self {
        Self { phase: Waiting, due_us, is_stop_requested: false, ..self }
    }

    const fn is_with(self, token: i64) -> bool {
        matches!(self.phase, InHand) && self.is_seen && self.token == token
    }
}

/// The specification of one task of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) rules: SpecRules,
    /// Hand-overs that no executor may have seen, at most.
    pub(crate) unseen_max: u32,
}

impl Spec {
    /// The states in which the task can be after the call and its answer; none: the answer is impossible here.
    pub(crate) fn after(&self, state: SpecState, op: &RecordedOp) -> Vec<SpecState> {
        let mut found = Vec::new();
        for before in self.reachable(state, op.until_us) {
            self.step(before, op, &mut found);
        }
        found
    }

    /// The state itself, and those that unseen moves lead to until then.
    fn reachable(&self, state: SpecState, until_us: i64) -> Vec<SpecState> {
        let mut all = vec![state];
        let mut next = 0;
        while let Some(from) = all.get(next).copied() {
            next += 1;
            for state in self.unseen_moves(from, until_us) {
                if !all.contains(&state) {
                    all.push(state);
                }
            }
        }
        all
    }

    fn unseen_moves(&self, state: SpecState, until_us: i64) -> Vec<SpecState> {
        let mut moves = Vec::new();
        match state.phase {
            Waiting | Fired => {
                if state.deadline_us <= until_us {
                    moves.push(state.over(Dead, state.deadline_us));
                }
                if self.may_be_leased(state, until_us) && state.unseen < self.unseen_max {
                    let attempt = state.attempt.saturating_add(1).min(state.max_attempts);
                    let unseen = state.unseen + 1;
                    let lease_until_us = i64::MIN;
                    let given = SpecState { attempt, unseen, is_seen: false, lease_until_us, ..state };
                    moves.push(given.into_phase(InHand));
                }
            }
            InHand if state.lease_until_us <= until_us => {
                let (since_us, any_time) = (state.lease_until_us, i64::MIN);
                // An attempt that did not begin is given back.
                moves.push(state.again(any_time));
                if state.attempt >= state.max_attempts {
                    moves.push(state.over(Dead, since_us));
                }
                if state.is_stop_requested {
                    moves.push(state.over(Cancelled, since_us));
                }
            }
            Succeeded | Dead | Cancelled => {
                let is_past = |kept_us: i64| state.over_since_us.saturating_add(kept_us) <= until_us;
                if self.rules.kept_us.is_some_and(is_past) {
                    moves.extend([state.into_phase(Stopped), SpecState::ABSENT]);
                }
            }
            Stopped => moves.push(SpecState::ABSENT),
            Absent | InHand => {}
        }
        moves
    }

    fn step(&self, state: SpecState, op: &RecordedOp, found: &mut Vec<SpecState>) {
        match &op.kind {
            OpKind::Insert { answer, .. } => insert(state, op, *answer, found),
            OpKind::Cancel { withdraws, answer } => {
                let may = self.may_change(state) || (*withdraws && state.phase == Fired);
                let done = may.then(|| state.over(Cancelled, op.from_us));
                // A second cancel is answered as the first.
                let done = done.or_else(|| (state.phase == Cancelled).then_some(state));
                self.change(state, op.until_us, (*answer, done), found);
                if *withdraws && answer.is_none() && state.phase == InHand {
                    found.push(SpecState { is_stop_requested: true, ..state });
                }
            }
            OpKind::Reschedule { due_us, answer } => {
                let due_us = due_us.unwrap_or(state.due_us);
                let done = self.may_change(state).then(|| state.again(due_us));
                self.change(state, op.until_us, (*answer, done), found);
            }
            OpKind::Redrive { answer } => redrive(state, op, *answer, found),
            OpKind::Fire { .. } => found.extend(self.fire(state, &op.kind)),
            OpKind::Extend { token, lease_until_us, held } => match held {
                Some(true) | None if state.is_with(*token) => {
                    found.push(SpecState { lease_until_us: *lease_until_us, ..state });
                }
                // A lease that is over is lost, and its attempt may still report.
                Some(false) if !state.is_with(*token) || state.lease_until_us <= op.until_us => {
                    found.push(state);
                }
                _ => {}
            },
            OpKind::Outcome { token, end, answer } => match answer {
                Some(OutcomeAnswer::Stale) if !state.is_with(*token) => found.push(state),
                Some(OutcomeAnswer::Accepted) | None if state.is_with(*token) => {
                    found.push(ended(state, op.from_us, *end));
                    if state.is_stop_requested {
                        found.push(state.over(Cancelled, op.from_us));
                    }
                }
                _ => {}
            },
            OpKind::Read { state: read } => {
                let is_so = match read {
                    ReadState::Absent => state.phase == Absent,
                    ReadState::Waiting => matches!(state.phase, Waiting | Fired),
                    ReadState::InHand => state.phase == InHand,
                    ReadState::Succeeded => matches!(state.phase, Succeeded | Stopped),
                    ReadState::Dead => state.phase == Dead,
                    ReadState::Cancelled => state.phase == Cancelled,
                };
                found.extend(is_so.then_some(state));
            }
        }
    }

    fn may_be_leased(&self, state: SpecState, until_us: i64) -> bool {
        state.due_us.saturating_sub(self.rules.ahead_us) <= until_us
    }

    const fn may_change(&self, state: SpecState) -> bool {
        match state.phase {
            Waiting => true,
            Fired => !self.rules.keeps_fired,
            _ => false,
        }
    }

    /// `done`: the state if the change is made; None: it cannot be.
    fn change(
        &self,
        state: SpecState,
        until_us: i64,
        (answer, done): (Option<ChangeAnswer>, Option<SpecState>),
        found: &mut Vec<SpecState>,
    ) {
        match answer {
            Some(ChangeAnswer::Done) | None => found.extend(done),
            Some(ChangeAnswer::Refused) => match state.phase {
                // It has fired, and from now on a caller knows.
                Waiting | Fired if self.may_be_leased(state, until_us) => found.push(state.into_phase(Fired)),
                InHand => found.push(state),
                _ if state.is_over() => found.push(state),
                _ => {}
            },
            Some(ChangeAnswer::StopRequested) if state.phase == InHand => {
                found.push(SpecState { is_stop_requested: true, ..state });
            }
            Some(ChangeAnswer::NotFound) if state.phase == Absent => found.push(state),
            Some(ChangeAnswer::StopRequested | ChangeAnswer::NotFound) => {}
        }
    }

    fn fire(&self, state: SpecState, kind: &OpKind) -> Option<SpecState> {
        let OpKind::Fire { queue, token, attempt, fired_us, lease_until_us } = *kind else { return None };
        let is_new = if self.rules.tokens_rise { token > state.token } else { token != state.token };
        let is_next = attempt > state.spent && attempt <= state.attempt + 1 && attempt <= state.max_attempts;
        let may = matches!(state.phase, Waiting | Fired)
            && queue == state.queue
            && state.due_us <= fired_us
            && is_new
            && is_next;
        may.then(|| SpecState { attempt, token, is_seen: true, lease_until_us, ..state }.into_phase(InHand))
    }
}

fn insert(state: SpecState, op: &RecordedOp, answer: Option<InsertAnswer>, found: &mut Vec<SpecState>) {
    let OpKind::Insert { queue, due_us, deadline_us, max_attempts, .. } = op.kind else { return };
    let may_create = state.phase == Absent;
    let may_replace = matches!(state.phase, Waiting | Fired | Dead | Cancelled | Stopped);
    let fits = match answer {
        Some(InsertAnswer::Existing) if matches!(state.phase, InHand | Succeeded) => {
            found.push(state);
            false
        }
        Some(InsertAnswer::Created) => may_create,
        Some(InsertAnswer::Replaced) => may_replace,
        Some(InsertAnswer::Existing) => false,
        None => may_create || may_replace,
    };
    if fits {
        let deadline_us = deadline_us.unwrap_or(i64::MAX);
        let (token, unseen) = (state.token, state.unseen);
        let new = SpecState { queue, due_us, deadline_us, max_attempts, token, unseen, ..SpecState::ABSENT };
        found.push(new.into_phase(Waiting));
    }
}

fn redrive(state: SpecState, op: &RecordedOp, answer: Option<ChangeAnswer>, found: &mut Vec<SpecState>) {
    let done = matches!(answer, Some(ChangeAnswer::Done) | None) && state.phase == Dead;
    let refused = match answer {
        Some(ChangeAnswer::Refused) => !matches!(state.phase, Dead | Absent),
        Some(ChangeAnswer::NotFound) => state.phase == Absent,
        _ => false,
    };
    if done {
        let (attempt, spent) = (0, 0);
        found.push(SpecState { attempt, spent, ..state }.again(op.from_us));
    }
    found.extend(refused.then_some(state));
}

/// An outcome that is accepted, of the attempt in hand. Engines count milliseconds.
fn ended(state: SpecState, from_us: i64, end: AttemptEnd) -> SpecState {
    let (attempt, from_us) = (state.attempt, from_us.div_euclid(1_000) * 1_000);
    match end {
        AttemptEnd::Succeeded => state.over(Succeeded, from_us),
        AttemptEnd::Rejected => state.over(Dead, from_us),
        AttemptEnd::Failed { .. } if attempt >= state.max_attempts => state.over(Dead, from_us),
        AttemptEnd::Failed { retry_after_us } => {
            SpecState { spent: attempt, ..state }.again(from_us.saturating_add(retry_after_us))
        }
        AttemptEnd::Snoozed { after_us } => {
            let attempt = attempt.saturating_sub(1);
            SpecState { attempt, ..state }.again(from_us.saturating_add(after_us))
        }
    }
}
