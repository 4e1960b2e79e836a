//! Selects the time that an engine uses, by three witnesses: the machine's wall clock; its steady clock, which cannot
//! be set; and the keeper, a clock that all engines of one store share. The wall clock is followed while it runs with
//! the steady one since the keeper last agreed with it. A step is followed only if the keeper confirms it, or,
//! without a keeper, after it has lasted for a while. Until then the steady clock determines the time. Two witnesses
//! that agree outvote the third. Pure: reads no clock. Time never runs backwards, unless a step is followed.

use punctual_contract::clock::ClockStatus;

pub(super) const MS: i64 = 1_000_000;
/// A slower answer of the keeper is too inexact.
const ROUND_TRIP_MAX_NS: i64 = 1_000 * MS;
/// The keeper's time is rounded down to a millisecond.
const KEEPER_RESOLUTION_NS: i64 = MS;
/// The minimum pause of the machine that counts as a suspend.
const SUSPENDED_NS: i64 = 250 * MS;
/// If no caller asked for the time for longer than this, the process stood still: the wheel's thread asks ten
/// times a second. The clocks do not show it, because they all continued.
const STOOD_STILL_NS: i64 = 1_000 * MS;

/// The machine's clocks at one instant, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Nanoseconds since 1970.
    pub wall_ns: i64,
    /// Runs evenly whatever happens to the wall clock; also during a suspend, if the machine supports that.
    pub steady_ns: i64,
    /// The same as `steady_ns`, but it stops during a suspend.
    pub awake_ns: i64,
    /// The duration of the reading, and so the maximum difference between the clocks. The steady clock was read last,
    /// so the time computed from both is at most the true one.
    pub spread_ns: i64,
}

impl Reading {
    const fn wall_offset(&self) -> i64 {
        self.wall_ns - self.steady_ns
    }
}

/// All offsets are nanoseconds that are added to the steady clock.
#[derive(Debug)]
pub(super) struct Belief {
    bound_ns: i64,
    /// The time after which a step is followed without a keeper. `None` if the keeper is asked.
    grace_ns: Option<i64>,
    /// The offset that was last agreed upon.
    anchor: i64,
    /// The offset that determines the time now.
    offset: i64,
    /// The wall clock is beside the anchor: where, and since when.
    step: Option<ClockOffset>,
    /// The keeper does not agree with the wall clock.
    is_denied: bool,
    keeper: Option<Keeper>,
    shown_ns: i64,
    /// The shown time stops until the offset catches up with it.
    holds: bool,
    slept_ns: i64,
    /// The instant of the last read of the clocks, on the steady clock.
    looked_ns: i64,
    wall_ahead_ns: i64,
    steps: u64,
    discontinuities: u64,
}

#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    offset: i64,
    since_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Keeper {
    /// The offset of the wall clock when it was last believed.
    offset: i64,
    margin: i64,
    heard: i64,
    is_doubtful: bool,
}

impl Belief {
    /// Begins with the wall clock, the only witness so far.
    pub(super) const fn new(first: Reading, bound_ns: i64, grace_ns: Option<i64>) -> Self {
        let offset = first.wall_offset();
        Self {
            bound_ns,
            grace_ns,
            anchor: offset,
            offset,
            step: None,
            is_denied: false,
            keeper: None,
            shown_ns: i64::MIN,
            holds: false,
            slept_ns: first.steady_ns - first.awake_ns,
            looked_ns: first.steady_ns,
            wall_ahead_ns: 0,
            steps: 0,
            discontinuities: 0,
        }
    }

    /// The instant of the last read of the clocks, on the steady clock.
    pub(super) const fn looked_ns(&self) -> i64 {
        self.looked_ns
    }

    /// The offset to use without asking again: that of a followed wall clock, until it steps.
    pub(super) fn steady_offset(&self) -> Option<i64> {
        (self.is_followed() && !self.holds).then_some(self.offset)
    }

    const fn is_followed(&self) -> bool {
        self.step.is_none() && !self.is_denied
    }

    /// The time, in nanoseconds since 1970.
    pub(super) fn look(&mut self, reading: Reading) -> i64 {
        self.notice_pause(reading);
        let wall = reading.wall_offset();
        if self.agree(wall, self.anchor, reading.spread_ns) && !self.is_denied {
            self.step = None;
            self.offset = wall;
            if self.grace_ns.is_some() {
                self.anchor = wall;
            }
        } else {
            self.diverge(reading, wall);
        }
        self.wall_ahead_ns = wall - self.offset;
        self.show(reading)
    }

    fn agree(&self, one: i64, other: i64, more_ns: i64) -> bool {
        (one - other).abs() <= self.bound_ns + more_ns
    }

    /// Notices that the machine was suspended, or that this process stood still.
    fn notice_pause(&mut self, reading: Reading) {
        let slept_ns = reading.steady_ns - reading.awake_ns;
        let stood_still = reading.steady_ns - self.looked_ns > STOOD_STILL_NS;
        if stood_still || slept_ns - self.slept_ns > SUSPENDED_NS + reading.spread_ns {
            self.discontinuities += 1;
        }
        self.looked_ns = self.looked_ns.max(reading.steady_ns);
        if reading.spread_ns < SUSPENDED_NS {
            self.slept_ns = slept_ns;
        }
    }

    /// The wall clock is not followed.
    fn diverge(&mut self, reading: Reading, wall: i64) {
        let since_ns = match self.step {
            Some(step) if self.agree(step.offset, wall, reading.spread_ns) => step.since_ns,
            _ => {
                self.discontinuities += 1;
                reading.steady_ns
            }
        };
        self.step = Some(ClockOffset { offset: wall, since_ns });
        self.offset = self.anchor;
        if self.grace_ns.is_some_and(|grace_ns| reading.steady_ns - since_ns >= grace_ns) {
            self.follow(wall);
        }
    }

    /// Time is set.
    fn follow(&mut self, offset: i64) {
        if !self.agree(offset, self.offset, 0) {
            self.steps += 1;
            self.discontinuities += 1;
        }
        if offset < self.offset - self.bound_ns {
            self.shown_ns = i64::MIN;
        }
        (self.anchor, self.offset, self.step, self.is_denied) = (offset, offset, None, false);
    }

    fn show(&mut self, reading: Reading) -> i64 {
        let time_ns = reading.steady_ns + self.offset;
        self.holds = time_ns < self.shown_ns;
        self.shown_ns = self.shown_ns.max(time_ns);
        self.shown_ns
    }

    /// The keeper showed `theirs_ns` at some instant since `asked_ns`, on the steady clock.
    pub(super) fn observe(&mut self, theirs_ns: i64, asked_ns: i64, reading: Reading) {
        self.look(reading);
        let round_trip_ns = reading.steady_ns - asked_ns;
        if !(0..=ROUND_TRIP_MAX_NS).contains(&round_trip_ns) {
            return;
        }
        let half = round_trip_ns / 2;
        let heard = theirs_ns + KEEPER_RESOLUTION_NS / 2 - (asked_ns + half);
        let margin = half + KEEPER_RESOLUTION_NS + reading.spread_ns;
        let wall = reading.wall_offset();
        let before = self.keeper;
        let has_jumped =
            before.is_some_and(|keeper| !self.agree(keeper.offset, heard, keeper.margin + margin));
        if self.agree(wall, heard, margin) {
            self.follow(wall);
        } else if before.is_none() || (!has_jumped && !self.agree(self.anchor, heard, margin)) {
            // All engines agree by the keeper. Only this machine's clock contradicts it, and that was never
            // confirmed or has drifted.
            let nearest = if before.is_none() { heard } else { self.nearest(heard, margin) };
            self.follow(nearest);
            self.is_denied = true;
        } else if self.agree(self.anchor, heard, margin) {
            self.is_denied = true;
        } else {
            // The keeper has jumped from the time that it agreed to before. Two witnesses contradict it, or
            // all three disagree.
            self.keeper = before.map(|keeper| Keeper { heard, is_doubtful: true, ..keeper });
            return;
        }
        self.keeper = Some(Keeper { offset: heard, margin, heard, is_doubtful: false });
        self.look(reading);
    }

    /// The offset nearest to the anchor that the keeper does not deny.
    fn nearest(&self, heard: i64, margin: i64) -> i64 {
        let most = self.bound_ns + margin;
        self.anchor.clamp(heard - most, heard + most)
    }

    pub(super) fn status(&self) -> ClockStatus {
        let keeper = self.keeper;
        ClockStatus {
            is_doubtful: !self.is_followed(),
            wall_ahead_ms: self.wall_ahead_ns / MS,
            keeper_ahead_ms: keeper.map(|keeper| (keeper.heard - self.offset) / MS),
            is_keeper_doubtful: keeper.is_some_and(|keeper| keeper.is_doubtful),
            steps: self.steps,
            discontinuities: self.discontinuities,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: i64 = 250 * MS;
    const SECOND: i64 = 1_000 * MS;
    const HOUR: i64 = 3_600 * SECOND;
    /// True time since 1970 when the machine started.
    const BOOT: i64 = 1_000_000 * HOUR;

    /// A machine in a world with a true time, and a keeper.
    struct ClockWorld {
        steady_ns: i64,
        asleep_ns: i64,
        /// Ahead of true time.
        wall_ns: i64,
        keeper_ns: i64,
        belief: Belief,
        last_ns: i64,
        steps: u64,
    }

    impl ClockWorld {
        fn new(wall_ns: i64, grace_ns: Option<i64>) -> Self {
            let first = Reading { wall_ns: BOOT + wall_ns, ..Reading::default() };
            let belief = Belief::new(first, BOUND, grace_ns);
            Self { steady_ns: 0, asleep_ns: 0, wall_ns, keeper_ns: 0, belief, last_ns: i64::MIN, steps: 0 }
        }

        fn agreed() -> Self {
            let mut world = Self::new(0, None);
            world.observe(MS);
            world
        }

        fn reading(&self) -> Reading {
            Reading {
                wall_ns: BOOT + self.steady_ns + self.wall_ns,
                steady_ns: self.steady_ns,
                awake_ns: self.steady_ns - self.asleep_ns,
                spread_ns: 0,
            }
        }

        /// So far ahead of true time it is. Never back, unless time was set.
        fn ahead(&mut self) -> i64 {
            let shown_ns = self.belief.look(self.reading());
            let steps = self.belief.status().steps;
            assert!(shown_ns >= self.last_ns || steps > self.steps, "it ran back");
            (self.last_ns, self.steps) = (shown_ns, steps);
            shown_ns - BOOT - self.steady_ns
        }

        fn pass(&mut self, ns: i64) -> i64 {
            self.steady_ns += ns;
            self.ahead()
        }

        /// The keeper answers in the middle of the round trip.
        fn observe(&mut self, round_trip_ns: i64) {
            let asked = self.steady_ns;
            let theirs = BOOT + asked + round_trip_ns / 2 + self.keeper_ns;
            self.steady_ns += round_trip_ns;
            self.belief.observe(theirs.div_euclid(MS) * MS, asked, self.reading());
            self.ahead();
        }

        fn status(&self) -> ClockStatus {
            self.belief.status()
        }
    }

    #[test]
    fn a_wall_clock_that_agrees_is_followed_also_in_small_steps() {
        let mut world = ClockWorld::agreed();
        world.wall_ns = 200 * MS;
        assert_eq!(world.pass(SECOND), 200 * MS);
        assert_eq!(world.belief.steady_offset(), Some(BOOT + 200 * MS));
        world.wall_ns = 0;
        assert_eq!(world.ahead(), 200 * MS, "time stands still instead of running back");
        assert_eq!(world.belief.steady_offset(), None);
        assert_eq!(world.pass(150 * MS), 50 * MS);
        assert_eq!(world.pass(150 * MS), 0);
        assert_eq!(world.status(), ClockStatus { keeper_ahead_ms: Some(0), ..ClockStatus::default() });
    }

    #[test]
    fn a_step_that_the_keeper_does_not_confirm_is_not_followed_and_is_over_when_the_wall_clock_is_back() {
        for step in [4 * HOUR, -4 * HOUR, 300 * MS] {
            let mut world = ClockWorld::agreed();
            world.wall_ns = step;
            for _ in 0..10 {
                assert_eq!(world.pass(500 * MS), 0);
                world.observe(20 * MS);
            }
            let status = world.status();
            assert!(status.is_doubtful && !status.is_keeper_doubtful);
            assert_eq!((status.wall_ahead_ms, status.steps, status.discontinuities), (step / MS, 0, 1));
            world.wall_ns = 0;
            world.observe(MS);
            assert_eq!(world.pass(MS), 0);
            assert!(!world.status().is_doubtful);
        }
    }

    #[test]
    fn while_the_keeper_is_away_time_goes_on_by_what_was_last_agreed_upon() {
        let mut world = ClockWorld::agreed();
        world.wall_ns = HOUR;
        assert_eq!((world.pass(HOUR), world.pass(HOUR)), (0, 0));
        world.wall_ns = 0;
        assert_eq!(world.pass(SECOND), 0);
        assert!(!world.status().is_doubtful, "nobody has denied it");
    }

    #[test]
    fn a_step_that_the_keeper_confirms_is_followed_in_both_directions() {
        for step in [HOUR, -HOUR] {
            let mut world = ClockWorld::agreed();
            (world.wall_ns, world.keeper_ns) = (step, step);
            assert_eq!(world.pass(SECOND), 0);
            world.observe(20 * MS);
            assert_eq!(world.pass(MS), step);
            assert_eq!((world.status().steps, world.status().is_doubtful), (1, false));
        }
    }

    #[test]
    fn an_engine_whose_clock_is_wrong_from_the_start_goes_by_the_keepers() {
        for ahead in [HOUR, -HOUR] {
            let mut world = ClockWorld::new(ahead, None);
            world.observe(20 * MS);
            assert!(world.pass(SECOND).abs() <= 10 * MS + MS);
            assert!(world.status().is_doubtful && world.status().wall_ahead_ms.abs() > 3_599_000);
            world.wall_ns = 0;
            world.observe(20 * MS);
            assert_eq!(world.pass(SECOND), 0);
            assert!(!world.status().is_doubtful);
        }
    }

    #[test]
    fn a_keeper_that_jumps_alone_is_not_followed_and_nothing_else_is_doubted() {
        let mut world = ClockWorld::agreed();
        world.keeper_ns = HOUR;
        for _ in 0..10 {
            world.observe(20 * MS);
            assert_eq!(world.pass(SECOND), 0);
        }
        let status = world.status();
        assert!(status.is_keeper_doubtful && !status.is_doubtful);
        assert_eq!(status.keeper_ahead_ms, Some(3_600_000));
        world.wall_ns = 4 * HOUR;
        assert_eq!(world.pass(SECOND), 0, "three clocks, three times");
        world.observe(20 * MS);
        assert_eq!(world.pass(SECOND), 0);
        (world.wall_ns, world.keeper_ns) = (0, 0);
        world.observe(20 * MS);
        assert!(!world.status().is_keeper_doubtful && !world.status().is_doubtful);
    }

    #[test]
    fn small_steps_that_add_up_and_a_machine_that_drifts_stay_within_the_bound() {
        let mut world = ClockWorld::agreed();
        for _ in 0..20 {
            world.wall_ns += 100 * MS;
            world.observe(10 * MS);
            assert!(world.pass(SECOND).abs() <= BOUND + 5 * MS + MS);
        }
        assert!(world.status().is_doubtful);
        let mut this_world = ClockWorld::agreed();
        for _ in 0..10_000 {
            // The steady clock drifts as well: to the machine, the keeper does.
            this_world.keeper_ns -= MS / 2;
            this_world.observe(10 * MS);
            let ahead_of_keeper = this_world.pass(500 * MS) - this_world.keeper_ns;
            assert!(ahead_of_keeper <= BOUND + 5 * MS + 3 * MS, "{ahead_of_keeper}");
        }
        assert!(this_world.status().is_doubtful && !this_world.status().is_keeper_doubtful);
    }

    #[test]
    fn after_a_suspend_time_is_right_at_once_and_is_known_to_be_broken() {
        let mut world = ClockWorld::agreed();
        let before = world.status().discontinuities;
        world.asleep_ns += HOUR;
        assert_eq!(world.pass(HOUR), 0);
        assert_eq!((world.status().discontinuities, world.status().is_doubtful), (before + 1, false));
        assert_eq!(world.pass(SECOND), 0);
        assert_eq!(world.status().discontinuities, before + 1);
        // A machine whose steady clock stopped as well, while wall clock and keeper continued.
        (world.wall_ns, world.keeper_ns) = (HOUR, HOUR);
        world.pass(MS);
        assert_eq!(world.status().discontinuities, before + 2, "before anybody has confirmed it");
        world.observe(MS);
        assert_eq!(world.pass(MS), HOUR);
    }

    #[test]
    fn a_process_that_stood_still_is_known_to_have_although_every_clock_went_on() {
        let mut world = ClockWorld::agreed();
        for ns in [100 * MS, STOOD_STILL_NS] {
            world.pass(ns);
            assert_eq!(world.status().discontinuities, 0, "somebody asked in time");
        }
        assert_eq!(world.pass(STOOD_STILL_NS + MS), 0, "time is right");
        assert_eq!(
            world.status(),
            ClockStatus { discontinuities: 1, keeper_ahead_ms: Some(0), ..ClockStatus::default() }
        );
        world.pass(100 * MS);
        assert_eq!(world.status().discontinuities, 1, "once");
    }

    #[test]
    fn an_answer_that_took_too_long_says_nothing() {
        let mut world = ClockWorld::agreed();
        world.wall_ns = HOUR;
        world.keeper_ns = HOUR;
        world.observe(ROUND_TRIP_MAX_NS + MS);
        assert_eq!(world.pass(MS), 0);
    }

    #[test]
    fn with_nobody_to_ask_a_step_is_followed_when_it_has_stood() {
        for step in [HOUR, -HOUR] {
            let mut world = ClockWorld::new(0, Some(10 * SECOND));
            world.wall_ns = step;
            assert_eq!((world.pass(SECOND), world.pass(8 * SECOND)), (0, 0));
            world.wall_ns = 0;
            assert_eq!(world.pass(SECOND), 0);
            world.wall_ns = step;
            assert_eq!((world.pass(SECOND), world.pass(9 * SECOND)), (0, 0));
            assert_eq!(world.pass(SECOND), step, "ten seconds after it was seen");
            assert_eq!((world.status().steps, world.status().is_doubtful), (1, false));
        }
    }

    #[test]
    fn whatever_happens_to_one_clock_time_is_never_further_off_than_the_bound_and_a_round_trip() {
        for seed in 0..2_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut world = ClockWorld::agreed();
            for _ in 0..60 {
                let round_trip = random.i64(0..200) * MS;
                match random.u8(0..6) {
                    0 => world.wall_ns = random.i64(-2_000..2_000) * MS,
                    1 => world.wall_ns = random.i64(-5..5) * HOUR,
                    2 => world.wall_ns = 0,
                    3 => world.observe(round_trip),
                    _ => drop(world.pass(random.i64(0..20_000) * MS)),
                }
                let ahead = world.ahead();
                assert!(ahead.abs() <= 2 * BOUND + 202 * MS, "seed {seed}: {} ms", ahead / MS);
            }
        }
    }
}
