//! The start of a cluster from the directories of its hosts, before they make their links: the
//! hosts report to each other what they have ([`lockstep_host::recovery::assembly`]), bring their
//! copies of each partition to the same end, give each other what their logs say of transactions
//! over several partitions, and agree, after each has replayed its own, on those that turned out
//! not to be committed.
//!
//! Each host answers questions and asks the others, one question for a connection. None ends this
//! part of the start before all others need nothing more of it.
//!
//! A host that was lost finds others that serve already, or start without it. It waits until they
//! serve, and joins them then as one without data ([`Start::Joins`]).

mod serve;
mod serving;
mod wire;

use crate::links::{ClusterMembership, SaidWithTerms};
use crate::log::Data;
use crate::log::directory::random_bits;
use crate::options::{Milliseconds, Options};
use crate::recovery::directory_log;
use lockstep_base::bytes::ByteWriter;
use lockstep_durability::command_log::{LogEnd, LogSettings};
use lockstep_durability::directory::{ClusterId, write_members};
use lockstep_durability::recovery::{LogPiece, Others};
use lockstep_host::recovery::assembly::{
    Assembly, AssemblyFaults, AssemblyPlan, DurablePlacement, HostReport, PlaceAmongServing,
    assemble, place_among_serving,
};
use lockstep_types::{HostId, PartitionId, TransactionId};
use mio::net::TcpListener;
use serve::Shared;
pub(crate) use serving::{QUESTION_HEAD, ServingHost, may_be_question};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::{Answer, Kind, MAGIC};

/// Between two questions to hosts that are not ready.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// After so long without a start all hosts are asked for their reports again.
const ASK_AGAIN: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a host may take to read its log for another one.
const LOG_TIMEOUT: Duration = Duration::from_secs(600);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two lines that say who is missing.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// With one copy of each partition: a host that takes connections and closes them for so long makes
/// links, and will not start together with this one.
const SERVES_AFTER: Duration = Duration::from_secs(5);

/// The start of a host of several.
pub(crate) struct Gathering {
    shared: Arc<Shared>,
    server: Option<JoinHandle<io::Result<TcpListener>>>,
    /// Where hosts listen, as far as that is known.
    addresses: BTreeMap<HostId, SocketAddr>,
    process: u64,
    plan: AssemblyPlan,
    said: Instant,
    /// The option `cluster_start_timeout_ms`.
    limit: Option<Milliseconds>,
}

/// What a directory and the options of a start say of the cluster.
pub(crate) struct KnownCluster {
    /// The newest placement that is known.
    pub(crate) placement: DurablePlacement,
    /// By number of a host, its directory, if the cluster has begun; zeros where it is not known.
    pub(crate) members: Option<Vec<ClusterId>>,
    /// Where the hosts with data listen for each other.
    pub(crate) addresses: BTreeMap<HostId, SocketAddr>,
}

/// How a host of several with a directory starts.
pub(crate) enum Start {
    /// Together with the others, with what their logs say.
    Together(Box<Gathering>, Others),
    /// The others serve, or are about to, and nothing counts that the directory has.
    Joins(TcpListener),
}

/// Why a question has no answer.
enum Silent {
    /// Nobody is there.
    Absent,
    /// Somebody takes connections and closes them.
    Closes,
    /// The cluster serves.
    Serves(DurablePlacement),
}

impl Gathering {
    /// Waits for the hosts of the cluster and brings the log here to the end that it has at all of
    /// them; or waits until the others serve that went on without this one.
    ///
    /// # Errors
    /// The hosts cannot start together, or a disk failed: the text for the user.
    pub(crate) fn begin(
        membership: &ClusterMembership,
        (data, options): (&Data, &Options),
        known: KnownCluster,
        listener: TcpListener,
    ) -> Result<Start, String> {
        let KnownCluster { placement, members, addresses } = known;
        let partitions = placement.in_sync.len() as u32;
        let log = directory_log(data);
        let kept = log.kept(partitions)?;
        let (ends, log_end) = log.copy_ends(partitions, kept.as_ref())?;
        let saved = kept.map_or(TransactionId(0), |kept| kept.transaction_id());
        let (directory, replaces) = (data.cluster.cluster, membership.rejoins);
        let report = HostReport { directory, members, replaces, placement, ends, saved };
        let terms = membership.terms.clone();
        let shared = Arc::new(Shared::new(membership.host, data.clone(), terms, report));
        let of_server = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("assembly".to_string());
        let server = builder.spawn(move || serve::serve(&of_server, listener));
        let server = server.map_err(|error| format!("the system gives no thread: {error}"))?;
        let mut gathering = Gathering {
            shared,
            server: Some(server),
            addresses,
            process: random_bits(),
            plan: AssemblyPlan {
                hosts: BTreeSet::new(),
                is_new: false,
                is_placed: false,
                winners: Vec::new(),
                ends: Vec::new(),
                settled: Vec::new(),
                own: Vec::new(),
                lacks: Vec::new(),
            },
            said: Instant::now(),
            limit: options.cluster_start_timeout_ms,
        };
        let Some(plan) = gathering.await_hosts()? else {
            let listener = gathering.end_server().expect("it runs until now")?;
            return Ok(Start::Joins(listener));
        };
        gathering.plan = plan;
        let others = gathering.gather(options, log_end);
        let others = others.inspect_err(|problem| gathering.give_up(problem))?;
        Ok(Start::Together(Box::new(gathering), others))
    }

    /// All hosts are there: brings the log here to the end that it has at all of them.
    fn gather(&mut self, options: &Options, end: LogEnd) -> Result<Others, String> {
        self.note_members()?;
        self.complete_log(options, end)?;
        self.ask_facts()
    }

    /// What the reports have led to.
    pub(crate) fn plan(&self) -> &AssemblyPlan {
        &self.plan
    }

    /// Asks all other hosts until all that take part have reported. None where the cluster serves,
    /// and this host is none of it.
    fn await_hosts(&mut self) -> Result<Option<AssemblyPlan>, String> {
        let own = self.shared.host;
        let begun = Instant::now();
        let mut closes_since: BTreeMap<HostId, Instant> = BTreeMap::new();
        let mut asked = Instant::now();
        loop {
            self.check_problem()?;
            if asked.elapsed() > ASK_AGAIN {
                // A host that has reported may serve by now, without this one.
                asked = Instant::now();
                self.shared.known().reports.clear();
            }
            for host in self.others().collect::<Vec<HostId>>() {
                if self.shared.known().reports.contains_key(&host) {
                    continue;
                }
                match self.ask_report(host)? {
                    Ok(()) => {}
                    Err(Silent::Absent) => drop(closes_since.remove(&host)),
                    Err(Silent::Serves(placement)) if self.is_out(host, &placement)? => {
                        return Ok(None);
                    }
                    Err(Silent::Serves(_)) => {}
                    Err(Silent::Closes) => {
                        let since = *closes_since.entry(host).or_insert_with(Instant::now);
                        self.check_closing(host, since)?;
                    }
                }
            }
            let mut reports: BTreeMap<HostId, HostReport> = {
                let known = self.shared.known();
                known.reports.iter().map(|(host, (_, report))| (*host, report.clone())).collect()
            };
            reports.insert(own, self.shared.report.clone());
            match assemble(own, &reports, AssemblyFaults::default())? {
                Assembly::Complete(plan) => return Ok(Some(plan)),
                Assembly::Waits(missing) => self.wait_for(&self.named(&missing), begun)?,
                Assembly::Out => {
                    let serving = "a host that serves: the cluster went on without this one, \
                                   which joins it";
                    self.wait_for(serving, begun)?;
                }
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Another host serves: whether this one is to join it.
    fn is_out(&mut self, host: HostId, serves: &DurablePlacement) -> Result<bool, String> {
        let own = self.shared.host;
        match place_among_serving(own, &self.shared.report.placement, serves) {
            PlaceAmongServing::Out => {
                tracing::warn!(
                    epoch = serves.epoch,
                    "the cluster serves without this host: it gives up its data and loads its \
                     copies again"
                );
                Ok(true)
            }
            PlaceAmongServing::Counts => {
                self.say(&format!(
                    "host {host} serves, and the cluster has not taken this host out yet: it joins \
                     after that"
                ));
                Ok(false)
            }
            PlaceAmongServing::HasLast(partitions) => {
                let numbers: Vec<String> = partitions.iter().map(PartitionId::to_string).collect();
                let what = format!(
                    "host {host} serves, and only host {own} has copies of the partitions {} that \
                     count",
                    numbers.join(", ")
                );
                Err(match self.shared.report.has_begun() {
                    true => format!("{what}: stop all hosts and start all of them"),
                    false => format!("{what}: a new directory cannot take the place of its own"),
                })
            }
        }
    }

    /// Another host has closed connections since a moment: it is about to serve, or makes links
    /// after a start in which this host does not take part.
    fn check_closing(&mut self, host: HostId, since: Instant) -> Result<(), String> {
        let has_copies = self.shared.terms.kfactor > 0;
        if since.elapsed() <= SERVES_AFTER {
            return Ok(());
        }
        if has_copies {
            self.say(&format!(
                "host {host} runs, and does not serve: if it waits for this host, stop all hosts \
                 and start all of them"
            ));
            return Ok(());
        }
        Err(format!(
            "host {host} runs already, and has one copy of each partition: stop all hosts and \
             start all of them"
        ))
    }

    /// Logs what the start waits for, from time to time.
    fn say(&mut self, problem: &str) {
        if self.said.elapsed() >= SAY_EVERY {
            self.said = Instant::now();
            tracing::warn!("{problem}");
        }
    }

    /// The start goes on to wait, unless its time is over.
    ///
    /// # Errors
    /// It is over.
    fn wait_for(&mut self, awaited: &str, begun: Instant) -> Result<(), String> {
        match self.limit {
            Some(limit) if begun.elapsed() > limit.duration() => Err(format!(
                "the cluster was not formed in {} ms (option cluster_start_timeout_ms): the start \
                 waits for {awaited}",
                limit.get()
            )),
            _ => {
                self.say(&format!("the start waits for {awaited}"));
                Ok(())
            }
        }
    }

    /// Hosts that have not reported, with the partitions of which they have copies.
    fn named(&self, missing: &BTreeMap<HostId, Vec<PartitionId>>) -> String {
        let named = missing.iter().map(|(host, partitions)| {
            let partitions: Vec<String> = partitions.iter().map(PartitionId::to_string).collect();
            let partitions = partitions.join(", ");
            let at = match self.addresses.get(host) {
                Some(address) => format!("at {address}"),
                None => format!("whose address is not known here (--peers ...,{host}=HOST:PORT)"),
            };
            format!("host {host} {at}, which has copies of the partitions {partitions}")
        });
        named.collect::<Vec<_>>().join("; ")
    }

    fn others(&self) -> impl Iterator<Item = HostId> + use<> {
        let own = self.shared.host;
        let known: Vec<HostId> = self.addresses.keys().copied().collect();
        known.into_iter().filter(move |host| *host != own)
    }

    fn partners(&self) -> Vec<HostId> {
        self.others().filter(|host| self.plan.hosts.contains(host)).collect()
    }

    fn check_problem(&self) -> Result<(), String> {
        self.shared.known().problem.clone().map_or(Ok(()), Err)
    }

    /// Exchanges reports with a host.
    fn ask_report(&self, host: HostId) -> Result<Result<(), Silent>, String> {
        let mut about = Vec::new();
        let mut terms = Vec::new();
        self.shared.terms.write(SaidWithTerms::default(), &mut terms);
        about.put_counted(&terms);
        wire::put_report(&mut about, &self.shared.report);
        let answer = match self.ask_once(host, Kind::Report, &about, ANSWER_TIMEOUT) {
            Ok(answer) => answer,
            Err(silent) => return Ok(Err(silent)),
        };
        match answer {
            Answer::Given(bytes) => {
                let report = wire::read_report(&bytes, self.shared.report.ends.len())
                    .map_err(|problem| format!("what host {host} reports: {problem}"))?;
                // The number of its process comes when it asks.
                self.shared.known().reports.entry(host).or_insert((0, report));
                Ok(Ok(()))
            }
            Answer::NotYet => Ok(Err(Silent::Absent)),
            Answer::Serves(placement) => Ok(Err(Silent::Serves(placement))),
            Answer::Refused(problem) => Err(problem),
        }
    }

    fn ask_once(
        &self,
        host: HostId,
        kind: Kind,
        about: &[u8],
        patience: Duration,
    ) -> Result<Answer, Silent> {
        let address = self.addresses.get(&host).ok_or(Silent::Absent)?;
        let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT);
        let mut stream = stream.map_err(|_| Silent::Absent)?;
        let mut question = vec![kind as u8];
        question.extend_from_slice(&self.shared.host.0.to_be_bytes());
        question.extend_from_slice(&self.process.to_be_bytes());
        question.extend_from_slice(about);
        let mut ask = || -> io::Result<Vec<u8>> {
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            stream.write_all(MAGIC)?;
            wire::write_frame(&mut stream, &question)?;
            wire::read_frame(&mut stream, wire::ANSWER_BYTES_MAX)
        };
        let answer = ask().map_err(|_| Silent::Closes)?;
        Answer::of(&answer).ok_or(Silent::Closes)
    }

    /// Asks a host that takes part, which may take its time, until it answers.
    fn ask(&mut self, host: HostId, kind: Kind, about: &[u8]) -> Result<Vec<u8>, String> {
        let mut silent_since = Instant::now();
        loop {
            self.check_problem()?;
            match self.ask_once(host, kind, about, LOG_TIMEOUT) {
                Ok(Answer::Given(bytes)) => return Ok(bytes),
                Ok(Answer::Refused(problem)) => return Err(problem),
                // It replays.
                Ok(Answer::NotYet) => silent_since = Instant::now(),
                Ok(Answer::Serves(_)) | Err(_) => {}
            }
            self.wait_for(&format!("the answer of host {host}"), silent_since)?;
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// A cluster that begins keeps which directories it has.
    fn note_members(&self) -> Result<(), String> {
        let known = self.shared.known();
        let all = (0..self.shared.terms.hosts).map(|number| match HostId(number) {
            own if own == self.shared.host => Some(self.shared.report.directory),
            other => known.reports.get(&other).map(|(_, report)| report.directory),
        });
        // Of hosts that were added the state tells: they join a cluster that has begun.
        let Some(members) = all.collect::<Option<Vec<_>>>() else { return Ok(()) };
        if self.shared.report.members.as_ref() == Some(&members) {
            return Ok(());
        }
        let disk = &*self.shared.data.disk;
        write_members(disk, &members).map_err(|error| error.to_string())
    }

    /// Gets the entries that the log here lacks.
    fn complete_log(&mut self, options: &Options, end: LogEnd) -> Result<(), String> {
        let mut lacked: Vec<(PartitionId, Vec<LogPiece>)> = Vec::new();
        for (partition, after) in self.plan.lacks.clone() {
            let winner = self.plan.winners[partition.index()];
            let mut about = Vec::new();
            about.extend_from_slice(&partition.0.to_be_bytes());
            about.extend_from_slice(&after.to_be_bytes());
            let bytes = self.ask(winner, Kind::Pieces, &about)?;
            let pieces = wire::read_pieces(&bytes)?;
            tracing::info!(%partition, after, host = %winner, "a copy gets the end of its log");
            lacked.push((partition, pieces));
        }
        if lacked.is_empty() {
            return Ok(());
        }
        let data = &self.shared.data;
        let settings = LogSettings {
            cluster: data.cluster.cluster,
            segment_bytes: options.log_segment_bytes.to_u32(),
            seed: random_bits(),
        };
        let _nobody_reads = self.shared.log.write().expect("no reader panics");
        let added = directory_log(data).add_pieces(settings, end, &lacked);
        added.map_err(|error| error.to_string())
    }

    /// Asks what the logs say of the partitions that have no copy here.
    fn ask_facts(&mut self) -> Result<Others, String> {
        let count = self.plan.winners.len();
        let (own, settled) = (self.plan.own.clone(), self.plan.settled.clone());
        let mut others = Others { own, facts: vec![Vec::new(); count], settled };
        for host in self.partners() {
            let theirs = |of: &u32| {
                let index = *of as usize;
                self.plan.winners[index] == host && !self.plan.own[index]
            };
            let asked: Vec<u32> = (0..count as u32).filter(theirs).collect();
            if asked.is_empty() || self.plan.is_new {
                continue;
            }
            let mut about = Vec::new();
            wire::put_partitions(&mut about, &asked);
            let bytes = self.ask(host, Kind::Facts, &about)?;
            for (partition, facts) in wire::read_facts(&bytes)? {
                if asked.contains(&partition) {
                    others.facts[partition as usize] = facts;
                }
            }
        }
        Ok(others)
    }

    /// This host has replayed its partitions without the given transactions. Gives all that some
    /// host has found, once it is known that they are the same everywhere, or that there are more.
    ///
    /// # Errors
    /// Another host cannot start.
    pub(crate) fn agree(
        &mut self,
        found: &BTreeSet<TransactionId>,
    ) -> Result<BTreeSet<TransactionId>, String> {
        self.shared.known().found = Some(found.clone());
        let partners = self.partners();
        loop {
            let (mut all, mut are_equal) = (found.clone(), true);
            for host in &partners {
                let has_finished = self.shared.known().finished.contains(host);
                if has_finished {
                    // It has seen that what it found is the same at all hosts.
                    continue;
                }
                let bytes = self.ask(*host, Kind::Found, &[])?;
                let theirs = wire::read_found(&bytes)?;
                are_equal &= theirs == *found;
                all.extend(theirs);
            }
            if are_equal || all.len() > found.len() {
                return Ok(all);
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// This host needs nothing more: waits until the others do not either, and gives the listener
    /// back.
    ///
    /// # Errors
    /// Another host cannot start.
    pub(crate) fn finish(mut self) -> Result<TcpListener, String> {
        let partners = self.partners();
        let mut told = BTreeSet::new();
        loop {
            for host in &partners {
                let answer = match told.contains(host) {
                    true => continue,
                    false => self.ask_once(*host, Kind::Finish, &[], ANSWER_TIMEOUT),
                };
                // A host that has heard from all goes on to its links.
                let has_gone_on = self.shared.known().finished.contains(host);
                match answer {
                    Ok(Answer::Given(_)) => drop(told.insert(*host)),
                    Err(Silent::Closes) if has_gone_on => drop(told.insert(*host)),
                    Ok(_) | Err(_) => {}
                }
            }
            let is_awaited = |host: &HostId| !self.shared.known().finished.contains(host);
            let awaited: Vec<HostId> = partners.iter().copied().filter(is_awaited).collect();
            if awaited.is_empty() && told.len() == partners.len() {
                break;
            }
            for host in awaited {
                // It replays.
                self.say(&format!("the start waits for host {host}, which is not ready yet"));
            }
            self.check_problem()?;
            std::thread::sleep(ASK_EVERY);
        }
        self.end_server().expect("it runs until now")
    }

    fn end_server(&mut self) -> Option<Result<TcpListener, String>> {
        let server = self.server.take()?;
        self.shared.is_over.store(true, Ordering::Release);
        let ended = server.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        Some(ended.map_err(|error| format!("the thread that answers other hosts: {error}")))
    }

    /// Tells the others that this host cannot start.
    pub(crate) fn give_up(&mut self, problem: &str) {
        for host in self.others() {
            // Those that are not there need not know.
            let _ = self.ask_once(host, Kind::GiveUp, problem.as_bytes(), CONNECT_TIMEOUT);
        }
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        let _ = self.end_server();
    }
}
