//! What the hosts of a cluster have to have alike.

use lockstep_link::ClusterId;

/// Before the time at which the cluster was made.
const CREATED: &str = "created_ms=";

/// What all hosts of a cluster were started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterTerms {
    /// The cluster; zeros for one that is in memory only.
    pub cluster: ClusterId,
    /// Number of hosts.
    pub hosts: u32,
    /// Sites of each.
    pub sites: u32,
    /// Partitions of each site.
    pub partitions_per_site: u32,
}

impl ClusterTerms {
    fn fields(&self) -> [(&'static str, u32); 3] {
        [
            ("hosts", self.hosts),
            ("sites", self.sites),
            ("partitions_per_site", self.partitions_per_site),
        ]
    }

    /// Number of partitions of the cluster.
    pub fn partition_count(&self) -> u32 {
        self.hosts.saturating_mul(self.sites).saturating_mul(self.partitions_per_site)
    }

    /// Appends the terms as text, which another release can read, and when the host that writes
    /// them made its cluster, milliseconds since 1970.
    pub(super) fn write(&self, created_ms: i64, out: &mut Vec<u8>) {
        for (name, value) in self.fields() {
            out.extend_from_slice(format!("{name}={value}\n").as_bytes());
        }
        out.extend_from_slice(format!("{CREATED}{created_ms}\n").as_bytes());
    }

    /// Checks that another host has the same terms, which it wrote; gives when it made its cluster.
    ///
    /// # Errors
    /// What it has otherwise.
    pub(super) fn agrees_with(&self, written: &[u8]) -> Result<i64, String> {
        let text = std::str::from_utf8(written).map_err(|_| "they are no text".to_string())?;
        let mut lines = text.lines();
        for (name, own) in self.fields() {
            let line = lines.next().unwrap_or_default();
            if line != format!("{name}={own}") {
                return Err(format!("'{line}' there, '{name}={own}' here"));
            }
        }
        let created = lines.next().unwrap_or_default();
        let created_ms = created.strip_prefix(CREATED).and_then(|number| number.parse().ok());
        let created_ms = created_ms.ok_or_else(|| format!("'{created}' there, not {CREATED}N"))?;
        match lines.next() {
            None => Ok(created_ms),
            Some(line) => Err(format!("'{line}' there, which this release does not know")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_that_differ_are_named() {
        let terms = ClusterTerms {
            cluster: ClusterId::default(),
            hosts: 3,
            sites: 2,
            partitions_per_site: 1,
        };
        let mut written = Vec::new();
        terms.write(77, &mut written);
        assert_eq!(terms.agrees_with(&written), Ok(77));
        let other = ClusterTerms { sites: 4, ..terms.clone() };
        assert_eq!(other.agrees_with(&written), Err("'sites=2' there, 'sites=4' here".to_string()));
        written.extend_from_slice(b"zones=1\n");
        let error = terms.agrees_with(&written).expect_err("a later release");
        assert!(error.contains("'zones=1'"), "{error}");
        assert!(terms.agrees_with(b"").is_err() && terms.agrees_with(&[0xff]).is_err());
        assert_eq!(terms.partition_count(), 6);
    }
}
