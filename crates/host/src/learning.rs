//! What becomes of copies that are loaded, see [`crate::loading`]: what their leader decides
//! ([`LoadingLeader`]), and how a copy goes from one attempt to the next ([`LearningCopy`]).

use crate::follower::codec::CopyMessage;
use crate::follower::{Follower, FollowerLimits};
use crate::gate::SafePosition;
use crate::leading::Leading;
use crate::loading::{
    Attempt, CopyLoads, LoadPart, LoadProgress, Loading, LoadingCopy, NumberedPart,
};
use crate::placement::Placement;
use lockstep_base::elapsed::Elapsed;
use lockstep_cluster::{Command, Copy, Epoch, Incarnation};
use lockstep_plan::Catalog;
use lockstep_plan_ir::StorageChange;
use lockstep_site::{SchemaTask, Site};
use lockstep_txn::EntryHeader;
use lockstep_types::{HostId, PartitionId, ThreadId, TransactionId};
use std::sync::Arc;

/// How long a copy waits for the first part before it repeats its ask.
const ASK_EVERY_US: u64 = 2_000_000;

/// A leader, as far as copies are concerned that are loaded from it.
pub struct LoadingLeader<'l, H, A, C> {
    /// The copies.
    pub loads: &'l mut CopyLoads,
    /// Its data.
    pub site: &'l mut Site<H, A, C>,
    /// Its stream; none before it leads.
    pub leading: Option<&'l mut Leading>,
    /// Who must have what is answered.
    pub copies: &'l mut SafePosition,
    /// It has a command log: copies in sync have to survive a stop of all hosts.
    pub is_logged: bool,
}

/// What a leader does about a copy that is not in sync.
#[derive(Debug, PartialEq, Eq)]
pub enum LoadTurn {
    /// The control plane is asked for a change.
    Propose(Command),
    /// The copy lacks too much, and begins again.
    TooSlow(HostId),
}

impl<H, A, C: Clone> LoadingLeader<'_, H, A, C> {
    /// A copy without data asks, or repeats what it has asked. True if answers have waited for it
    /// that may be safe now.
    pub fn ask(&mut self, host: HostId, ask: Attempt) -> bool {
        if self.loads.has_ask(host, ask) {
            return false;
        }
        let counted = self.end(host);
        self.loads.ask(host, ask, self.site);
        assert!(self.loads.is_any(), "a copy that asks waits");
        counted
    }

    /// A copy is not loaded any more. True if answers have waited for it that may be safe now.
    pub fn end(&mut self, host: HostId) -> bool {
        self.loads.give_up(host, self.site);
        let leading = self.leading.as_mut();
        let counted = leading.is_some_and(|leading| leading.stream.drop_learner(host));
        if counted {
            self.copies.drop_copy(host);
        }
        assert!(self.loads.attempt_of(host).is_none(), "the copy has no attempt");
        assert!(!self.copies.hosts().any(|other| other == host) || !counted, "it does not count");
        counted
    }

    /// A copy begins again: what is to be said to it, and whether answers have waited for it that
    /// may be safe now.
    pub fn begin_again(&mut self, host: HostId) -> (Option<CopyMessage>, bool) {
        let attempt = self.loads.attempt_of(host);
        let counted = self.end(host);
        assert!(self.loads.attempt_of(host).is_none(), "another attempt begins");
        (attempt.map(CopyMessage::LoadAgain), counted)
    }

    /// A copy has taken parts of what it is loaded from. True if it has all, and is to get what
    /// was logged since.
    pub fn note_taken(&mut self, host: HostId, taken: (Attempt, u32)) -> bool {
        let Some(leading) = &mut self.leading else { return false };
        let has_all = self.loads.note_taken(host, taken);
        assert!(!has_all || self.loads.attempt_of(host) == Some(taken.0), "it is of that attempt");
        if has_all {
            leading.stream.note_loaded(host);
        }
        has_all
    }

    /// A copy is durable at its host with what it has loaded in an attempt.
    pub fn note_kept(&mut self, host: HostId, attempt: Attempt) {
        self.loads.note_kept(host, attempt);
        assert!(!self.loads.is_kept(host) || self.loads.attempt_of(host) == Some(attempt));
    }

    /// A copy has sent a receipt, or time has passed: copies that lack little count, and those
    /// that lack nothing that was answered are to be in sync.
    pub fn attend(
        &mut self,
        placement: &Placement,
        unsent_bytes_max: usize,
        now_us: i64,
    ) -> Vec<LoadTurn> {
        let Some(leading) = &mut self.leading else { return Vec::new() };
        let (stream, mut turns) = (&mut leading.stream, Vec::new());
        for host in self.loads.hosts().collect::<Vec<_>>() {
            let may_count = !self.is_logged || self.loads.is_kept(host);
            if let Some(position) = may_count.then(|| stream.count_learner(host)).flatten() {
                self.copies.add_copy(host, position.max(self.copies.safe()));
            }
            if let Some(incarnation) = stream.is_in_sync_due(host) {
                let partition = self.site.partition();
                let command = in_sync(partition, (host, incarnation), placement);
                if let Some(command) = command.filter(|_| self.loads.is_proposal_due(host, now_us))
                {
                    turns.push(LoadTurn::Propose(command));
                }
            } else if stream.learner_bytes(host) > unsent_bytes_max && !stream.counts(host) {
                turns.push(LoadTurn::TooSlow(host));
            }
        }
        assert!(turns.len() <= self.loads.hosts().count(), "one turn for each copy");
        turns
    }

    /// A copy that counts may be taken in sync at any moment: the command with which it begins
    /// again in another epoch, if it cannot go on. None for one that only begins again.
    pub fn failed(&self, host: HostId) -> Option<Command> {
        let stream = self.leading.as_ref().map(|leading| &leading.stream)?;
        let (partition, epoch) = (self.site.partition(), Epoch(stream.epoch().into()));
        stream.counts(host).then_some(Command::OutOfSync { partition, host, epoch })
    }

    /// Another placement is in force: copies are loaded that it names, by leaders that stay. True
    /// if answers have waited for others that may be safe now.
    pub fn follow_placement(&mut self, before: &Placement, placement: &Placement) -> bool {
        if !self.loads.is_any() {
            return false;
        }
        let partition = self.site.partition();
        let named = placement.learning_of(partition);
        let is_named = |host: HostId| named.iter().any(|thread| thread.host() == host);
        // What another run of its process has asked for, or has, is void.
        let is_lost = |host| !is_named(host) || placement.is_back_since(before, host);
        let epoch = placement.epoch_of(partition);
        // Hosts do not hear of placements at the same time: one that asks in a later epoch of the
        // partition is named by the placement that comes with it.
        let is_void = |host, ask: Attempt| match ask.epoch > epoch {
            true => placement.is_back_since(before, host),
            false => is_lost(host),
        };
        self.loads.forget_asks(is_void);
        if self.leading.as_ref().is_none_or(|it| it.stream.epoch() != epoch) {
            // The stream forgets them when it opens again.
            self.loads.follow_epoch(epoch, self.site);
            return false;
        }
        let gone: Vec<HostId> = self.loads.hosts().filter(|host| is_lost(*host)).collect();
        let counted = gone.into_iter().fold(false, |counted, host| self.end(host) | counted);
        assert!(self.loads.hosts().all(is_named), "copies are loaded that the placement names");
        counted
    }

    /// The host of a copy whose snapshot has ended for another one to begin: it begins again.
    pub fn overtaken(&self) -> Option<HostId> {
        self.loads.overtaken(self.site)
    }

    /// Whether everything that was logged is to be put into the stream now, so that a copy can
    /// begin.
    pub fn is_about_to_begin(&self) -> bool {
        self.loads.can_begin()
    }

    /// The next part for a copy, if there is one now.
    pub fn step(&mut self, placement: &Placement) -> Option<(HostId, CopyMessage)> {
        let named = placement.learning_of(self.site.partition());
        let may_load = |host: HostId| named.iter().any(|thread| thread.host() == host);
        let stream = &mut self.leading.as_mut()?.stream;
        let (host, part) = self.loads.step(self.site, stream, may_load)?;
        assert_eq!(self.loads.attempt_of(host), Some(part.attempt), "it is of the present attempt");
        Some((host, CopyMessage::Load(part)))
    }
}

/// The command that takes a copy in sync, if it is being loaded.
fn in_sync(
    partition: PartitionId,
    (host, incarnation): (HostId, u64),
    placement: &Placement,
) -> Option<Command> {
    let mut learned = placement.learning_of(partition).iter();
    let thread = learned.find(|thread| thread.host() == host)?;
    let epoch = Epoch(placement.epoch_of(partition).into());
    let copy = Copy { host, thread: ThreadId(thread.index() as u16) };
    let incarnation = Incarnation(incarnation);
    Some(Command::InSync { partition, copy, incarnation, epoch })
}

/// A copy that is being loaded, from one attempt to the next.
pub struct LearningCopy<H, A, C> {
    copy: Option<LoadingCopy<H, A, C>>,
    /// The catalog that was in force at its empty site, and its version.
    catalog: Option<(C, u64)>,
    /// The present attempt, or the last one.
    attempt: Option<Attempt>,
    /// The next attempt waits for a change of the catalog.
    waits: bool,
    /// A snapshot of its host has what was loaded in the present attempt, if it comes to count.
    is_saved: bool,
    /// When [`LearningCopy::repeated_ask`] first saw the attempt, or has repeated its ask.
    asked_us: Option<i64>,
}

/// What a part has brought.
pub enum Learned<H, A, C> {
    /// It is of another attempt.
    Nothing,
    /// More is to come; this is to be said to the leader.
    More(CopyMessage, LoadProgress),
    /// All data are here, with the catalog in force at them, and this is to be said to the leader.
    Loaded(Box<Follower<H, A, C>>, C, CopyMessage, LoadProgress),
    /// The leader, or this host, goes by another version of the catalog for a moment: the copy
    /// begins again after that ([`LearningCopy::is_to_look_again`]).
    NotYet(String),
    /// The copy begins again: why.
    Again(String),
}

impl<H, A, C> Default for LearningCopy<H, A, C> {
    fn default() -> LearningCopy<H, A, C> {
        LearningCopy {
            copy: None,
            catalog: None,
            attempt: None,
            waits: false,
            is_saved: false,
            asked_us: None,
        }
    }
}

impl<H, A, C: Clone> LearningCopy<H, A, C> {
    /// Whether its data are on their way, or have not been asked for.
    pub fn is_loading(&self) -> bool {
        !self.has_asked() || self.copy.is_some()
    }

    /// Whether it has asked for its data.
    pub fn has_asked(&self) -> bool {
        self.attempt.is_some()
    }

    /// From time to time: whether it begins again now, after another version of the catalog was in
    /// its way.
    pub fn is_to_look_again(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// From time to time: what is to be said to the leader again, because nothing has come of the
    /// present attempt for long. The leader may load others first, and then knows of it.
    pub fn repeated_ask(&mut self, now_us: i64) -> Option<CopyMessage> {
        let copy = self.copy.as_ref().filter(|copy| copy.taken() == 0)?;
        let asked_us = *self.asked_us.get_or_insert(now_us);
        if Elapsed::between_us(asked_us, now_us).us() < ASK_EVERY_US {
            return None;
        }
        self.asked_us = Some(now_us);
        assert_eq!(self.attempt, Some(copy.attempt()), "the present attempt is repeated");
        Some(CopyMessage::AskLoad(copy.attempt()))
    }

    /// What it is loaded from has ended, unless its last attempt is another one. True if it is to
    /// ask, as soon as its host may: that has the catalog of the cluster.
    pub fn ends(&mut self, attempt: Option<Attempt>) -> bool {
        if attempt.is_some() && attempt != self.attempt {
            return false;
        }
        (self.copy, self.is_saved) = (None, false);
        assert!(self.attempt.is_none_or(|it| it.number > 0), "attempts have numbers from 1");
        true
    }

    /// A snapshot of its host has begun at this copy.
    pub fn note_saved(&mut self) {
        self.is_saved |= self.has_asked() && !self.is_loading();
        assert!(!self.is_saved || self.copy.is_none(), "what is saved was loaded");
    }

    /// A snapshot of its host counts: what is to be said to the leader, if this copy is in it as it
    /// was loaded in the present attempt.
    pub fn kept(&self) -> Option<CopyMessage> {
        self.attempt.filter(|_| self.is_saved).map(CopyMessage::Kept)
    }

    /// Begins an attempt in an epoch with an empty site at which a catalog of a version is in force
    /// ([`empty_site`]): what is to be said to the leader.
    pub fn begin(
        &mut self,
        (site, catalog): (Site<H, A, C>, (C, u64)),
        incarnation: u64,
        epoch: u32,
    ) -> CopyMessage {
        assert!(site.is_idle() && site.log_sequence() == 0, "a copy begins without data");
        let number = self.attempt.map_or(0, |before| before.number) + 1;
        let attempt = Attempt { incarnation, epoch, number };
        self.attempt = Some(attempt);
        (self.waits, self.is_saved, self.asked_us) = (false, false, None);
        (self.copy, self.catalog) = (Some(LoadingCopy::new(site, attempt)), Some(catalog));
        assert!(self.is_loading() && self.has_asked(), "its data are on their way");
        CopyMessage::AskLoad(attempt)
    }

    /// Takes a part.
    pub fn take(&mut self, part: NumberedPart, limits: FollowerLimits) -> Learned<H, A, C> {
        let NumberedPart { attempt, number, part } = part;
        let Some(copy) = self.copy.take_if(|copy| copy.attempt() == attempt) else {
            return Learned::Nothing;
        };
        let (catalog, version) = self.catalog.clone().expect("an attempt begins with a catalog");
        if let LoadPart::Head(head) = &part {
            let theirs = head.known.catalog_version;
            if theirs != version {
                self.waits = true;
                return Learned::NotYet(format!(
                    "its leader has version {theirs} of the catalog, and this host version \
                     {version}"
                ));
            }
        }
        let progress = copy.progress();
        assert_eq!(self.attempt, Some(attempt), "parts of the present attempt are taken");
        assert!(self.copy.is_none(), "the copy is given back when more is to come");
        let taken = CopyMessage::Loaded(attempt, number);
        match copy.take(number, part, limits) {
            Ok(Loading::More(copy)) => {
                let progress = copy.progress();
                self.copy = Some(*copy);
                Learned::More(taken, progress)
            }
            Ok(Loading::Loaded(follower)) => Learned::Loaded(follower, catalog, taken, progress),
            Err(problem) => Learned::Again(problem),
        }
    }
}

/// Brings the catalog of the cluster in force at an empty site of a copy that is to be loaded, at a
/// time.
///
/// # Errors
/// The text for the user.
pub fn empty_site<H, A, C: Clone>(
    mut site: Site<H, A, C>,
    plan: &Catalog,
    (catalog, catalog_version): (C, u64),
    now_us: i64,
) -> Result<Site<H, A, C>, String> {
    assert_eq!(site.log_sequence(), 0, "the site is empty");
    site.begin_replay();
    let mut tables: Vec<_> = plan.tables.values().collect();
    tables.sort_by_key(|table| table.definition.id);
    let create = |table| StorageChange::Create(Arc::clone(table));
    let task = SchemaTask {
        changes: tables.into_iter().map(|table| create(&table.definition)).collect(),
        swap: None,
        snapshot: None,
        catalog_version,
        catalog,
        source: Arc::from(&[][..]),
        advice: None,
    };
    let transaction = TransactionId::default();
    let header = EntryHeader { transaction, timestamp_us: now_us, repeated: true };
    let changed = site.replay_change(&header, &task, &[]);
    changed.map_err(|failure| failure.message).map(|()| site)
}
