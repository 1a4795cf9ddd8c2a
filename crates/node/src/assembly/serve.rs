//! What a host that starts answers to the others, on threads of its own.

use super::wire::{self, Answer, Kind, MAGIC};
use crate::log::Data;
use crate::recovery::directory_log;
use lockstep_base::bytes::ByteReader;
use lockstep_host::recovery::assembly::HostReport;
use lockstep_types::{HostId, PartitionId, TransactionId};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// How often the thread looks whether the start is over.
const LOOK: Duration = Duration::from_millis(10);
/// How long a question may take to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions that are answered at the same time.
const ASKING_MAX: usize = 256;

/// What the threads of a start know together.
pub(super) struct Shared {
    pub(super) host: HostId,
    pub(super) data: Data,
    /// Checks the terms of another host.
    pub(super) terms: crate::links::ClusterTerms,
    pub(super) report: HostReport,
    /// Held while entries are added to the log.
    pub(super) log: RwLock<()>,
    pub(super) known: Mutex<Known>,
    pub(super) is_over: AtomicBool,
    asking: AtomicUsize,
}

/// What is known of the others, and what they may know.
#[derive(Default)]
pub(super) struct Known {
    /// By host, its process, and what it has reported.
    pub(super) reports: BTreeMap<HostId, (u64, HostReport)>,
    /// What replay has found here, once it has come to its end.
    pub(super) found: Option<BTreeSet<TransactionId>>,
    /// The hosts that need nothing more.
    pub(super) finished: BTreeSet<HostId>,
    /// Another host cannot start.
    pub(super) problem: Option<String>,
}

impl Shared {
    pub(super) fn new(
        host: HostId,
        data: Data,
        terms: crate::links::ClusterTerms,
        report: HostReport,
    ) -> Shared {
        Shared {
            host,
            data,
            terms,
            report,
            log: RwLock::default(),
            known: Mutex::default(),
            is_over: AtomicBool::new(false),
            asking: AtomicUsize::new(0),
        }
    }

    pub(super) fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect("no thread of the start panics with it")
    }

    /// Notes what a host has reported, of which another process may have reported before.
    pub(super) fn note_report(&self, host: HostId, process: u64, report: HostReport) {
        let mut known = self.known();
        let before = known.reports.insert(host, (process, report));
        if before.is_some_and(|(before, _)| before != process) {
            known.finished.remove(&host);
        }
    }

    fn answer(&self, question: &[u8]) -> Result<Answer, String> {
        let mut input = ByteReader::new(question);
        let cut = |_| "a question is cut off".to_string();
        let kind = input.u8().map_err(cut)?;
        let kind = Kind::of(kind).ok_or_else(|| format!("nobody asks for {kind}"))?;
        let (host, process) = (HostId(input.u32().map_err(cut)?), input.u64().map_err(cut)?);
        // One that was added may not be known here.
        if host.0 >= HostId::LIMIT || host == self.host {
            return Err(format!("host {host} is no other host of the cluster"));
        }
        match kind {
            Kind::Report => {
                let terms = input.counted().map_err(cut)?;
                self.terms.agrees_with(terms).map_err(|problem| {
                    format!("host {} has other terms than host {host}: {problem}", self.host)
                })?;
                let report = wire::read_report(input.rest(), self.report.ends.len())?;
                self.note_report(host, process, report);
                let mut out = Vec::new();
                wire::put_report(&mut out, &self.report);
                Ok(Answer::Given(out))
            }
            Kind::Facts => self.facts(input.rest()),
            Kind::Pieces => self.pieces(&mut input),
            Kind::Found => {
                let known = self.known();
                let Some(found) = &known.found else { return Ok(Answer::NotYet) };
                let mut out = Vec::new();
                wire::put_found(&mut out, found);
                Ok(Answer::Given(out))
            }
            Kind::Finish => {
                self.known().finished.insert(host);
                Ok(Answer::Given(Vec::new()))
            }
            Kind::GiveUp => {
                let text = String::from_utf8_lossy(input.rest()).into_owned();
                let problem = format!("host {host} cannot start: {text}");
                self.known().problem.get_or_insert(problem);
                Ok(Answer::Given(Vec::new()))
            }
        }
    }

    fn facts(&self, asked: &[u8]) -> Result<Answer, String> {
        let partitions = wire::read_partitions(asked)?;
        let ends = partitions.iter().map(|of| {
            let end = self.report.ends.get(*of as usize);
            end.map(|end| (*of, end)).ok_or_else(|| format!("there is no partition {of}"))
        });
        let ends = ends.collect::<Result<BTreeMap<_, _>, String>>()?;
        let _not_written = self.log.read().expect("no writer panics");
        let facts = directory_log(&self.data).facts(&ends)?;
        let mut out = Vec::new();
        wire::put_facts(&mut out, &facts);
        Ok(Answer::Given(out))
    }

    fn pieces(&self, input: &mut ByteReader<'_>) -> Result<Answer, String> {
        let cut = |_| "a question is cut off".to_string();
        let (partition, after) = (input.u32().map_err(cut)?, input.u64().map_err(cut)?);
        let end = self.report.ends.get(partition as usize);
        let end = end.ok_or_else(|| format!("there is no partition {partition}"))?;
        let mut out = Vec::new();
        let _not_written = self.log.read().expect("no writer panics");
        let log = directory_log(&self.data);
        log.pieces_after((PartitionId(partition), end), after, |piece| {
            wire::put_piece(&mut out, &piece);
            Ok(())
        })?;
        Ok(Answer::Given(out))
    }

    /// Answers one question.
    fn hear(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut magic = [0; MAGIC.len()];
        stream.read_exact(&mut magic)?;
        if &magic != MAGIC {
            // A host that is further makes its links: it comes again.
            return Ok(());
        }
        let question = wire::read_frame(&mut stream, wire::QUESTION_BYTES_MAX)?;
        let answer = self.answer(&question).unwrap_or_else(Answer::Refused);
        wire::write_frame(&mut stream, &answer.to_bytes())
    }
}

/// Answers the other hosts until the start is over; gives the listener back.
pub(super) fn serve(shared: &Arc<Shared>, mut listener: TcpListener) -> io::Result<TcpListener> {
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, Token(0), Interest::READABLE)?;
    let mut events = Events::with_capacity(16);
    while !shared.is_over.load(Ordering::Acquire) {
        match poll.poll(&mut events, Some(LOOK)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
        }
        while let Ok((stream, _)) = listener.accept() {
            if shared.asking.fetch_add(1, Ordering::AcqRel) >= ASKING_MAX {
                shared.asking.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let asked = Arc::clone(shared);
            let spawned = std::thread::Builder::new().spawn(move || {
                // The host that asked comes again.
                if let Err(error) = asked.hear(TcpStream::from(stream)) {
                    tracing::debug!(%error, "a question of another host is not answered");
                }
                asked.asking.fetch_sub(1, Ordering::AcqRel);
            });
            if let Err(error) = spawned {
                tracing::warn!(%error, "a question of another host is not answered");
                shared.asking.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
    poll.registry().deregister(&mut listener)?;
    Ok(listener)
}
