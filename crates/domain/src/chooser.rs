//! Chooses the next of a queue's waiting tasks. Pure: the random seed is an argument. Never leaves a slot
//! unused while tasks wait: an empty level is immediately replaced by another.

use crate::{
    settings::{Choice, QueueSettings, Retries},
    task::Priority,
};

/// Priorities 1 to 5 of new tasks, and then those of tasks that are tried again, where these have a lane of their own.
pub const LEVELS: usize = 10;
const LANE: usize = 5;
/// Shares above it count as this, so that their sum is drawn exactly in every language.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// The position of a task in its queue's order: below `LEVELS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// `attempt`: attempts begun; not 0 is a task that is tried again.
    #[must_use]
    pub fn of(priority: Priority, attempt: u32, retries: Retries) -> Self {
        let new = priority.level() - 1;
        if attempt == 0 {
            return Self(new);
        }
        let lowered = new.saturating_add(retries.lower_by).min(4);
        Self(if retries.share_percent.is_some() { lowered + 5 } else { lowered })
    }

    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    fn nth(index: usize) -> Self {
        Self(u8::try_from(index).expect("there are ten levels"))
    }
}

/// The rules by which a queue selects its next task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chooser {
    pub choice: Choice,
    /// The percentage of starts for the lane of retries while both lanes wait. `None` means half, for entries that
    /// are still in it.
    pub retries_percent: Option<u8>,
}

impl Chooser {
    #[must_use]
    pub fn of(settings: &QueueSettings) -> Self {
        Self { choice: settings.choice, retries_percent: settings.retries.share_percent }
    }

    /// The level whose oldest task is next, or `None` if no task waits. `waiting`: the number of tasks in each level.
    #[must_use]
    pub fn choose(&self, waiting: &[usize; LEVELS], draws: &mut Draws) -> Option<Level> {
        let occupied: Vec<usize> =
            waiting.iter().enumerate().filter(|entry| *entry.1 > 0).map(|entry| entry.0).collect();
        let (new, again) = occupied.split_at(occupied.partition_point(|number| *number < LANE));
        let lane = match (new.is_empty(), again.is_empty()) {
            (true, true) => return None,
            (true, false) => again,
            (false, true) => new,
            (false, false) if draws.below(100) < self.share() => again,
            (false, false) => new,
        };
        Some(Level::nth(self.among(lane, draws)))
    }

    /// The levels of the next `limit`, in their order.
    #[must_use]
    pub fn plan(&self, waiting: &[usize; LEVELS], limit: usize, draws: &mut Draws) -> Vec<Level> {
        let mut left = *waiting;
        let mut plan = Vec::new();
        while plan.len() < limit
            && let Some(level) = self.choose(&left, draws)
        {
            plan.push(level);
            if let Some(left) = left.get_mut(level.index()) {
                *left -= 1;
            }
        }
        plan
    }

    /// The share of retries, in percent.
    #[must_use]
    pub fn share(&self) -> u32 {
        u32::from(self.retries_percent.unwrap_or(50).min(100))
    }

    /// Selects one of the occupied levels of one lane. They are in order, and there is at least one.
    fn among(&self, occupied: &[usize], draws: &mut Draws) -> usize {
        let first = occupied.first().copied().unwrap_or(0);
        if occupied.len() < 2 {
            return first;
        }
        match self.choice {
            Choice::HighestFirst { percent } if draws.below(100) < u32::from(percent) => first,
            Choice::HighestFirst { .. } => {
                let others = occupied.get(1..).unwrap_or_default();
                let count = u32::try_from(others.len()).unwrap_or(1);
                // Between two levels, no further number is drawn.
                let nth = if count > 1 { draws.below(count) } else { 0 };
                usize::try_from(nth).ok().and_then(|number| others.get(number)).copied().unwrap_or(first)
            }
            Choice::Weights { weights } => {
                let weight = |number: usize| weights.get(number % LANE).copied().unwrap_or(0).min(WEIGHT_MAX);
                let whole: u32 = occupied.iter().map(|number| weight(*number)).sum();
                if whole == 0 {
                    return first;
                }
                let mut drawn = draws.below(whole);
                for number in occupied.iter().copied() {
                    if drawn < weight(number) {
                        return number;
                    }
                    drawn -= weight(number);
                }
                first
            }
        }
    }
}

/// Random numbers from a seed: Lehmer's generator, exact in Lua's doubles too. Good enough for shares, not
/// for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws(u64);

const MODULUS: u64 = 2_147_483_647;

impl Draws {
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed) % (MODULUS - 1) + 1)
    }

    /// 0 to `count` - 1; `count` is far below 2^31, and not 0.
    pub fn below(&mut self, count: u32) -> u32 {
        self.0 = self.0 * 48_271 % MODULUS;
        u32::try_from(self.0 % u64::from(count.max(1))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: usize = 1_000_000;

    /// Counts how many of 10,000 choices select each level while no level runs empty.
    fn shares(chooser: Chooser, waiting: [usize; LEVELS]) -> [usize; LEVELS] {
        let (mut draws, mut shares) = (Draws::new(7), [0; LEVELS]);
        for _ in 0..10_000 {
            shares[chooser.choose(&waiting, &mut draws).unwrap().index()] += 1;
        }
        shares
    }

    /// The seed is fixed, so that this either always holds or never: within 2 points.
    fn assert_near(share: usize, percent: usize) {
        assert!(share.abs_diff(percent * 100) <= 200, "{share} of 10,000 is not {percent} %");
    }

    fn level(number: u8) -> Level {
        Level(number)
    }

    #[test]
    fn four_of_five_go_highest_first_and_one_is_shared_by_all_below() {
        let all = shares(Chooser::default(), [FLOOD, FLOOD, FLOOD, FLOOD, FLOOD, 0, 0, 0, 0, 0]);
        assert_near(all[0], 80);
        all[1..5].iter().for_each(|share| assert_near(*share, 5));
        let two = shares(Chooser::default(), [FLOOD, 0, 0, 0, FLOOD, 0, 0, 0, 0, 0]);
        assert_near(two[0], 80);
        assert_near(two[4], 20);
        let some = shares(Chooser::default(), [0, FLOOD, 0, FLOOD, FLOOD, 0, 0, 0, 0, 0]);
        assert_near(some[1], 80);
        assert_near(some[3], 10);
        assert_near(some[4], 10);
    }

    #[test]
    fn weights_give_each_priority_its_share_and_an_empty_one_leaves_its_to_the_others() {
        let chooser =
            Chooser { choice: Choice::Weights { weights: [50, 25, 0, 15, 10] }, ..Chooser::default() };
        let all = shares(chooser, [FLOOD, FLOOD, FLOOD, FLOOD, FLOOD, 0, 0, 0, 0, 0]);
        for (share, percent) in all.into_iter().zip([50, 25, 0, 15, 10]) {
            assert_near(share, percent);
        }
        let some = shares(chooser, [0, FLOOD, FLOOD, FLOOD, 0, 0, 0, 0, 0, 0]);
        assert_near(some[1], 63);
        assert_near(some[3], 37);
        let weightless = shares(chooser, [0, 0, FLOOD, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(weightless[2], 10_000, "a share of 0 goes when nothing else waits");
    }

    #[test]
    fn retries_with_a_share_of_their_own_get_no_more_than_it_while_new_work_waits() {
        let chooser = Chooser { retries_percent: Some(10), ..Chooser::default() };
        let both = shares(chooser, [0, 0, FLOOD, 0, 0, FLOOD, 0, 0, 0, FLOOD]);
        assert_near(both[2], 90);
        assert_near(both[5], 8);
        assert_near(both[9], 2);
        assert_eq!(shares(chooser, [0, 0, 0, 0, 0, 0, FLOOD, 0, 0, 0])[6], 10_000);
    }

    #[test]
    fn under_a_permanent_flood_of_the_highest_no_priority_starves() {
        let chooser = Chooser::default();
        let (mut draws, mut waiting) = (Draws::new(3), [FLOOD, 10, 10, 10, 10, 0, 0, 0, 0, 0]);
        let mut chosen = 0;
        while waiting[1..].iter().sum::<usize>() > 0 {
            let level = chooser.choose(&waiting, &mut draws).unwrap();
            waiting[level.index()] -= 1;
            waiting[0] = FLOOD;
            chosen += 1;
        }
        assert!(chosen < 400, "40 tasks of low priority at a fifth of the starts took {chosen} of them");
    }

    #[test]
    fn a_plan_is_the_choices_one_after_the_other_and_never_more_than_waits() {
        let chooser = Chooser { retries_percent: Some(50), ..Chooser::default() };
        let waiting = [3, 0, 2, 0, 0, 1, 0, 0, 0, 1];
        for seed in 0..100 {
            let plan = chooser.plan(&waiting, 100, &mut Draws::new(seed));
            for (index, count) in waiting.into_iter().enumerate() {
                assert_eq!(plan.iter().filter(|level| level.index() == index).count(), count);
            }
            assert_eq!(chooser.plan(&waiting, 4, &mut Draws::new(seed)), plan[..4]);
        }
        assert_eq!(chooser.plan(&[0; LEVELS], 4, &mut Draws::new(1)), []);
    }

    #[test]
    fn a_task_that_is_tried_again_stands_lower_and_in_a_lane_of_its_own_where_there_is_one() {
        let of = |priority, attempt, retries| Level::of(Priority::new(priority).unwrap(), attempt, retries);
        let lower = Retries { lower_by: 2, ..Retries::default() };
        let own = Retries { share_percent: Some(20), ..lower };
        assert_eq!(
            [of(1, 0, own), of(5, 0, own)],
            [level(0), level(4)],
            "a first attempt stands where it asked"
        );
        assert_eq!([of(1, 1, lower), of(4, 9, lower)], [level(2), level(4)]);
        assert_eq!([of(1, 1, own), of(5, 1, own)], [level(7), level(9)]);
        assert_eq!(of(3, 1, Retries::default()), level(2));
    }
}
