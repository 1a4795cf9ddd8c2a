#!/usr/bin/env python3
"""Drives VoltDB's unmodified clients through the loss of a host, and judges what they saw.

Each round starts three processes with K = 1, lets a client work, kills one host (or pauses it), and
goes on until each worker of the client works again. Instead of a fault there can be a change that
no client is to feel: `resize` adds a fourth host, removes one of the three and restarts another
one, `rolling` stops each host in order and starts it again. Then the calls are compared with what
the surviving hosts hold. `load` looks for lost, doubled, stale and dirty rows and for calls that
hang; `registers` asks porcupine for an order of the calls; `transactions` does so for calls that
read and write several registers through one procedure in Java, and for registers of which each has
several rows. What the hosts printed in a round that failed is kept in target/failover.
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
from history import (Final, findings, hung, kinds_of, lines_of, longest_gap_s, multi_registers,
                     partial, redundant_registers)

WORKERS = 6
PAUSE_S = 2
WARM_TIMEOUT_S = 60
GO_ON_TIMEOUT_S = 30
MODES = ("load", "registers", "transactions")
#: So many calls of each worker have to succeed after the fault.
GO_ON_CALLS = {"load": 15, "registers": 100, "transactions": 100}
#: What no client is to feel, in place of a fault.
CHANGES = ("resize", "rolling")
#: What each client is judged by, in the words of Jepsen's analysis where it has them.
RULES = {"lost": "lost_updates", "stale read": "stale_reads", "dirty read": "dirty_reads",
         "doubled": "doubled_writes", "refused but there": "refused_writes_that_happened",
         "never sent": "rows_that_nobody_sent", "hung": "calls_without_an_answer",
         "stands still": "clients_go_on", "copies differ": "copies_are_equal",
         "hosts": "other_hosts_go_on"}
#: The rules that a cluster cannot keep that has lost one host too many.
AVAILABILITY = ("stands still", "hosts", "copies differ")
#: The checks of the modes that porcupine judges, each with what it finds alone.
JUDGED = {"registers": {"linearizable_registers": ("not linearizable",)},
          "transactions": {"multi_registers": ("multi not linearizable",),
                           "redundant_registers": ("partial read", "redundant not linearizable")}}
COLUMNS = ("failovers", "sent", "answered", "unknown", "refused", "lost", "doubled", "suspected")


class Round:
    """One cluster, one client, one fault."""

    def __init__(self, client, command, mode, fault, number, arguments, judge=None,
                 jar=None):
        self.client, self.command, self.mode, self.fault = client, command, mode, fault
        self.number, self.options = number, arguments.option
        self.judge, self.jar = judge, jar
        # Other clients lose other hosts first: one round of each kills all three.
        self.victim = (number + list(drivers.CLIENTS).index(client)) % 3
        self.random = random.Random("%s %s %s" % (arguments.seed, client, number))
        self.folder = drivers.TARGET / ("%s-%s-%s-%d" % (client, mode, fault, number))
        self.calls, self.found, self.gap_s = [], collections.defaultdict(list), 0
        #: The hosts that are to run at the end.
        self.left = [number for number in range(3) if number != self.victim]
        #: A host was put out that ran: with K = 1 the cluster does not survive that and a fault.
        self.is_spoiled = False

    def run(self):
        """Runs the round; itself, with calls, findings and the longest gap."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with Cluster(self.folder, options=self.options) as cluster:
            cluster.fill()
            if self.jar is not None:
                cluster.fill_transactions(self.jar)
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
            running = [number for number in range(len(cluster.processes))
                       if number != self.victim or self.fault != "pause"]
            self.is_spoiled = any(cluster.was_put_out(number) for number in running)
        if self.is_spoiled:
            for rule in AVAILABILITY:
                self.found.pop(rule, None)
        if self.judge is not None:
            self._linearizable()
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
        elif self.fault == "resize":
            self.left.append(cluster.add(self.left[0]))
            cluster.remove(self.victim, self.left[-1])
            cluster.restart(self.left[0], self.left[-1])
        elif self.fault == "rolling":
            for number in range(3):
                cluster.restart(number, (number + 1) % 3)
            self.left = [0, 1, 2]
        else:
            cluster.pause(self.victim)
            threading.Event().wait(PAUSE_S)
            cluster.resume(self.victim)
        return since_us

    def _judge(self, cluster):
        others = self.left
        if any(number not in cluster.alive() for number in others):
            self.found["hosts"].append("another host ended, too")
        try:
            finals = [self._final(cluster, number) for number in others]
        except Exception as error:  # pylint: disable=broad-except  (the client raises any)
            self.found["hosts"].append("the final reads failed: %s" % error)
            return
        for final in finals[1:]:
            if finals[0] != final:
                self.found["copies differ"].append("%s and %s" % (finals[0], final))
        if self.mode == "transactions":
            self._same_registers(cluster, others)
        rules = findings if self.mode == "load" else hung
        for rule, words in rules(self.calls, finals[0]).items():
            self.found[rule] += words

    @staticmethod
    def _final(cluster, number):
        rows, notes, counter = (cluster.column(number, text) for text in (
            "SELECT k FROM one ORDER BY k", "SELECT k FROM everywhere ORDER BY k",
            "SELECT n FROM counter"))
        return Final(rows, notes, counter[0])

    def _same_registers(self, cluster, others):
        for text in ("SELECT v FROM multi_register ORDER BY p, r",
                     "SELECT v FROM redundant_register ORDER BY n, k"):
            columns = [cluster.column(number, text) for number in others]
            if any(column != columns[0] for column in columns):
                self.found["copies differ"].append("%s: %s" % (text, columns))

    def _linearizable(self):
        """Whether porcupine finds an order; adds what it said where not."""
        if self.mode == "transactions":
            self.found["partial read"] += partial(self.calls)
            self._ordered(multi_registers(self.calls), "multi not linearizable")
            self._ordered(redundant_registers(self.calls), "redundant not linearizable")
        else:
            self._ordered(self.calls, "not linearizable")

    def _ordered(self, calls, rule):
        said = subprocess.run([str(self.judge)], input=lines_of(calls), text=True,
                              capture_output=True, timeout=600, check=False)
        if said.returncode != 0:
            self.found[rule].append(said.stdout + said.stderr)

    def _keep_or_remove(self):
        if any(self.found.values()):
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "history.txt").write_text(lines_of(self.calls), encoding="utf-8")
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


def run_changes(client, command, arguments, report):
    """Rounds in which hosts are added, removed and restarted, of one client."""
    for change in arguments.change or CHANGES if arguments.changes else ():
        good, spoiled = attempts(arguments.changes, lambda number, change=change: Round(
            client, command, "load", change, number, arguments))
        rounds = good + spoiled
        words = ["round %d: %s: %s" % (one.number, rule, word) for one in rounds
                 for rule in one.found for word in one.found[rule]]
        if not good:
            words.append("each time a host that runs was suspected")
        report.check("[%s] calls_go_on_in_%s" % (client, change), words)


def run_judged(client, command, mode, tools, arguments, report):
    """A mode that porcupine judges, of one client, with each fault."""
    for fault in ("kill", "pause") if arguments.registers else ():
        good, spoiled = attempts(arguments.registers, lambda number, fault=fault: Round(
            client, command, mode, fault, number, arguments, *tools))
        checks = JUDGED[mode]
        for check in checks:
            of_others = {rule for other in checks if other != check for rule in checks[other]}
            words = ["round %d: %s: %s" % (one.number, rule, word) for one in good + spoiled
                     for rule in one.found if rule not in of_others for word in one.found[rule]]
            if not good:
                words.append("each time a host that runs was suspected")
            report.check("[%s] %s_with_%s" % (client, check, fault), words)


def print_table(table):
    """What the clients saw, a line each."""
    print("\n%-14s" % "client" + "".join("%11s" % name for name in COLUMNS)
          + "   longest gap: most    median")
    for client, line in table.items():
        print("%-14s" % client + "".join("%11d" % line.get(name, 0) for name in COLUMNS)
              + "%16.3f s%8.3f s" % (line["most"], line["median"]))


def built_tools(report):
    """The judge, and the jar of the procedures in Java, or None; checks the judges themselves."""
    report.check("broken_rules_are_seen", faults.unseen_rules())
    judge = jar = None
    try:
        judge = drivers.built_go("judge")
        report.check("broken_orders_are_seen", faults.unseen_orders(judge))
        report.check("broken_multi_registers_are_seen", faults.unseen_multi(judge))
        report.check("broken_redundant_registers_are_seen", faults.unseen_redundant(judge))
    except drivers.Missing as missing:
        report.skip("linearizable registers", missing)
        return None, None
    try:
        jar = drivers.built_procedures()
    except drivers.Missing as missing:
        report.skip("several registers", missing)
    return judge, jar


def run_client(client, command, tools, arguments, report):
    """All modes of one client; its line of the table, or None."""
    line = None
    modes = arguments.mode or MODES
    if arguments.rounds and "load" in modes:
        line = run_load(client, command, arguments, report)
    if "load" in modes:
        run_changes(client, command, arguments, report)
    judge, jar = tools
    if judge is not None and "registers" in modes:
        run_judged(client, command, "registers", (judge, None), arguments, report)
    if jar is not None and "transactions" in modes:
        run_judged(client, command, "transactions", tools, arguments, report)
    return line


def main():
    """Runs what the arguments ask for; the exit code says whether all passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--client", action="append", choices=sorted(drivers.CLIENTS))
    parser.add_argument("--mode", action="append", choices=MODES, help="instead of all")
    parser.add_argument("--rounds", type=int, default=2, help="failovers of each client under load")
    parser.add_argument("--changes", type=int, default=1,
                        help="rounds in which hosts are added and removed, and as many in which "
                             "each is stopped and started again")
    parser.add_argument("--change", action="append", choices=CHANGES, help="instead of both")
    parser.add_argument("--registers", type=int, default=1,
                        help="rounds of each fault, of registers and of transactions")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE, of all hosts")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    if not binary().exists():
        print("no server at %s: cargo build --release --bin lockstep-under-test" % binary())
        return 2
    report, table = Report(), {}
    tools = built_tools(report)
    for client in arguments.client or drivers.CLIENTS:
        try:
            command = drivers.command_of(client)
        except drivers.Missing as missing:
            report.skip("[%s]" % client, missing)
            continue
        line = run_client(client, command, tools, arguments, report)
        if line is not None:
            table[client] = line
    if table:
        print_table(table)
    print("suite failover: %d passed, %d failed, %d skipped" % (report.passed, report.failed,
                                                                 report.skipped))
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
