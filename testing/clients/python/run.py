#!/usr/bin/env python3
"""Runs the driver tests of VoltDB's unmodified Python client against the server's binary.

Each case runs in the configurations that it names: with one site and with three, on the client and
on the admin port, through FastSerializer and through VoltClient. Prints a line for each case, and
at the end the counts.
"""

import argparse
import importlib
import os
import pathlib
import sys
import time
import unittest

os.environ["TZ"] = "UTC"  # the client turns timestamps into local time
time.tzset()
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402  (needs the path above)
import server as server_module  # noqa: E402

MODULES = ("types", "errors", "crud", "system", "statistics", "topology", "voter", "native",
           "bad_input", "limits", "loads", "operate", "voltadmin", "global_index", "pytpcc")
CALLERS = (harness.FastSerializerCaller, harness.VoltClientCaller)


class LineResult(unittest.TestResult):
    """Prints one line a test as it ends."""

    def __init__(self, label):
        super().__init__()
        self.label, self.passed, self.begin = label, 0, 0.0

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def _line(self, test, outcome):
        seconds = time.monotonic() - self.begin
        slow = " (%.1f s)" % seconds if seconds > 1 else ""
        print("%-7s %s %s%s" % (outcome, self.label, test_name(test), slow), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        self._line(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(test, "skipped")
        print("        " + reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(test)

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._line(subtest, "FAILED")

    def _failed(self, test):
        self._line(test, "FAILED")

    def failed_tests(self):
        """(test, traceback) of all that failed, parts of one test counted once."""
        seen = {}
        for test, text in self.failures + self.errors:
            whole = getattr(test, "test_case", test)
            seen.setdefault(test_name(whole), []).append(text)
        return seen


def test_name(test):
    """Class and method without the package."""
    return test.id().split("cases.", 1)[-1]


def configurations(matrix, running):
    """The (label, attributes) pairs that a matrix stands for, with the running servers."""
    if matrix == "alone":
        return [("own server", {})]
    found = []
    for one in running:
        for port_kind in ("client", "admin"):
            for caller in CALLERS:
                plain = port_kind == "client" and caller is CALLERS[0]
                if matrix == "all" or (plain and (matrix == "sites" or one is running[0])):
                    label = "%d site%s, %s port, %s" % (
                        one.sites, "s" if one.sites > 1 else "", port_kind, caller.name)
                    port = one.port if port_kind == "client" else one.admin_port
                    found.append((label, {"server": one, "port": port, "caller_class": caller}))
    return found


def cases_of(module):
    """The test classes that a module defines and that hold tests."""
    found = [item for item in vars(module).values()
             if isinstance(item, type) and issubclass(item, unittest.TestCase)
             and item.__module__ == module.__name__]
    return [item for item in found if unittest.defaultTestLoader.getTestCaseNames(item)]


def run_case(case, running, wanted):
    """Runs one class in all its configurations; the results."""
    results = []
    for label, attributes in configurations(getattr(case, "matrix", "all"), running):
        configured = type(case.__name__, (case,), {"__module__": case.__module__, **attributes})
        suite = unittest.TestSuite(
            test for test in unittest.defaultTestLoader.loadTestsFromTestCase(configured)
            if not wanted or any(word in test.id() for word in wanted))
        if suite.countTestCases():
            result = LineResult("[%s]" % label)
            suite.run(result)
            results.append(result)
    return results


def main():
    """Runs what the arguments ask for; the exit code says whether all passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("words", nargs="*", help="run only tests whose name holds one of these")
    parser.add_argument("--sites", type=int, action="append", help="instead of 1 and 3")
    arguments = parser.parse_args()
    if not server_module.binary().exists():
        build = "cargo build --release --bin lockstep-under-test"
        print("no server at %s: %s" % (server_module.binary(), build))
        return 2
    running = [server_module.Server(count) for count in arguments.sites or (1, 3)]
    results = []
    try:
        for one in running:
            one.start()
        for name in MODULES:
            for case in cases_of(importlib.import_module("cases." + name)):
                results += run_case(case, running, arguments.words)
    finally:
        for one in running:
            one.stop()
    failed = 0
    for result in results:
        for name, texts in result.failed_tests().items():
            failed += 1
            print("\n-- %s %s" % (result.label, name))
            print("\n".join(texts[:3]))
    passed = sum(result.passed for result in results)
    skipped = sum(len(result.skipped) for result in results)
    print("suite python: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
