#!/usr/bin/env python3
"""Drives a cluster of three processes through faults, and judges what clients saw.

The faults are those of the network, of clocks and of disks. Each host and the clients have a
network namespace of their own. In each round three hosts are started with K = 1, clients stay
connected to each host, and one fault lasts for a while. Then the fault is over, and the clients of
the hosts that are left have to go on. The rules are those of `failover`: no answered write is lost,
none is there twice, no read is stale, registers are linearizable by porcupine, and each call ends.
What the hosts printed in a round that failed is kept in target/namespaces, with the calls and the
moment at which the fault began.

Where hosts have directories, all of them are killed at the end while clients call, and started
again. The rules are then applied to what the hosts have recovered.
"""

import argparse
import collections
import contextlib
import datetime
import functools
import math
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "failover"))

import clocks  # noqa: E402
import disks  # noqa: E402
import drivers  # noqa: E402  (needs the path above)
import faults  # noqa: E402
from cluster import KEYS, Cluster, binary  # noqa: E402
from history import (  # noqa: E402
    OK, Call, Final, findings, hung, kinds_of, lines_of, longest_gap_s)
from kinds import KINDS  # noqa: E402
from network import Missing, Network  # noqa: E402

TARGET = drivers.ROOT / "target/namespaces"
HOSTS = 3
WARM_TIMEOUT_S = 60
GO_ON_TIMEOUT_S = 30
FINAL_TIMEOUT_S = 10
JUDGE_TIMEOUT_S = 120
#: Calls that a worker has to make with success before the fault, and after it.
WARM_CALLS, GO_ON_CALLS = 20, 10
COLUMNS = ("rounds", "calls", "answered", "unknown", "refused", "lost", "doubled", "put out")
#: What a cluster cannot keep that has lost one host too many.
AVAILABILITY = ("stands still", "hosts")


class NamespaceCluster(Cluster):
    """Three hosts, each in its namespace."""

    def __init__(self, network, folder, options, moves_clocks=False, mounted=None):
        super().__init__(folder, HOSTS, 2, options)
        self.network, self.stamps, self.disks = network, None, mounted
        self.clocks = clocks.Clocks(folder, HOSTS) if moves_clocks else None
        self.peers, self.addresses, self.admin = (
            ["%s:%d" % (network.address(number), port) for number in range(HOSTS)]
            for port in (3021, 21212, 21211))

    def data(self, number):
        """The arguments about the data of a host: in memory, or in a directory."""
        return self.disks.arguments(number) if self.disks else super().data(number)

    def prefix(self, number):
        """The command that starts a host in its namespace."""
        clock = self.clocks.prefix(number) if self.clocks else []
        return ["ip", "netns", "exec", self.network.namespace(number), *clock]


class Round:
    """One cluster, one fault."""

    def __init__(self, kind, number, network, arguments):
        self.kind, self.number, self.network = kind, number, network
        self.options, self.seconds = arguments.option, arguments.seconds
        self.keep_above_gap_s = arguments.keep_above_gap
        self.random = random.Random("%s %s %s" % (arguments.seed, kind, number))
        self.victim = self.random.randrange(HOSTS)
        self.folder = TARGET / ("%s-%d" % (kind, number))
        self.load, self.registers, self.left, self.out = [], [], [], []
        self.found, self.gap_s, self.words = collections.defaultdict(list), 0, ""
        self.began = ""

    def run(self, judge):
        """Runs the round; itself, with calls and findings."""
        on_disks = self.kind in disks.KINDS
        place = disks.Disks(self.kind, self.folder, HOSTS) if on_disks else contextlib.nullcontext()
        if on_disks:
            place.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        moves_clocks = self.kind.startswith("clock")
        with place as mounted, NamespaceCluster(self.network, self.folder, self.options,
                                                moves_clocks, mounted) as cluster:
            cluster.fill()
            with self._driver("load", cluster) as load, self._driver("registers", cluster) as other:
                both = (load, other)
                for driver in both:
                    if driver.stuck(WARM_CALLS, 0, WARM_TIMEOUT_S):
                        self.found["stands still"].append("before the fault")
                began_us = time.monotonic_ns() // 1000
                self.began = "%s UTC, monotonic %d us, host %d\n" % (
                    datetime.datetime.now(datetime.UTC).isoformat(), began_us, self.victim)
                self.words = KINDS[self.kind](self.network, cluster, self.victim, self.random,
                                              self.seconds)
                self._go_on(cluster, both)
                self._note_hosts(cluster, [call for driver in both for call in driver.calls])
                if cluster.disks:
                    cluster.crash()
                for driver in both:
                    if not driver.end():
                        self.found["hung"].append("calls did not end")
            self.load, self.registers = load.calls, other.calls
            self._start_again(cluster)
            self._judge(cluster, judge, began_us)
        self._keep_or_remove()
        return self

    def _driver(self, mode, cluster):
        return drivers.Driver([sys.executable, str(HERE.parent / "failover/python_driver.py"),
                               "sticky"], mode, HOSTS, cluster.addresses,
                              self.folder / ("driver-%s.err" % mode))

    def _left(self, cluster):
        """The hosts that run and are of the cluster, as far as they logged it."""
        return [number for number in cluster.alive() if not cluster.was_put_out(number)]

    def _go_on(self, cluster, both):
        """Waits until the workers of each host that is left make calls."""
        since_us = time.monotonic_ns() // 1000
        deadline = time.monotonic() + GO_ON_TIMEOUT_S
        while time.monotonic() < deadline:
            stuck = {worker for driver in both
                     for worker in driver.stuck(GO_ON_CALLS, since_us, 0.5)}
            left = self._left(cluster)
            if not stuck.intersection(left):
                return
        self.found["stands still"].append("hosts %s of %s" % (sorted(stuck), left))

    def _note_hosts(self, cluster, calls):
        """Judges which hosts are left, and how they took a fault of a disk."""
        self.left = self._left(cluster)
        self.out = [number for number in cluster.alive() if number not in self.left]
        killed = [number for number in range(HOSTS) if number not in cluster.alive()]
        if killed != ([self.victim] if self.kind in ("kill", "disk-fails") else []):
            self.found["a process ended"].append("hosts %s" % killed)
        if cluster.disks:
            for rule, words in disks.wrong(cluster, self.victim, calls).items():
                self.found[rule] += words

    def _start_again(self, cluster):
        """After the hosts with directories were killed: starts them, and reads the registers."""
        if not cluster.disks:
            return
        cluster.disks.mend(self.victim)
        try:
            cluster.start()
            self.registers += [self._read(cluster, number, key)
                               for number in range(HOSTS) for key in range(KEYS)]
        except Exception as error:  # pylint: disable=broad-except  (the client raises any)
            self.found["hosts"].append("the start after kill -9 of all failed: %s" % error)

    @staticmethod
    def _read(cluster, number, key):
        """A read of a register through a host, as the call of one more worker."""
        begin_us = time.monotonic_ns() // 1000
        value = cluster.column(number, "SELECT v FROM register WHERE k = %d" % key)[0]
        return Call(HOSTS + number, "get", key, 0, 0, OK, value, begin_us,
                    time.monotonic_ns() // 1000, "-")

    def _judge(self, cluster, judge, began_us):
        # Of hosts that were started again, all serve.
        left = cluster.alive() if cluster.disks else self.left
        self.gap_s = longest_gap_s([call for call in self.load + self.registers
                                    if call.worker in self.left], began_us)
        for rule, words in hung(self.registers).items():
            self.found[rule] += words
        try:
            finals = [self._final(cluster, number) for number in left]
            if any(final != finals[0] for final in finals):
                self.found["copies differ"].append(str(finals))
            for rule, words in findings(self.load, finals[0]).items():
                self.found[rule] += words
        except Exception as error:  # pylint: disable=broad-except  (the client raises any)
            self.found["hosts"].append("the final reads failed: %s" % error)
        if cluster.stamps is not None and left:
            self._judge_clocks(cluster, left)
        if judge is not None:
            said = subprocess.run([str(judge)], input=lines_of(self.registers), text=True,
                                  capture_output=True, timeout=JUDGE_TIMEOUT_S, check=False)
            if said.returncode != 0:
                self.found["not linearizable"].append(said.stdout + said.stderr)
        if any(number != self.victim for number in self.out) and len(self.left) < 2:
            for rule in AVAILABILITY:
                self.found.pop(rule, None)

    def _judge_clocks(self, cluster, left):
        self.found["disorder"] += cluster.stamps.disorder(left[0])
        is_named = any(clocks.OFF in cluster.said(number) for number in range(HOSTS))
        if is_named and self.kind == "clock":
            self.found["a false loss"].append("for the clock of a host")
        if not is_named and self.kind == "clock-far":
            self.found["a clock that is off"].append("nobody noticed")

    @staticmethod
    def _final(cluster, number):
        deadline = time.monotonic() + FINAL_TIMEOUT_S
        while True:
            try:
                rows, notes, counter = (cluster.column(number, text) for text in (
                    "SELECT k FROM one ORDER BY k", "SELECT k FROM everywhere ORDER BY k",
                    "SELECT n FROM counter"))
                return Final(rows, notes, counter[0])
            except Exception:  # pylint: disable=broad-except  (the client raises any)
                if time.monotonic() > deadline:
                    raise
                threading.Event().wait(0.1)

    def _keep_or_remove(self):
        if any(self.found.values()) or self.gap_s > self.keep_above_gap_s:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "fault-began.txt").write_text(self.began, encoding="utf-8")
            for name, calls in (("load", self.load), ("registers", self.registers)):
                (self.folder / (name + ".txt")).write_text(lines_of(calls), encoding="utf-8")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def attempt(one, judge):
    """Runs a round; a cluster or driver that does not even start is a finding."""
    try:
        return one.run(judge)
    except Missing:
        raise
    except Exception as error:  # pylint: disable=broad-except  (reported as a failed check)
        one.found["hosts"].append("%s: %s" % (type(error).__name__, error))
        return one
    finally:
        one.network.heal()


def run_kind(kind, network, judge, arguments):
    """All rounds of a kind: its line of the table, and what was found."""
    total, found, gap_s = collections.Counter(), [], 0
    for number in range(arguments.rounds):
        one = attempt(Round(kind, number, network, arguments), judge)
        counts = kinds_of(one.load + one.registers)
        total.update(rounds=1, calls=counts.pop("sent"), lost=len(one.found["lost"]),
                     doubled=len(one.found["doubled"]), **counts)
        total["put out"] += len(one.out)
        gap_s = max(gap_s, one.gap_s)
        found += ["round %d: %s: %s" % (number, rule, word)
                  for rule, words in one.found.items() for word in words]
        print("        %s %d: host %d%s, %s, put out %s, gap %.3f s%s" % (
            kind, number, one.victim, one.words, counts, one.out, one.gap_s,
            ", FAILED, see %s" % one.folder if any(one.found.values()) else ""), flush=True)
    return {**total, "gap": gap_s}, found


def run_start(network, arguments):
    """A start with a clock that is off: no line of the table, and what was found."""
    cluster = NamespaceCluster(network, TARGET / "clock-start", arguments.option, True)
    return None, clocks.refused_start(cluster, 1)


def print_table(table):
    """What clients saw by kind of fault, a line each."""
    print("\n%-10s" % "kind" + "".join("%10s" % name for name in COLUMNS) + "   longest gap")
    for kind, line in table.items():
        print("%-10s" % kind + "".join("%10d" % line.get(name, 0) for name in COLUMNS)
              + "%12.3f s" % line["gap"])


def run_all(network, arguments):
    """Runs every kind; the numbers of checks passed, failed and skipped."""
    passed = failed = skipped = 0
    table, judge = {}, None
    try:
        drivers.TARGET.mkdir(parents=True, exist_ok=True)
        judge = drivers.built_go("judge")
    except drivers.Missing as missing:
        skipped += 1
        print("skipped linearizable registers: %s" % missing)
    wrong = faults.unseen_rules() + (faults.unseen_orders(judge) if judge else [])
    failed += bool(wrong)
    checks = {kind: functools.partial(run_kind, kind, network, judge, arguments)
              for kind in arguments.kind or KINDS}
    if not arguments.kind:
        checks["clock-start"] = functools.partial(run_start, network, arguments)
    for kind, check in checks.items():
        try:
            line, found = check()
        except Missing as missing:
            skipped += 1
            print("skipped [%s]: %s" % (kind, missing), flush=True)
            continue
        if line is not None:
            table[kind] = line
        failed, passed = failed + bool(found), passed + (not found)
        print("%-7s [%s]" % ("FAILED" if found else "ok", kind), flush=True)
        for word in found[:5]:
            print("        " + word[:2000])
    print_table(table)
    return passed, failed, skipped


def main():
    """Runs what the arguments ask for; the exit code says whether all passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kind", action="append", choices=sorted(KINDS))
    parser.add_argument("--rounds", type=int, default=1, help="of each kind")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long a fault lasts")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE, of all hosts")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--keep-above-gap", type=float, default=math.inf, metavar="SECONDS",
                        help="keep the folder of a round with a longer gap, also if it passes")
    arguments = parser.parse_args()
    if not binary().exists():
        print("no server at %s: cargo build --release --bin lockstep-under-test" % binary())
        return 2
    # Removes the namespaces and file systems when it is told to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with Network() as network:
            passed, failed, skipped = run_all(network, arguments)
    except Missing as missing:
        passed, failed, skipped = 0, 0, 1
        print("skipped network namespaces: %s" % missing)
    print("suite namespaces: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
