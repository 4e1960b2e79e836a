//! CPU time and memory of this process, from `/proc/self`. Elsewhere than on Linux there is none, and it is left out.

/// Clock ticks of `/proc`: USER_HZ, which is 100 on every Linux that there is.
const MICROS_PER_TICK: u64 = 10_000;

/// User and kernel mode, in microseconds.
pub(super) fn cpu_us() -> Option<u64> {
    cpu_of(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

pub(super) fn resident_bytes() -> Option<u64> {
    resident_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Fields 14 and 15; the second one may have spaces and brackets of its own.
fn cpu_of(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * MICROS_PER_TICK)
}

fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read_right() {
        let stat =
            "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 12 34 0 0 20 0 8 0 100 1000 200 18446744073709551615";
        assert_eq!(cpu_of(stat), Some(460_000));
        assert_eq!(resident_of("VmPeak:\t 9 kB\nVmRSS:\t   12 kB\n"), Some(12_288));
        assert_eq!((cpu_of("7"), resident_of("VmRSS: 12")), (None, None));
    }
}
