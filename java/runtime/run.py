#!/usr/bin/env python3
"""Runs the tests of the Java procedure runtime and prints their counts.

Most have an engine in Java behind the procedures. Those of the helper for users' tests start the
server's binary: LOCKSTEP_BINARY, or the release build with the tests' procedures.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 600
BINARY = HERE.parents[1] / "target/release/lockstep-under-test"


def maven(offline):
    """Runs Maven's test phase; true if it ended well."""
    command = ["mvn", "-B", "-q", "-ntp", "-f", str(HERE.parent / "pom.xml"), "-pl", "runtime"]
    command += ["-o"] if offline else []
    environment = dict(os.environ)
    environment.setdefault("LOCKSTEP_BINARY", str(BINARY))
    done = subprocess.run([*command, "test"], env=environment, timeout=TIMEOUT_S, check=False)
    return done.returncode == 0


def main():
    """Runs the tests, offline if Maven has all it needs; the exit code says whether all passed."""
    reports = HERE / "target/surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    ended_well = maven(True)
    if not ended_well and not reports.exists():
        ended_well = maven(False)
    passed = failed = skipped = 0
    for report in sorted(reports.glob("TEST-*.xml")):
        suite = ElementTree.parse(report).getroot()
        tests, bad, skips = (int(suite.get(name)) for name in ("tests", "failures", "skipped"))
        bad += int(suite.get("errors"))
        print("%-7s %s: %d tests, %s s" % ("FAILED" if bad else "ok", suite.get("name"), tests,
                                          suite.get("time")))
        passed, failed, skipped = passed + tests - bad - skips, failed + bad, skipped + skips
    if not ended_well and not failed:
        print("FAILED  Maven failed without a failed test")
        failed += 1
    print("suite java-api: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
