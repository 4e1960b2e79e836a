//! How long something lasts, as people say it: two units at most.

const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];

/// `3 h 2 min`, `5 s`, `20 ms`.
pub(super) fn span(ms: i64) -> String {
    let Some(first) = UNITS.iter().position(|it| ms >= it.0) else { return format!("{} ms", ms.max(0)) };
    let mut left = ms;
    let mut said = Vec::new();
    for (unit, name) in UNITS.iter().skip(first).take(2) {
        if left >= *unit {
            said.push(format!("{} {name}", left / unit));
        }
        left %= unit;
    }
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_units_are_enough() {
        for (ms, said) in [
            (-5, "0 ms"),
            (20, "20 ms"),
            (1_999, "1 s"),
            (61_000, "1 min 1 s"),
            (10_920_500, "3 h 2 min"),
            (7_200_000, "2 h"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(span(ms), said);
        }
    }
}
