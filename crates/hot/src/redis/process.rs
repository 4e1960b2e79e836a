//! Which process answers at the address of a master. Another one than before was started again, or has taken the master's place: of
//! what was written last, some may be missing there, although nothing else shows it. Asks nobody.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{hot::Wholeness, ownership::Tenure};
use punctual_domain::place::Partition;

#[derive(Debug, Default)]
pub(crate) struct Process(Mutex<Met>);

#[derive(Debug, Default)]
struct Met {
    /// As it names itself (`run_id`), which is new with each start.
    run_id: Option<String>,
    changes: u64,
    /// By partition, after how many changes it was looked at.
    looked_at: HashMap<Partition, u64>,
}

impl Process {
    /// A connection was made, and this process answers on it.
    pub(crate) fn met(&self, run_id: &str) {
        let mut met = self.0.lock();
        if met.run_id.as_deref() == Some(run_id) {
            return;
        }
        let is_another = met.run_id.replace(run_id.to_owned()).is_some();
        met.changes += u64::from(is_another);
    }

    /// These were looked at, and found to be so. What was whole and is answered by another process than at the last look may be lost.
    pub(crate) fn looked_at(&self, tenures: &[Tenure], found: &mut [Wholeness]) {
        let mut met = self.0.lock();
        let changes = met.changes;
        for (tenure, wholeness) in tenures.iter().zip(found) {
            let before = met.looked_at.insert(tenure.partition, changes);
            if *wholeness == Wholeness::Whole && before.is_some_and(|before| before != changes) {
                *wholeness = Wholeness::Lost;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Wholeness::{Lost, Overtaken, Whole};

    #[test]
    fn what_another_process_answers_is_lost_once_for_each_partition() {
        let process = Process::default();
        let [one, two] = [1, 2].map(|number| Tenure { partition: Partition(number), term: 7 });
        let look = |tenures: &[Tenure], mut found: Vec<Wholeness>| {
            process.looked_at(tenures, &mut found);
            found
        };
        process.met("a");
        assert_eq!(look(&[one, two], vec![Whole, Lost]), [Whole, Lost], "as it was found");
        process.met("a");
        assert_eq!(look(&[one], vec![Whole]), [Whole], "another connection to the same one");
        process.met("b");
        assert_eq!(look(&[one], vec![Whole]), [Lost]);
        assert_eq!(look(&[one, two], vec![Whole, Whole]), [Whole, Lost]);
        process.met("a");
        assert_eq!(look(&[one, two], vec![Overtaken(9), Whole]), [Overtaken(9), Lost], "back at the old one");
        assert_eq!(look(&[one, two], vec![Whole, Whole]), [Whole, Whole]);
    }
}
