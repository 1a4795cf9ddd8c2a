//! What changes the replicated state, and its byte form.
//!
//! A command that depends on what its proposer saw names the epoch, the incarnation or the version
//! that it saw. If the state has another one when the command is applied, the command is refused.

use crate::codec::{
    put_copy, put_description, put_plan, read_copy, read_count, read_description, read_end,
    read_epoch, read_host, read_incarnation, read_partition, read_plan, read_text,
};
use crate::error::FormatError;
use crate::ids::{Epoch, Incarnation};
use crate::state::{Copy, HostDescription, HostPlan};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_types::{HostId, PartitionId};

/// Version of the byte form of [`Command`].
pub(crate) const COMMAND_VERSION: u8 = 5;
/// From this one on a host that joins names its directory. From 4 on there are changes of K and
/// moves of copies, from 5 on hosts that are added and removed.
const COMMAND_VERSION_DIRECTORIES: u8 = 3;
/// The oldest one that is read.
const COMMAND_VERSION_OLDEST: u8 = 2;

/// A change of the replicated state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// All configured hosts are present: the first placement, epoch 1.
    Form,
    /// A process without Raft state takes the number of a configured host. What the process
    /// before it had in memory is lost.
    Join {
        /// What it says of itself.
        description: HostDescription,
        /// Its incarnation, which becomes part of its Raft identity.
        incarnation: Incarnation,
    },
    /// A host that joined can be given copies: those that partitions lack are to be loaded there,
    /// as many as it has capacity for.
    HostUp {
        /// The host.
        host: HostId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// A process with its Raft state runs again.
    Restarted {
        /// The host.
        host: HostId,
        /// Its new incarnation.
        incarnation: Incarnation,
    },
    /// Hosts that were restarted or lost serve again the copies that no other host serves. Their
    /// copies that others serve go out of the in-sync set. So do copies at hosts that are not up,
    /// where another copy remains.
    Resume {
        /// The hosts with their incarnations.
        hosts: Vec<(HostId, Incarnation)>,
    },
    /// A host is lost: its copies go out of the in-sync sets, but for those that no other host has.
    HostLost {
        /// The host.
        host: HostId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// One copy goes out of the in-sync set; one that is being loaded begins again.
    OutOfSync {
        /// The partition.
        partition: PartitionId,
        /// The host of the copy.
        host: HostId,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// A partition lacks a copy, and a host that is up has capacity for it: it is to be loaded
    /// there. The partition gets an epoch, so that what was proposed for a copy there before is
    /// void.
    BeginLoading {
        /// The partition.
        partition: PartitionId,
        /// The copy.
        copy: Copy,
        /// The incarnation of its host.
        incarnation: Incarnation,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// A copy that was being loaded and caught up comes into the in-sync set.
    InSync {
        /// The partition.
        partition: PartitionId,
        /// The copy.
        copy: Copy,
        /// The incarnation of its host: a process after that has nothing of the copy.
        incarnation: Incarnation,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// The first step of a planned transfer: the leader drains and seals the partition.
    BeginHandOver {
        /// The partition.
        partition: PartitionId,
        /// The follower that will lead.
        to: HostId,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// The second step, which the leader proposes after it sealed the partition.
    CompleteHandOver {
        /// The partition.
        partition: PartitionId,
        /// The follower that leads from now on.
        to: HostId,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// The transfer does not take place. The partition gets an epoch, so that a late second step
    /// has no effect.
    GiveUpHandOver {
        /// The partition.
        partition: PartitionId,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// Another in-sync copy leads, without a transfer: the one whose log has the greatest end.
    MoveLeader {
        /// The partition.
        partition: PartitionId,
        /// The host of that copy.
        to: HostId,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// An administrator gives up what the copies of a missing partition hold: hosts that are up
    /// have the copies from now on, with the data that they have, if any.
    ForceCopy {
        /// The partition; none of its copies is at a host that is up.
        partition: PartitionId,
        /// The copy, at a host that is up. Further ones come in sync with it.
        copy: Copy,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// Another host runs multi-partition transactions, or the one that does goes on in a new epoch.
    MoveCoordinator {
        /// The host.
        to: HostId,
        /// The cluster's epoch.
        epoch: Epoch,
    },
    /// The cluster has another K from now on. Partitions get copies to load, each at a host that
    /// has capacity, or lose followers. All hosts are up.
    ChangeK {
        /// K.
        k: u8,
        /// The cluster's epoch.
        epoch: Epoch,
    },
    /// The first step of a move of a copy to another host: it is loaded there, beside the K + 1
    /// copies of the partition, all of which are in sync.
    BeginMove {
        /// The partition.
        partition: PartitionId,
        /// The host that gives its copy up at the end.
        from: HostId,
        /// The new copy.
        copy: Copy,
        /// The incarnation of its host.
        incarnation: Incarnation,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// The last step: the new copy is in sync beside all others, and the old one, which does not
    /// lead, goes.
    EndMove {
        /// The partition.
        partition: PartitionId,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// A host is listed that no process has joined as yet: the next number, which is never given
    /// again.
    AddHost {
        /// The number.
        host: HostId,
        /// Its address for other hosts.
        internal_address: String,
        /// The cluster's epoch.
        epoch: Epoch,
    },
    /// The copies of a host are moved to others, or it gets its share, or they stay from now on.
    PlanHost {
        /// The host.
        host: HostId,
        /// What becomes of its copies.
        plan: HostPlan,
        /// The cluster's epoch.
        epoch: Epoch,
    },
    /// A host that is being removed, has no copies and no vote, and is not up is listed no more.
    RemoveHost {
        /// The host.
        host: HostId,
        /// The cluster's epoch.
        epoch: Epoch,
    },
    /// The partition logs have a new version of the catalog.
    CatalogVersion(u64),
    /// The map from hash tokens to partitions has a new version.
    RingVersion(u64),
}

impl Command {
    fn kind(&self) -> u8 {
        match self {
            Command::Form => 1,
            Command::Join { .. } => 2,
            Command::HostUp { .. } => 3,
            Command::Restarted { .. } => 4,
            Command::Resume { .. } => 5,
            Command::HostLost { .. } => 6,
            Command::OutOfSync { .. } => 7,
            Command::InSync { .. } => 8,
            Command::BeginHandOver { .. } => 9,
            Command::CompleteHandOver { .. } => 10,
            Command::GiveUpHandOver { .. } => 11,
            Command::MoveLeader { .. } => 12,
            Command::MoveCoordinator { .. } => 13,
            Command::CatalogVersion(_) => 14,
            Command::RingVersion(_) => 15,
            Command::ForceCopy { .. } => 16,
            Command::BeginLoading { .. } => 17,
            Command::ChangeK { .. } => 18,
            Command::BeginMove { .. } => 19,
            Command::EndMove { .. } => 20,
            Command::AddHost { .. } => 21,
            Command::PlanHost { .. } => 22,
            Command::RemoveHost { .. } => 23,
        }
    }

    /// The byte form.
    pub fn encode(&self) -> Vec<u8> {
        let mut output = vec![COMMAND_VERSION, self.kind()];
        let put_host = |output: &mut Vec<u8>, host: &HostId, incarnation: &Incarnation| {
            output.put_varint(u64::from(host.0));
            output.put_varint(incarnation.0);
        };
        match self {
            Command::Form => {}
            Command::Join { description, incarnation } => {
                put_description(&mut output, description);
                output.put_varint(incarnation.0);
            }
            Command::HostUp { host, incarnation }
            | Command::Restarted { host, incarnation }
            | Command::HostLost { host, incarnation } => put_host(&mut output, host, incarnation),
            Command::Resume { hosts } => {
                output.put_varint(hosts.len() as u64);
                hosts.iter().for_each(|(host, run)| put_host(&mut output, host, run));
            }
            Command::InSync { partition, copy, incarnation, epoch }
            | Command::BeginLoading { partition, copy, incarnation, epoch } => {
                output.put_varint(u64::from(partition.0));
                put_copy(&mut output, copy);
                output.put_varint(incarnation.0);
                output.put_varint(epoch.0);
            }
            Command::ForceCopy { partition, copy, epoch } => {
                output.put_varint(u64::from(partition.0));
                put_copy(&mut output, copy);
                output.put_varint(epoch.0);
            }
            Command::OutOfSync { partition, host: to, epoch }
            | Command::BeginHandOver { partition, to, epoch }
            | Command::CompleteHandOver { partition, to, epoch }
            | Command::MoveLeader { partition, to, epoch } => {
                output.put_varint(u64::from(partition.0));
                output.put_varint(u64::from(to.0));
                output.put_varint(epoch.0);
            }
            Command::BeginMove { partition, from, copy, incarnation, epoch } => {
                output.put_varint(u64::from(partition.0));
                output.put_varint(u64::from(from.0));
                put_copy(&mut output, copy);
                output.put_varint(incarnation.0);
                output.put_varint(epoch.0);
            }
            Command::GiveUpHandOver { partition, epoch }
            | Command::EndMove { partition, epoch } => {
                output.put_varint(u64::from(partition.0));
                output.put_varint(epoch.0);
            }
            Command::MoveCoordinator { to, epoch } => {
                output.put_varint(u64::from(to.0));
                output.put_varint(epoch.0);
            }
            Command::AddHost { .. } | Command::PlanHost { .. } | Command::RemoveHost { .. } => {
                self.put_change_of_host(&mut output);
            }
            Command::ChangeK { k, epoch } => {
                output.put_u8(*k);
                output.put_varint(epoch.0);
            }
            Command::CatalogVersion(version) | Command::RingVersion(version) => {
                output.put_varint(*version);
            }
        }
        output
    }

    /// Appends what a change of the list of hosts has.
    fn put_change_of_host(&self, output: &mut Vec<u8>) {
        let (Command::AddHost { host, epoch, .. }
        | Command::PlanHost { host, epoch, .. }
        | Command::RemoveHost { host, epoch }) = self
        else {
            unreachable!("other commands are written elsewhere");
        };
        output.put_varint(u64::from(host.0));
        match self {
            Command::AddHost { internal_address, .. } => {
                output.put_counted(internal_address.as_bytes());
            }
            Command::PlanHost { plan, .. } => put_plan(output, *plan),
            _ => {}
        }
        output.put_varint(epoch.0);
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// The bytes are not a command.
    pub fn decode(bytes: &[u8]) -> Result<Command, FormatError> {
        let input = &mut ByteReader::new(bytes);
        let found = input.u8()?;
        if !(COMMAND_VERSION_OLDEST..=COMMAND_VERSION).contains(&found) {
            let (what, known) = ("a command", COMMAND_VERSION);
            return Err(FormatError::Version { what, found, known });
        }
        let has_directory = found >= COMMAND_VERSION_DIRECTORIES;
        let kind = input.u8()?;
        let command = read_command(input, kind, has_directory)?;
        read_end(input)?;
        Ok(command)
    }
}

fn read_command(
    input: &mut ByteReader<'_>,
    kind: u8,
    has_directory: bool,
) -> Result<Command, FormatError> {
    Ok(match kind {
        1 => Command::Form,
        2 => {
            let description = read_description(input, has_directory)?;
            Command::Join { description, incarnation: read_incarnation(input)? }
        }
        5 => {
            let count = read_count(input, "hosts")?;
            let read = |_| Ok((read_host(input)?, read_incarnation(input)?));
            Command::Resume { hosts: (0..count).map(read).collect::<Result<_, FormatError>>()? }
        }
        3 | 4 | 6 => {
            let (host, incarnation) = (read_host(input)?, read_incarnation(input)?);
            match kind {
                3 => Command::HostUp { host, incarnation },
                4 => Command::Restarted { host, incarnation },
                _ => Command::HostLost { host, incarnation },
            }
        }
        8 | 17 => {
            let (partition, copy) = (read_partition(input)?, read_copy(input)?);
            let (incarnation, epoch) = (read_incarnation(input)?, read_epoch(input)?);
            match kind {
                8 => Command::InSync { partition, copy, incarnation, epoch },
                _ => Command::BeginLoading { partition, copy, incarnation, epoch },
            }
        }
        16 => {
            let (partition, copy) = (read_partition(input)?, read_copy(input)?);
            Command::ForceCopy { partition, copy, epoch: read_epoch(input)? }
        }
        7 | 9 | 10 | 12 => {
            let (partition, to) = (read_partition(input)?, read_host(input)?);
            let epoch = read_epoch(input)?;
            match kind {
                7 => Command::OutOfSync { partition, host: to, epoch },
                9 => Command::BeginHandOver { partition, to, epoch },
                10 => Command::CompleteHandOver { partition, to, epoch },
                _ => Command::MoveLeader { partition, to, epoch },
            }
        }
        11 => {
            Command::GiveUpHandOver { partition: read_partition(input)?, epoch: read_epoch(input)? }
        }
        13 => Command::MoveCoordinator { to: read_host(input)?, epoch: read_epoch(input)? },
        14 => Command::CatalogVersion(input.varint()?),
        15 => Command::RingVersion(input.varint()?),
        19 => {
            let (partition, from) = (read_partition(input)?, read_host(input)?);
            let (copy, incarnation) = (read_copy(input)?, read_incarnation(input)?);
            Command::BeginMove { partition, from, copy, incarnation, epoch: read_epoch(input)? }
        }
        20 => Command::EndMove { partition: read_partition(input)?, epoch: read_epoch(input)? },
        21..=23 => read_change_of_host(input, kind)?,
        18 => Command::ChangeK { k: input.u8()?, epoch: read_epoch(input)? },
        found => return Err(FormatError::Value { field: "command", found: u64::from(found) }),
    })
}

fn read_change_of_host(input: &mut ByteReader<'_>, kind: u8) -> Result<Command, FormatError> {
    let host = read_host(input)?;
    Ok(match kind {
        21 => {
            let internal_address = read_text(input, "address")?;
            Command::AddHost { host, internal_address, epoch: read_epoch(input)? }
        }
        22 => {
            let plan = read_plan(input)?;
            Command::PlanHost { host, plan, epoch: read_epoch(input)? }
        }
        _ => Command::RemoveHost { host, epoch: read_epoch(input)? },
    })
}
