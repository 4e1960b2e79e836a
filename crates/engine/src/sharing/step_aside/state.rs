//! The stage of this engine's release of partitions for a bad clock, as of the last check. Reads no clock.

use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    TakesPart,
    /// The partitions are released. This many consecutive checks have found no other owner.
    Aside(u32),
    /// No other engine has acquired any partition: this engine continues until the clock is good again.
    GoesOn,
}

#[derive(Debug, Default)]
pub(crate) struct OwnershipPause(pub(super) Mutex<Stage>);
