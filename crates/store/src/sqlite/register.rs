//! Where an id is in the register: a bit in a row of 32. A format of the file. Must not read it.

/// As many ids as one row has bits for.
pub(crate) const IDS_OF_ROW: i64 = 32;

/// The row that has an id.
pub(crate) const fn ids_of(id: i64) -> i64 {
    id.div_euclid(IDS_OF_ROW)
}

pub(crate) const fn bit(id: i64) -> i64 {
    1 << id.rem_euclid(IDS_OF_ROW)
}
