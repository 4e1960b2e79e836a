//! Whether this engine has stepped aside, as of the last look. Looks at no clock.

use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    TakesPart,
    /// This many looks in a row have found no other owner.
    Aside(u32),
    /// No other engine has taken any partition: it continues until the clock is good again.
    GoesOn,
}

#[derive(Debug, Default)]
pub(crate) struct OwnershipPause(pub(super) Mutex<Stage>);
