//! The servers' own reports: release, eviction, memory. Decides only whether an engine may start.

use super::problem::RedisProblem;
use redis::Value;

/// The memory use of all masters together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    pub used_bytes: u64,
    /// The configured budget, or else the servers' `maxmemory`, or `None` means unlimited.
    pub budget_bytes: Option<u64>,
}

impl MemoryUse {
    /// Used, of the budget; 0.0 without one. Above 1.0 loads are refused.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share does not need all digits")]
    pub fn share(&self) -> f64 {
        self.budget_bytes.map_or(0.0, |budget_bytes| self.used_bytes as f64 / budget_bytes.max(1) as f64)
    }
}

/// The lines of `INFO`.
#[derive(Debug)]
pub(crate) struct Info(String);

impl Info {
    pub(crate) fn of(value: Value) -> Option<Self> {
        match value {
            Value::BulkString(bytes) => String::from_utf8(bytes).ok().map(Self),
            Value::VerbatimString { text, .. } => Some(Self(text)),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let lines = self.0.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(line, _)| *line == key).map(|(_, line)| line)
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        self.get(key).and_then(|info| info.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn check(&self) -> Result<(), RedisProblem> {
        let release = self.get("redis_version").unwrap_or("without a release number");
        let major = release.split('.').next().and_then(|part| part.parse::<u32>().ok());
        if major.is_none_or(|major| major < 7) {
            return Err(RedisProblem::TooOld(release.to_owned()));
        }
        match self.evicts() {
            Some(policy) => Err(RedisProblem::Evicts(policy.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns the eviction policy if it can evict tasks.
    pub(crate) fn evicts(&self) -> Option<&str> {
        self.get("maxmemory_policy").filter(|maxmemory_policy| *maxmemory_policy != "noeviction")
    }
}

/// Reads the answers of every server. `None` if one of them is unexpected.
pub(crate) fn read(answers: Vec<Value>) -> Option<Vec<Info>> {
    answers.into_iter().map(Info::of).collect()
}

pub(crate) fn memory(servers: &[Info], budget_bytes: Option<u64>) -> MemoryUse {
    let sum = |key| servers.iter().map(|server| server.number(key)).sum();
    let limited = servers.iter().all(|server| server.number("maxmemory") > 0);
    let budget_bytes = budget_bytes.or_else(|| limited.then(|| sum("maxmemory")));
    MemoryUse { used_bytes: sum("used_memory"), budget_bytes }
}

/// The limit of one server's memory: `maxmemory`, or half of its machine's memory if that is not set, because a
/// server that uses all memory is killed. 0 if unknown.
fn bound(server: &Info) -> u64 {
    match server.number("maxmemory") {
        0 => server.number("total_system_memory") / 2,
        bytes => bytes,
    }
}

/// The fill level in thousandths: of our budget, or of the server that has the highest level.
pub(crate) fn fullness(servers: &[Info], budget_bytes: Option<u64>) -> u32 {
    let share =
        |used: u64, of: u64| u32::try_from(used.saturating_mul(1_000) / of.max(1)).unwrap_or(u32::MAX);
    match budget_bytes {
        Some(budget) => share(servers.iter().map(|server| server.number("used_memory")).sum(), budget),
        None => {
            let bounded = servers.iter().filter(|server| bound(server) > 0);
            bounded.map(|info| share(info.number("used_memory"), bound(info))).max().unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(release: &str, policy: &str, max: u64) -> Info {
        Info(format!(
            "# Server\r\nredis_version:{release}\r\n\r\n# Memory\r\nused_memory:100\r\nmaxmemory:{max}\r\n\
             maxmemory_policy:{policy}\r\n"
        ))
    }

    #[test]
    fn only_a_server_that_keeps_everything_is_accepted() {
        assert!(info("7.0.15", "noeviction", 0).check().is_ok());
        let said = info("7.0.15", "volatile-lru", 0).check().unwrap_err().to_string();
        assert!(
            said.contains("volatile-lru") && said.contains("CONFIG SET maxmemory-policy noeviction"),
            "{said}"
        );
        assert!(info("6.2.1", "noeviction", 0).check().unwrap_err().to_string().contains("6.2.1"));
        assert!(Info(String::new()).check().is_err());
    }

    #[test]
    fn memory_is_summed_and_ours_comes_before_theirs() {
        let two = [info("7.0.1", "noeviction", 400), info("7.0.1", "noeviction", 400)];
        assert_eq!(memory(&two, None), MemoryUse { used_bytes: 200, budget_bytes: Some(800) });
        assert_eq!(memory(&two, Some(100)).share(), 2.0);
        let open = [info("7.0.1", "noeviction", 400), info("7.0.1", "noeviction", 0)];
        assert_eq!(memory(&open, None).budget_bytes, None, "one of them may grow");
    }

    #[test]
    fn the_fullest_server_says_how_full_it_is_unless_we_have_a_budget() {
        let two = [info("7.0.1", "noeviction", 400), info("7.0.1", "noeviction", 125)];
        assert_eq!(fullness(&two, None), 800);
        assert_eq!(fullness(&two, Some(100)), 2_000);
        assert_eq!(fullness(&[info("7.0.1", "noeviction", 0)], None), 0, "as much as there is");
        let on_a_machine = Info("used_memory:100\r\nmaxmemory:0\r\ntotal_system_memory:1000\r\n".to_owned());
        assert_eq!(fullness(&[on_a_machine], None), 200, "of half of its machine");
    }
}
