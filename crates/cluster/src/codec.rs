//! Byte forms of the replicated state and of its parts. Each form begins with its version; what is
//! read is checked as a whole, and bytes after the end are an error.

use crate::error::FormatError;
use crate::ids::{ClusterId, Epoch, HOST_LIMIT, Incarnation};
use crate::moves::CopyMove;
use crate::state::{
    ClusterState, Copy, HostDescription, HostPlan, HostRecord, HostState, PartitionState, Previous,
    Shape, Vote,
};
use lockstep_base::bytes::{ByteReader, ByteWriter, text};
use lockstep_types::{HostId, PartitionId, ThreadId};

/// Version of the byte form of [`ClusterState`].
pub(crate) const STATE_VERSION: u8 = 7;
/// From this one on there are the plans of hosts, the numbers that were given, and since when
/// leaders were moved by transfers alone.
const STATE_VERSION_PLANS: u8 = 7;
/// From this one on there are moves of copies, and the K with which the cluster was made; before,
/// that is the one in force.
const STATE_VERSION_MOVES: u8 = 6;
/// From this one on there are the directories of hosts.
const STATE_VERSION_DIRECTORIES: u8 = 5;
/// The oldest one that is read.
const STATE_VERSION_OLDEST: u8 = 4;
/// Bytes of a name or an address, at most.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;

/// Reads the version that a form begins with.
pub(crate) fn read_version(
    input: &mut ByteReader<'_>,
    what: &'static str,
    known: u8,
) -> Result<(), FormatError> {
    match input.u8()? {
        found if found == known => Ok(()),
        found => Err(FormatError::Version { what, found, known }),
    }
}

/// Checks that nothing follows.
pub(crate) fn read_end(input: &ByteReader<'_>) -> Result<(), FormatError> {
    match input.remaining() {
        0 => Ok(()),
        bytes => Err(FormatError::Trailing { bytes }),
    }
}

/// Reads a number that is at most `max`.
pub(crate) fn read_number(
    input: &mut ByteReader<'_>,
    field: &'static str,
    max: u64,
) -> Result<u64, FormatError> {
    match input.varint()? {
        number if number <= max => Ok(number),
        found => Err(FormatError::Value { field, found }),
    }
}

/// Reads a flag.
pub(crate) fn read_flag(
    input: &mut ByteReader<'_>,
    field: &'static str,
) -> Result<bool, FormatError> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(FormatError::Value { field, found: u64::from(found) }),
    }
}

/// Reads a count of items of at least one byte each: it is at most what is left.
pub(crate) fn read_count(
    input: &mut ByteReader<'_>,
    field: &'static str,
) -> Result<usize, FormatError> {
    let count = input.varint()?;
    match usize::try_from(count) {
        Ok(count) if count <= input.remaining() => Ok(count),
        _ => Err(FormatError::Value { field, found: count }),
    }
}

pub(crate) fn read_text(
    input: &mut ByteReader<'_>,
    field: &'static str,
) -> Result<String, FormatError> {
    let bytes = input.counted()?;
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(FormatError::Value { field, found: bytes.len() as u64 });
    }
    text(bytes).map(str::to_string).ok_or(FormatError::Text { field })
}

pub(crate) fn read_host(input: &mut ByteReader<'_>) -> Result<HostId, FormatError> {
    Ok(HostId(read_number(input, "host", u64::from(HOST_LIMIT - 1))? as u32))
}

pub(crate) fn read_partition(input: &mut ByteReader<'_>) -> Result<PartitionId, FormatError> {
    Ok(PartitionId(read_number(input, "partition", u64::from(PartitionId::LIMIT - 1))? as u32))
}

pub(crate) fn read_epoch(input: &mut ByteReader<'_>) -> Result<Epoch, FormatError> {
    Ok(Epoch(read_number(input, "epoch", u64::MAX - 1)?))
}

pub(crate) fn read_incarnation(input: &mut ByteReader<'_>) -> Result<Incarnation, FormatError> {
    Ok(Incarnation(read_number(input, "incarnation", Incarnation::LIMIT - 1)?))
}

pub(crate) fn read_copy(input: &mut ByteReader<'_>) -> Result<Copy, FormatError> {
    let host = read_host(input)?;
    let thread = ThreadId(read_number(input, "thread", u64::from(u16::MAX))? as u16);
    Ok(Copy { host, thread })
}

pub(crate) fn put_copy(output: &mut Vec<u8>, copy: &Copy) {
    output.put_varint(u64::from(copy.host.0));
    output.put_varint(u64::from(copy.thread.0));
}

/// Appends what a host says of itself.
pub(crate) fn put_description(output: &mut Vec<u8>, description: &HostDescription) {
    output.put_varint(u64::from(description.host.0));
    output.put_counted(description.name.as_bytes());
    output.put_counted(description.internal_address.as_bytes());
    output.put_counted(description.client_address.as_bytes());
    output.put_counted(description.admin_address.as_bytes());
    output.put_counted(description.directory.as_bytes());
    output.put_counted(description.placement_group.as_bytes());
    output.put_varint(u64::from(description.release));
}

/// Reads what [`put_description`] wrote, or the form before, which has no directory.
pub(crate) fn read_description(
    input: &mut ByteReader<'_>,
    has_directory: bool,
) -> Result<HostDescription, FormatError> {
    Ok(HostDescription {
        host: read_host(input)?,
        name: read_text(input, "host name")?,
        internal_address: read_text(input, "internal address")?,
        client_address: read_text(input, "client address")?,
        admin_address: read_text(input, "admin address")?,
        directory: match has_directory {
            true => read_text(input, "directory")?,
            false => String::new(),
        },
        placement_group: read_text(input, "placement group")?,
        release: read_number(input, "release", u64::from(u32::MAX))? as u32,
    })
}

/// Appends a shape.
pub(crate) fn put_shape(output: &mut Vec<u8>, shape: &Shape) {
    output.put_varint(u64::from(shape.hosts));
    output.put_varint(u64::from(shape.witnesses));
    output.put_varint(u64::from(shape.sites_per_host));
    output.put_varint(u64::from(shape.partitions_per_site));
    output.put_u8(shape.k);
}

/// Reads what [`put_shape`] wrote.
pub(crate) fn read_shape(input: &mut ByteReader<'_>) -> Result<Shape, FormatError> {
    let hosts = u64::from(HOST_LIMIT);
    Ok(Shape {
        hosts: read_number(input, "hosts", hosts)? as u32,
        witnesses: read_number(input, "witnesses", hosts)? as u32,
        sites_per_host: read_number(input, "sites per host", u64::from(u16::MAX))? as u16,
        partitions_per_site: read_number(input, "replicas per site", u64::from(u16::MAX))? as u16,
        k: input.u8()?,
    })
}

fn put_record(output: &mut Vec<u8>, record: &HostRecord) {
    put_description(output, &record.description);
    output.put_varint(record.incarnation.0);
    output.put_varint(record.joined_in.0);
    output.put_u8(match record.state {
        HostState::Joining => 0,
        HostState::Up => 1,
        HostState::Down => 2,
        HostState::Added => 3,
    });
    put_plan(output, record.plan);
    output.put_varint(record.up_since.0);
    output.put_u8(match record.vote {
        Vote::None => 0,
        Vote::Learner => 1,
        Vote::Voter => 2,
    });
    output.put_varint(record.last_proposal.0.0);
    output.put_varint(record.last_proposal.1);
}

pub(crate) fn put_plan(output: &mut Vec<u8>, plan: HostPlan) {
    output.put_u8(match plan {
        HostPlan::Stays => 0,
        HostPlan::Fills => 1,
        HostPlan::Leaves => 2,
    });
}

pub(crate) fn read_plan(input: &mut ByteReader<'_>) -> Result<HostPlan, FormatError> {
    Ok(match input.u8()? {
        0 => HostPlan::Stays,
        1 => HostPlan::Fills,
        2 => HostPlan::Leaves,
        found => return Err(FormatError::Value { field: "plan", found: u64::from(found) }),
    })
}

fn read_record(input: &mut ByteReader<'_>, version: u8) -> Result<HostRecord, FormatError> {
    let description = read_description(input, version >= STATE_VERSION_DIRECTORIES)?;
    let (incarnation, joined_in) = (read_incarnation(input)?, read_incarnation(input)?);
    let state = match input.u8()? {
        0 => HostState::Joining,
        1 => HostState::Up,
        2 => HostState::Down,
        3 => HostState::Added,
        found => return Err(FormatError::Value { field: "host state", found: u64::from(found) }),
    };
    let plan = if version >= STATE_VERSION_PLANS { read_plan(input)? } else { HostPlan::Stays };
    let up_since = read_epoch(input)?;
    let vote = match input.u8()? {
        0 => Vote::None,
        1 => Vote::Learner,
        2 => Vote::Voter,
        found => return Err(FormatError::Value { field: "vote", found: u64::from(found) }),
    };
    let last_proposal = (read_incarnation(input)?, input.varint()?);
    Ok(HostRecord {
        description,
        incarnation,
        joined_in,
        state,
        plan,
        up_since,
        vote,
        last_proposal,
    })
}

fn put_partition(output: &mut Vec<u8>, partition: &PartitionState) {
    output.put_varint(partition.epoch.0);
    output.put_varint(u64::from(partition.leader.0));
    output.put_varint(partition.copies.len() as u64);
    partition.copies.iter().for_each(|copy| put_copy(output, copy));
    output.put_varint(partition.learning.len() as u64);
    partition.learning.iter().for_each(|copy| put_copy(output, copy));
    // 0 is none, so that a host is its number plus one.
    output.put_varint(partition.hand_over.map_or(0, |to| u64::from(to.0) + 1));
    output.put_varint(partition.moving.map_or(0, |moving| u64::from(moving.from.0) + 1));
    if let Some(moving) = partition.moving {
        output.put_varint(u64::from(moving.to.0));
    }
    match &partition.previous {
        None => output.put_u8(0),
        Some(previous) => {
            output.put_u8(1);
            output.put_varint(previous.epoch.0);
            output.put_varint(u64::from(previous.leader.0));
            output.put_u8(u8::from(previous.sealed));
        }
    }
    output.put_varint(partition.handed_over_since.0);
}

/// A host or none: 0 is none, so that a host is its number plus one.
fn read_no_host(
    input: &mut ByteReader<'_>,
    field: &'static str,
) -> Result<Option<HostId>, FormatError> {
    let number = read_number(input, field, u64::from(HOST_LIMIT))?;
    Ok(number.checked_sub(1).map(|host| HostId(host as u32)))
}

fn read_partition_state(
    input: &mut ByteReader<'_>,
    version: u8,
) -> Result<PartitionState, FormatError> {
    let (epoch, leader) = (read_epoch(input)?, read_host(input)?);
    let count = read_count(input, "copies")?;
    let copies = (0..count).map(|_| read_copy(input)).collect::<Result<Vec<Copy>, _>>()?;
    let count = read_count(input, "copies that are being loaded")?;
    let learning = (0..count).map(|_| read_copy(input)).collect::<Result<Vec<Copy>, _>>()?;
    let hand_over = read_no_host(input, "target of a transfer")?;
    let from = match version >= STATE_VERSION_MOVES {
        true => read_no_host(input, "host of a moved copy")?,
        false => None,
    };
    let moving = match from {
        Some(from) => Some(CopyMove { from, to: read_host(input)? }),
        None => None,
    };
    let previous = match read_flag(input, "previous configuration")? {
        false => None,
        true => Some(Previous {
            epoch: read_epoch(input)?,
            leader: read_host(input)?,
            sealed: read_flag(input, "sealed")?,
        }),
    };
    // A state of before does not tell: another host may have taken over in this epoch.
    let handed_over_since = if version >= STATE_VERSION_PLANS { read_epoch(input)? } else { epoch };
    Ok(PartitionState {
        epoch,
        leader,
        copies,
        learning,
        hand_over,
        moving,
        previous,
        handed_over_since,
    })
}

impl ClusterState {
    /// The byte form.
    pub fn encode(&self) -> Vec<u8> {
        let mut output =
            Vec::with_capacity(64 + 64 * self.hosts.len() + 16 * self.partitions.len());
        output.put_u8(STATE_VERSION);
        output.extend_from_slice(&self.id.0);
        output.put_counted(self.name.as_bytes());
        put_shape(&mut output, &self.shape);
        output.put_u8(self.made_k);
        output.put_varint(self.hosts.len() as u64);
        self.hosts.values().for_each(|record| put_record(&mut output, record));
        output.put_varint(u64::from(self.numbers));
        output.put_varint(self.epoch.0);
        output.put_varint(self.partitions.len() as u64);
        self.partitions.iter().for_each(|partition| put_partition(&mut output, partition));
        output.put_varint(u64::from(self.coordinator.0));
        output.put_varint(self.coordinator_since.0);
        output.put_varint(self.missing.len() as u64);
        self.missing.iter().for_each(|partition| output.put_varint(u64::from(partition.0)));
        output.put_varint(self.catalog_version);
        output.put_varint(self.ring_version);
        output
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// The bytes are not a state, or one that breaks a rule.
    pub fn decode(bytes: &[u8]) -> Result<ClusterState, FormatError> {
        let input = &mut ByteReader::new(bytes);
        let (what, known) = ("the cluster's state", STATE_VERSION);
        let version = input.u8()?;
        if !(STATE_VERSION_OLDEST..=known).contains(&version) {
            return Err(FormatError::Version { what, found: version, known });
        }
        let id = ClusterId::read(input)?.ok_or(FormatError::Rule("a cluster has a number"))?;
        let name = read_text(input, "cluster name")?;
        let shape = read_shape(input)?;
        let made_k = if version >= STATE_VERSION_MOVES { input.u8()? } else { shape.k };
        let count = read_count(input, "hosts")?;
        let records = (0..count).map(|_| read_record(input, version));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        let hosts = records.into_iter().map(|record| (record.description.host, record)).collect();
        let mut state = ClusterState::forming(id, name, shape, hosts);
        state.made_k = made_k;
        if version >= STATE_VERSION_PLANS {
            let limit = u64::from(HOST_LIMIT);
            state.numbers = read_number(input, "numbers of hosts", limit)? as u32;
        }
        if state.hosts.len() != count {
            return Err(FormatError::Rule("each host is listed once"));
        }
        state.epoch = read_epoch(input)?;
        let count = read_count(input, "partitions")?;
        state.partitions = (0..count)
            .map(|_| read_partition_state(input, version))
            .collect::<Result<Vec<_>, _>>()?;
        state.coordinator = read_host(input)?;
        state.coordinator_since = read_epoch(input)?;
        let count = read_count(input, "missing partitions")?;
        state.missing = (0..count).map(|_| read_partition(input)).collect::<Result<_, _>>()?;
        state.catalog_version = input.varint()?;
        state.ring_version = input.varint()?;
        read_end(input)?;
        match state.violation() {
            Some(rule) => Err(FormatError::Rule(rule)),
            None => Ok(state),
        }
    }
}
