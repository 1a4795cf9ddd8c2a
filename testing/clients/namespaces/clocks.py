"""Clocks of single processes, moved by libfaketime: a start with one that is off, and steps of the
clock of a host that runs. Only the clock of the calendar moves; monotonic clocks go on.
"""

import glob
import os
import threading

from network import Missing

LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"
PARTITION_VALUES = 6
OFF = "the clock of host"


def library():
    """The library that moves clocks."""
    found = glob.glob(LIBRARIES)
    if not found:
        raise Missing("libfaketime is not installed (package faketime)")
    return found[0]


class Clocks:
    """The clocks of the hosts of a cluster, as files in its folder."""

    def __init__(self, folder, hosts):
        self.library, self.folder = library(), folder
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(hosts):
            self.set(number, 0)

    def set(self, number, offset_s):
        """Moves the clock of a host to an offset from that of the system."""
        path = self.folder / ("clock-%d" % number)
        path.with_suffix(".new").write_text("%+.3f\n" % offset_s, encoding="utf-8")
        os.replace(path.with_suffix(".new"), path)

    def prefix(self, number):
        """The command that starts a process with the clock of a host."""
        return ["env", "LD_PRELOAD=" + self.library, "FAKETIME_NO_CACHE=1",
                "FAKETIME_DONT_FAKE_MONOTONIC=1",
                "FAKETIME_TIMESTAMP_FILE=%s" % (self.folder / ("clock-%d" % number))]


class Stamps:
    """Rows with the times of the transactions that made them, at all partitions."""

    def __init__(self, cluster):
        self.cluster, self.count = cluster, 0
        cluster.sql(0, "CREATE TABLE stamped (p BIGINT NOT NULL, n BIGINT NOT NULL,"
                       "made TIMESTAMP); PARTITION TABLE stamped ON COLUMN p")

    def add(self, number):
        """Makes a row at each partition through a host, where the cluster lets it."""
        self.count += 1
        for value in range(PARTITION_VALUES):
            try:
                self.cluster.sql(number, "INSERT INTO stamped VALUES (%d, %d, NOW)"
                                 % (value, self.count))
            except Exception:  # pylint: disable=broad-except  (while a host is replaced)
                pass

    def disorder(self, number):
        """What is wrong with the order of the times, as a host has them."""
        wrong = []
        for value in range(PARTITION_VALUES):
            times = self.cluster.column(number, "SELECT made FROM stamped WHERE p = %d ORDER BY n"
                                        % value)
            if not times or times != sorted(times):
                wrong.append("times go back: %s" % times)
        return wrong


def stepped(offsets):
    """A kind of fault: the clock of a host takes offsets, one after the other."""
    def run(_network, cluster, victim, random, seconds):
        chosen = offsets(random)
        stamps = Stamps(cluster)
        stamps.add(victim)
        for offset_s in [*chosen, 0]:
            cluster.clocks.set(victim, offset_s)
            threading.Event().wait(seconds / (len(chosen) + 1))
            stamps.add((victim + 1) % 3)
        cluster.stamps = stamps
        return ", by %s s" % ", ".join("%+.1f" % offset_s for offset_s in chosen)
    return run


def near(random):
    """Offsets within the limit of a second."""
    return [random.uniform(-0.9, 0.9) for _ in range(3)]


def far(random):
    """An offset that puts the host out."""
    return [random.choice([-30, 30])]


def refused_start(cluster, victim):
    """What is wrong with a start in which one clock is off: it ends at the hosts that see it."""
    cluster.clocks.set(victim, 3)
    try:
        with cluster:
            return ["the hosts started with clocks that differ by 3 s"]
    except RuntimeError as error:
        # Two may have ended before the one was connected that is waited for first.
        said = [cluster.said(number) for number in range(len(cluster.peers))]
        return [] if any(OFF in words for words in said) else ["the start ended with: %s" % error]
