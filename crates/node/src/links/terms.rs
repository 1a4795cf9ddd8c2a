//! What the hosts of a cluster have to have alike.

use crate::log::Durability;
use crate::options::Options;
use lockstep_cluster::{Agreement, Shape};
use lockstep_link::ClusterId;
use std::str::FromStr;

/// Before the time at which the cluster was made.
const CREATED: &str = "created_ms=";
/// Before the number of the placement that the host goes by.
const PLACEMENT: &str = "placement=";
/// The name of what releases have to have alike, and what a host gets that has it otherwise.
const FORMS: &str = "forms";
const OTHER_RELEASE: &str = ": the releases of the two hosts cannot be in one cluster. Start all \
                             hosts and the witness with the same release";
/// Grows with each change of what hosts send each other, apart from the control plane, and of what
/// an entry of the log does: a copy of a release before could not read it, or would differ.
const HOST_FORMS: u32 = 2;
/// What a witness has none of, and so is not compared with it.
const OF_HOSTS_ALONE: [&str; 5] =
    ["sites", "partitions_per_site", "kfactor", "follower_reads", "placement_groups"];
/// The line of a witness in place of the number of sites.
const NO_SITES: &str = "sites=0";
/// The name of what is kept, and its value where nothing is.
const DURABILITY: &str = "durability";
const IN_MEMORY: &str = "memory";

/// What a host says beside its terms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SaidWithTerms {
    /// When it made its cluster, milliseconds since 1970.
    pub(crate) created_ms: i64,
    /// The number of the placement that it goes by.
    pub(crate) placement_epoch: u64,
}

/// What all hosts of a cluster were started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterTerms {
    /// The cluster; zeros where its hosts have not agreed on a name.
    pub cluster: ClusterId,
    /// The versions of what hosts send each other, which follow from the release.
    pub forms: String,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of witnesses, which have the numbers after those of the hosts.
    pub witnesses: u32,
    /// Sites of each host; 0 in the terms of a witness, which does not know it.
    pub sites: u32,
    /// Copies of partitions that each site has.
    pub partitions_per_site: u32,
    /// The K with which the cluster is made: each partition has K + 1 copies at first. The K in
    /// force may be another one since ([`lockstep_cluster::Command::ChangeK`]).
    pub kfactor: u8,
    /// The times of the control plane that hosts count on at each other, in milliseconds: of
    /// heartbeats, of suspicion and of leases.
    pub times_ms: [u64; 3],
    /// Copies answer reads.
    pub follower_reads: bool,
    /// Each host names its placement group; else none does.
    pub placement_groups: bool,
    /// Whether hosts keep their data, and how.
    pub durability: Option<Durability>,
}

/// The greatest K.
pub const KFACTOR_MAX: u8 = lockstep_cluster::K_MAX;

/// The most witnesses of a cluster: a second one would make the number of votes even again.
pub const WITNESSES_MAX: u32 = 1;

impl ClusterTerms {
    /// The terms of a cluster whose hosts are started with these options, in memory.
    pub fn new(hosts: u32, sites: u32, kfactor: u8, options: &Options) -> ClusterTerms {
        let Options { heartbeat_interval_ms, suspect_after_ms, lease_ms, .. } = options;
        ClusterTerms {
            cluster: ClusterId::default(),
            forms: format!("{}, host {HOST_FORMS}", lockstep_cluster::forms()),
            hosts,
            witnesses: 0,
            sites,
            partitions_per_site: options.partitions_per_site.to_u32(),
            kfactor,
            times_ms: [heartbeat_interval_ms.get(), suspect_after_ms.get(), lease_ms.get()],
            follower_reads: options.follower_reads.is_on(),
            placement_groups: false,
            durability: None,
        }
    }

    /// The terms of a witness beside hosts that are started with these options. What hosts alone
    /// have, such as sites, is theirs.
    pub fn of_witness(hosts: u32, options: &Options) -> ClusterTerms {
        let terms = ClusterTerms::new(hosts, 0, 1, options);
        ClusterTerms { witnesses: 1, partitions_per_site: 0, ..terms }
    }

    /// Whether these are the terms of a witness.
    fn are_of_witness(&self) -> bool {
        self.sites == 0
    }

    /// Whether the number of witnesses fits.
    ///
    /// # Errors
    /// It does not: which number would.
    pub fn check_witnesses(&self) -> Result<(), String> {
        let ClusterTerms { witnesses, kfactor, .. } = *self;
        if witnesses > WITNESSES_MAX {
            return Err(format!("a cluster has {WITNESSES_MAX} witness at most, not {witnesses}"));
        }
        if witnesses > 0 && kfactor == 0 {
            return Err(
                "with --witnesses 1, K is 0: a cluster with one copy of each partition stops with \
                 any of its hosts, and a witness does not change that: start the hosts with \
                 --kfactor 1, or without a witness"
                    .to_string(),
            );
        }
        Ok(())
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let [heartbeat_interval_ms, suspect_after_ms, lease_ms] = self.times_ms;
        let numbers: [(&'static str, u64); 10] = [
            ("witnesses", self.witnesses.into()),
            ("hosts", self.hosts.into()),
            ("sites", self.sites.into()),
            ("partitions_per_site", self.partitions_per_site.into()),
            ("kfactor", self.kfactor.into()),
            ("heartbeat_interval_ms", heartbeat_interval_ms),
            ("suspect_after_ms", suspect_after_ms),
            ("lease_ms", lease_ms),
            ("follower_reads", self.follower_reads.into()),
            ("placement_groups", self.placement_groups.into()),
        ];
        let kept = self.durability.map_or(IN_MEMORY.to_string(), |kept| kept.to_string());
        let numbers = numbers.into_iter().map(|(name, number)| (name, number.to_string()));
        // First of all: what follows may be of another release.
        let forms = (FORMS, self.forms.clone());
        std::iter::once(forms).chain(numbers).chain([(DURABILITY, kept)]).collect()
    }

    /// What the control plane knows of the terms. That of a witness has any sites, so that the
    /// copies can be spread over them.
    pub(crate) fn shape(&self) -> Shape {
        let short = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        let (sites, each) = match self.are_of_witness() {
            true => (u16::from(self.kfactor) + 1, 1),
            false => (short(self.sites), short(self.partitions_per_site)),
        };
        Shape {
            hosts: self.hosts,
            witnesses: self.witnesses,
            sites_per_host: sites,
            partitions_per_site: each,
            k: self.kfactor,
        }
    }

    /// Number of partitions of the cluster: hosts x sites x copies per site / (K + 1).
    ///
    /// # Errors
    /// The copies cannot be spread evenly; the text says which values could.
    pub fn partition_count(&self) -> Result<u32, String> {
        lockstep_cluster::partition_count(&self.shape())
    }

    /// Appends the terms as text, which another release can read, and what else the host that
    /// writes them says.
    pub(crate) fn write(&self, said: SaidWithTerms, out: &mut Vec<u8>) {
        let SaidWithTerms { created_ms, placement_epoch } = said;
        for (name, value) in self.fields() {
            out.extend_from_slice(format!("{name}={value}\n").as_bytes());
        }
        out.extend_from_slice(format!("{CREATED}{created_ms}\n").as_bytes());
        out.extend_from_slice(format!("{PLACEMENT}{placement_epoch}\n").as_bytes());
    }

    /// Checks that another host has the same terms, which it wrote; gives what else it said.
    ///
    /// # Errors
    /// What it has otherwise.
    pub(crate) fn agrees_with(&self, written: &[u8]) -> Result<SaidWithTerms, String> {
        let text = std::str::from_utf8(written).map_err(|_| "they are no text".to_string())?;
        let with_witness = self.are_of_witness() || text.lines().any(|line| line == NO_SITES);
        let mut lines = text.lines();
        for (name, own) in self.fields() {
            let line = lines.next().unwrap_or_default();
            let found = line.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            let is_alike = |found: &str| match name {
                _ if found == own => true,
                DURABILITY => with_witness && (found == IN_MEMORY) == (own == IN_MEMORY),
                name => with_witness && OF_HOSTS_ALONE.contains(&name),
            };
            if !found.is_some_and(is_alike) {
                let advice = match name {
                    FORMS => OTHER_RELEASE,
                    DURABILITY if with_witness => {
                        ": a witness has a directory (--dir) where hosts have some"
                    }
                    _ => "",
                };
                return Err(format!("'{line}' there, '{name}={own}' here{advice}"));
            }
        }
        let created_ms = number_after(CREATED, lines.next())?;
        let placement_epoch = number_after(PLACEMENT, lines.next())?;
        match lines.next() {
            None => Ok(SaidWithTerms { created_ms, placement_epoch }),
            Some(line) => Err(format!("'{line}' there, which this release does not know")),
        }
    }
}

/// What is not alike in the shapes of two hosts, as [`ClusterTerms`] shows it.
pub(super) fn differences(found: &Agreement, own: &Agreement) -> String {
    let values = |agreement: &Agreement| {
        let shape = agreement.shape;
        [
            ("witnesses", shape.witnesses),
            ("hosts", shape.hosts),
            ("sites", shape.sites_per_host.into()),
            ("partitions_per_site", shape.partitions_per_site.into()),
            ("kfactor", shape.k.into()),
        ]
    };
    let pairs = values(found).into_iter().zip(values(own));
    let differ = pairs.filter(|(there, here)| there != here);
    let shown = differ
        .map(|((name, there), (_, here))| format!("'{name}={there}' there, '{name}={here}' here"));
    shown.collect::<Vec<_>>().join("; ")
}

/// The number of a line that begins with `name`.
fn number_after<T: FromStr>(name: &str, line: Option<&str>) -> Result<T, String> {
    let line = line.unwrap_or_default();
    let number = line.strip_prefix(name).and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("'{line}' there, not {name}N"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Milliseconds;

    #[test]
    fn terms_that_differ_are_named() {
        let terms = ClusterTerms::new(3, 2, 1, &Options::default());
        let mut written = Vec::new();
        let said = SaidWithTerms { created_ms: 77, placement_epoch: 3 };
        terms.write(said, &mut written);
        assert_eq!(terms.agrees_with(&written), Ok(said));
        let other = ClusterTerms { sites: 4, ..terms.clone() };
        assert_eq!(other.agrees_with(&written), Err("'sites=2' there, 'sites=4' here".to_string()));
        written.extend_from_slice(b"zones=1\n");
        let error = terms.agrees_with(&written).expect_err("a later release");
        assert!(error.contains("'zones=1'"), "{error}");
        assert!(terms.agrees_with(b"").is_err() && terms.agrees_with(&[0xff]).is_err());
        let later = Options { lease_ms: Milliseconds(100), ..Options::default() };
        let other = ClusterTerms::new(3, 2, 1, &later);
        let error = other.agrees_with(&written).expect_err("leases are counted on");
        assert_eq!(error, "'lease_ms=150' there, 'lease_ms=100' here");
    }

    #[test]
    fn a_witness_agrees_with_hosts_whatever_sites_they_have() {
        let options = Options::default();
        let hosts = ClusterTerms { witnesses: 1, ..ClusterTerms::new(2, 4, 1, &options) };
        let witness = ClusterTerms::of_witness(2, &options);
        let written = |terms: &ClusterTerms| {
            let mut written = Vec::new();
            terms.write(SaidWithTerms::default(), &mut written);
            written
        };
        assert!(witness.agrees_with(&written(&hosts)).is_ok());
        assert!(hosts.agrees_with(&written(&witness)).is_ok());
        let alone = ClusterTerms { witnesses: 0, ..hosts.clone() };
        let error = witness.agrees_with(&written(&alone)).expect_err("they know of no witness");
        assert_eq!(error, "'witnesses=0' there, 'witnesses=1' here");
        let durable = ClusterTerms { durability: Some(Durability::Async), ..hosts };
        let error = witness.agrees_with(&written(&durable)).expect_err("it has no directory");
        assert!(error.contains("'durability=memory' here") && error.contains("--dir"), "{error}");
        let witness = ClusterTerms { durability: Some(Durability::Sync), ..witness };
        assert!(witness.agrees_with(&written(&durable)).is_ok());
        let later = Options { lease_ms: Milliseconds(100), ..Options::default() };
        let error = ClusterTerms::of_witness(2, &later).agrees_with(&written(&alone));
        assert!(error.is_err(), "leases are counted on");
    }

    #[test]
    fn one_witness_is_of_use_and_only_with_copies() {
        let of = |witnesses, kfactor| {
            let terms = ClusterTerms::new(2, 2, kfactor, &Options::default());
            ClusterTerms { witnesses, ..terms }.check_witnesses()
        };
        assert!(of(0, 0).is_ok() && of(1, 1).is_ok());
        assert!(of(2, 1).expect_err("two").contains("1 witness at most, not 2"));
        assert!(of(1, 0).expect_err("one copy").contains("K is 0"));
    }

    #[test]
    fn partitions_are_the_copies_divided_by_k_plus_one() {
        let of = |hosts, sites, kfactor| {
            ClusterTerms::new(hosts, sites, kfactor, &Options::default()).partition_count()
        };
        assert_eq!([of(3, 2, 0), of(3, 2, 1), of(3, 2, 2)], [Ok(6), Ok(3), Ok(2)]);
        let error = of(3, 1, 1).expect_err("an odd number of copies");
        assert!(error.contains("2 sites per host"), "{error}");
        let error = of(1, 2, 1).expect_err("one host");
        assert!(error.contains("K = 0 would fit"), "{error}");
    }
}
