//! How much memory this machine has, or the container that the process runs in: what bounds follow from where nobody set
//! them.

use std::fs;

/// Where the machine does not say.
const UNKNOWN_BYTES: u64 = 2 << 30;
const LEAST_BYTES: u64 = 64 << 20;

/// What tasks that are due soon may fill: a quarter of what there is.
pub(crate) fn for_tasks() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|it| of_machine(&it));
    let container =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|it| it.trim().parse().ok());
    share(machine, container)
}

fn share(machine: Option<u64>, container: Option<u64>) -> u64 {
    let there_is = [machine, container].into_iter().flatten().min().unwrap_or(UNKNOWN_BYTES);
    (there_is / 4).max(LEAST_BYTES)
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_smaller_of_machine_and_container() {
        let machine = of_machine("MemFree: 1 kB\nMemTotal:        8388608 kB\n");
        assert_eq!(machine, Some(8 << 30));
        assert_eq!(share(machine, None), 2 << 30);
        assert_eq!(share(machine, Some(1 << 30)), 256 << 20);
        assert_eq!(share(Some(1), None), LEAST_BYTES);
        assert_eq!((of_machine("nothing"), share(None, None)), (None, 512 << 20));
    }
}
