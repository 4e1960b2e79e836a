//! Reports if the servers of the store keep what they acknowledge, as last checked. Raises an alert while they do
//! not, and logs when that begins or ends. Sends no query itself, and stops nothing: stored data would be no safer.

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Durability(Mutex<Vec<String>>);

impl Durability {
    /// A sentence for each weakness.
    pub(crate) fn weaknesses(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub(crate) fn found(&self, weaknesses: Vec<String>) {
        let mut known = self.0.lock();
        for weakness in weaknesses.iter().filter(|weakness| !known.contains(weakness)) {
            tracing::error!(%weakness, "tasks that are acknowledged may be lost");
        }
        if weaknesses.is_empty() && !known.is_empty() {
            tracing::info!("the databases keep again what they acknowledge");
        }
        *known = weaknesses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_last_is_what_is_known() {
        let durability = Durability::default();
        durability.found(vec!["a".to_owned(), "b".to_owned()]);
        durability.found(vec!["b".to_owned()]);
        assert_eq!(durability.weaknesses(), ["b"]);
        durability.found(Vec::new());
        assert!(durability.weaknesses().is_empty());
    }
}
