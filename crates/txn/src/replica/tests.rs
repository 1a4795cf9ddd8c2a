//! Each rule of the streams by itself; the simulator runs them together.

use super::*;
use lockstep_types::HostId;

const LEADER: HostId = HostId(0);
const A: HostId = HostId(1);
const B: HostId = HostId(2);
const LIMITS: ReplicaLimits = ReplicaLimits { unreceived_bytes: 100 };

fn piece(epoch: u32, first: u64, entries: u32) -> Piece {
    let source = LogSource { epoch, incarnation: 1 };
    Piece { source, first, entries, bytes: vec![7; 10 * entries as usize].into() }
}

fn leader(epoch: u32, followers: &[(HostId, u64)]) -> ReplicaStream {
    ReplicaStream::open(epoch, 0, EpochHistory::of_epoch(epoch), followers, [], LIMITS)
}

fn follower(epoch: u32, receipts: Receipts) -> FollowerStream {
    FollowerStream::new(epoch, 0, EpochHistory::of_epoch(epoch), receipts)
}

fn message(epoch: u32, piece: Piece) -> ToFollower {
    ToFollower { epoch, safe: 0, settled: 0, piece: Some(piece) }
}

fn receipt(epoch: u32, position: u64) -> Receipt {
    Receipt { epoch, position }
}

#[test]
fn a_follower_takes_pieces_of_its_epoch_once_and_in_order() {
    let mut copy = follower(3, Receipts::AtOnce);
    assert_eq!(copy.take(message(3, piece(3, 1, 2))), Taken::Append(piece(3, 1, 2)));
    assert_eq!(copy.receipt(), Some(receipt(3, 2)));
    assert_eq!(copy.receipt(), None);
    // A repeat changes nothing, and is acknowledged again.
    assert_eq!(copy.take(message(3, piece(3, 1, 2))), Taken::Repeated);
    assert_eq!((copy.end(), copy.receipt()), (2, Some(receipt(3, 2))));
    let refused = |copy: &mut FollowerStream, epoch, piece| match copy.take(message(epoch, piece)) {
        Taken::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut copy, 3, piece(3, 4, 1)), NotTaken::Gap { due: 3, found: 4 });
    assert_eq!(refused(&mut copy, 3, piece(3, 2, 3)), NotTaken::Overlap { due: 3 });
    assert_eq!(refused(&mut copy, 2, piece(2, 3, 1)), NotTaken::OldEpoch { current: 3 });
    assert_eq!(refused(&mut copy, 4, piece(4, 3, 1)), NotTaken::NotOpen { current: 3 });
    assert_eq!(refused(&mut copy, 3, piece(4, 3, 1)), NotTaken::Unsound);
    assert_eq!(refused(&mut copy, 3, piece(2, 3, 1)), NotTaken::Unsound);
    assert_eq!(copy.end(), 2);
    copy.check_invariants();
}

#[test]
fn a_sealed_follower_takes_nothing_and_acknowledges_nothing_of_its_old_epoch() {
    let mut copy = follower(3, Receipts::WhenDurable);
    copy.take(message(3, piece(3, 1, 2)));
    assert_eq!(copy.receipt(), Some(receipt(3, 0)));
    assert!(copy.seal(3).is_none(), "a seal is for a later epoch");
    let report = copy.seal(5).expect("the epoch is later");
    assert_eq!((report.epoch, report.end), (5, 2));
    assert_eq!(copy.seal(5), Some(report), "the same again");
    assert!(copy.seal(4).is_none(), "an older seal");
    // Its log has become durable meanwhile: too late for a receipt.
    copy.note_durable(2);
    assert_eq!(copy.receipt(), None);
    let refused = Taken::Refused(NotTaken::OldEpoch { current: 5 });
    assert_eq!(copy.take(message(3, piece(3, 3, 1))), refused);
    assert_eq!(copy.take(message(4, piece(4, 3, 1))), refused);
    copy.follow(5);
    assert_eq!(copy.take(message(5, piece(5, 3, 1))), Taken::Append(piece(5, 3, 1)));
    assert_eq!(copy.receipt(), Some(receipt(5, 2)), "what is not durable has no receipt");
    copy.check_invariants();
}

#[test]
fn a_leader_resends_by_position_what_a_lost_connection_took() {
    let mut stream = leader(1, &[(A, 0), (B, 0)]);
    for number in 0..4 {
        stream.log(piece(1, 2 * number + 1, 2), 1_000 * number as i64);
        assert_eq!(
            stream.next_for(A).and_then(|sent| sent.piece).map(|p| p.last()),
            Some(2 * number + 2)
        );
    }
    assert_eq!(stream.receipt(A, receipt(1, 2)), ReceiptOutcome::Advanced(2));
    assert_eq!(stream.receipt(A, receipt(1, 2)), ReceiptOutcome::Known);
    assert_eq!(stream.receipt(A, receipt(2, 4)), ReceiptOutcome::OtherEpoch);
    assert_eq!(stream.receipt(HostId(9), receipt(1, 4)), ReceiptOutcome::NotInSync);
    assert_eq!(stream.receipt(A, receipt(1, 9)), ReceiptOutcome::NotSent);
    stream.disconnected(A);
    assert!(stream.next_for(A).is_none());
    assert_eq!(stream.reconnected(A, 1, 9), Err(ResumeError::TooNew { end: 8 }));
    assert_eq!(stream.reconnected(A, 1, 4), Ok(()));
    assert_eq!(stream.next_for(A).and_then(|sent| sent.piece), Some(piece(1, 5, 2)));
    // What only one lacks is kept, and counts until it has it or does not count any more.
    assert_eq!(stream.receipt(A, receipt(1, 8)), ReceiptOutcome::Advanced(8));
    assert_eq!((stream.unreceived_bytes(), stream.unreceived_age(5_000).us()), (80, 5_000));
    stream.log(piece(1, 9, 3), 4_000);
    assert!(stream.is_behind(), "more than the limit is not received");
    stream.check_invariants();
    stream.drop_copy(B);
    assert_eq!((stream.unreceived_bytes(), stream.is_behind()), (30, false));
    assert_eq!(stream.reconnected(A, 1, 4), Err(ResumeError::Lost { received: 8 }));
    assert_eq!(stream.reconnected(A, 2, 8), Err(ResumeError::OtherEpoch));
    assert_eq!(stream.reconnected(B, 1, 8), Err(ResumeError::NotInSync));
    stream.check_invariants();
}

#[test]
fn positions_travel_with_pieces_and_alone() {
    let mut stream = leader(1, &[(A, 0)]);
    stream.log(piece(1, 1, 2), 0);
    stream.advertise(0, 2);
    let first = stream.next_for(A).expect("a piece");
    assert_eq!((first.safe, first.settled, first.piece.is_some()), (0, 2, true));
    assert!(stream.next_for(A).is_none());
    stream.receipt(A, receipt(1, 2));
    stream.advertise(2, 2);
    let mut copy = follower(1, Receipts::AtOnce);
    copy.take(first);
    assert_eq!((copy.safe(), copy.settled()), (0, 2));
    assert_eq!(copy.take(stream.next_for(A).expect("a position")), Taken::Positions);
    assert_eq!((copy.safe(), copy.settled()), (2, 2));
    copy.check_invariants();
}

#[test]
fn a_settled_position_counts_when_all_entries_up_to_it_are_there_and_for_none_before() {
    let mut stream = leader(1, &[(A, 0)]);
    stream.log(piece(1, 1, 2), 0);
    stream.advertise(0, 1);
    // Entry 4 settles entry 2, and is not forwarded yet.
    stream.advertise(0, 4);
    let mut copy = follower(1, Receipts::AtOnce);
    copy.take(stream.next_for(A).expect("a piece"));
    assert_eq!((copy.end(), copy.settled()), (2, 1), "entry 2 may still fail");
    stream.log(piece(1, 3, 1), 0);
    stream.advertise(0, 4);
    copy.take(stream.next_for(A).expect("a piece"));
    assert_eq!((copy.end(), copy.settled()), (3, 1));
    stream.log(piece(1, 4, 1), 0);
    stream.advertise(0, 4);
    copy.take(stream.next_for(A).expect("a piece"));
    assert_eq!((copy.end(), copy.settled()), (4, 4));
    // With what is sent again goes what was settled then, not what is settled since.
    let mut late = follower(1, Receipts::AtOnce);
    stream.disconnected(A);
    stream.reconnected(A, 1, late.reconnect()).expect("everything is kept");
    let settled = std::iter::from_fn(|| stream.next_for(A)).map(|sent| {
        let told = sent.settled;
        late.take(sent);
        assert!(told <= late.end() && late.settled() == told, "it is of entries that are here");
        told
    });
    assert_eq!(settled.collect::<Vec<_>>(), [1, 1, 4]);
    // A position of entries that are on their way says nothing of those that are here.
    let mut copy = follower(1, Receipts::AtOnce);
    copy.take(ToFollower { settled: 4, ..message(1, piece(1, 1, 2)) });
    copy.take(ToFollower { epoch: 1, safe: 3, settled: 3, piece: None });
    assert_eq!((copy.safe(), copy.settled()), (2, 0), "what is safe is so entry by entry");
    copy.take(ToFollower { settled: 4, ..message(1, piece(1, 3, 2)) });
    assert_eq!(copy.settled(), 4);
    copy.check_invariants();
    stream.check_invariants();
}

fn survivor(host: HostId, led: bool, begins: &[(u32, u64)], end: u64) -> Survivor {
    let (first, later) = begins.split_first().expect("a log has an epoch");
    let mut history = EpochHistory::of_epoch(first.0);
    later.iter().for_each(|(epoch, at)| history.note(*epoch, *at));
    Survivor { host, led, sealed: SealReport { epoch: 9, end, history, kept_after: 0 } }
}

fn plan(in_sync: &[HostId], survivors: &[Survivor]) -> Result<Takeover, TakeoverError> {
    plan_takeover(9, in_sync, survivors, ReplicaFaults::default())
}

#[test]
fn a_leader_that_is_left_stays_leader_else_the_most_complete_copy_leads() {
    let all = [LEADER, A, B];
    let of = |led| {
        [
            survivor(LEADER, led, &[(1, 0)], 7),
            survivor(A, false, &[(1, 0)], 9),
            survivor(B, false, &[(1, 0)], 9),
        ]
    };
    // The leader has at least what its followers have.
    let mut led = of(true);
    led[0].sealed.end = 10;
    let takeover = plan(&all, &led).expect("copies are left");
    assert_eq!((takeover.leader, takeover.end), (LEADER, 10));
    assert_eq!(takeover.followers(), [(A, 9), (B, 9)]);
    let takeover = plan(&all, &of(false)).expect("copies are left");
    assert_eq!((takeover.leader, takeover.end), (A, 9), "of equals the lowest host");
    assert_eq!(takeover.copies, [(LEADER, CopyPlan::Lacks { after: 7 }), (B, CopyPlan::Complete)]);
    assert_eq!(takeover.in_sync(), [A, LEADER, B]);
}

#[test]
fn a_later_epoch_counts_more_than_a_greater_end_and_the_tail_of_an_older_one_goes() {
    // Host 1 took over at entry 5; the leader before it had logged up to 8.
    let survivors = [
        survivor(LEADER, false, &[(1, 0)], 8),
        survivor(A, false, &[(1, 0), (2, 5)], 6),
        survivor(B, false, &[(1, 0)], 4),
    ];
    let takeover = plan(&[LEADER, A, B], &survivors).expect("copies are left");
    assert_eq!((takeover.leader, takeover.end), (A, 6));
    let diverged = CopyPlan::Diverged { agreed: Some(4) };
    assert_eq!(takeover.copies, [(LEADER, diverged), (B, CopyPlan::Lacks { after: 4 })]);
    assert_eq!(takeover.in_sync(), [A, B]);
    // What the leader does not keep any more cannot be sent: the copy loads it.
    let mut survivors = survivors;
    survivors[1].sealed.kept_after = 5;
    let takeover = plan(&[LEADER, A, B], &survivors).expect("copies are left");
    assert_eq!(takeover.copies[1], (B, CopyPlan::Diverged { agreed: Some(4) }));
    assert_eq!(takeover.in_sync(), [A]);
}

#[test]
fn a_copy_that_was_not_in_sync_neither_leads_nor_counts() {
    let survivors = [survivor(A, false, &[(1, 0)], 4), survivor(B, false, &[(1, 0)], 9)];
    let takeover = plan(&[LEADER, A], &survivors).expect("a copy in sync is left");
    assert_eq!((takeover.leader, takeover.end), (A, 4));
    assert_eq!(takeover.copies, [(B, CopyPlan::Diverged { agreed: Some(4) })]);
    let error = plan(&[LEADER], &survivors).expect_err("no copy in sync is left");
    assert_eq!(error.to_string(), "no copy in sync is left: waiting for host 0");
    let mut other = survivors;
    other[0].sealed.epoch = 8;
    let error = plan(&[A, B], &other).expect_err("a seal of another epoch");
    assert_eq!(error.to_string(), "the copy of host 1 is sealed for epoch 8");
}

#[test]
fn epochs_that_are_not_remembered_any_more_are_not_guessed() {
    let mut history = EpochHistory::of_epoch(1);
    (2..=200).for_each(|epoch| history.note(epoch, 10 * u64::from(epoch)));
    assert_eq!(history.last_epoch(), 200);
    assert_eq!(history.common_end(3, 35), None);
    assert_eq!(history.common_end(199, 3_000), Some(1_999));
    assert_eq!(history.common_end(200, 2_005), Some(2_005));
}

#[test]
fn a_new_leader_goes_on_with_what_other_copies_lack() {
    let mut copies = [follower(1, Receipts::AtOnce), follower(1, Receipts::AtOnce)];
    let mut stream = leader(1, &[(A, 0), (B, 0)]);
    stream.log(piece(1, 1, 2), 0);
    stream.log(piece(1, 3, 1), 0);
    let sent: Vec<ToFollower> = std::iter::from_fn(|| stream.next_for(A)).collect();
    sent.iter().for_each(|sent| drop(copies[0].take(sent.clone())));
    copies[1].take(sent[0].clone());
    // The leader is lost.
    let sealed = [(A, 0), (B, 1)].map(|(host, at): (HostId, usize)| Survivor {
        host,
        led: false,
        sealed: copies[at].seal(2).expect("a later epoch"),
    });
    let takeover = plan_takeover(2, &[LEADER, A, B], &sealed, ReplicaFaults::default());
    let takeover = takeover.expect("copies are left");
    assert_eq!((takeover.leader, takeover.followers()), (A, vec![(B, 2)]));
    let [first, mut second] = copies;
    let (end, history, suffix) = first.into_log();
    let mut stream = ReplicaStream::open(2, end, history, &takeover.followers(), suffix, LIMITS);
    second.follow(2);
    stream.log(piece(2, 4, 1), 0);
    let lacks = stream.next_for(B).expect("what it lacks");
    assert_eq!((lacks.epoch, lacks.piece.clone()), (2, Some(piece(1, 3, 1))));
    assert_eq!(second.take(lacks), Taken::Append(piece(1, 3, 1)));
    assert_eq!(second.take(stream.next_for(B).expect("more")), Taken::Append(piece(2, 4, 1)));
    assert_eq!(second.receipt(), Some(receipt(2, 4)));
    second.check_invariants();
    stream.check_invariants();
}

#[test]
fn a_hand_over_drains_seals_and_opens_and_is_given_up_when_its_target_is_lost() {
    let mut stream = leader(1, &[(A, 0), (B, 0)]);
    assert!(HandOver::begin(HostId(7), &stream).is_none(), "a copy that is not in sync");
    stream.log(piece(1, 1, 1), 0);
    let mut given_up = HandOver::begin(A, &stream).expect("a follower in sync");
    assert!(given_up.advance(true, &mut stream).is_none(), "the target lacks an entry");
    assert!(given_up.give_up() && given_up.admits_calls() && !stream.is_sealed());
    assert_eq!(given_up.stage(), HandOverStage::GivenUp);

    let mut moved = HandOver::begin(A, &stream).expect("a follower in sync");
    stream.receipt(A, receipt(1, 1));
    assert!(moved.advance(false, &mut stream).is_none(), "something is undecided");
    let report = moved.advance(true, &mut stream).expect("the leader is sealed");
    assert_eq!((report.epoch, report.end, moved.stage()), (2, 1, HandOverStage::Sealed));
    assert!(!moved.give_up(), "a sealed leader waits for an epoch");
    assert_eq!(stream.receipt(B, receipt(1, 1)), ReceiptOutcome::OtherEpoch);
    assert_eq!(moved.placed(2, A), HandOverStage::Done);

    // The target is lost after the seal: the leader goes on in the next epoch.
    let mut stream = stream.reopen(2, &[(B, 0)]);
    assert_eq!((stream.epoch(), stream.end()), (2, 1));
    assert_eq!(stream.next_for(B).and_then(|sent| sent.piece), Some(piece(1, 1, 1)));
}

#[test]
fn a_copy_that_is_loaded_gets_what_was_logged_since_and_counts_before_it_is_in_sync() {
    let mut stream = leader(3, &[(A, 0)]);
    stream.log(piece(3, 1, 2), 0);
    assert_eq!(stream.begin_learner(B, 8), (2, EpochHistory::of_epoch(3)));
    stream.log(piece(3, 3, 1), 0);
    // While its data are on their way it gets nothing, and what it lacks slows nobody down.
    assert_eq!((stream.next_for(B), stream.count_learner(B)), (None, None));
    stream.receipt(A, receipt(3, 3));
    assert_eq!((stream.unreceived_bytes(), stream.learner_bytes(B)), (0, 10));
    stream.note_loaded(B);
    assert_eq!(stream.next_for(B).and_then(|sent| sent.piece), Some(piece(3, 3, 1)));
    assert_eq!((stream.count_learner(B), stream.counts(B)), (Some(2), true));
    assert_eq!(stream.is_in_sync_due(B), None, "it lacks what was logged before it counted");
    assert_eq!(stream.receipt(B, receipt(3, 3)), ReceiptOutcome::Advanced(3));
    assert_eq!(stream.is_in_sync_due(B), Some(8), "the run of its process is named");
    stream.check_invariants();
    // What it has not received when its epoch begins, it gets in that.
    stream.log(piece(3, 4, 1), 0);
    stream.receipt(A, receipt(3, 4));
    let report = stream.seal(4).expect("a later epoch");
    assert_eq!((report.end, report.kept_after), (4, 3));
    let mut stream = stream.reopen(4, &[(A, 4), (B, 3)]);
    assert_eq!(stream.learners().count(), 0);
    assert_eq!(stream.next_for(B).and_then(|sent| sent.piece), Some(piece(3, 4, 1)));
}

#[test]
fn a_copy_that_is_loaded_goes_on_after_a_gap_or_is_given_up() {
    let mut stream = leader(3, &[]);
    stream.begin_learner(B, 8);
    stream.log(piece(3, 1, 1), 0);
    stream.log(piece(3, 2, 1), 0);
    stream.note_loaded(B);
    assert!(stream.next_for(B).is_some() && stream.next_for(B).is_some());
    stream.disconnected(B);
    assert_eq!(stream.reconnected(B, 3, 1), Ok(()));
    assert_eq!(stream.next_for(B).and_then(|sent| sent.piece), Some(piece(3, 2, 1)));
    stream.receipt(B, receipt(3, 2));
    assert_eq!(stream.reconnected(B, 3, 1), Err(ResumeError::Lost { received: 2 }));
    assert!(!stream.drop_learner(B) && stream.next_for(B).is_none(), "nobody waited for it");
    assert_eq!(stream.receipt(B, receipt(3, 2)), ReceiptOutcome::NotInSync);
    stream.check_invariants();
}
