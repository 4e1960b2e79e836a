//! Hierarchical timing wheel over any payload. Pure, no clock, no unsafe, no dependency.
