//! A host from start to stop: binds the ports, makes the threads and their mailboxes, and ends
//! them in order.

mod begin;
mod checks;
mod facts;
mod witness;

use crate::allocator;
use crate::catalog::{HostCatalog, NativeRegistry};
use crate::control::{Control, ControlParts};
use crate::inner_load::SiteLoad;
use crate::links::{ClusterMembership, Formed, SharedLinks};
use crate::log::{Data, LogStart, LogThread};
use crate::mailbox::{Bell, Inbox, Outbox, Own, mailboxes};
use crate::message::Envelope;
use crate::options::Options;
use crate::recovery::{Recovered, RecoverySummary};
use crate::scheduling;
pub use crate::shard::ReplicaDigest;
use crate::shard::{HostFacts, Shard, ShardParts};
use crate::ticker::Ticker;
use begin::{JoinStart, Replicas, bring_back_with_others, join_cluster, start_log};
use checks::checked;
use facts::host_facts;
use lockstep_host::placement::Placement;
use lockstep_plan::RuleSet;
use lockstep_types::{ThreadId, TransactionId};
use mio::net::TcpListener;
use mio::{Poll, Registry, Waker};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
pub use witness::{Witness, WitnessConfiguration};

/// While waiting for sites: how often to look whether one has ended by an error.
const LOOK_AT_THREADS: Duration = Duration::from_millis(50);
/// How long a host that leaves on purpose waits until the others go on without it.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at that.
const LEAVE_POLL: Duration = Duration::from_millis(1);
/// Connections that wait to be accepted.
const LISTEN_BACKLOG: i32 = 4096;
/// A site's stack: deep expressions run on it.
pub(crate) const SITE_STACK_BYTES: usize = 8 << 20;

/// How tests run hosts that nobody else does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestSettings {
    /// Which site has which partition: partition 0 is at this one, each further one at the next.
    pub first_partition_at: u32,
    /// Every message between threads goes through the byte form that it has between hosts
    /// ([`crate::codec`]).
    pub sends_bytes: bool,
}

/// What a host is started with.
#[derive(Clone)]
pub struct ServerConfiguration {
    /// Number of sites, each a thread with as many partitions as the option
    /// `partitions_per_site` says.
    pub sites: u32,
    /// What only tests change.
    pub for_tests: TestSettings,
    /// Address of the client port; port 0 takes a free one.
    pub client: SocketAddr,
    /// Address of the admin port.
    pub admin: SocketAddr,
    /// The limits.
    pub options: Options,
    /// What `FROM NATIVE` finds.
    pub natives: NativeRegistry,
    /// Cores to pin the sites to, one each; empty for none.
    pub pin_to_cores: Vec<usize>,
    /// Options for the JVM, after those of the host.
    pub java_options: Vec<String>,
    /// Where data is kept; without it, it lives in memory only.
    pub data: Option<Data>,
    /// The cluster that the host is of; without it, it is alone.
    pub cluster: Option<ClusterMembership>,
}

impl ServerConfiguration {
    /// Number of partitions of the cluster.
    ///
    /// # Errors
    /// Their copies cannot be spread over the hosts; the text says which values could.
    pub fn partition_count(&self) -> Result<u32, String> {
        match &self.cluster {
            Some(cluster) => cluster.terms.partition_count(),
            None => Ok(self.sites.saturating_mul(self.options.partitions_per_site.to_u32())),
        }
    }
}

/// A running host. Dropping it stops it.
pub struct Server {
    facts: Arc<HostFacts>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    log: Option<LogThread>,
    /// Keeps the directory locked, and the coarse clock going.
    _kept: (Option<Data>, Option<Ticker>),
    /// What was brought back from the directory.
    recovery: Option<RecoverySummary>,
    main_outbox: Outbox<Envelope>,
    stopped: bool,
}

impl Server {
    /// Starts a host; it serves when this returns.
    ///
    /// # Errors
    /// A port cannot be bound (the message names it), or the system is out of threads or files.
    pub fn start(configuration: ServerConfiguration) -> io::Result<Server> {
        Server::start_with_loads(configuration, Vec::new())
    }

    /// Starts a host whose sites make calls themselves: the first load is the first site's.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn start_with_loads(
        configuration: ServerConfiguration,
        loads: Vec<Box<dyn SiteLoad>>,
    ) -> io::Result<Server> {
        let configuration = checked(configuration)?;
        prepare_process(&configuration)?;
        let internal = listen_for_hosts(&configuration)?;
        let (client, admin) = (listen(configuration.client)?, listen(configuration.admin)?);
        let addresses = (client.local_addr()?, admin.local_addr()?);
        let facts = Arc::new(host_facts(&configuration, addresses.0, addresses.1)?);
        let (internal, raft, recovered) =
            bring_back_with_others(&configuration, &facts, internal).map_err(io::Error::other)?;
        let Recovered { state, last_multi, end, sequences, log_reach, summary } = recovered;
        let sites = configuration.sites as usize;
        // The sites, the control thread, and that of the links.
        let count = sites + 1 + usize::from(internal.is_some());
        let (mut wiring, main_outbox) = wire(&facts, count)?;
        let site_bells: Vec<_> = wiring[..sites].iter().map(|own| Arc::clone(&own.bell)).collect();
        let start = LogStart { end, sequences };
        let links_bell = internal.as_ref().map(|_| Arc::clone(&wiring[sites + 1].bell));
        let bells = (&site_bells[..], links_bell.as_ref());
        let (log, logs) = start_log(&configuration, (start, &raft), &facts, bells)?;
        // Nobody is served before all hosts are there. Threads begin with the placement of that
        // moment, and take the changes of it in order.
        let cluster = configuration.cluster.clone().zip(internal);
        let (links, Formed { placement, logs, joins }) = match cluster {
            None => (None, Formed { placement: facts.placement(), logs, joins: false }),
            Some(cluster) => {
                let (wiring, sites) = (wiring.pop(), site_registries(&wiring[..sites])?);
                let start = JoinStart { cluster, wiring, sites, raft: raft.start, logs };
                let (links, formed) = join_cluster(start, &facts)?;
                (Some(links), formed)
            }
        };
        let (links, shared) = links.unzip();
        let (joined, waits) = begin_joining(joins, &facts).unzip();
        let mut wiring = wiring.into_iter();
        let parts = SitesParts {
            placement,
            links: shared,
            replicas: Replicas::new(state.sites, logs),
            catalog: Arc::clone(&state.catalog),
            listeners: Some((client, admin)),
            last_multi,
            joins,
        };
        let sites = (&mut wiring, loads);
        let mut threads = start_sites(parts, &facts, sites, &configuration.pin_to_cores)?;
        let Wiring { poll, bell, outbox, inbox } = wiring.next().expect("one for control");
        let parts = ControlParts {
            poll,
            bell,
            outbox,
            inbox,
            facts: Arc::clone(&facts),
            catalog: state.catalog,
            natives: configuration.natives.clone(),
            site_bells,
            log_pruner: log.as_ref().map(LogThread::pruner),
            unsaved_bytes: summary.log_bytes,
            log_reach,
            joined,
        };
        threads.push(start_control(parts)?);
        threads.extend(links);
        let _kept = (configuration.data, Ticker::start(facts.options.slow_call_ms)?);
        let recovery = _kept.0.is_some().then_some(summary);
        Server { facts, threads, log, recovery, _kept, main_outbox, stopped: false }.joined(waits)
    }

    /// The host, once it takes calls; one that does not join the cluster stops its threads.
    fn joined(self, waits: Option<Receiver<Joined>>) -> io::Result<Server> {
        await_joined(waits, &self.facts.options).map(|()| self)
    }

    /// Where clients connect.
    pub fn client_address(&self) -> SocketAddr {
        self.facts.client_address
    }

    /// What was brought back from the host's directory; `None` where there is none.
    pub fn recovery(&self) -> Option<&RecoverySummary> {
        self.recovery.as_ref()
    }

    /// Stops the host as [`Server::stop`] does, and gives a hash of the data of each partition:
    /// equal where all rows are, with their slots.
    ///
    /// # Errors
    /// As for [`Server::stop`].
    pub fn stop_with_digests(self) -> io::Result<Vec<u64>> {
        let digests = self.stop_with_replica_digests()?;
        Ok(digests.into_iter().map(|digest| digest.content).collect())
    }

    /// The same, with the digest of what was done since this process began.
    ///
    /// # Errors
    /// As for [`Server::stop`].
    pub fn stop_with_replica_digests(mut self) -> io::Result<Vec<ReplicaDigest>> {
        let partitions = self.facts.partition_count as usize;
        let digests = self.facts.digests.get_or_init(|| {
            (0..partitions).map(|_| Mutex::new(ReplicaDigest::default())).collect()
        });
        assert_eq!(digests.len(), partitions, "each replica leaves one");
        self.stop_threads()?;
        let digests = self.facts.digests.get().into_iter().flatten();
        Ok(digests.map(|digest| *digest.lock().expect("no site panicked with it")).collect())
    }

    /// Where the other hosts of its cluster connect; `None` for a host that is alone.
    pub fn internal_address(&self) -> Option<SocketAddr> {
        self.facts.internal_address
    }

    /// Where administrators connect.
    pub fn admin_address(&self) -> SocketAddr {
        self.facts.admin_address
    }

    /// Switches planner rules off, and all others on, for statements that are planned from now
    /// on. Answers do not change; tests compare plans with it.
    pub fn disable_rules(&self, rules: RuleSet) {
        self.facts.disabled_rules.store(rules.bits(), Ordering::Release);
    }

    /// What to do when an administrator calls `@Shutdown`: the caller of this stops the host in
    /// its own time. Without it that call is refused. The first one given stays.
    pub fn on_shutdown(&self, action: impl Fn() + Send + Sync + 'static) {
        let _ = self.facts.on_shutdown.set(Box::new(action));
    }

    /// What to do when the other hosts have taken this one out of the cluster, and do without it:
    /// the caller of this stops the host in its own time, and starts it again to join them. Without
    /// it the host stays as it is, and serves nothing. The first one given stays.
    pub fn on_put_out(&self, action: impl Fn() + Send + Sync + 'static) {
        let _ = self.facts.on_put_out.set(Box::new(action));
    }

    /// What `@UpdateLogging` does: takes a filter for what is logged. Without it that call is
    /// refused. The first one given stays.
    pub fn on_log_filter(
        &self,
        change: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let _ = self.facts.on_log_filter.set(Box::new(change));
    }

    /// Stops the host: no more calls are taken; those in progress are finished and answered, for as
    /// long as the option `stop_timeout_ms` allows; then the connections close.
    ///
    /// # Errors
    /// A thread had ended with an error before.
    pub fn stop(mut self) -> io::Result<()> {
        self.stop_threads()
    }

    /// Waits until the calls in progress are answered, but not for long.
    fn drain(&mut self) {
        let sites = usize::from(self.facts.placement().site_count());
        let patience = self.facts.options.stop_timeout_ms.duration();
        let deadline = Instant::now() + patience;
        self.facts.drain.begin(sites);
        for thread in self.facts.placement().sites().take(self.threads.len()) {
            self.main_outbox.send(thread, Envelope::Drain);
        }
        self.main_outbox.flush();
        // What waits for other hosts does not end where they are not heard, or go on without this
        // one.
        while !self.facts.intake.is_cut_off() && self.facts.drain.is_busy() && self.runs_on() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::warn!("the host stops with calls in progress (option stop_timeout_ms)");
                break;
            }
            // A site that ended by an error does not wake this thread.
            std::thread::park_timeout(left.min(LOOK_AT_THREADS));
        }
        self.leave();
    }

    /// Waits until the other hosts go on without this one, if it leaves on purpose, but not for
    /// long: else they find out.
    fn leave(&self) {
        let departure = &self.facts.departure;
        if !departure.begin() {
            return;
        }
        let deadline = Instant::now() + LEAVE_PATIENCE;
        while !departure.is_over() && self.runs_on() {
            if Instant::now() >= deadline {
                tracing::warn!("the other hosts do not confirm that they go on without this one");
                return;
            }
            std::thread::park_timeout(LEAVE_POLL);
        }
    }

    /// Whether no thread has ended by an error.
    fn runs_on(&self) -> bool {
        let log_runs = self.log.as_ref().is_none_or(|log| !log.is_finished());
        log_runs && self.threads.iter().all(|thread| !thread.is_finished())
    }

    fn stop_threads(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        self.drain();
        if let Some(log) = &self.log {
            log.hurry();
        }
        let host = self.facts.host;
        for thread in (0..).map(|number| ThreadId::at(host, number)).take(self.threads.len()) {
            self.main_outbox.send(thread, Envelope::Stop);
        }
        self.main_outbox.flush();
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(_) => result = Err(io::Error::other("a thread of the host panicked")),
            }
        }
        // After the sites, so that everything that they logged is written and durable.
        if let Some(mut log) = self.log.take() {
            let patience = self.facts.options.stop_timeout_ms.duration();
            result = result.and(log.stop(patience));
        }
        match self.facts.lost.get() {
            Some(problem) => result.and(Err(io::Error::other(problem.clone()))),
            None => result,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop_threads() {
            tracing::error!(%error, "the host did not stop cleanly");
        }
    }
}

/// Of a host that joins a running cluster: it takes no calls before it has the catalog of the
/// cluster, when it says so by this channel.
fn begin_joining(joins: bool, facts: &HostFacts) -> Option<(SyncSender<Joined>, Receiver<Joined>)> {
    joins.then(|| {
        facts.intake.set_cut_off(true);
        sync_channel(1)
    })
}

/// Waits until a host that joins a cluster takes calls.
fn await_joined(waits: Option<Receiver<Joined>>, options: &Options) -> io::Result<()> {
    let Some(waits) = waits else { return Ok(()) };
    let limit = options.cluster_start_timeout_ms.map_or(JOIN_LIMIT, |limit| limit.duration());
    let joined = waits.recv_timeout(limit).unwrap_or_else(|_| {
        let ms = limit.as_millis();
        Err(format!(
            "the catalog of the cluster did not come in {ms} ms (option cluster_start_timeout_ms)"
        ))
    });
    joined.map_err(io::Error::other)
}

/// What a thread is woken by and exchanges messages with.
struct Wiring {
    poll: Poll,
    bell: Arc<Bell>,
    outbox: Outbox<Envelope>,
    inbox: Inbox<Envelope>,
}

/// The polls of sites, as the links add sockets to them.
fn site_registries(sites: &[Wiring]) -> io::Result<Vec<Registry>> {
    sites.iter().map(|site| site.poll.registry().try_clone()).collect()
}

/// Connects N threads with each other, and the caller, who only sends, with them.
fn wire(facts: &HostFacts, threads: usize) -> io::Result<(Vec<Wiring>, Outbox<Envelope>)> {
    let polls = (0..=threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
    let bell = |poll: &Poll| Waker::new(poll.registry(), Shard::waker_token()).map(Bell::new);
    let bells = polls.iter().map(bell).collect::<io::Result<Vec<_>>>()?;
    let own = Own { host: facts.host, links: facts.placement().links_thread() };
    let mut boxes = mailboxes(own, &bells, facts.options.mailbox_messages.to_usize());
    let (main_outbox, _) = boxes.pop().expect("one for the caller");
    let wiring = |((poll, bell), (outbox, inbox))| Wiring { poll, bell, outbox, inbox };
    Ok((polls.into_iter().zip(bells).zip(boxes).map(wiring).collect(), main_outbox))
}

/// How long a host that joins waits for the catalog, unless an option says it.
const JOIN_LIMIT: Duration = Duration::from_secs(600);

/// Whether a host has joined its cluster; else why it cannot.
type Joined = Result<(), String>;
type SiteThread = JoinHandle<io::Result<()>>;
/// Tells whether a site has got the memory that it takes ahead.
type MemoryTaken = Receiver<io::Result<()>>;

/// What the threads of all sites begin with.
struct SitesParts {
    placement: Arc<Placement>,
    links: Option<Arc<SharedLinks>>,
    replicas: Replicas,
    catalog: Arc<HostCatalog>,
    listeners: Option<(TcpListener, TcpListener)>,
    last_multi: TransactionId,
    /// The host gets the catalog from the others.
    joins: bool,
}

/// Starts the threads of all sites, and waits until they have their memory.
fn start_sites(
    mut parts: SitesParts,
    facts: &Arc<HostFacts>,
    (wiring, loads): (&mut impl Iterator<Item = Wiring>, Vec<Box<dyn SiteLoad>>),
    cores: &[usize],
) -> io::Result<Vec<SiteThread>> {
    let (mut threads, mut memory, mut loads) = (Vec::new(), Vec::new(), loads.into_iter());
    let placement = Arc::clone(&parts.placement);
    parts.replicas.check(&placement)?;
    for site in placement.sites() {
        let Wiring { poll, bell, outbox, inbox } = wiring.next().expect("one for each site");
        let of_site = ShardParts {
            thread: site,
            poll,
            bell,
            outbox,
            inbox,
            facts: Arc::clone(facts),
            placement: Arc::clone(&placement),
            catalog: Arc::clone(&parts.catalog),
            listeners: parts.listeners.take(),
            inner_load: loads.next(),
            links: parts.links.clone(),
            replicas: parts.replicas.take(&placement, site),
            last_multi: parts.last_multi,
            joins: parts.joins,
        };
        let (thread, taken) = start_site(of_site, cores.get(site.index()).copied())?;
        threads.push(thread);
        memory.push(taken);
    }
    await_memory(&memory)?;
    Ok(threads)
}

/// Starts a site's thread, which tells when it has the memory that it is to take ahead.
fn start_site(parts: ShardParts, core: Option<usize>) -> io::Result<(SiteThread, MemoryTaken)> {
    let name = format!("site {}", parts.thread);
    let facts = Arc::clone(&parts.facts);
    let builder = std::thread::Builder::new().name(name.clone()).stack_size(SITE_STACK_BYTES);
    let (has_memory, waits) = channel();
    let thread = builder.spawn(move || {
        if let Some(core) = core {
            scheduling::pin_to_core(core);
        }
        scheduling::give_way_to_short_work();
        let sites = u64::from(facts.placement().site_count());
        let bytes = facts.options.preallocate_bytes.get() / sites;
        let taken = allocator::take_ahead(bytes);
        let is_taken = taken.is_ok();
        // After what takes seconds: others may want the core for that time.
        scheduling::run_in_real_time(facts.options.realtime_priority);
        let _ = has_memory.send(taken);
        match is_taken {
            true => end_host_after(&name, &facts, || Shard::new(parts)?.run()),
            false => Ok(()),
        }
    })?;
    Ok((thread, waits))
}

/// Waits until all sites have their memory, which they take at the same time.
fn await_memory(memory: &[MemoryTaken]) -> io::Result<()> {
    let ended = |_| io::Error::other("the thread of a site ended at once");
    memory.iter().try_for_each(|taken| taken.recv().map_err(ended)?)
}

/// Runs a thread of the host. If it ends in any way but in order, the host is asked to stop: it
/// would answer only some of its calls.
fn end_host_after(
    name: &str,
    facts: &HostFacts,
    body: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    struct Ending<'h>(&'h str, &'h HostFacts);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            let Ending(name, facts) = self;
            tracing::error!("the thread '{name}' of the host has ended; the host stops");
            if let Some(stop) = facts.on_shutdown.get() {
                stop();
            }
        }
    }
    let ending = Ending(name, facts);
    body()?;
    std::mem::forget(ending);
    Ok(())
}

/// Listens for the other hosts of the cluster, if there are any.
fn listen_for_hosts(configuration: &ServerConfiguration) -> io::Result<Option<TcpListener>> {
    let Some(membership) = &configuration.cluster else { return Ok(None) };
    membership.check(configuration).map_err(io::Error::other)?;
    listen(membership.own_address()).map(Some)
}

fn start_control(parts: ControlParts) -> io::Result<JoinHandle<io::Result<()>>> {
    let builder = std::thread::Builder::new().name("control".to_string());
    let facts = Arc::clone(&parts.facts);
    builder
        .stack_size(SITE_STACK_BYTES)
        .spawn(move || end_host_after("control", &facts, || Control::new(parts).run()))
}

/// Sets what the threads of a host have in common, before there are any.
fn prepare_process(configuration: &ServerConfiguration) -> io::Result<()> {
    raise_file_limit();
    allocator::prepare_allocator(&configuration.options, configuration.sites)
}

/// Raises the number of files that this process may open to what it is allowed at most: each
/// connection is one, and shells start with far fewer than `max_connections`.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a pointer to a whole structure on this stack frame and keep it for
    // the call only.
    let raised = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0
        }
    };
    if !raised {
        tracing::warn!("the limit of open files could not be raised; few connections may fit");
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let bind = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(LISTEN_BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    bind().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
    })
}
