#!/usr/bin/env python3
"""Runs the tests of VoltDB's unmodified Java clients against the server's binary.

Both client versions, with one site and with three. Maven resolves from the network the first time
and offline from then on. Prints a line for each test class, and at the end the counts.
"""

import argparse
import hashlib
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "testing/clients/python"))

from server import Server, binary  # noqa: E402  (needs the path above)

VERSIONS = {"client-10": "10.1.1", "client-13": "13.2.2"}
STAMP = ROOT / "target/java-resolved"
PROCEDURES = HERE / "target/procedures/procedures.jar"
TIMEOUT_S = 900


def resolved_key():
    """Changes when a pom changes, and with it what Maven must resolve."""
    poms = [HERE / "pom.xml", HERE.parent / "pom.xml"]
    return hashlib.sha256(b"".join(pom.read_bytes() for pom in poms)).hexdigest()


def procedures():
    """Compiles the procedures that the tests load, against the server's own API, into a jar."""
    folder = PROCEDURES.parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    api, classes = folder / "api.jar", folder / "classes"
    subprocess.run([str(binary()), "java-api", str(api)], check=True, stdout=subprocess.DEVNULL)
    sources = [str(source) for source in sorted((HERE / "src/procedures").rglob("*.java"))]
    subprocess.run(["javac", "-Xlint:all", "-cp", str(api), "-d", str(classes), *sources],
                   check=True)
    subprocess.run(["jar", "cf", str(PROCEDURES), "-C", str(classes), "."], check=True)


def maven(profile, server, words, offline):
    """Runs Maven's test phase; true if it ended well."""
    command = ["mvn", "-B", "-q", "-ntp", "-f", str(HERE.parent / "pom.xml"),
               "-pl", "driver-tests", "-P" + profile,
               "-Dlockstep.server=127.0.0.1:%d" % server.port,
               "-Dlockstep.admin=127.0.0.1:%d" % server.admin_port,
               "-Dlockstep.sites=%d" % server.sites,
               "-Dlockstep.procedures=%s" % PROCEDURES]
    if offline:
        command.append("-o")
    if words:
        command += ["-Dtest=" + ",".join(words), "-Dsurefire.failIfNoSpecifiedTests=false"]
    command.append("test")
    return subprocess.run(command, timeout=TIMEOUT_S, check=False).returncode == 0


def count(reports, label):
    """Reads the reports of one run and prints a line each; (passed, failed, skipped)."""
    passed = failed = skipped = 0
    for report in sorted(reports.glob("TEST-*.xml")):
        suite = ElementTree.parse(report).getroot()
        bad = skips = good = 0
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                bad += 1
                print("FAILED  [%s] %s.%s" % (label, suite.get("name"), case.get("name")))
            elif case.find("skipped") is not None:
                skips += 1
            else:
                good += 1
        if good + bad + skips:
            print("%-7s [%s] %s: %d tests, %s s" % ("FAILED" if bad else "ok", label,
                                                   suite.get("name"), good + bad + skips,
                                                   suite.get("time")), flush=True)
        passed, failed, skipped = passed + good, failed + bad, skipped + skips
    return passed, failed, skipped


def run_one(profile, server, words):
    """One client version against one server; (passed, failed, skipped)."""
    label = "%s, %d site%s" % (VERSIONS[profile], server.sites, "s" if server.sites > 1 else "")
    reports = HERE / "target" / VERSIONS[profile] / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    offline = STAMP.exists() and resolved_key() in STAMP.read_text(encoding="ascii")
    ended_well = maven(profile, server, words, offline)
    if not ended_well and offline and not reports.exists():
        ended_well = maven(profile, server, words, False)  # the local repository was emptied
    passed, failed, skipped = count(reports, label)
    if not ended_well and not failed:
        print("FAILED  [%s] Maven failed without a failed test" % label)
        failed += 1
    return passed, failed, skipped


def main():
    """Runs what the arguments ask for; the exit code says whether all passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("words", nargs="*", help="only these test classes, in surefire's syntax")
    parser.add_argument("--profile", action="append", choices=sorted(VERSIONS))
    parser.add_argument("--sites", type=int, action="append", help="instead of 1 and 3")
    arguments = parser.parse_args()
    if not binary().exists():
        print("no server at %s: cargo build --release --bin lockstep-under-test" % binary())
        return 2
    procedures()
    total = [0, 0, 0]
    for sites in arguments.sites or (1, 3):
        with Server(sites) as server:
            for profile in arguments.profile or sorted(VERSIONS):
                for index, number in enumerate(run_one(profile, server, arguments.words)):
                    total[index] += number
    if total[0]:
        STAMP.parent.mkdir(exist_ok=True)
        STAMP.write_text(resolved_key() + "\n", encoding="ascii")
    print("suite java: %d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
