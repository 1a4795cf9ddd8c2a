"""Hosts with directories, each on a small file system of its own that a test fills up or has fail.

Directories that fill up are on tmpfs. Those that fail are on ext4 in an image file, because ext4
can be told to refuse every write from a moment on, also through files that are open.
"""

import errno
import os
import shutil
import subprocess
import threading
import time

from cluster import binary
from voltdbclient import FastSerializer

from network import Missing, run

DISK_BYTES = 32 << 20
#: A log of many small files needs new space many times a second.
SEGMENT_BYTES = 65_536
RESERVE_BYTES = 8 << 20
NOTICE_TIMEOUT_S, PROBE_TIMEOUT_S = 10, 2
#: How the hosts are started, by the kind of fault.
OPTIONS = {"disk-full": ["disk_reserve_bytes=0"], "disk-fails": ["disk_reserve_bytes=0"],
           "disk-reserve": ["disk_reserve_bytes=%d" % RESERVE_BYTES, "resource_check_ms=20"]}
#: What a host logs when it notices the fault, and when it goes on.
NOTICED = {"disk-full": "the command log waits for space",
           "disk-reserve": "Server is in read-only mode",
           "disk-fails": "because its command log failed"}
GOES_ON = {"disk-full": "the command log has space again",
           "disk-reserve": "the disk has space again"}
#: What a write is refused with meanwhile.
REFUSAL = {"disk-full": "no space for the command log", "disk-reserve": "disk_reserve_bytes"}
#: What the other hosts log, and refuse writes with, meanwhile.
ELSEWHERE = "host %d of the cluster"
WRITES = ("insert", "note", "bump", "put", "cas")
#: What ext4 answers to a write once it has failed.
DISK_ERROR = "Read-only file system"


class Disks:
    """A small file system for each host. Use as a context manager."""

    def __init__(self, kind, folder, hosts):
        self.kind, self.folder, self.hosts = kind, folder, range(hosts)
        #: Of the fault, in microseconds of the monotonic clock, once all hosts noticed it.
        self.window_us = 0, 0
        #: By host, what it answered to a write meanwhile.
        self.answers = {}

    def __enter__(self):
        if os.geteuid() != 0:
            raise Missing("mounting a file system needs root")
        if self.kind == "disk-fails" and not shutil.which("mkfs.ext4"):
            raise Missing("`mkfs.ext4` is not installed (package e2fsprogs)")
        try:
            for number in self.hosts:
                self._make(number)
        except RuntimeError as error:
            self.__exit__()
            raise Missing("no file system can be mounted: %s" % error) from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            for number in self.hosts:
                if self.directory(number).exists():
                    shutil.copytree(self.directory(number), self.folder / ("data-%d" % number))
        finally:
            self.remove()

    def remove(self):
        """Unmounts all, also what an earlier run left."""
        for number in self.hosts:
            self._unmount(number)

    def _unmount(self, number):
        while self.root(number).is_mount():
            run("umount", "--lazy", str(self.root(number)))

    def root(self, number):
        """Where the file system of a host is mounted."""
        return self.folder / ("disk-%d" % number)

    def directory(self, number):
        """The directory of a host."""
        return self.root(number) / "data"

    def _image(self, number):
        return self.folder / ("disk-%d.image" % number)

    def _filler(self, number):
        return self.root(number) / "filler"

    def _make(self, number):
        self.root(number).mkdir(parents=True, exist_ok=True)
        if self.kind == "disk-fails":
            with open(self._image(number), "wb") as image:
                image.truncate(DISK_BYTES)
            run("mkfs.ext4", "-q", str(self._image(number)))
        self._mount(number)
        run(str(binary()), "init", "--dir", str(self.directory(number)), "--hosts",
            str(len(self.hosts)), "--kfactor", "1", "--sites", "2")

    def _mount(self, number):
        if self.kind == "disk-fails":
            run("mount", "-o", "loop", str(self._image(number)), str(self.root(number)))
        else:
            run("mount", "-t", "tmpfs", "-o", "size=%d" % DISK_BYTES, "tmpfs",
                str(self.root(number)))

    def arguments(self, number):
        """How a host is started on its directory."""
        options = ["log_segment_bytes=%d" % SEGMENT_BYTES, *OPTIONS[self.kind]]
        return ["--dir", str(self.directory(number)),
                *(word for option in options for word in ("--option", option))]

    def fill(self, number, left_bytes):
        """Takes the space of a disk but for so many bytes."""
        with open(self._filler(number), "wb") as filler:
            while not self._allocate(number, filler, left_bytes):
                pass  # the host took some of the space meanwhile
            if left_bytes == 0:
                fill_up(filler)

    def _allocate(self, number, filler, left_bytes):
        space = os.statvfs(self.root(number))
        free_bytes = space.f_bavail * space.f_frsize - left_bytes
        try:
            os.posix_fallocate(filler.fileno(), 0, max(free_bytes, 1))
            return True
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # A disk that is full already is what was asked for.
            return free_bytes <= 0

    def empty(self, number):
        """Gives the space back."""
        self._filler(number).unlink()

    def fail(self, number):
        """Has every write of a disk fail from now on."""
        run("mount", "-o", "remount,abort", str(self.root(number)))

    def mend(self, number):
        """Mounts what failed anew, once no host runs."""
        if self.kind == "disk-fails":
            # A copy: the system may hold on to the failed file system for a while.
            mended = self._image(number).with_suffix(".mended")
            shutil.copyfile(self._image(number), mended)
            self._unmount(number)
            mended.rename(self._image(number))
            self._mount(number)


def fill_up(filler):
    """Writes to a file until there is no space, also what others gave back meanwhile."""
    try:
        filler.seek(0, os.SEEK_END)
        while True:
            os.write(filler.fileno(), bytes(4096))
    except OSError:
        pass


def logged(cluster, number, words):
    """Waits until a host logs words or ends; whether it logged them."""
    deadline = time.monotonic() + NOTICE_TIMEOUT_S
    while words not in cluster.said(number) and time.monotonic() < deadline:
        threading.Event().wait(0.005)
    return words in cluster.said(number)


def notice(kind, number, victim):
    """What a host logs when it notices that the disk of a victim has no space."""
    return NOTICED[kind] if number == victim else ELSEWHERE % victim


def probe(cluster, number):
    """What a host answers to a write."""
    try:
        cluster.call(number, "note", [FastSerializer.VOLTTYPE_BIGINT], [-1], PROBE_TIMEOUT_S)
        return "success"
    except Exception as refused:  # pylint: disable=broad-except  (the client raises any)
        return str(refused)


def no_space(left_bytes):
    """A kind of fault: the disk of a host has only so much space, and then plenty again."""
    def fault(_network, cluster, victim, random, seconds):
        disks, bytes_left = cluster.disks, left_bytes(random)
        disks.fill(victim, bytes_left)
        for number in disks.hosts:
            logged(cluster, number, notice(disks.kind, number, victim))
        begin_us = time.monotonic_ns() // 1000
        disks.answers = {number: probe(cluster, number) for number in disks.hosts}
        threading.Event().wait(seconds)
        disks.window_us = begin_us, time.monotonic_ns() // 1000
        disks.empty(victim)
        logged(cluster, victim, GOES_ON[disks.kind])
        return ", %d bytes left" % bytes_left
    return fault


def fails(_network, cluster, victim, _random, seconds):
    """Every write to the disk of a host fails."""
    cluster.disks.fail(victim)
    try:
        cluster.processes[victim].wait(NOTICE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pass  # judged later
    threading.Event().wait(seconds)
    return ""


def nothing(_random):
    """No space at all is left."""
    return 0


def below_reserve(random):
    """Less than the reserve is left, or less than a quarter of it."""
    return random.choice([RESERVE_BYTES // 2, RESERVE_BYTES // 8])


KINDS = {"disk-full": no_space(nothing), "disk-reserve": no_space(below_reserve),
         "disk-fails": fails}


def wrong(cluster, victim, calls):
    """What is wrong with how the hosts took the fault, by rule. To be asked while they run."""
    kind, said = cluster.disks.kind, cluster.said(victim)
    found = {"disk": []}
    if NOTICED[kind] not in said:
        found["disk"].append("host %d does not log '%s'" % (victim, NOTICED[kind]))
    if kind == "disk-fails":
        code = cluster.processes[victim].poll()
        if code != 1 or DISK_ERROR not in said:
            found["disk"].append("host %d ended with %s: %s" % (victim, code, said))
        return found
    if said.rfind(GOES_ON[kind]) < said.rfind(NOTICED[kind]):
        found["disk"].append("host %d does not log '%s'" % (victim, GOES_ON[kind]))
    for number, answer in cluster.disks.answers.items():
        words = REFUSAL[kind] if number == victim else ELSEWHERE % victim
        if ": -5 " not in answer or words not in answer:
            found.setdefault("refusals", []).append("host %d does not say '%s': %s" % (
                number, words, answer))
    if cluster.was_put_out(victim):
        found["a false loss"] = ["host %d, for its disk" % victim]
    begin_us, end_us = cluster.disks.window_us
    during = [call for call in calls
              if call.ok() and call.begin_us > begin_us and call.end_us < end_us]
    found["a write was taken"] = [str(call) for call in during if call.operation in WRITES]
    # Without space for the log, what depends on a write that waits waits as well.
    reading = {call.worker for call in during}
    if kind == "disk-reserve" and not reading.issuperset(cluster.disks.hosts):
        found["stands still"] = ["reads succeed at the hosts %s alone" % sorted(reading)]
    return found
