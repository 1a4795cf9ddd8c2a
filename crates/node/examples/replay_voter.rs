//! What the replay of voter's log costs beside the calls that made it, on one core: each is timed
//! in turn, and the median of the ratios counts. Also bytes of log a call.
//!
//! ```text
//! cargo run --release -p lockstep-node --example replay_voter
//! ```

use lockstep_durability::recovery::Survey;
use lockstep_jvm::JavaSettings;
use lockstep_node::NativeRegistry;
use lockstep_node::embedded::EmbeddedHost;
use lockstep_node::options::Options;
use lockstep_node::recovery::{HostState, LogPieces, ReplaySettings, replay};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, HashRing, PartitionId, SqlType};
use lockstep_wire_volt::invocation::{self, CallOptions};
use lockstep_workloads::voter;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

const CALLS: usize = 400_000;
const REPEATS: u64 = 5;

fn main() {
    let options = Options::default();
    let mut natives = NativeRegistry::default();
    for procedure in lockstep_workloads::native_procedures() {
        natives.register(procedure);
    }
    let ring = HashRing::new(1);
    let mut ratios = Vec::new();
    for seed in 1..=REPEATS {
        let host = EmbeddedHost::new(&options, natives.clone());
        let mut host = host.unwrap_or_else(|failure| panic!("{}", failure.message));
        host.keep_log();
        let load = voter::load_statements(voter::CONTESTANTS).join("\n");
        for text in [voter::SCHEMA, &load, voter::NATIVE_PROCEDURE] {
            host.ad_hoc(text).unwrap_or_else(|failure| panic!("{}", failure.message));
        }
        let calls = calls(seed);
        let (_, bytes_before) = host.log_totals();
        let mut response = Vec::new();
        let begin = Instant::now();
        for frame in &calls {
            response.clear();
            host.call(&frame[4..], &mut response);
        }
        let live = begin.elapsed();
        let log = Arc::new(host.take_log());
        let bytes = host.log_totals().1 - bytes_before;
        let mut survey = Survey::new(&[0]);
        let begin = Instant::now();
        for piece in log.iter() {
            survey.read(PartitionId(0), piece).unwrap_or_else(|error| panic!("{error}"));
        }
        let outcome = survey.finish();
        let surveyed = begin.elapsed();
        let settings = ReplaySettings {
            natives: &natives,
            options: &options,
            java: JavaSettings::default(),
            ring: &ring,
            progress: &AtomicU64::new(0),
            own: None,
        };
        let state = HostState::<(), ()>::empty(&settings).unwrap_or_else(|e| panic!("{e}"));
        let begin = Instant::now();
        let source = Box::new(LogPieces::new(log));
        let done = replay(state, vec![source], &outcome, &settings);
        let (state, summary) = done.unwrap_or_else(|error| panic!("{error}"));
        let replayed = begin.elapsed();
        assert_eq!(state.sites[0].database().content_hash(), host.content_hash());
        let ratio = live.as_secs_f64() / (surveyed + replayed).as_secs_f64();
        println!(
            "calls {live:.2?}, survey {surveyed:.2?}, replay {replayed:.2?} of {} entries: \
             {ratio:.2} x, {:.1} bytes a call",
            summary.replayed,
            bytes as f64 / CALLS as f64
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!("replay {:.2} x the rate of the calls (median)", ratios[ratios.len() / 2]);
}

/// Calls as clients send them.
fn calls(seed: u64) -> Vec<Vec<u8>> {
    let mut draws = voter::PhoneCalls::new(seed, voter::CONTESTANTS);
    let mut encode = || {
        let call = draws.draw();
        let mut parameters = ParameterWriter::default();
        parameters.bigint(call.phone_number);
        parameters.scalar(SqlType::Integer, Datum::Int(call.contestant.into()));
        parameters.bigint(voter::MAX_VOTES_PER_NUMBER);
        let mut frame = Vec::new();
        let options = CallOptions::default();
        invocation::encode(&mut frame, "Vote", 1, &options, parameters.bytes());
        frame
    };
    (0..CALLS).map(|_| encode()).collect()
}
