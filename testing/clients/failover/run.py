#!/usr/bin/env python3
"""Drives VoltDB's unmodified clients through the loss of a host, and judges what they saw.

Each round starts three processes with K = 1, lets a client work, kills one host (or pauses it), and
goes on until each worker of the client works again. Then the calls are compared with what the
surviving hosts hold. `load` looks for lost, doubled, stale and dirty rows and for calls that hang;
`registers` asks porcupine for an order of the calls. What the hosts printed in a round that failed
is kept in target/failover.
"""

import argparse
import collections
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time

import drivers
import faults
from cluster import Cluster, binary
from history import Final, findings, hung, kinds_of, longest_gap_s

WORKERS = 6
PAUSE_S = 2
WARM_TIMEOUT_S = 60
GO_ON_TIMEOUT_S = 30
#: So many calls of each worker have to succeed after the fault.
GO_ON_CALLS = {"load": 15, "registers": 100}
#: What each client is judged by, in the words of Jepsen's analysis where it has them.
RULES = {"lost": "lost_updates", "stale read": "stale_reads", "dirty read": "dirty_reads",
         "doubled": "doubled_writes", "refused but there": "refused_writes_that_happened",
         "never sent": "rows_that_nobody_sent", "hung": "calls_without_an_answer",
         "stands still": "clients_go_on", "copies differ": "copies_are_equal",
         "hosts": "other_hosts_go_on"}
#: The rules that a cluster cannot keep that has lost one host too many.
AVAILABILITY = ("stands still", "hosts", "copies differ")
COLUMNS = ("failovers", "sent", "answered", "unknown", "refused", "lost", "doubled", "suspected")


class Round:
    """One cluster, one client, one fault."""

    def __init__(self, client, command, mode, fault, number, arguments):
        self.client, self.command, self.mode, self.fault = client, command, mode, fault
        self.number, self.options = number, arguments.option
        # Other clients lose other hosts first: one round of each kills all three.
        self.victim = (number + list(drivers.CLIENTS).index(client)) % 3
        self.random = random.Random("%s %s %s" % (arguments.seed, client, number))
        self.folder = drivers.TARGET / ("%s-%s-%s-%d" % (client, mode, fault, number))
        self.calls, self.found, self.gap_s = [], collections.defaultdict(list), 0
        #: A host was put out that ran: with K = 1 the cluster does not survive that and a fault.
        self.is_spoiled = False

    def run(self):
        """Runs the round; itself, with calls, findings and the longest gap."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with Cluster(self.folder, options=self.options) as cluster:
            cluster.fill()
            turned = (self.number + 1) % 3
            addresses = cluster.addresses[turned:] + cluster.addresses[:turned]
            with drivers.Driver(self.command, self.mode, WORKERS, addresses,
                                self.folder / "driver.err") as driver:
                since_us = self._disturb(cluster, driver)
                if since_us is not None:
                    stuck = driver.stuck(GO_ON_CALLS[self.mode], since_us, GO_ON_TIMEOUT_S)
                    if stuck:
                        self.found["stands still"].append("workers %s" % stuck)
                if not driver.end():
                    self.found["hung"].append("calls did not end")
            self.calls = driver.calls
            self.gap_s = longest_gap_s(self.calls, since_us or 0)
            self._judge(cluster)
            running = [number for number in range(3)
                       if number != self.victim or self.fault == "kill"]
            self.is_spoiled = any(cluster.was_put_out(number) for number in running)
        if self.is_spoiled:
            for rule in AVAILABILITY:
                self.found.pop(rule, None)
        self._keep_or_remove()
        return self

    def _disturb(self, cluster, driver):
        """Waits for some calls, then kills or pauses a host; the moment of that."""
        if not driver.answered(self.random.randint(200, 800), WARM_TIMEOUT_S):
            self.found["stands still"].append("before the fault")
            return None
        if cluster.alive() != [0, 1, 2]:
            self.found["hosts"].append("a host ended before the fault")
        since_us = time.monotonic_ns() // 1000
        if self.fault == "kill":
            cluster.kill(self.victim)
        else:
            cluster.pause(self.victim)
            threading.Event().wait(PAUSE_S)
            cluster.resume(self.victim)
        return since_us

    def _judge(self, cluster):
        others = [number for number in range(3) if number != self.victim]
        if any(number not in cluster.alive() for number in others):
            self.found["hosts"].append("another host ended, too")
        try:
            finals = [self._final(cluster, number) for number in others]
        except Exception as error:  # pylint: disable=broad-except  (the client raises any)
            self.found["hosts"].append("the final reads failed: %s" % error)
            return
        if finals[0] != finals[1]:
            self.found["copies differ"].append("%s and %s" % tuple(finals))
        rules = findings if self.mode == "load" else hung
        for rule, words in rules(self.calls, finals[0]).items():
            self.found[rule] += words

    @staticmethod
    def _final(cluster, number):
        rows, notes, counter = (cluster.column(number, text) for text in (
            "SELECT k FROM one ORDER BY k", "SELECT k FROM everywhere ORDER BY k",
            "SELECT n FROM counter"))
        return Final(rows, notes, counter[0])

    def history(self):
        """The calls as the lines that a driver prints."""
        return "".join("%d %s %d %d %d %s %d %d %d %s\n" % (
            call.worker, call.operation, call.key, call.argument, call.old, call.status,
            call.value, call.begin_us, call.end_us, call.text) for call in self.calls)

    def linearizable(self, judge):
        """Whether porcupine finds an order; adds what it said where not."""
        said = subprocess.run([str(judge)], input=self.history(), capture_output=True, text=True,
                              timeout=600, check=False)
        if said.returncode != 0:
            self.found["not linearizable"].append(said.stdout + said.stderr)
            self._keep_or_remove()

    def _keep_or_remove(self):
        if any(self.found.values()):
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "history.txt").write_text(self.history(), encoding="utf-8")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class Report:
    """Counts named checks and prints a line each."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, label, words):
        """A check that holds if there are no words against it."""
        self.failed += bool(words)
        self.passed += not words
        print("%-7s %s" % ("FAILED" if words else "ok", label), flush=True)
        for word in words[:5]:
            print("        " + word)

    def skip(self, label, reason):
        """A check that this machine cannot make."""
        self.skipped += 1
        print("skipped %s: %s" % (label, reason), flush=True)


def attempt(one):
    """Runs a round; a cluster or driver that does not even start is a finding."""
    try:
        return one.run()
    except Exception as error:  # pylint: disable=broad-except  (reported as a failed check)
        one.found["hosts"].append("%s: %s" % (type(error).__name__, error))
        return one


def attempts(count, begin):
    """Runs rounds until so many were not spoiled, at most twice as many; (good, spoiled)."""
    good, spoiled = [], []
    while len(good) < count and len(good) + len(spoiled) < 2 * count:
        one = attempt(begin(len(good) + len(spoiled)))
        (spoiled if one.is_spoiled else good).append(one)
        print("        %s %s %d: %s of host %d, %s, gap %.3f s%s%s" % (
            one.client, one.mode, one.number, one.fault, one.victim, kinds_of(one.calls), one.gap_s,
            ", a host that runs was suspected" if one.is_spoiled else "",
            ", FAILED, see %s" % one.folder if any(one.found.values()) else ""), flush=True)
    return good, spoiled


def run_load(client, command, arguments, report):
    """All rounds of one client; its line of the table."""
    good, spoiled = attempts(arguments.rounds, lambda number: Round(
        client, command, "load", "kill", number, arguments))
    rounds = good + spoiled
    if len(good) < arguments.rounds:
        rounds[-1].found["hosts"].append("too often a host that runs was suspected")
    for rule, name in RULES.items():
        words = ["round %d: %s" % (one.number, word) for one in rounds for word in one.found[rule]]
        report.check("[%s] %s" % (client, name), words)
    total = collections.Counter()
    for one in rounds:
        total.update(kinds_of(one.calls))
        total.update(lost=len(one.found["lost"]), doubled=len(one.found["doubled"]))
    gaps = [one.gap_s for one in good or rounds]
    return {**total, "failovers": len(good), "suspected": len(spoiled), "most": max(gaps),
            "median": statistics.median(gaps)}


def run_registers(client, command, judge, arguments, report):
    """Registers of one client with each fault."""
    for fault in ("kill", "pause") if arguments.registers else ():
        good, spoiled = attempts(arguments.registers, lambda number, fault=fault: Round(
            client, command, "registers", fault, number, arguments))
        for one in good + spoiled:
            one.linearizable(judge)
        words = ["round %d: %s: %s" % (one.number, rule, word) for one in good + spoiled
                 for rule in one.found for word in one.found[rule]]
        if not good:
            words.append("each time a host that runs was suspected")
        report.check("[%s] linearizable_registers_with_%s" % (client, fault), words)


def print_table(table):
    """What the clients saw, a line each."""
    print("\n%-14s" % "client" + "".join("%11s" % name for name in COLUMNS)
          + "   longest gap: most    median")
    for client, line in table.items():
        print("%-14s" % client + "".join("%11d" % line.get(name, 0) for name in COLUMNS)
              + "%16.3f s%8.3f s" % (line["most"], line["median"]))


def main():
    """Runs what the arguments ask for; the exit code says whether all passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--client", action="append", choices=sorted(drivers.CLIENTS))
    parser.add_argument("--rounds", type=int, default=2, help="failovers of each client under load")
    parser.add_argument("--registers", type=int, default=1, help="rounds of each fault")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE, of all hosts")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    if not binary().exists():
        print("no server at %s: cargo build --release --bin lockstep-under-test" % binary())
        return 2
    report, table, judge = Report(), {}, None
    report.check("broken_rules_are_seen", faults.unseen_rules())
    try:
        judge = drivers.built_go("judge")
        report.check("broken_orders_are_seen", faults.unseen_orders(judge))
    except drivers.Missing as missing:
        report.skip("linearizable registers", missing)
    for client in arguments.client or drivers.CLIENTS:
        try:
            command = drivers.command_of(client)
        except drivers.Missing as missing:
            report.skip("[%s]" % client, missing)
            continue
        if arguments.rounds:
            table[client] = run_load(client, command, arguments, report)
        if judge is not None:
            run_registers(client, command, judge, arguments, report)
    print_table(table)
    print("suite failover: %d passed, %d failed, %d skipped" % (report.passed, report.failed,
                                                                 report.skipped))
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
