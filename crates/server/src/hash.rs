//! Numbers made of bytes. They are stored (with idempotency keys, and as task ids), so they must never change.
//! Not for secrets: they tell honest requests apart, inside one namespace.

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a over the parts, each closed by a byte that no UTF-8 text has, finished with the mixer of splitmix64.
pub(crate) fn of(parts: &[&[u8]]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = parts.iter().fold(BASIS, |hash, part| {
        let inner = part.iter().fold(hash, |hash, byte| step(hash, *byte));
        step(inner, 0xff)
    });
    finish(hash)
}

fn finish(seed: u64) -> u64 {
    let a = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_pinned_because_it_is_stored() {
        assert_eq!(of(&[b"POST", b"/v1/tasks", b"{}"]), PINNED);
    }
    const PINNED: u64 = 9_397_571_875_363_397_398;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab"]), of(&[b"ab", b""]));
    }
}
