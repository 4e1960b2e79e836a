//! Events of a cluster: engines start and end, partitions change their owner, back ends fail and return.
//! These are the words of the event list; the engine that notices an event decides nothing by it.

use std::{fmt, str::FromStr};

/// The kinds of events, in the order of their documentation. A word is never given another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    EngineStarted,
    EngineStopped,
    /// It became silent without leaving: its partitions are free.
    EngineLost,
    /// It had fallen silent, and gives heartbeats again.
    EngineBack,
    PartitionsTakenOver,
    PartitionMoved,
    HotSetLost,
    HotSetBack,
    DatabaseAway,
    DatabaseBack,
}

impl EventKind {
    pub const ALL: [Self; 10] = [
        Self::EngineStarted,
        Self::EngineStopped,
        Self::EngineLost,
        Self::EngineBack,
        Self::PartitionsTakenOver,
        Self::PartitionMoved,
        Self::HotSetLost,
        Self::HotSetBack,
        Self::DatabaseAway,
        Self::DatabaseBack,
    ];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::EngineStarted => "engine_started",
            Self::EngineStopped => "engine_stopped",
            Self::EngineLost => "engine_lost",
            Self::EngineBack => "engine_back",
            Self::PartitionsTakenOver => "partitions_taken_over",
            Self::PartitionMoved => "partition_moved",
            Self::HotSetLost => "hot_set_lost",
            Self::HotSetBack => "hot_set_back",
            Self::DatabaseAway => "database_away",
            Self::DatabaseBack => "database_back",
        }
    }

    /// Something is not as it should be, from then on.
    #[must_use]
    pub const fn is_trouble(self) -> bool {
        matches!(self, Self::EngineLost | Self::HotSetLost | Self::DatabaseAway)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The word names no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such kind of event")]
pub struct NoSuchEvent;

impl FromStr for EventKind {
    type Err = NoSuchEvent;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.word() == word).ok_or(NoSuchEvent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_from_its_word_and_nothing_else_is() {
        for kind in EventKind::ALL {
            assert_eq!(kind.word().parse(), Ok(kind));
        }
        assert_eq!("engine".parse::<EventKind>(), Err(NoSuchEvent));
    }
}
