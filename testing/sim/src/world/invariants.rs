//! The invariants of the code under test, checked between the steps of a run.

use super::World;
use crate::power::Broken;
use lockstep_site::Faults;
use lockstep_types::PartitionId;

/// Undo, rows and indexes are checked once in N steps: that visits everything.
const STEPS_PER_THOROUGH_CHECK: u64 = 128;

/// Which checks are made between the steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checks {
    is_on: bool,
    steps: u64,
}

impl Checks {
    /// All checks, where nothing is broken on purpose: what is broken is for the judges to find.
    pub(super) fn of(faults: Faults) -> Checks {
        Checks { is_on: faults == Faults::default(), steps: 0 }
    }
}

impl World {
    /// Checks nothing between the steps, and passes messages as they are: for those who count
    /// instructions.
    pub fn skip_checks(&mut self) {
        self.checks.is_on = false;
        self.bytes.turn_off();
    }

    /// A step was made.
    pub(super) fn check_step(&mut self) {
        if !self.checks.is_on {
            return;
        }
        self.checks.steps += 1;
        self.check_invariants();
        if self.checks.steps.is_multiple_of(STEPS_PER_THOROUGH_CHECK) {
            self.check_data();
        }
    }

    /// Checks partitions, coordinator and log, each by itself and one against the other.
    pub(crate) fn check_invariants(&self) {
        self.coordinator.check_invariants();
        for (place, site) in self.sites.iter().enumerate() {
            site.check_invariants();
            let partition = PartitionId(place as u32);
            let ((heard, run), (sent, runs)) =
                (site.progress(), self.coordinator.sent_to(partition));
            if site.epoch() != self.coordinator.epoch_of(partition) {
                continue;
            }
            assert!(heard <= sent, "partition {place} heard {heard} messages, {sent} were sent");
            assert!(run <= runs, "partition {place} is in run {run}, the coordinator in {runs}");
            assert!(
                self.catalogs.contains_key(&self.versions[place]),
                "the catalog in force at partition {place} is kept"
            );
        }
        self.check_control();
        if let Some(replicas) = self.replicas.as_ref().filter(|replicas| replicas.is_sound()) {
            replicas.check_invariants(&self.sites);
        }
        if let Some(log) = self.log.as_ref().filter(|log| log.broken == Broken::default()) {
            log.check_invariants(&self.sites);
        }
    }

    /// The catalog of the control thread is the one in force, or the one before it as long as the
    /// decision is on its way.
    fn check_control(&self) {
        let schema = &self.control.schema;
        schema.check_invariants();
        self.expiry.check_invariants();
        self.tasks.check_invariants();
        self.check_saves();
        let version = schema.catalog().version();
        assert!(self.catalogs.contains_key(&version), "the control thread's catalog is kept");
        for in_force in &self.versions {
            let is_next = *in_force == version + 1 && schema.is_changing();
            assert!(*in_force == version || is_next, "{in_force} is in force, not {version}");
        }
    }

    /// Checks undo, rows and indexes of all partitions.
    pub(crate) fn check_data(&self) {
        for site in &self.sites {
            site.database().check_invariants();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    /// Runs transfers between two partitions in a broken host until a check notices.
    fn noticed(faults: Faults) -> String {
        let mut world = World::new(3, Shape { faults, ..Shape::of(2) });
        world.schema(
            "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));
             PARTITION TABLE accounts ON COLUMN id;",
        );
        world.checks.is_on = true;
        world.repeat_one_in = 3;
        let insert = world.prepare("INSERT INTO accounts VALUES (?, ?)");
        let problem = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for call in 0..200 {
                let key = call as i64 / 3;
                world.call(call, &[(&insert, &[key, 1]), (&insert, &[key + 1_000, 1])]);
                for _ in 0..3 {
                    world.step();
                }
                if call % 20 == 0 {
                    world.fail_all();
                }
            }
            world.check_data();
        }));
        let problem = problem.expect_err("what is broken is noticed");
        problem.downcast_ref::<String>().cloned().unwrap_or_else(|| {
            let text = problem.downcast_ref::<&str>();
            text.map_or_else(String::new, ToString::to_string)
        })
    }

    #[test]
    fn changes_that_an_abort_leaves_are_noticed_by_the_step() {
        let problem = noticed(Faults { skip_undo: true, ..Faults::default() });
        assert!(problem.contains("nothing can be undone any more"), "{problem}");
    }

    #[test]
    fn messages_that_are_acted_on_twice_or_out_of_order_are_noticed_by_the_step() {
        for faults in [
            Faults { accept_repeats: true, ..Faults::default() },
            Faults { lose_order: true, ..Faults::default() },
        ] {
            let problem = noticed(faults);
            assert!(!problem.is_empty(), "{faults:?}");
        }
    }
}
