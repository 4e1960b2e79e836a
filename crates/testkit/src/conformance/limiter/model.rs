//! Random interleavings of engines that get grants, commit leases or crash before, finish, omit to release slots,
//! reconcile, and lose the limiter. After each step the limiter has exactly the model's members, no more is in flight
//! than the limits allow, and when all is quiet no slot is held.

use super::{key, limit, make_whole, place, queue};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use punctual_contract::{
    Limiter,
    limiter::{Held, Limit, Member, SlotRequest, Verdict},
};
use punctual_domain::{limits::Scope, name::Name, time::Millis};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Clone, Debug)]
enum LimiterStep {
    /// An engine asks for these tasks, and keeps those that are granted.
    Grant(Vec<i64>),
    /// Leases the grant at an index, of those that engines hold.
    Lease(usize),
    /// All engines that keep a grant die.
    Crash,
    /// The attempt at an index ends, and its engine releases the slot, or dies before that.
    End { nth: usize, gives_up: bool },
    /// Members without a lease are freed, leases without a member get one.
    Reconcile,
    /// The limiter loses all it has.
    Flush,
    /// Attempts in flight are restored.
    Rebuild,
}

const TASKS: i64 = 12;

fn steps() -> impl Strategy<Value = LimiterStep> {
    prop_oneof![
        6 => prop::collection::vec(0..TASKS, 0..5).prop_map(LimiterStep::Grant),
        6 => (0..9_usize).prop_map(LimiterStep::Lease),
        1 => Just(LimiterStep::Crash),
        4 => (0..9_usize, any::<bool>()).prop_map(|(nth, gives_up)| LimiterStep::End { nth, gives_up }),
        1 => Just(LimiterStep::Reconcile),
        1 => Just(LimiterStep::Flush),
        2 => Just(LimiterStep::Rebuild),
    ]
}

fn limits(id: i64) -> Vec<Limit> {
    let named = if id % 2 == 0 { "mail" } else { "sms" };
    let key_of = key(named, &format!("k{}", id % 3));
    let namespace = Scope::Namespace(Name::default_namespace());
    vec![limit(Scope::Everything, 6), limit(namespace, 5), limit(queue(named), 3), limit(key_of, 1)]
}

fn scopes(id: i64) -> Vec<Scope> {
    limits(id).into_iter().map(|limit| limit.scope).collect()
}

/// The store's knowledge, the engines' grants, and the expected members.
#[derive(Default)]
struct Model {
    fences: BTreeMap<i64, i64>,
    leased: BTreeSet<Member>,
    in_hand: Vec<Member>,
    members: BTreeSet<Member>,
    is_whole: bool,
}

impl Model {
    /// The attempt that a hand-over of the task would make.
    fn next(&self, id: i64) -> Member {
        Member { id, fence: self.fences.get(&id).copied().unwrap_or(1) + 1 }
    }

    fn is_leased(&self, id: i64) -> bool {
        self.leased.iter().any(|member| member.id == id)
    }

    fn count(members: &BTreeSet<Member>, scope: &Scope) -> usize {
        members.iter().filter(|member| scopes(member.id).contains(scope)).count()
    }

    fn answer(&mut self, member: Member) -> Verdict {
        if !self.is_whole {
            return Verdict::NotWhole;
        }
        if self.members.contains(&member) {
            return Verdict::Granted;
        }
        let full =
            |limit: &Limit| Self::count(&self.members, &limit.scope) >= usize::try_from(limit.most).unwrap();
        if let Some(limit) = limits(member.id).into_iter().find(full) {
            return Verdict::Blocked(limit.scope);
        }
        self.members.insert(member);
        Verdict::Granted
    }
}

fn held(member: Member) -> Held {
    let scopes = scopes(member.id);
    Held { member, place: place(member.id), granted_at: Millis(1), until: Millis(1), scopes }
}

async fn step<F: Future<Output = Arc<dyn Limiter>>>(
    limiter: &mut Arc<dyn Limiter>,
    model: &mut Model,
    step: LimiterStep,
    fresh: &impl Fn() -> F,
) -> Result<(), TestCaseError> {
    match step {
        LimiterStep::Grant(ids) => {
            let waits = |id: &i64| !model.is_leased(*id);
            let asked: Vec<Member> = ids.into_iter().filter(waits).map(|id| model.next(id)).collect();
            let request = |member: &Member| {
                let (place, limits) = (place(member.id), limits(member.id));
                SlotRequest { member: *member, place, until: Millis(1), limits, rates: Vec::new() }
            };
            let answers = limiter.grant(asked.iter().map(request).collect(), Millis(1)).await.unwrap();
            for (member, answer) in asked.into_iter().zip(answers) {
                prop_assert_eq!(&answer, &model.answer(member));
                if answer == Verdict::Granted && !model.in_hand.contains(&member) {
                    model.in_hand.push(member);
                }
            }
        }
        LimiterStep::Lease(nth) => {
            if !model.in_hand.is_empty() {
                let nth = nth % model.in_hand.len();
                let member = model.in_hand.swap_remove(nth);
                model.fences.insert(member.id, member.fence);
                model.leased.insert(member);
            }
        }
        LimiterStep::Crash => model.in_hand.clear(),
        LimiterStep::End { nth, gives_up } => {
            if let Some(member) = model.leased.iter().nth(nth % model.leased.len().max(1)).copied() {
                model.leased.remove(&member);
                if gives_up {
                    let was = model.members.remove(&member);
                    let released = limiter.release(&[member]).await.unwrap();
                    let when_aside = |held: Held| Held { granted_at: Millis(1), ..held };
                    let released: Vec<_> = released.into_iter().map(|held| held.map(when_aside)).collect();
                    prop_assert_eq!(released, [was.then(|| held(member))]);
                }
            }
        }
        LimiterStep::Reconcile => reconcile(&**limiter, model).await,
        LimiterStep::Flush => {
            *limiter = fresh().await;
            (model.is_whole, model.members) = (false, BTreeSet::new());
        }
        // Grants from before are used or given up by then: see docs/consistency-tests.md.
        LimiterStep::Rebuild if !model.is_whole => {
            model.in_hand.clear();
            limiter.restore(model.leased.iter().copied().map(held).collect()).await.unwrap();
            make_whole(&**limiter).await;
            (model.is_whole, model.members) = (true, model.leased.clone());
        }
        LimiterStep::Rebuild => {}
    }
    check(&**limiter, model).await
}

async fn reconcile(limiter: &dyn Limiter, model: &mut Model) {
    if !model.is_whole {
        return;
    }
    let mut found = Vec::new();
    while let page = limiter.members(Millis::MAX, found.len(), 3).await.unwrap()
        && !page.is_empty()
    {
        found.extend(page.into_iter().map(|held| held.member));
    }
    let in_use = |member: &Member| model.leased.contains(member) || model.in_hand.contains(member);
    let gone: Vec<Member> = found.iter().filter(|member| !in_use(member)).copied().collect();
    limiter.release(&gone).await.unwrap();
    let missing = model.leased.iter().filter(|member| !found.contains(member)).copied();
    limiter.restore(missing.map(held).collect()).await.unwrap();
    model.members = model.leased.iter().chain(&model.in_hand).copied().collect();
}

async fn check(limiter: &dyn Limiter, model: &Model) -> Result<(), TestCaseError> {
    for limit in (0..6).flat_map(limits) {
        let most = usize::try_from(limit.most).unwrap();
        let holders = limiter.holders(&limit.scope, 100).await.unwrap();
        let found: BTreeSet<Member> = holders.first.iter().map(|held| held.member).collect();
        let wanted = model.members.iter().filter(|one| scopes(one.id).contains(&limit.scope));
        prop_assert_eq!(found, wanted.copied().collect());
        prop_assert!(holders.count <= most, "{} of {most} in {}", holders.count, limit.scope);
        let in_flight = Model::count(&model.leased, &limit.scope);
        prop_assert!(in_flight <= most, "{in_flight} of {most} in flight in {}", limit.scope);
    }
    Ok(())
}

/// Plays `cases` random lists of steps, each on a fresh limiter, and shrinks what fails.
///
/// # Panics
/// When the two differ.
pub fn agrees_with<F: Future<Output = Arc<dyn Limiter>>>(cases: u32, fresh: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let lists = prop::collection::vec(steps(), 0..80);
    let outcome = TestRunner::new(config).run(&lists, |list| {
        runtime.block_on(async {
            let (mut limiter, mut model) = (fresh().await, Model::default());
            for each_step in list {
                step(&mut limiter, &mut model, each_step, &fresh).await?;
            }
            let ends = LimiterStep::End { nth: 0, gives_up: false };
            let quiet =
                [LimiterStep::Rebuild, LimiterStep::Crash].into_iter().chain(vec![ends; model.leased.len()]);
            for each_step in quiet.chain([LimiterStep::Reconcile]) {
                step(&mut limiter, &mut model, each_step, &fresh).await?;
            }
            prop_assert_eq!(limiter.members(Millis::MAX, 0, 9).await.unwrap(), [], "nothing is left");
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
