//! Calls at a partition, from their arrival to their answer: who runs now, who runs before what is
//! undecided is decided, who waits, and who has to go elsewhere.
//!
//! What a call is, how it runs and what becomes of its answer is the host's: a [`PartitionHost`].

use crate::HostTime;
use lockstep_site::{Faults, Numbered, PartitionEffect, Ready, Site};
use lockstep_txn::{Admission, EntryHeader};

/// The surroundings of a partition's calls.
pub trait PartitionHost: HostTime {
    /// A call that was routed to the partition.
    type Call;
    /// The answer of a call that ran before something undecided was decided.
    type Answer;
    /// A catalog, as schema changes bring it.
    type Catalog: Clone;

    /// The partition.
    fn site(&mut self) -> &mut Site<Self::Call, Self::Answer, Self::Catalog>;

    /// What is broken in the host: for tests of the checks. Nothing is, in a server.
    #[inline]
    fn faults(&self) -> Faults {
        Faults::default()
    }

    /// Takes a call away that a schema change overtook, so that it must not run here as it is.
    fn redirect(&mut self, call: Self::Call) -> Option<Self::Call>;

    /// It is the turn of a call that waited, or that runs again.
    fn note_turn(&mut self, _header: &EntryHeader, _call: &Self::Call) {}

    /// Sends a call on whose row a global index finds elsewhere; gives back what runs here.
    fn lead(&mut self, header: &EntryHeader, call: Self::Call) -> Option<Self::Call>;

    /// Whether a call cannot be undone and run again.
    fn runs_once(&self, call: &Self::Call) -> bool;

    /// Runs a call and answers it.
    fn run(&mut self, header: &EntryHeader, call: Self::Call);

    /// Runs a call whose answer is kept; gives it with its size in bytes.
    fn run_speculatively(
        &mut self,
        header: &EntryHeader,
        call: &Self::Call,
    ) -> (Self::Answer, usize);

    /// Answers a call that finds too many waiting.
    fn refuse_held(&mut self, call: Self::Call);

    /// Does what the partition asks for.
    fn partition_effect(
        &mut self,
        effect: PartitionEffect<Self::Call, Self::Answer, Self::Catalog>,
    );
}

/// A call arrives at its partition.
#[inline]
pub fn take_call<H: PartitionHost>(host: &mut H, call: H::Call) {
    let Some(call) = current(host, call) else { return };
    let now_us = host.now_us();
    match host.site().admit(now_us) {
        Admission::Run(header) => run(host, &header, call),
        Admission::Speculate(header) => run_before_decision(host, header, call),
        Admission::Hold => hold(host, call),
    }
}

/// The call, unless a schema change overtook it.
#[inline]
fn current<H: PartitionHost>(host: &mut H, call: H::Call) -> Option<H::Call> {
    if host.faults().keep_old_plans() { Some(call) } else { host.redirect(call) }
}

#[inline]
fn run<H: PartitionHost>(host: &mut H, header: &EntryHeader, call: H::Call) {
    if let Some(call) = host.lead(header, call) {
        host.run(header, call);
    }
}

fn run_before_decision<H: PartitionHost>(host: &mut H, header: EntryHeader, call: H::Call) {
    if let Some(call) = host.lead(&header, call) {
        speculate(host, header, call);
    }
}

/// A call runs after a transaction whose outcome is not known yet: its answer is kept. One that
/// cannot be undone waits.
pub fn speculate<H: PartitionHost>(host: &mut H, header: EntryHeader, call: H::Call) {
    if host.runs_once(&call) {
        if let Err(call) = host.site().hold_until_decided(call) {
            host.refuse_held(call);
        }
        return;
    }
    let (answer, bytes) = host.run_speculatively(&header, &call);
    host.site().keep(call, header, answer, bytes);
}

/// A call waits until its partition goes on, if there is room.
pub fn hold<H: PartitionHost>(host: &mut H, call: H::Call) {
    if host.faults().lose_held_calls() {
        return;
    }
    if let Err(call) = host.site().hold(call) {
        host.refuse_held(call);
    }
}

/// The coordinator sent something to the partition: it does that, and the calls run that waited
/// for it. `effects` is an empty list, kept for its memory.
pub fn take_message<H: PartitionHost>(
    host: &mut H,
    Numbered { number, epoch, message, .. }: Numbered<H::Catalog>,
    effects: &mut Vec<PartitionEffect<H::Call, H::Answer, H::Catalog>>,
) {
    let now_us = host.now_us();
    host.site().receive((epoch, number), message, now_us, effects);
    carry_out_all(host, effects);
    run_all_waiting(host, effects);
}

/// Another coordinator is to take over, in this epoch: the partition reports to it, and calls run
/// that waited for the one before. False if it has that coordinator, or a later one.
pub fn fence<H: PartitionHost>(
    host: &mut H,
    epoch: u64,
    effects: &mut Vec<PartitionEffect<H::Call, H::Answer, H::Catalog>>,
) -> bool {
    let is_fenced = host.site().fence(epoch, effects);
    carry_out_all(host, effects);
    if is_fenced {
        run_all_waiting(host, effects);
    }
    is_fenced
}

/// Runs what waited and can run now.
fn run_all_waiting<H: PartitionHost>(
    host: &mut H,
    effects: &mut Vec<PartitionEffect<H::Call, H::Answer, H::Catalog>>,
) {
    loop {
        let now_us = host.now_us();
        let Some(ready) = host.site().next(now_us, effects) else { break };
        carry_out_all(host, effects);
        run_waiting(host, ready);
    }
    carry_out_all(host, effects);
}

#[inline(never)]
fn carry_out_all<H: PartitionHost>(
    host: &mut H,
    effects: &mut Vec<PartitionEffect<H::Call, H::Answer, H::Catalog>>,
) {
    effects.drain(..).for_each(|effect| host.partition_effect(effect));
}

/// It is the turn of a call that waited.
fn run_waiting<H: PartitionHost>(host: &mut H, ready: Ready<H::Call>) {
    let (call, header, speculates) = match ready {
        Ready::Run(call, header) => (call, header, false),
        Ready::Speculate(call, header) => (call, header, true),
    };
    let Some(call) = current(host, call) else { return };
    host.note_turn(&header, &call);
    match speculates {
        true => run_before_decision(host, header, call),
        false => run(host, &header, call),
    }
}
