//! The options of the control plane: the times of heartbeats, suspicion and leases, which have to
//! fit together.

use super::{OptionError, Options};

/// A Raft tick is this part of the interval of heartbeats.
const TICKS_PER_HEARTBEAT: u64 = 2;

impl Options {
    /// The times and limits of the control plane, for partitions with K + 1 copies.
    ///
    /// With one copy of each partition a lost host ends the cluster, and no other host can take
    /// over: it is suspected after `host_timeout_ms` only.
    ///
    /// # Errors
    /// The options do not fit together; the text names them.
    pub fn control_plane(&self, kfactor: u8) -> Result<lockstep_cluster::Options, OptionError> {
        let us = |option: super::Milliseconds| option.get() * 1_000;
        let (heartbeat_us, lease_us) = (us(self.heartbeat_interval_ms), us(self.lease_ms));
        let suspect_after_us = match kfactor {
            0 => us(self.host_timeout_ms).max(2 * heartbeat_us).max(lease_us + 1),
            _ => us(self.suspect_after_ms),
        };
        let (heartbeat, lease) = (self.heartbeat_interval_ms.get(), self.lease_ms.get());
        let suspect = suspect_after_us / 1_000;
        if suspect_after_us < 2 * heartbeat_us {
            return Err(OptionError(format!(
                "option suspect_after_ms: {suspect} ms is less than twice heartbeat_interval_ms, \
                 which is {heartbeat} ms"
            )));
        }
        if lease_us <= heartbeat_us || lease_us >= suspect_after_us {
            return Err(OptionError(format!(
                "option lease_ms: {lease} ms is not between heartbeat_interval_ms ({heartbeat} \
                 ms) and suspect_after_ms ({suspect} ms)"
            )));
        }
        let options = lockstep_cluster::Options {
            heartbeat_interval_us: heartbeat_us,
            suspect_after_us,
            site_suspect_after_us: us(self.site_suspect_ms),
            lease_us,
            reload_after_us: us(self.reload_copies_after_ms),
            copy_moves_max: self.max_copy_moves.to_u32(),
            raft_tick_us: heartbeat_us / TICKS_PER_HEARTBEAT,
            ..lockstep_cluster::Options::default()
        };
        options.check().map_err(|error| OptionError(error.to_string()))?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_control_plane() {
        let options = Options::default().control_plane(1).expect("they fit together");
        let defaults = lockstep_cluster::Options::default();
        assert_eq!(options.heartbeat_interval_us, defaults.heartbeat_interval_us);
        assert_eq!(options.suspect_after_us, defaults.suspect_after_us);
        assert_eq!(options.lease_us, defaults.lease_us);
        assert_eq!(options.raft_tick_us, defaults.raft_tick_us);
        assert_eq!(options.reload_after_us, defaults.reload_after_us);
        let alone = Options::default().control_plane(0).expect("they fit together");
        assert_eq!(alone.suspect_after_us, 5_000_000);
    }

    #[test]
    fn times_that_do_not_fit_are_refused_by_name() {
        for (settings, part) in [
            (&["heartbeat_interval_ms=101"][..], "suspect_after_ms: 200 ms is less than twice"),
            (&["lease_ms=200"], "lease_ms: 200 ms is not between heartbeat_interval_ms (50 ms)"),
            (&["lease_ms=50"], "suspect_after_ms (200 ms)"),
        ] {
            let mut options = Options::default();
            settings.iter().for_each(|it| options.set(it).expect("within its range"));
            let error = options.control_plane(1).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
        let mut options = Options::default();
        for setting in ["heartbeat_interval_ms=400", "host_timeout_ms=100", "lease_ms=500"] {
            options.set(setting).expect("within its range");
        }
        assert!(options.control_plane(0).is_ok(), "with one copy the others count for nothing");
    }
}
