//! The message that every host sends to every other one, all the time.

use crate::codec::{
    read_count, read_end, read_epoch, read_flag, read_host, read_incarnation, read_partition,
    read_version,
};
use crate::error::FormatError;
use crate::ids::{ClusterId, Epoch, Incarnation};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_types::{HostId, PartitionId};

/// Version of the byte form of [`Heartbeat`].
pub(crate) const HEARTBEAT_VERSION: u8 = 4;

/// What a host answers to the newest heartbeat of the host that it sends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The process that sent it.
    pub incarnation: Incarnation,
    /// When that process sent it, by its own monotonic clock.
    pub sent_us: u64,
    /// Time between its receipt and this message, by the clock of the host that answers.
    pub held_us: u64,
    /// Whether the host grants a lease, which is counted from `sent_us` and is of the epoch of
    /// the heartbeat.
    pub grants: bool,
}

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The cluster of the sender.
    pub cluster: ClusterId,
    /// The process that sends.
    pub incarnation: Incarnation,
    /// The epoch of the placement that it has.
    pub epoch: Epoch,
    /// When it was sent, by the sender's monotonic clock.
    pub sent_us: u64,
    /// The same by its wall clock, in microseconds since 1970.
    pub wall_us: u64,
    /// The answer to the receiver's newest heartbeat.
    pub echo: Option<Echo>,
    /// The hosts that the sender suspects because of what it hears of them.
    pub suspects: Vec<HostId>,
    /// The hosts to or from which the sender has lost messages of replication, each with the epoch
    /// since which both had taken part. That counts until one of the two takes part again.
    pub cut_from: Vec<(HostId, Epoch)>,
    /// By site of the sender, how long ago its thread ran.
    pub site_ages_us: Vec<u64>,
    /// Partitions that the sender is to lead and cannot.
    pub cannot_lead: Vec<PartitionId>,
    /// What the sender has too little of, such as memory, as bits that the hosts define.
    pub shortages: u8,
}

impl Heartbeat {
    /// The byte form.
    pub fn encode(&self) -> Vec<u8> {
        let mut output = Vec::with_capacity(64);
        output.put_u8(HEARTBEAT_VERSION);
        output.extend_from_slice(&self.cluster.0);
        output.put_varint(self.incarnation.0);
        output.put_varint(self.epoch.0);
        output.put_varint(self.sent_us);
        output.put_varint(self.wall_us);
        output.put_u8(u8::from(self.echo.is_some()));
        if let Some(echo) = &self.echo {
            output.put_varint(echo.incarnation.0);
            output.put_varint(echo.sent_us);
            output.put_varint(echo.held_us);
            output.put_u8(u8::from(echo.grants));
        }
        output.put_varint(self.suspects.len() as u64);
        self.suspects.iter().for_each(|host| output.put_varint(u64::from(host.0)));
        output.put_varint(self.cut_from.len() as u64);
        for (host, since) in &self.cut_from {
            output.put_varint(u64::from(host.0));
            output.put_varint(since.0);
        }
        output.put_varint(self.site_ages_us.len() as u64);
        self.site_ages_us.iter().for_each(|age_us| output.put_varint(*age_us));
        output.put_varint(self.cannot_lead.len() as u64);
        self.cannot_lead.iter().for_each(|own| output.put_varint(u64::from(own.0)));
        output.put_u8(self.shortages);
        output
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// The bytes are not a heartbeat.
    pub fn decode(bytes: &[u8]) -> Result<Heartbeat, FormatError> {
        let input = &mut ByteReader::new(bytes);
        read_version(input, "a heartbeat", HEARTBEAT_VERSION)?;
        let cluster = ClusterId::read(input)?.ok_or(FormatError::Rule("a cluster has a number"))?;
        let (incarnation, epoch) = (read_incarnation(input)?, read_epoch(input)?);
        let (sent_us, wall_us) = (input.varint()?, input.varint()?);
        let echo = match read_flag(input, "echo")? {
            false => None,
            true => Some(Echo {
                incarnation: read_incarnation(input)?,
                sent_us: input.varint()?,
                held_us: input.varint()?,
                grants: read_flag(input, "grant")?,
            }),
        };
        let count = read_count(input, "suspects")?;
        let suspects = (0..count).map(|_| read_host(input)).collect::<Result<_, _>>()?;
        let count = read_count(input, "hosts that are cut off")?;
        let cut_from = (0..count).map(|_| Ok((read_host(input)?, read_epoch(input)?)));
        let cut_from = cut_from.collect::<Result<_, FormatError>>()?;
        let count = read_count(input, "sites")?;
        let site_ages_us = (0..count).map(|_| input.varint()).collect::<Result<_, _>>()?;
        let count = read_count(input, "partitions that cannot be led")?;
        let cannot_lead = (0..count).map(|_| read_partition(input)).collect::<Result<_, _>>()?;
        let shortages = input.u8()?;
        read_end(input)?;
        Ok(Heartbeat {
            cluster,
            incarnation,
            epoch,
            sent_us,
            wall_us,
            echo,
            suspects,
            cut_from,
            site_ages_us,
            cannot_lead,
            shortages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_read_as_written_and_keep_their_form() {
        let echo = Echo { incarnation: Incarnation(3), sent_us: 300, held_us: 4, grants: true };
        let heartbeat = Heartbeat {
            cluster: ClusterId([7; 16]),
            incarnation: Incarnation(2),
            epoch: Epoch(5),
            sent_us: 1_000,
            wall_us: 2_000,
            echo: Some(echo),
            suspects: vec![HostId(1)],
            cut_from: vec![(HostId(2), Epoch(4))],
            site_ages_us: vec![0, 9],
            cannot_lead: vec![PartitionId(6)],
            shortages: 5,
        };
        let bytes = heartbeat.encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "04070707070707070707070707070707070205e807d00f0103ac0204010101010204020009\
             010605"
        );
        assert_eq!(Heartbeat::decode(&bytes), Ok(heartbeat.clone()));
        let (suspects, cut_from) = (vec![], vec![]);
        let (site_ages_us, cannot_lead) = (vec![], vec![]);
        let echo = None;
        let silent = Heartbeat { echo, suspects, cut_from, site_ages_us, cannot_lead, ..heartbeat };
        assert_eq!(Heartbeat::decode(&silent.encode()), Ok(silent));
        assert!((0..bytes.len()).all(|length| Heartbeat::decode(&bytes[..length]).is_err()));
        assert!(Heartbeat::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}
