#!/usr/bin/env python3
"""Replays the recorded answers of VoltDB, if they are at hand, and holds the server to its best.

The recordings lie beside the repository, in ../shared/golden. `corpus/golden-floor.json` keeps how
many cases of each category are equal; a run that finds fewer fails. `--update` raises the floor.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from server import ROOT, Server, binary  # noqa: E402

RUNNER = ROOT.parent / "shared/golden/run.py"
FLOOR = ROOT / "corpus/golden-floor.json"
SITES = 2  # the recordings were made with two partitions
TIMEOUT_S = 900


def replay(arguments):
    """The recordings' own summary: category to counts."""
    with Server(SITES) as server, tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out.json"
        command = [sys.executable, str(RUNNER), "--server", "127.0.0.1:%d" % server.port,
                   "--json", str(output)] + arguments
        subprocess.run(command, check=True, timeout=TIMEOUT_S)
        return json.loads(output.read_text(encoding="utf-8"))["categories"]


def compare(found, floor):
    """Prints a line for each category below its floor; (passed, failed)."""
    passed = failed = 0
    for category in sorted(found):
        equal, kept = found[category]["equal"], floor.get(category, 0)
        if equal < kept:
            failed += 1
            print("FAILED  golden %s: %d equal < %d kept" % (category, equal, kept))
        else:
            passed += 1
            more = " (run golden.py --update to keep %d)" % equal if equal > kept else ""
            print("ok      golden %s: %d of %d equal%s" % (category, equal,
                                                          found[category]["cases"], more))
    return passed, failed


def main():
    """Runs all categories, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--update", action="store_true", help="raise the floor to this run")
    parser.add_argument("--category", action="append", default=[], help="only this one")
    parser.add_argument("--show", type=int, default=0, help="print the first N differences each")
    arguments = parser.parse_args()
    if not RUNNER.exists():
        print("skipped: no recordings at %s" % RUNNER)
        print("suite golden: 0 passed, 0 failed, 1 skipped")
        return 0
    if not binary().exists():
        print("no server at %s" % binary())
        return 2
    passed_on = ["--show", str(arguments.show)]
    for category in arguments.category:
        passed_on += ["--category", category]
    found = replay(passed_on)
    floor = json.loads(FLOOR.read_text(encoding="utf-8")) if FLOOR.exists() else {}
    passed, failed = compare(found, floor)
    if arguments.update:
        for category, counts in found.items():
            floor[category] = max(floor.get(category, 0), counts["equal"])
        FLOOR.parent.mkdir(exist_ok=True)
        FLOOR.write_text(json.dumps(floor, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("suite golden: %d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
