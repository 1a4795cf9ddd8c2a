//! Messages between the members, as bytes. The envelope names the cluster and both identities:
//! what is for another cluster, another identity or of an older process is refused unread.

use crate::codec::{
    put_description, put_shape, read_description, read_end, read_flag, read_incarnation,
    read_shape, read_text, read_version,
};
use crate::error::FormatError;
use crate::ids::{ClusterId, Incarnation, RaftId};
use crate::log_entry::{put_raft_id, read_raft_id};
use crate::state::{HostDescription, Shape};
use lockstep_base::bytes::{ByteReader, ByteWriter};

/// Version of the byte form of messages between members.
pub(crate) const MESSAGE_VERSION: u8 = 2;

/// The longest command that is forwarded, in bytes: one that names every host is shorter.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// What the hosts of a cluster must agree on before it is formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// The cluster's name.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// A digest of the configured list of hosts.
    pub hosts_digest: u64,
}

impl Agreement {
    /// Whether a member can be of one cluster with another one. A witness has no sites and no
    /// copies: of the shape only the numbers of hosts and witnesses count between it and a host.
    pub(crate) fn fits(&self, other: &Agreement, with_witness: bool) -> bool {
        let members = |shape: &Shape| (shape.hosts, shape.witnesses);
        let fits = match with_witness {
            true => members(&self.shape) == members(&other.shape),
            false => self.shape == other.shape,
        };
        fits && self.name == other.name && self.hosts_digest == other.hosts_digest
    }
}

/// Who sends, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The cluster that the sender belongs to.
    pub cluster: Option<ClusterId>,
    pub from: RaftId,
    pub incarnation: Incarnation,
    /// The identity that is meant; `None` for the process that the host runs.
    pub to: Option<RaftId>,
}

/// The hello that another one answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// The process that sent it.
    pub incarnation: Incarnation,
    /// When, by its monotonic clock.
    pub sent_us: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// It answers a hello.
    pub answers: Option<Question>,
    /// When it was sent, by the sender's monotonic clock.
    pub sent_us: u64,
    /// The same by its wall clock.
    pub wall_us: u64,
    pub description: HostDescription,
    pub agreement: Agreement,
}

/// A proposal on its way to the leader: its number, and the byte form of its command.
pub(crate) type Forwarded = (u64, Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Raft(Vec<u8>),
    Hello(Box<Hello>),
    Forward(Vec<Forwarded>),
}

pub(crate) fn encode(envelope: &Envelope, body: &Body) -> Vec<u8> {
    let mut output = Vec::with_capacity(64);
    output.put_u8(MESSAGE_VERSION);
    output.put_u8(match body {
        Body::Raft(_) => 1,
        Body::Hello(_) => 2,
        Body::Forward(_) => 3,
    });
    let cluster = envelope.cluster.unwrap_or_default();
    output.extend_from_slice(&cluster.0);
    put_raft_id(&mut output, envelope.from);
    output.put_varint(envelope.incarnation.0);
    let to = envelope.to.map_or(0, RaftId::number);
    output.extend_from_slice(&to.to_be_bytes());
    match body {
        Body::Raft(bytes) => output.extend_from_slice(bytes),
        Body::Hello(hello) => {
            output.put_u8(u8::from(hello.answers.is_some()));
            if let Some(Question { incarnation, sent_us }) = hello.answers {
                output.put_varint(incarnation.0);
                output.put_varint(sent_us);
            }
            output.put_varint(hello.sent_us);
            output.put_varint(hello.wall_us);
            put_description(&mut output, &hello.description);
            output.put_counted(hello.agreement.name.as_bytes());
            put_shape(&mut output, &hello.agreement.shape);
            output.extend_from_slice(&hello.agreement.hosts_digest.to_be_bytes());
        }
        Body::Forward(proposals) => {
            for (sequence, command) in proposals {
                output.put_u8(1);
                output.put_varint(*sequence);
                output.put_counted(command);
            }
            output.put_u8(0);
        }
    }
    output
}

pub(crate) fn decode(bytes: &[u8]) -> Result<(Envelope, Body), FormatError> {
    let input = &mut ByteReader::new(bytes);
    read_version(input, "a message between hosts", MESSAGE_VERSION)?;
    let kind = input.u8()?;
    let cluster = ClusterId::read(input)?;
    let from = read_raft_id(input)?;
    let incarnation = read_incarnation(input)?;
    if incarnation < from.joined_in() {
        return Err(FormatError::Rule("a process joined in its own run or before"));
    }
    let to = match input.u64()? {
        0 => None,
        found => Some(
            RaftId::from_number(found)
                .ok_or(FormatError::Value { field: "Raft identity", found })?,
        ),
    };
    let body = match kind {
        1 => Body::Raft(input.rest().to_vec()),
        2 => {
            let answers = match read_flag(input, "answer")? {
                false => None,
                true => {
                    let incarnation = read_incarnation(input)?;
                    Some(Question { incarnation, sent_us: input.varint()? })
                }
            };
            let (sent_us, wall_us) = (input.varint()?, input.varint()?);
            let description = read_description(input, true)?;
            let name = read_text(input, "cluster name")?;
            let agreement =
                Agreement { name, shape: read_shape(input)?, hosts_digest: input.u64()? };
            read_end(input)?;
            Body::Hello(Box::new(Hello { answers, sent_us, wall_us, description, agreement }))
        }
        3 => {
            let mut proposals = Vec::new();
            while read_flag(input, "more proposals")? {
                let (sequence, command) = (input.varint()?, input.counted()?);
                if command.len() > COMMAND_BYTES_MAX {
                    let found = command.len() as u64;
                    return Err(FormatError::Value { field: "length of a command", found });
                }
                proposals.push((sequence, command.to_vec()));
            }
            read_end(input)?;
            Body::Forward(proposals)
        }
        found => return Err(FormatError::Value { field: "message", found: u64::from(found) }),
    };
    Ok((Envelope { cluster, from, incarnation, to }, body))
}

/// Version of the byte form of a proposal in the log.
pub(crate) const PROPOSAL_VERSION: u8 = 1;

/// A proposal as the log holds it: who made it, with its number, and the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub from: RaftId,
    pub incarnation: Incarnation,
    pub sequence: u64,
    pub command: Vec<u8>,
}

impl Proposal {
    pub fn encode(&self) -> Vec<u8> {
        let mut output = vec![PROPOSAL_VERSION];
        put_raft_id(&mut output, self.from);
        output.put_varint(self.incarnation.0);
        output.put_varint(self.sequence);
        output.extend_from_slice(&self.command);
        output
    }

    pub fn decode(bytes: &[u8]) -> Result<Proposal, FormatError> {
        let input = &mut ByteReader::new(bytes);
        read_version(input, "a proposal", PROPOSAL_VERSION)?;
        let from = read_raft_id(input)?;
        let (incarnation, sequence) = (read_incarnation(input)?, input.varint()?);
        Ok(Proposal { from, incarnation, sequence, command: input.rest().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::HostId;

    #[test]
    fn messages_are_read_as_written_and_damaged_ones_are_errors() {
        let id = |host, run| RaftId::new(HostId(host), Incarnation(run)).expect("in range");
        let envelope = Envelope {
            cluster: Some(ClusterId([9; 16])),
            from: id(1, 4),
            incarnation: Incarnation(5),
            to: Some(id(2, 1)),
        };
        let description = HostDescription {
            host: HostId(1),
            name: "a".into(),
            internal_address: "b".into(),
            client_address: "c".into(),
            admin_address: "d".into(),
            directory: "f".into(),
            placement_group: "e".into(),
            release: 1,
        };
        let shape =
            Shape { hosts: 3, witnesses: 0, sites_per_host: 2, partitions_per_site: 1, k: 1 };
        let agreement = Agreement { name: "test".into(), shape, hosts_digest: 77 };
        let answers = Some(Question { incarnation: Incarnation(3), sent_us: 400 });
        let hello = Hello { answers, sent_us: 5, wall_us: 1 << 50, description, agreement };
        for body in [
            Body::Raft(vec![1, 2]),
            Body::Hello(Box::new(hello)),
            Body::Forward(vec![(7, vec![1]), (8, vec![])]),
        ] {
            let bytes = encode(&envelope, &body);
            assert_eq!(decode(&bytes), Ok((envelope, body.clone())));
            let any = Envelope { to: None, cluster: None, ..envelope };
            assert_eq!(decode(&encode(&any, &body)), Ok((any, body.clone())));
            if !matches!(body, Body::Raft(_)) {
                assert!((0..bytes.len()).all(|length| decode(&bytes[..length]).is_err()));
                assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
            }
        }
        let (from, sequence) = (id(3, 3), 12);
        let proposal =
            Proposal { from, incarnation: Incarnation(4), sequence, command: vec![1, 1] };
        assert_eq!(Proposal::decode(&proposal.encode()), Ok(proposal));
    }
}
