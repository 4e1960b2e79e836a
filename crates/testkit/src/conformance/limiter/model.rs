//! Random interleavings of engines that are granted places, commit leases or crash before it, finish, forget to give up
//! what they held, reconcile, and lose the limiter. After each step the limiter has exactly the members that the model has,
//! no more is in flight than the limits allow, and when all is quiet nothing is held.

use super::{key, limit, make_whole, place, queue};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use punctual_contract::{
    Limiter,
    limiter::{Answer, Held, Limit, Member, Wish},
};
use punctual_domain::{limits::Scope, name::Name, time::Millis};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Clone, Debug)]
enum Step {
    /// An engine asks for these tasks; what it is granted it has in its hands.
    Grant(Vec<i64>),
    /// The nth of what engines have in their hands is leased.
    Lease(usize),
    /// All engines die that have something in their hands.
    Crash,
    /// The nth attempt ends, and its engine gives up its place, or dies before that.
    End { nth: usize, gives_up: bool },
    /// Members without a lease are freed, leases without a member get one.
    Reconcile,
    /// The limiter loses all it has.
    Flush,
    /// What is in flight is restored.
    Rebuild,
}

const TASKS: i64 = 12;

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0..TASKS, 0..5).prop_map(Step::Grant),
        6 => (0..9_usize).prop_map(Step::Lease),
        1 => Just(Step::Crash),
        4 => (0..9_usize, any::<bool>()).prop_map(|(nth, gives_up)| Step::End { nth, gives_up }),
        1 => Just(Step::Reconcile),
        1 => Just(Step::Flush),
        2 => Just(Step::Rebuild),
    ]
}

fn limits(id: i64) -> Vec<Limit> {
    let named = if id % 2 == 0 { "mail" } else { "sms" };
    let key_of = key(named, &format!("k{}", id % 3));
    let namespace = Scope::Namespace(Name::default_namespace());
    vec![limit(Scope::Everything, 6), limit(namespace, 5), limit(queue(named), 3), limit(key_of, 1)]
}

fn scopes(id: i64) -> Vec<Scope> {
    limits(id).into_iter().map(|it| it.scope).collect()
}

/// What the store knows, what engines have in their hands, and who should be a member.
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
        self.leased.iter().any(|it| it.id == id)
    }

    fn count(members: &BTreeSet<Member>, scope: &Scope) -> usize {
        members.iter().filter(|it| scopes(it.id).contains(scope)).count()
    }

    fn answer(&mut self, it: Member) -> Answer {
        if !self.is_whole {
            return Answer::NotWhole;
        }
        if self.members.contains(&it) {
            return Answer::Granted;
        }
        let full = |it: &Limit| Self::count(&self.members, &it.scope) >= usize::try_from(it.most).unwrap();
        if let Some(it) = limits(it.id).into_iter().find(full) {
            return Answer::Blocked(it.scope);
        }
        self.members.insert(it);
        Answer::Granted
    }
}

fn held(it: Member) -> Held {
    let scopes = scopes(it.id);
    Held { member: it, place: place(it.id), granted_at: Millis(1), until: Millis(1), scopes }
}

async fn step<F: Future<Output = Arc<dyn Limiter>>>(
    limiter: &mut Arc<dyn Limiter>,
    model: &mut Model,
    step: Step,
    fresh: &impl Fn() -> F,
) -> Result<(), TestCaseError> {
    match step {
        Step::Grant(ids) => {
            let waits = |it: &i64| !model.is_leased(*it);
            let asked: Vec<Member> = ids.into_iter().filter(waits).map(|id| model.next(id)).collect();
            let wish = |it: &Member| {
                let (place, limits) = (place(it.id), limits(it.id));
                Wish { member: *it, place, until: Millis(1), limits, rates: Vec::new() }
            };
            let answers = limiter.grant(asked.iter().map(wish).collect(), Millis(1)).await.unwrap();
            for (it, answer) in asked.into_iter().zip(answers) {
                prop_assert_eq!(&answer, &model.answer(it));
                if answer == Answer::Granted && !model.in_hand.contains(&it) {
                    model.in_hand.push(it);
                }
            }
        }
        Step::Lease(nth) => {
            if !model.in_hand.is_empty() {
                let nth = nth % model.in_hand.len();
                let it = model.in_hand.swap_remove(nth);
                model.fences.insert(it.id, it.fence);
                model.leased.insert(it);
            }
        }
        Step::Crash => model.in_hand.clear(),
        Step::End { nth, gives_up } => {
            if let Some(it) = model.leased.iter().nth(nth % model.leased.len().max(1)).copied() {
                model.leased.remove(&it);
                if gives_up {
                    let was = model.members.remove(&it);
                    let released = limiter.release(&[it]).await.unwrap();
                    let when_aside = |it: Held| Held { granted_at: Millis(1), ..it };
                    let released: Vec<_> = released.into_iter().map(|it| it.map(when_aside)).collect();
                    prop_assert_eq!(released, [was.then(|| held(it))]);
                }
            }
        }
        Step::Reconcile => reconcile(&**limiter, model).await,
        Step::Flush => {
            *limiter = fresh().await;
            (model.is_whole, model.members) = (false, BTreeSet::new());
        }
        // Grants from before are used or given up by then: see docs/consistency-tests.md.
        Step::Rebuild if !model.is_whole => {
            model.in_hand.clear();
            limiter.restore(model.leased.iter().copied().map(held).collect()).await.unwrap();
            make_whole(&**limiter).await;
            (model.is_whole, model.members) = (true, model.leased.clone());
        }
        Step::Rebuild => {}
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
        found.extend(page.into_iter().map(|it| it.member));
    }
    let in_use = |it: &Member| model.leased.contains(it) || model.in_hand.contains(it);
    let gone: Vec<Member> = found.iter().filter(|it| !in_use(it)).copied().collect();
    limiter.release(&gone).await.unwrap();
    let missing = model.leased.iter().filter(|it| !found.contains(it)).copied();
    limiter.restore(missing.map(held).collect()).await.unwrap();
    model.members = model.leased.iter().chain(&model.in_hand).copied().collect();
}

async fn check(limiter: &dyn Limiter, model: &Model) -> Result<(), TestCaseError> {
    for it in (0..6).flat_map(limits) {
        let most = usize::try_from(it.most).unwrap();
        let holders = limiter.holders(&it.scope, 100).await.unwrap();
        let found: BTreeSet<Member> = holders.first.iter().map(|it| it.member).collect();
        let wanted = model.members.iter().filter(|one| scopes(one.id).contains(&it.scope));
        prop_assert_eq!(found, wanted.copied().collect());
        prop_assert!(holders.count <= most, "{} of {most} in {}", holders.count, it.scope);
        let in_flight = Model::count(&model.leased, &it.scope);
        prop_assert!(in_flight <= most, "{in_flight} of {most} in flight in {}", it.scope);
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
            for it in list {
                step(&mut limiter, &mut model, it, &fresh).await?;
            }
            let ends = Step::End { nth: 0, gives_up: false };
            let quiet = [Step::Rebuild, Step::Crash].into_iter().chain(vec![ends; model.leased.len()]);
            for it in quiet.chain([Step::Reconcile]) {
                step(&mut limiter, &mut model, it, &fresh).await?;
            }
            prop_assert_eq!(limiter.members(Millis::MAX, 0, 9).await.unwrap(), [], "nothing is left");
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
