//! One case a promise.

use super::{held, key, limit, make_whole, member, queue, rated, request, whole};
use punctual_contract::{
    Limiter,
    limiter::{DEMANDS_KNOWN_MS, Demand, Held, Holders, Member, Rebuilding, Room, SlotRequest, Verdict},
};
use punctual_domain::{limits::Scope, name::Name, time::Millis};
use std::{collections::HashSet, sync::Arc};
use tokio::task::JoinSet;

const NOW: Millis = Millis(1_000_000);

async fn grant(limiter: &dyn Limiter, requests: Vec<SlotRequest>) -> Vec<Verdict> {
    limiter.grant(requests, NOW).await.unwrap()
}

async fn count(limiter: &dyn Limiter, scope: &Scope) -> usize {
    limiter.holders(scope, 0).await.unwrap().count
}

pub async fn what_has_lost_its_members_grants_nothing_until_it_is_made_whole(limiter: Arc<dyn Limiter>) {
    let requests = || vec![request(1, vec![limit(queue("mail"), 5)]), request(2, vec![])];
    assert!(!limiter.is_whole().await.unwrap());
    assert_eq!(grant(&*limiter, requests()).await, [Verdict::NotWhole, Verdict::NotWhole]);
    let room = limiter.room(&[limit(queue("mail"), 5)], &[], NOW).await.unwrap();
    assert_eq!(room, Room { free: 0, bound: Some(Verdict::NotWhole) });
    limiter.restore(vec![held(1, 50, vec![queue("mail")])]).await.unwrap();
    assert_eq!(grant(&*limiter, requests()).await, [Verdict::NotWhole, Verdict::NotWhole], "not yet");
    make_whole(&*limiter).await;
    assert!(limiter.is_whole().await.unwrap());
    assert_eq!(grant(&*limiter, requests()).await, [Verdict::Granted, Verdict::Granted]);
    assert_eq!(count(&*limiter, &queue("mail")).await, 1);
}

pub async fn no_scope_gets_more_members_than_its_limit(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let requests = (1..=5).map(|id| request(id, vec![limit(queue("mail"), 3)])).collect();
    let answers = grant(&*limiter, requests).await;
    assert_eq!(answers[..3], [Verdict::Granted, Verdict::Granted, Verdict::Granted], "the earlier first");
    assert_eq!(answers[3..], [Verdict::Blocked(queue("mail")), Verdict::Blocked(queue("mail"))]);
    let none = grant(&*limiter, vec![request(9, vec![limit(queue("sms"), 0)])]).await;
    assert_eq!(none, [Verdict::Blocked(queue("sms"))]);
    let lowered = grant(&*limiter, vec![request(9, vec![limit(queue("mail"), 1)])]).await;
    assert_eq!(lowered, [Verdict::Blocked(queue("mail"))], "a limit below what is held");
    assert_eq!(count(&*limiter, &queue("mail")).await, 3);
}

pub async fn a_wish_gets_all_of_its_scopes_or_none(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let namespace = Scope::Namespace(Name::default_namespace());
    let scopes = |key_name: &str| {
        vec![
            limit(Scope::Everything, 9),
            limit(namespace.clone(), 3),
            limit(queue("mail"), 9),
            limit(key("mail", key_name), 1),
        ]
    };
    let requests = [(1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "d")];
    let answers = grant(&*limiter, requests.map(|(id, key)| request(id, scopes(key))).to_vec()).await;
    let blocked = [Verdict::Blocked(key("mail", "a")), Verdict::Blocked(namespace.clone())];
    let granted = Verdict::Granted;
    assert_eq!(answers, [granted.clone(), blocked[0].clone(), granted.clone(), granted, blocked[1].clone()]);
    for (scope, held) in [(Scope::Everything, 3), (namespace, 3), (queue("mail"), 3), (key("mail", "d"), 0)] {
        assert_eq!(count(&*limiter, &scope).await, held, "{scope}");
    }
}

pub async fn a_member_that_holds_a_place_is_granted_again_at_no_cost(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let once = || SlotRequest {
        rates: vec![rated(queue("mail"), 1, 1_000, 1)],
        ..request(1, vec![limit(queue("mail"), 1)])
    };
    assert_eq!(grant(&*limiter, vec![once(), once()]).await, [Verdict::Granted, Verdict::Granted]);
    assert_eq!(grant(&*limiter, vec![once()]).await, [Verdict::Granted]);
    assert_eq!(count(&*limiter, &queue("mail")).await, 1);
}

pub async fn a_grant_is_taken_back_only_by_whoever_had_it_last(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let one = || vec![request(1, vec![limit(queue("mail"), 1)])];
    grant(&*limiter, one()).await;
    assert_eq!(limiter.retract(&[(member(1), NOW.plus(-1)), (member(2), NOW)]).await.unwrap(), [None, None]);
    // Another engine's clock is behind, and it is granted the same all the same.
    let behind = SlotRequest { until: Millis(9_000), ..one().remove(0) };
    assert_eq!(limiter.grant(vec![behind], NOW.plus(-500)).await.unwrap(), [Verdict::Granted]);
    assert_eq!(limiter.retract(&[(member(1), NOW)]).await.unwrap(), [None], "it is the other's now");
    let later = NOW.plus(5_000);
    assert_eq!(limiter.grant(one(), later).await.unwrap(), [Verdict::Granted]);
    assert_eq!(count(&*limiter, &queue("mail")).await, 1);
    let back = limiter.retract(&[(member(1), later), (member(1), later)]).await.unwrap();
    let wanted = Held { granted_at: later, ..held(1, 5_000, vec![queue("mail")]) };
    assert_eq!(back, [Some(wanted), None]);
    assert_eq!(count(&*limiter, &queue("mail")).await, 0);
}

/// Data that an older rebuilder restored may be lost again, or incomplete.
pub async fn only_who_began_last_to_restore_says_that_all_is_there(limiter: Arc<dyn Limiter>) {
    let (one, other) = (Rebuilding(1), Rebuilding(u64::MAX));
    assert!(!limiter.make_whole(one).await.unwrap(), "nobody has begun");
    limiter.begin_anew(one).await.unwrap();
    limiter.begin_anew(other).await.unwrap();
    assert!(!limiter.make_whole(one).await.unwrap());
    assert!(!limiter.is_whole().await.unwrap());
    assert!(limiter.make_whole(other).await.unwrap());
    limiter.begin_anew(one).await.unwrap();
    assert!(limiter.is_whole().await.unwrap(), "what is whole stays so");
    assert!(limiter.make_whole(one).await.unwrap());
}

pub async fn a_place_is_given_up_once_and_says_what_it_was(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let scopes = vec![limit(queue("mail"), 1), limit(key("mail", "a"), 1)];
    grant(&*limiter, vec![request(1, scopes.clone())]).await;
    let other_attempt = Member { fence: 99, ..member(1) };
    let released = limiter.release(&[member(7), other_attempt, member(1), member(1)]).await.unwrap();
    let wanted = held(1, 5_000, vec![queue("mail"), key("mail", "a")]);
    assert_eq!(released, [None, None, Some(Held { granted_at: NOW, ..wanted }), None]);
    assert_eq!(grant(&*limiter, vec![request(2, scopes)]).await, [Verdict::Granted]);
    assert_eq!(limiter.release(&[]).await.unwrap(), []);
}

pub async fn time_alone_frees_nothing(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    grant(&*limiter, vec![request(1, vec![limit(queue("mail"), 1)])]).await;
    let years_later = Millis(NOW.0 * 1_000_000);
    let answers = limiter.grant(vec![request(2, vec![limit(queue("mail"), 1)])], years_later).await.unwrap();
    assert_eq!(answers, [Verdict::Blocked(queue("mail"))]);
}

pub async fn members_are_found_by_when_to_look_at_them(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let all: Vec<Held> = (1..=5).map(|id| held(id, 100 - id * 10, vec![queue("mail")])).collect();
    limiter.restore(all).await.unwrap();
    let found = async |until, skip, limit| {
        let found = limiter.members(Millis(until), skip, limit).await.unwrap();
        found.iter().map(|held| held.member.id).collect::<Vec<_>>()
    };
    assert_eq!(found(1_000, 0, 9).await, [5, 4, 3, 2, 1]);
    assert_eq!(found(70, 0, 9).await, [5, 4, 3], "until is inclusive");
    assert_eq!(found(1_000, 1, 2).await, [4, 3]);
    limiter.prolong(&[(member(5), Millis(500)), (member(77), Millis(5))]).await.unwrap();
    assert_eq!(found(1_000, 0, 9).await, [4, 3, 2, 1, 5]);
    let mut held = limiter.find(&[member(5), member(77), member(2)]).await.unwrap();
    held.sort_by_key(|held| held.member);
    let until: Vec<_> = held.iter().map(|held| (held.member.id, held.until.0)).collect();
    assert_eq!((until, limiter.find(&[]).await.unwrap()), (vec![(2, 80), (5, 500)], vec![]));
    assert_eq!(count(&*limiter, &queue("mail")).await, 5, "who holds nothing is not given anything");
}

pub async fn what_is_restored_holds_whatever_the_limit_and_takes_the_place_of_what_was(
    limiter: Arc<dyn Limiter>,
) {
    let limiter = whole(limiter).await;
    grant(&*limiter, vec![request(1, vec![limit(queue("mail"), 1)])]).await;
    let both = vec![queue("mail"), key("mail", "a")];
    let restored = vec![held(1, 9, both.clone()), held(2, 9, both.clone()), held(2, 9, both)];
    limiter.restore(restored.clone()).await.unwrap();
    let holders = limiter.holders(&key("mail", "a"), 9).await.unwrap();
    assert_eq!(holders, Holders { count: 2, first: restored[..2].to_vec() });
    limiter.restore(vec![held(2, 9, vec![queue("sms")])]).await.unwrap();
    let counts = [queue("mail"), key("mail", "a"), queue("sms")];
    for (scope, held) in counts.iter().zip([1, 1, 1]) {
        assert_eq!(count(&*limiter, scope).await, held, "{scope}");
    }
}

pub async fn holders_say_who_they_are_and_scopes_do_not_mix(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let texts = ["a", "ab", "", "a/", "\u{ff}"];
    let requests =
        texts.iter().zip(1..).map(|(text, id)| request(id, vec![limit(key("mail", text), 1)])).collect();
    assert_eq!(grant(&*limiter, requests).await, vec![Verdict::Granted; 5]);
    for (text, id) in texts.iter().zip(1..) {
        let holders = limiter.holders(&key("mail", text), 9).await.unwrap();
        assert_eq!((holders.count, holders.first[0].member), (1, member(id)), "{text:?}");
        assert_eq!(holders.first[0].place, held(id, 0, vec![]).place);
    }
    assert_eq!(limiter.holders(&key("sms", "a"), 9).await.unwrap(), Holders::default());
    assert_eq!(limiter.holders(&Scope::Retries(super::name("mail")), 9).await.unwrap(), Holders::default());
}

pub async fn scopes_are_counted_each_by_itself_and_in_order(limiter: Arc<dyn Limiter>) {
    assert!(limiter.held(&[]).await.unwrap().is_empty());
    let limiter = whole(limiter).await;
    let namespace = Scope::Namespace(Name::default_namespace());
    let requests = (1..=3).map(|id| {
        let name = if id == 3 { "mailing" } else { "mail" };
        request(id, vec![limit(namespace.clone(), 9), limit(queue(name), u32::MAX)])
    });
    grant(&*limiter, requests.collect()).await;
    let scopes =
        [queue("mail"), Scope::Everything, queue("mailing"), namespace, queue("mai"), key("mail", "")];
    assert_eq!(limiter.held(&scopes).await.unwrap(), [2, 0, 1, 3, 0, 0]);
    limiter.release(&[member(1)]).await.unwrap();
    assert_eq!(limiter.held(&scopes[..1]).await.unwrap(), [1]);
}

pub async fn demands_are_known_to_all_and_forgotten_when_nobody_says_them_again(limiter: Arc<dyn Limiter>) {
    let demand = |queue: &str, short_of_slots| Demand {
        queue: super::name(queue),
        short_of_slots,
        short_of_starts: !short_of_slots,
        starts_per_ks: 7_000,
    };
    let (mail, sms) = (demand("mail", true), demand("sms", false));
    let alone = limiter.demands("a", std::slice::from_ref(&mail), NOW).await.unwrap();
    assert_eq!((alone.len(), &alone[0]), (1, &mail));
    let both = limiter.demands("b", &[sms.clone(), mail.clone()], NOW.plus(1_000)).await.unwrap();
    assert_eq!(both.len(), 3, "{both:?}");
    assert_eq!(
        both.iter().filter(|demand| **demand == mail).count(),
        2,
        "two engines may speak of one queue"
    );
    let less = limiter.demands("a", &[], NOW.plus(2_000)).await.unwrap();
    assert_eq!(less, [sms, mail.clone()], "in the place of what it said before");
    let both = limiter.demands("a", &[], NOW.plus(1_000 + DEMANDS_KNOWN_MS)).await.unwrap();
    assert_eq!(both.len(), 2, "known for as long as that");
    let alone = limiter.demands("a", &[], NOW.plus(1_001 + DEMANDS_KNOWN_MS)).await.unwrap();
    assert_eq!(alone, [], "b has not been heard of since");
}

pub async fn room_is_what_could_be_granted_and_says_what_bounds_it(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let limits = [limit(queue("mail"), 5), limit(Scope::Everything, 9)];
    let room = limiter.room(&limits, &[], NOW).await.unwrap();
    assert_eq!(room, Room { free: 5, bound: Some(Verdict::Blocked(queue("mail"))) });
    grant(&*limiter, (1..=2).map(|id| request(id, limits.to_vec())).collect()).await;
    let rate = [rated(queue("mail"), 2, 1_000, 4)];
    assert_eq!(limiter.room(&limits, &rate, NOW).await.unwrap().free, 3);
    let requests = (3..=4)
        .map(|id| SlotRequest { rates: rate.to_vec(), ..request(id, vec![limit(key("mail", "a"), 9)]) });
    assert_eq!(grant(&*limiter, requests.collect()).await, [Verdict::Granted, Verdict::Granted]);
    let room = limiter.room(&limits, &rate, NOW).await.unwrap();
    let throttled = Verdict::Throttled { scope: queue("mail"), wait_ms: Some(0) };
    assert_eq!(room, Room { free: 2, bound: Some(throttled) });
    assert_eq!(limiter.room(&[], &[], NOW).await.unwrap().bound, None);
}

pub async fn a_rate_gives_its_burst_and_then_as_it_flows(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let rates = vec![rated(queue("mail"), 10, 1_000, 3), rated(key("mail", "a"), 1_000, 1_000, 1_000)];
    let (mut granted_at, mut id) = (Vec::new(), 0);
    for ms in 0..1_000 {
        id += 1;
        let one = SlotRequest { rates: rates.clone(), ..request(id, vec![]) };
        let now = NOW.plus(ms);
        match limiter.grant(vec![one.clone(), SlotRequest { member: member(-id), ..one }], now).await.unwrap()
            [0]
        {
            Verdict::Granted => granted_at.push(ms),
            Verdict::Throttled { ref scope, wait_ms } => {
                assert_eq!(*scope, queue("mail"));
                let next = (ms / 100 + 1) * 100;
                assert!(wait_ms.is_some_and(|wait_ms| ms + wait_ms <= next), "{ms}: {wait_ms:?}");
            }
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!(granted_at[..4], [0, 1, 100, 200], "three at once, and one each 100 ms");
    assert_eq!(granted_at.len(), 11);
    let never = SlotRequest { rates: vec![rated(queue("sms"), 0, 1_000, 1)], ..request(5_000, vec![]) };
    grant(&*limiter, vec![never.clone()]).await;
    let later =
        limiter.grant(vec![SlotRequest { member: member(5_001), ..never }], Millis(1 << 50)).await.unwrap();
    assert_eq!(later, [Verdict::Throttled { scope: queue("sms"), wait_ms: None }]);
}

pub async fn a_rate_of_a_namespace_or_of_everything_is_shared_by_all_its_queues(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let namespace = Scope::Namespace(Name::default_namespace());
    let wide = |burst| vec![rated(Scope::Everything, 1, 1_000, burst), rated(namespace.clone(), 1, 1_000, 2)];
    let of = |id, name: &str, burst| {
        let rates = wide(burst).into_iter().chain([rated(queue(name), 9, 1_000, 9)]).collect();
        SlotRequest { rates, ..request(id, vec![]) }
    };
    let requests = vec![of(1, "mail", 3), of(2, "sms", 3), of(3, "push", 3)];
    let throttled = |scope| Verdict::Throttled { scope, wait_ms: Some(1_000) };
    assert_eq!(
        grant(&*limiter, requests).await,
        [Verdict::Granted, Verdict::Granted, throttled(namespace.clone())]
    );
    // The refused request took nothing from the wider rate, which has one start left of its three.
    let elsewhere =
        |id| SlotRequest { rates: vec![rated(Scope::Everything, 1, 1_000, 3)], ..request(id, vec![]) };
    assert_eq!(
        grant(&*limiter, vec![elsewhere(4), elsewhere(5)]).await,
        [Verdict::Granted, throttled(Scope::Everything)]
    );
}

pub async fn a_clock_that_is_behind_brings_nothing_and_a_new_rate_keeps_what_fits(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let with = |id, limit, burst| SlotRequest {
        rates: vec![rated(queue("mail"), limit, 1_000, burst)],
        ..request(id, vec![])
    };
    let all = limiter.grant((1..=4).map(|id| with(id, 1, 4)).collect(), NOW).await.unwrap();
    assert_eq!(all, vec![Verdict::Granted; 4]);
    for behind_ms in [1_000, 0, 500] {
        let answers = limiter.grant(vec![with(9, 1, 4)], NOW.plus(-behind_ms)).await.unwrap();
        assert!(matches!(answers[0], Verdict::Throttled { .. }), "{behind_ms}");
    }
    let later = NOW.plus(3_000);
    assert_eq!(limiter.room(&[], &with(1, 1, 4).rates, later).await.unwrap().free, 3);
    assert_eq!(limiter.room(&[], &with(1, 1, 2).rates, later).await.unwrap().free, 2);
}

pub async fn of_many_who_ask_at_once_no_more_than_the_limit_get_a_place(limiter: Arc<dyn Limiter>) {
    let limiter = whole(limiter).await;
    let mut engines = JoinSet::new();
    for engine in 0..8 {
        let limiter = Arc::clone(&limiter);
        engines.spawn(async move {
            let mut got = Vec::new();
            for nth in 0..30 {
                let id = engine * 1_000 + nth;
                let limits = vec![limit(Scope::Everything, 20), limit(queue("mail"), 10)];
                if limiter.grant(vec![request(id, limits)], NOW).await.unwrap() == [Verdict::Granted] {
                    got.push(id);
                    let holders = limiter.holders(&queue("mail"), 0).await.unwrap();
                    assert!(holders.count <= 10, "{}", holders.count);
                    if nth % 2 == 0 {
                        limiter.release(&[member(id)]).await.unwrap();
                        got.pop();
                    }
                }
            }
            got
        });
    }
    let got: HashSet<i64> = engines.join_all().await.concat().into_iter().collect();
    let holders = limiter.holders(&queue("mail"), 1_000).await.unwrap();
    assert_eq!(holders.first.iter().map(|held| held.member.id).collect::<HashSet<_>>(), got);
    assert!(got.len() <= 10);
}
