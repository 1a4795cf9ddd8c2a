//! What a host whose cluster serves answers to one that starts: where the partitions are, from
//! which that one sees whether its copies count. The thread of the links gets the connection.

use super::wire::{self, Answer, Kind, MAGIC};
use crate::links::ClusterTerms;
use lockstep_base::bytes::ByteReader;
use lockstep_durability::directory::{ClusterId, read_members};
use lockstep_env::Disk;
use lockstep_host::recovery::assembly::{DurablePlacement, HostReport, other_directory};
use lockstep_types::HostId;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// How long a question may take to come, and the other host to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A host that serves, for one question.
pub(crate) struct ServingHost {
    pub(crate) host: HostId,
    pub(crate) terms: ClusterTerms,
    pub(crate) partitions: usize,
    /// By host, its directory, as far as what the hosts agree on has it.
    pub(crate) named: Vec<Option<ClusterId>>,
    /// The hosts with data of the cluster, each with whether no process of it has joined yet.
    pub(crate) listed: BTreeMap<HostId, bool>,
    /// Its directory, which has those of all hosts when the cluster began.
    pub(crate) disk: Option<Arc<dyn Disk>>,
    /// The placement that is in force; none where this host cannot say that it is the newest one.
    pub(crate) placement: Option<DurablePlacement>,
}

/// Whether the first bytes of a connection are those of a host that starts, as far as they are
/// there.
pub(crate) fn may_be_question(first: &[u8]) -> bool {
    !first.is_empty() && MAGIC.starts_with(first)
}

/// Bytes by which it is known.
pub(crate) const QUESTION_HEAD: usize = MAGIC.len();

impl ServingHost {
    /// Answers the question of a connection, on a thread of its own.
    ///
    /// # Errors
    /// The connection failed: the other host asks again.
    pub(crate) fn hear(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut magic = [0; QUESTION_HEAD];
        stream.read_exact(&mut magic)?;
        let question = wire::read_frame(&mut stream, wire::QUESTION_BYTES_MAX)?;
        match self.answer(&question) {
            Some(answer) => wire::write_frame(&mut stream, &answer.to_bytes()),
            None => Ok(()),
        }
    }

    /// None for what hosts that start ask each other only.
    fn answer(&self, question: &[u8]) -> Option<Answer> {
        let mut input = ByteReader::new(question);
        match Kind::of(input.u8().ok()?)? {
            Kind::Report => Some(self.judge(&mut input).unwrap_or_else(Answer::Refused)),
            // This host has gone on, because all of its start need nothing more.
            Kind::Finish => Some(Answer::Given(Vec::new())),
            Kind::Facts | Kind::Pieces | Kind::Found | Kind::GiveUp => None,
        }
    }

    fn judge(&self, input: &mut ByteReader<'_>) -> Result<Answer, String> {
        let cut = |_| "a question is cut off".to_string();
        let (host, _process) = (HostId(input.u32().map_err(cut)?), input.u64().map_err(cut)?);
        if host == self.host {
            return Err(format!("host {host} is no other host of the cluster"));
        }
        if !self.listed.contains_key(&host) {
            if self.placement.is_none() {
                // It may have been added since this host heard of a change.
                return Ok(Answer::NotYet);
            }
            return Err(format!(
                "host {host} is not of the cluster: it was removed, or is to be added first \
                 (lockstep admin cluster add HOST:PORT), which names its number"
            ));
        }
        self.terms.agrees_with(input.counted().map_err(cut)?).map_err(|problem| {
            format!("host {} has other terms than host {host}: {problem}", self.host)
        })?;
        let report = wire::read_report(input.rest(), self.partitions)?;
        self.check_directory(host, &report)?;
        Ok(self.placement.clone().map_or(Answer::NotYet, Answer::Serves))
    }

    /// The cluster has the directory of the other host, or that one is new, and is to take the
    /// place of a lost one.
    fn check_directory(&self, host: HostId, report: &HostReport) -> Result<(), String> {
        let place = host.0 as usize;
        let had = match (self.named.get(place).copied().flatten(), &self.disk) {
            (None, Some(disk)) => {
                let kept = read_members(&**disk).map_err(|error| error.to_string())?;
                kept.and_then(|kept| kept.get(place).copied())
            }
            (named, _) => named,
        };
        match had {
            Some(had) if had == report.directory => Ok(()),
            Some(_) if report.replaces && !report.has_begun() => Ok(()),
            None if self.listed.get(&host) == Some(&true) && !report.has_begun() => Ok(()),
            had => Err(other_directory((host, report), self.host, had.as_ref())),
        }
    }
}
