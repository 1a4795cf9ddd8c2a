//! `@SetKFactor`: another K while the cluster runs. The control plane decides; a call is answered
//! when it has, and copies that are to be loaded come in sync after that.

use super::Control;
use super::moves::number;
use crate::clock;
use crate::message::{Envelope, Origin};
use lockstep_cluster::{ClusterState, Command, KChange};
use lockstep_host::schema::Handled;
use lockstep_types::{Datum, Failure, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at a change that was proposed.
const LOOK_MS: u64 = 20;
/// Between two proposals of the same change: one may be lost, or be of an epoch that is over.
const PROPOSE_AGAIN_US: i64 = 200_000;
/// How long a call waits.
const PATIENCE_US: i64 = 5_000_000;
/// How long before the end of a call nothing is proposed any more.
const IN_FLIGHT_US: i64 = 1_000_000;

/// The call that waits for another K.
pub(super) struct KChangeCall {
    origin: Origin,
    k: u8,
    /// What it does to the copies, by the state of which it was proposed last.
    change: KChange,
    propose_us: i64,
    until_us: i64,
}

impl KChangeCall {
    /// Until something is due.
    pub(super) fn time_left(&self) -> Duration {
        Duration::from_millis(LOOK_MS)
    }
}

impl Control {
    /// `@SetKFactor`.
    pub(super) fn set_k(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let given = number(invocation, 0)?;
        let k = u8::try_from(given).map_err(|_| {
            Failure::graceful(format!("K is 0 to {}, not {given}", lockstep_cluster::K_MAX))
        })?;
        if let Some(other) = &self.k_change {
            let text = format!("K is being changed to {} by another call: retry later", other.k);
            return Err(Failure::graceful(text));
        }
        let state = self.state_of_cluster()?;
        let change = plan(&state, k)?;
        let now_us = clock::now_us();
        let (propose_us, until_us) = (now_us, now_us + PATIENCE_US);
        self.k_change = Some(KChangeCall { origin, k, change, propose_us, until_us });
        self.attend_to_k();
        Ok(Handled::Pending)
    }

    fn state_of_cluster(&self) -> Result<Arc<ClusterState>, Failure> {
        let state = self.facts.cluster_state.lock().expect("no thread panicked with it");
        state.as_ref().map(Arc::clone).ok_or_else(|| {
            Failure::graceful("This host is alone: K is for clusters of several hosts (--peers)")
        })
    }

    /// Proposes the change that a call waits for, and answers it when that has taken place.
    pub(super) fn attend_to_k(&mut self) {
        let Some(mut call) = self.k_change.take() else { return };
        let Ok(state) = self.state_of_cluster() else { return };
        let now_us = clock::now_us();
        if state.shape.k == call.k {
            tracing::warn!(k = call.k, "another K is in force");
            return self.answer_k(&call);
        }
        let planned = plan(&state, call.k).and_then(|change| match now_us < call.until_us {
            true => Ok(change),
            false => Err(Failure::graceful(format!(
                "K is still {}: the hosts did not agree on another one in {} ms. Look at it (admin \
                 cluster) before the call is repeated",
                state.shape.k,
                PATIENCE_US / 1_000
            ))),
        });
        call.change = match planned {
            Ok(change) => change,
            Err(failure) => return self.answer_failure(call.origin, &failure),
        };
        if now_us >= call.propose_us && now_us < call.until_us - IN_FLIGHT_US {
            call.propose_us = now_us + PROPOSE_AGAIN_US;
            let (k, epoch) = (call.k, state.epoch);
            let links = self.facts.placement().links_thread();
            self.outbox.send(links, Envelope::Propose(Box::new(Command::ChangeK { k, epoch })));
        }
        self.k_change = Some(call);
    }

    fn answer_k(&mut self, call: &KChangeCall) {
        let KChangeCall { origin, k, change: KChange { added, dropped }, .. } = call;
        let text = match (added.len(), dropped.len()) {
            (0, dropped) => format!("K is {k}: {dropped} copies were given up"),
            (added, _) => {
                format!(
                    "K is {k}: {added} copies are to be loaded, and count when they are in sync"
                )
            }
        };
        self.answer_with_text(*origin, &text, |out| {
            let schema = TableSchema::new(&[
                ("KFACTOR", SqlType::Integer),
                ("COPIES_TO_LOAD", SqlType::Integer),
                ("COPIES_GIVEN_UP", SqlType::Integer),
            ]);
            let mut table = TableBuilder::begin(out, &schema);
            let count = |count: usize| Datum::Int(count as i64);
            let row = [Datum::Int((*k).into()), count(added.len()), count(dropped.len())];
            table.row(&schema, &row);
            table.finish();
            1
        });
    }
}

/// What a change of K does by a state.
///
/// # Errors
/// It is refused.
fn plan(state: &ClusterState, k: u8) -> Result<KChange, Failure> {
    state.plan_k(k).map_err(|refusal| Failure::graceful(format!("K stays: {refusal}")))
}
