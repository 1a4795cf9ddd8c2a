//! Suspicion, connection and clocks, with times that are given.

use super::*;
use crate::ids::ClusterId;

const CLUSTER: ClusterId = ClusterId([1; 16]);
const WALL: u64 = 1_700_000_000_000_000;

fn pair() -> (Detector, Detector) {
    let detector = |host| {
        let options = Options::default();
        let incarnation = Incarnation(1);
        let mut detector =
            Detector::new(HostId(host), incarnation, 2, options, Faults::default(), 0);
        detector.expect(HostId(1 - host), incarnation, 0);
        detector
    };
    (detector(0), detector(1))
}

/// Sends a heartbeat at a time; it arrives after a millisecond.
fn send(from: &Detector, to: &mut Detector, now_us: u64, wall_offset_us: u64) -> Option<Heard> {
    let wall_us = WALL + now_us + wall_offset_us;
    let heartbeat = from.heartbeat(to.host, CLUSTER, Epoch(1), true, (now_us, wall_us));
    let heartbeat = Heartbeat::decode(&heartbeat.encode()).expect("it is read as written");
    to.take(from.host, &heartbeat, (now_us + 1_000, WALL + now_us + 1_000))
}

fn run_sites(detector: &mut Detector, now_us: u64) {
    (0..2).for_each(|site| detector.site_ran(ThreadId(site), now_us));
}

#[test]
fn a_silent_host_is_suspected_after_the_limit_and_no_longer_when_it_is_heard_again() {
    let (mut a, mut b) = pair();
    for beat in 0..10 {
        send(&a, &mut b, beat * 50_000, 0);
        send(&b, &mut a, beat * 50_000 + 20_000, 0);
    }
    // The last heartbeat came at 471 ms.
    assert!(!a.is_suspected(HostId(1), 671_000));
    assert!(a.is_suspected(HostId(1), 671_001));
    assert_eq!(a.suspects(671_001), [HostId(1)]);
    send(&a, &mut b, 700_000, 0);
    send(&b, &mut a, 701_000, 0);
    assert!(a.suspects(702_000).is_empty());
}

#[test]
fn a_cut_in_one_direction_is_seen_at_both_ends() {
    let (mut a, mut b) = pair();
    for beat in 0..20 {
        let now_us = beat * 50_000;
        if now_us < 500_000 {
            send(&a, &mut b, now_us, 0);
        }
        send(&b, &mut a, now_us + 10_000, 0);
    }
    // b does not hear a; a hears b, and b answers nothing new.
    assert!(b.is_suspected(HostId(0), 960_000));
    assert!(a.is_suspected(HostId(1), 960_000));
    let voters = [HostId(0), HostId(1), HostId(2)];
    assert_eq!(a.standing(&voters, Epoch(1), 960_000), Standing::Minority);
}

#[test]
fn a_site_that_stands_still_while_heartbeats_arrive_is_detected() {
    let (mut a, mut b) = pair();
    for beat in 0..40 {
        let now_us = beat * 50_000;
        if now_us < 500_000 {
            run_sites(&mut b, now_us);
        }
        b.site_ran(ThreadId(1), now_us);
        send(&a, &mut b, now_us, 0);
        send(&b, &mut a, now_us + 10_000, 0);
        assert_eq!(a.is_suspected(HostId(1), now_us + 20_000), now_us >= 1_450_000, "{now_us}");
    }
    assert!(a.is_connected(HostId(1), 1_970_000));
    assert!(b.is_stuck(ThreadId(0), 1_960_000) && !b.is_stuck(ThreadId(1), 1_960_000));
    assert!(b.has_stuck_site(1_960_000));
}

#[test]
fn a_host_whose_clock_is_off_by_more_than_a_second_is_refused_either_way() {
    for (ahead_us, refused) in [(60_000_000, true), (1_010_000, true), (990_000, false)] {
        let (mut a, mut b) = pair();
        let mut reported = Vec::new();
        for beat in 0..4 {
            let now_us = beat * 50_000;
            // b is ahead of a. a sees that, and b finds that a lags by as much.
            reported
                .extend(send(&b, &mut a, now_us, ahead_us).and_then(|heard| heard.clock_off_us));
            let wall_us = WALL + now_us + 5_000;
            let heartbeat = a.heartbeat(b.host, CLUSTER, Epoch(1), true, (now_us + 5_000, wall_us));
            let times = (now_us + 6_000, WALL + now_us + 6_000 + ahead_us);
            b.take(HostId(0), &heartbeat, times);
        }
        assert_eq!(reported.len(), usize::from(refused), "reported once");
        assert_eq!(a.is_connected(HostId(1), 160_000), !refused, "{ahead_us}");
        assert_eq!(b.is_connected(HostId(0), 160_000), !refused, "{ahead_us}");
        assert_eq!(a.answers_from_us(HostId(1), Incarnation(1)).is_none(), refused);
    }
}

#[test]
fn heartbeats_of_older_processes_and_overtaken_ones_count_for_nothing() {
    let (mut a, mut b) = pair();
    let old = b.heartbeat(HostId(0), CLUSTER, Epoch(1), true, (10_000, WALL));
    assert!(send(&b, &mut a, 20_000, 0).is_some());
    assert_eq!(a.take(HostId(1), &old, (30_000, WALL)), None, "overtaken");
    b.incarnation = Incarnation(2);
    assert!(send(&b, &mut a, 5_000, 0).is_some(), "a new process has a new clock");
    b.incarnation = Incarnation(1);
    assert_eq!(send(&b, &mut a, 900_000, 0), None, "an older process");
}

#[test]
fn a_host_that_misses_epochs_for_long_is_stale() {
    let (mut a, mut b) = pair();
    let voters = [HostId(0), HostId(1)];
    for beat in 0..10 {
        let now_us = beat * 50_000;
        send(&a, &mut b, now_us, 0);
        send(&b, &mut a, now_us + 10_000, 0);
        let expected = if now_us < 250_000 { Standing::Majority } else { Standing::Stale };
        assert_eq!(a.standing(&voters, Epoch(0), now_us + 20_000), expected, "{now_us}");
    }
    assert_eq!(a.standing(&voters, Epoch(1), 480_000), Standing::Majority);
}

#[test]
fn a_host_whose_messages_were_lost_is_suspected_until_it_runs_again() {
    let (mut a, mut b) = pair();
    let beat = |a: &mut Detector, b: &mut Detector, now_us: u64| {
        send(a, b, now_us, 0);
        send(b, a, now_us + 10_000, 0);
    };
    (0..10).for_each(|number| beat(&mut a, &mut b, number * 50_000));
    a.cut_off(HostId(1), Incarnation(9), Epoch(1));
    assert!(a.suspects(480_000).is_empty(), "that was said of another process");
    assert_eq!(b.cut_from_of(HostId(0)).collect::<Vec<_>>(), []);
    a.cut_off(HostId(1), Incarnation(1), Epoch(1));
    beat(&mut a, &mut b, 500_000);
    assert_eq!(a.suspects(520_000), [HostId(1)]);
    assert!(a.is_connected(HostId(1), 520_000), "it is heard");
    assert_eq!(b.cut_from_of(HostId(0)).collect::<Vec<_>>(), [(HostId(1), Epoch(1))]);
    assert_eq!(b.suspects_of(HostId(0)).collect::<Vec<_>>(), [], "of that it hears enough");
    a.expect(HostId(1), Incarnation(2), 600_000);
    assert!(a.suspects(600_000).is_empty());
}

#[test]
fn hosts_that_begin_together_have_the_time_of_a_suspicion_to_be_heard() {
    let (mut a, _) = pair();
    assert_eq!(a.suspects(300_000), [HostId(1)]);
    a.expect_all(300_000);
    assert!(a.suspects(550_000).is_empty() && !a.is_connected(HostId(1), 550_000));
    assert_eq!(a.suspects(550_001), [HostId(1)]);
}
