//! Two hosts that do what a seed says.

use super::super::support::{Heard, link, small};
use super::judge::Judge;
use super::network::{End, Stream};
use lockstep_base::random::SeededRandom;
use lockstep_link::{
    Accepting, ClockReading, Link, LinkError, LinkFaults, OfferError, Refusal, RefusalReason,
    VersionRange,
};
use std::io::IoSlice;
use std::ops::AddAssign;

/// A side gives up a connection on which nothing has come for this long.
const TIMEOUT_US: i64 = 40_000;

/// How often something happened that the simulation is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    pub delivered: u64,
    pub resent: u64,
    pub resumed: u64,
    pub partly_read: u64,
    pub dialed_at_once: u64,
    pub superseded: u64,
    pub older_process: u64,
    pub replaced: u64,
    pub restarted: u64,
    pub ended: u64,
    pub full: u64,
    pub datagrams: u64,
    pub datagrams_dropped: u64,
    pub silent: u64,
    pub cut_hellos: u64,
}

impl Counters {
    /// With their names, and how often each has to happen in a thousand runs.
    pub fn minimums(&self) -> [(&'static str, u64, u64); 15] {
        [
            ("delivered", self.delivered, 80_000),
            ("resent", self.resent, 8_000),
            ("resumed", self.resumed, 3_000),
            ("partly_read", self.partly_read, 200),
            ("dialed_at_once", self.dialed_at_once, 1_000),
            ("superseded", self.superseded, 150),
            ("older_process", self.older_process, 5),
            ("replaced", self.replaced, 2_000),
            ("restarted", self.restarted, 700),
            ("ended", self.ended, 1_000),
            ("full", self.full, 3_000),
            ("datagrams", self.datagrams, 600),
            ("datagrams_dropped", self.datagrams_dropped, 3_000),
            ("silent", self.silent, 1_500),
            ("cut_hellos", self.cut_hellos, 2_500),
        ]
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.delivered += other.delivered;
        self.resent += other.resent;
        self.resumed += other.resumed;
        self.partly_read += other.partly_read;
        self.dialed_at_once += other.dialed_at_once;
        self.superseded += other.superseded;
        self.older_process += other.older_process;
        self.replaced += other.replaced;
        self.restarted += other.restarted;
        self.ended += other.ended;
        self.full += other.full;
        self.datagrams += other.datagrams;
        self.datagrams_dropped += other.datagrams_dropped;
        self.silent += other.silent;
        self.cut_hellos += other.cut_hellos;
    }
}

/// A host: its end of the link, the stream of that, and accepted streams before their hello.
struct Host {
    incarnation: u64,
    link: Link,
    stream: Option<usize>,
    accepting: Vec<(usize, Accepting)>,
    wall_ahead_us: i64,
    unread: bool,
    /// When something last came on the stream.
    heard_us: i64,
}

pub struct World {
    random: SeededRandom,
    hosts: [Host; 2],
    streams: Vec<Stream>,
    now_us: i64,
    judge: Judge,
    faults: LinkFaults,
    is_calm: bool,
    counters: Counters,
}

/// A seed's run: steps with faults, then without.
pub fn run(seed: u64, faults: LinkFaults) -> Result<Counters, String> {
    let mut world = World::new(seed, faults);
    let steps = 100 + world.random.below(700);
    for _ in 0..steps {
        world.step()?;
    }
    world.come_to_rest()?;
    for side in [0, 1] {
        let counters = world.hosts[side].link.counters();
        world.counters.resent += counters.messages_resent;
        world.counters.datagrams_dropped += counters.datagrams_dropped;
    }
    Ok(world.counters)
}

fn new_link(side: usize, incarnation: u64, faults: LinkFaults) -> Link {
    let mut link = link(side as u32 + 1, incarnation, 2 - side as u32, small());
    link.set_faults(faults);
    link
}

impl World {
    fn new(seed: u64, faults: LinkFaults) -> World {
        let mut random = SeededRandom::new(seed);
        let hosts = [0, 1].map(|side| Host {
            incarnation: 1,
            link: new_link(side, 1, faults),
            stream: None,
            accepting: Vec::new(),
            wall_ahead_us: random.between(-3_000_000, 3_000_000),
            unread: false,
            heard_us: 0,
        });
        World {
            random,
            hosts,
            streams: Vec::new(),
            now_us: 0,
            judge: Judge::default(),
            faults,
            is_calm: false,
            counters: Counters::default(),
        }
    }

    fn clock(&self, side: usize) -> ClockReading {
        let wall_us = 1_795_244_523_000_000 + self.now_us + self.hosts[side].wall_ahead_us;
        ClockReading { monotonic_us: self.now_us + 1_000 * side as i64, wall_us }
    }

    fn step(&mut self) -> Result<(), String> {
        self.now_us += self.random.below(2_000) as i64;
        let side = self.random.below(2) as usize;
        match self.random.below(100) {
            0..=15 => self.offer(side)?,
            16..=18 => self.offer_datagram(side),
            19..=45 => self.write(side, 900),
            46..=78 => self.read(side)?,
            79..=88 => self.dial(side),
            89..=91 => self.accept_pending(side)?,
            92..=93 => self.break_stream(side),
            94..=95 => self.time_out(side),
            96 => self.streams.iter_mut().for_each(Stream::heal),
            97 if self.random.chance(1, 3) => self.restart(side),
            98 if self.random.chance(1, 2) => self.end_session(side)?,
            _ => self.now_us += 6_000,
        }
        let backlog = self.hosts[side].link.backlog();
        let (bytes_max, messages_max) = (small().backlog_bytes_max, small().backlog_messages_max);
        match backlog.bytes <= bytes_max && backlog.messages <= messages_max {
            true => Ok(()),
            false => Err(format!("over the limits: {backlog:?}")),
        }
    }

    fn offer(&mut self, side: usize) -> Result<(), String> {
        for _ in 0..=self.random.below(6) {
            let length = match self.random.below(20) {
                0 => 508,
                1 => 200,
                _ => self.random.below(40),
            };
            let fill = self.random.next_u64() as u8;
            let bytes = vec![fill; length as usize];
            let now = self.clock(side);
            match self.hosts[side].link.offer(now, |buffer| buffer.extend_from_slice(&bytes)) {
                Ok(number) => self.judge.offered(side, number, bytes)?,
                Err(OfferError::Full { .. }) => self.counters.full += 1,
                Err(OfferError::NoSession) => return Ok(()),
                Err(error) => return Err(format!("a message was refused: {error}")),
            }
        }
        Ok(())
    }

    fn offer_datagram(&mut self, side: usize) {
        let number = self.judge.next_datagram(side);
        let heartbeat = self.random.chance(1, 3);
        let link = &mut self.hosts[side].link;
        let write = |buffer: &mut Vec<u8>| buffer.extend_from_slice(&number.to_be_bytes());
        let _ = match heartbeat {
            true => link.offer_heartbeat(write),
            false => link.offer_datagram(write),
        };
    }

    /// Writes some of what the link has, at most `bytes_max` bytes.
    fn write(&mut self, side: usize, bytes_max: u64) {
        let now = self.clock(side);
        let bytes_max = self.random.below(bytes_max) as usize + 1;
        let Some(stream) = self.hosts[side].stream else { return };
        let stream = &mut self.streams[stream];
        let mut budget = stream.space(side).min(bytes_max);
        let link = &mut self.hosts[side].link;
        let mut slices = [IoSlice::new(&[]); 6];
        let count = link.write_slices(now, &mut slices);
        let mut taken = 0;
        for slice in &slices[..count] {
            let part = &slice[..slice.len().min(budget)];
            stream.write(side, part);
            budget -= part.len();
            taken += part.len();
        }
        link.wrote(taken);
    }

    fn dial(&mut self, side: usize) {
        let now = self.clock(side);
        let host = &mut self.hosts[side];
        if host.link.dialed(now).is_err() {
            return;
        }
        host.stream = Some(self.streams.len());
        host.heard_us = self.now_us;
        let accepting = (self.streams.len(), Accepting::new(VersionRange::SUPPORTED));
        self.hosts[1 - side].accepting.push(accepting);
        self.streams.push(Stream::default());
    }

    /// Reads some of what has come, and takes all or some of the events.
    fn read(&mut self, side: usize) -> Result<(), String> {
        if self.random.chance(1, 4) {
            self.accept_pending(side)?;
        }
        let Some(number) = self.hosts[side].stream else { return Ok(()) };
        if self.streams[number].is_over(side) {
            self.disconnect(side, End::Finished);
            return Ok(());
        }
        let arrived = self.streams[number].arrived(side);
        if arrived > 0 {
            self.hosts[side].heard_us = self.now_us;
        } else if self.now_us - self.hosts[side].heard_us > TIMEOUT_US {
            self.disconnect(side, End::Reset);
            return Ok(());
        }
        let wanted = self.some_of(arrived);
        let space = self.hosts[side].link.read_space();
        let count = space.len().min(wanted);
        self.streams[number].read(side, &mut space[..count]);
        self.hosts[side].link.filled(count);
        let most = match self.random.chance(1, 3) && !self.is_calm {
            true => self.random.below(4),
            false => u64::MAX,
        };
        self.take_events(side, most)
    }

    /// Often all of what has come, else a part.
    fn some_of(&mut self, arrived: usize) -> usize {
        match self.is_calm || self.random.chance(2, 3) {
            true => arrived,
            false => self.random.below(arrived as u64 + 1) as usize,
        }
    }

    fn take_events(&mut self, side: usize, most: u64) -> Result<(), String> {
        let now = self.clock(side);
        for _ in 0..most {
            let heard = match self.hosts[side].link.next_event(now) {
                Ok(Some(event)) => Heard::of(event),
                Ok(None) => {
                    self.hosts[side].unread = false;
                    return self.check_clock(side);
                }
                Err(error) => return self.failed(side, &error),
            };
            match heard {
                Heard::Ended(session) => self.judge.ended(side, session)?,
                Heard::Began(session) => self.judge.began(side, session)?,
                Heard::Connected(resumed) => self.counters.resumed += u64::from(resumed),
                Heard::Message(number, bytes) => {
                    self.counters.delivered += 1;
                    self.judge.delivered(side, number, &bytes)?;
                }
                Heard::Datagram(bytes) | Heard::Heartbeat(bytes) => {
                    self.counters.datagrams += 1;
                    self.judge.datagram(side, &bytes)?;
                }
            }
            self.hosts[side].unread = true;
        }
        Ok(())
    }

    fn check_clock(&self, side: usize) -> Result<(), String> {
        let Some(offset) = self.hosts[side].link.clock_offset() else { return Ok(()) };
        let [own, peer] = [side, 1 - side].map(|side| self.hosts[side].wall_ahead_us);
        let error = (offset.offset_us - (peer - own)).unsigned_abs();
        match error <= offset.error_us {
            true => Ok(()),
            false => Err(format!("the clocks are off by {}, not {offset:?}", peer - own)),
        }
    }

    /// Only a refusal for another connection may end one: the network changes no bytes.
    fn failed(&mut self, side: usize, error: &LinkError) -> Result<(), String> {
        match error {
            LinkError::Refused(refusal) if refusal.reason.is_harmless() => {}
            error => return Err(format!("a connection failed: {error}")),
        }
        self.disconnect(side, End::Finished);
        Ok(())
    }

    fn disconnect(&mut self, side: usize, end: End) {
        let host = &mut self.hosts[side];
        if let Some(number) = host.stream.take() {
            self.counters.partly_read += u64::from(host.unread);
            host.unread = false;
            self.streams[number].close(side, end);
            host.link.disconnected();
        }
    }

    /// Reads the hellos of accepted streams.
    fn accept_pending(&mut self, side: usize) -> Result<(), String> {
        let now = self.clock(side);
        let waiting = std::mem::take(&mut self.hosts[side].accepting);
        for (number, mut accepting) in waiting {
            let wanted = self.some_of(self.streams[number].arrived(side));
            let stream = &mut self.streams[number];
            let space = accepting.read_space();
            let count = space.len().min(wanted);
            stream.read(side, &mut space[..count]);
            accepting.filled(count);
            let is_complete = accepting.hello().map_err(|error| error.to_string())?.is_some();
            if !is_complete && stream.is_over(side) {
                self.counters.cut_hellos += 1;
                stream.close(side, End::Finished);
            } else if !is_complete {
                self.hosts[side].accepting.push((number, accepting));
            } else {
                self.accept(side, number, accepting, now)?;
            }
        }
        Ok(())
    }

    fn accept(
        &mut self,
        side: usize,
        number: usize,
        accepting: Accepting,
        now: ClockReading,
    ) -> Result<(), String> {
        match self.hosts[side].link.accept(accepting, now) {
            Ok(()) => {
                self.hosts[side].heard_us = self.now_us;
                if let Some(old) = self.hosts[side].stream.replace(number) {
                    self.counters.replaced += 1;
                    self.counters.partly_read += u64::from(self.hosts[side].unread);
                    self.hosts[side].unread = false;
                    self.streams[old].close(side, End::Finished);
                }
                Ok(())
            }
            Err(refusal) => {
                self.count_refusal(side, &refusal)?;
                let bytes = refusal.to_bytes(VersionRange::SUPPORTED);
                self.streams[number].write(side, &bytes);
                self.streams[number].close(side, End::Finished);
                Ok(())
            }
        }
    }

    fn count_refusal(&mut self, side: usize, refusal: &Refusal) -> Result<(), String> {
        match (refusal.reason(), refusal) {
            (RefusalReason::SimultaneousDial, _) => self.counters.dialed_at_once += 1,
            (RefusalReason::SupersededDial, _) => self.counters.superseded += 1,
            (_, Refusal::DuplicateHost { refused, .. })
                if *refused < self.hosts[1 - side].incarnation =>
            {
                self.counters.older_process += 1;
            }
            _ => return Err(format!("an accepted connection was refused: {refusal}")),
        }
        Ok(())
    }

    fn break_stream(&mut self, side: usize) {
        let Some(number) = self.hosts[side].stream else { return };
        match self.random.below(4) {
            0 => self.streams[number].reset(),
            1 => {
                self.counters.silent += 1;
                self.streams[number].cut(side);
            }
            2 => {
                self.counters.silent += 1;
                self.disconnect(side, End::Silent);
            }
            _ => {
                let end = if self.random.chance(1, 2) { End::Reset } else { End::Finished };
                self.disconnect(side, end);
            }
        }
    }

    /// The side gives up what it has heard nothing of.
    fn time_out(&mut self, side: usize) {
        if self.random.chance(1, 3) || self.is_calm {
            self.disconnect(side, End::Reset);
        }
        if self.random.chance(1, 3) || self.is_calm {
            for (number, _) in std::mem::take(&mut self.hosts[side].accepting) {
                self.streams[number].close(side, End::Reset);
            }
        }
    }

    fn restart(&mut self, side: usize) {
        self.counters.restarted += 1;
        let end = if self.random.chance(1, 2) { End::Silent } else { End::Reset };
        self.disconnect(side, end);
        for (number, _) in std::mem::take(&mut self.hosts[side].accepting) {
            self.streams[number].close(side, end);
        }
        self.judge.restarted(side);
        let host = &mut self.hosts[side];
        host.incarnation += 1;
        host.link = new_link(side, host.incarnation, self.faults);
        // Datagrams that were dropped by a process that is gone are of no interest.
    }

    fn end_session(&mut self, side: usize) -> Result<(), String> {
        self.counters.ended += 1;
        self.hosts[side].link.end_session();
        if let Some(number) = self.hosts[side].stream.take() {
            self.streams[number].close(side, End::Finished);
        }
        self.hosts[side].unread = false;
        match self.random.chance(1, 2) {
            true => self.take_events(side, u64::MAX),
            false => Ok(()),
        }
    }

    /// Without faults everything is delivered and acknowledged within a number of steps.
    fn come_to_rest(&mut self) -> Result<(), String> {
        self.is_calm = true;
        (0..2).for_each(|side| self.time_out(side));
        for round in 0..120 {
            self.now_us += 3_000;
            for side in [0, 1] {
                if round < 80 && self.random.chance(1, 4) {
                    self.offer(side)?;
                }
                if self.random.chance(1, 2) {
                    self.dial(side);
                }
                self.accept_pending(side)?;
                self.take_events(side, u64::MAX)?;
                self.read(side)?;
                self.write(side, 1_000_000);
            }
        }
        self.judge.at_rest()?;
        for side in [0, 1] {
            let backlog = self.hosts[side].link.backlog();
            if backlog.messages > 0 || backlog.bytes > 0 {
                return Err(format!("not acknowledged at rest: {backlog:?}"));
            }
        }
        Ok(())
    }
}
