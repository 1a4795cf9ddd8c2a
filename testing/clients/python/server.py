"""Starts the server's binary on free loopback ports and stops it again."""

import os
import pathlib
import resource
import signal
import socket
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
READY = "lockstep: ready on "
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 20


def binary():
    """The binary under test: LOCKSTEP_BINARY, or the release build with the tests' procedures."""
    ours = ROOT / "target/release/lockstep-under-test"
    return pathlib.Path(os.environ.get("LOCKSTEP_BINARY") or ours)


def free_port():
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def made_directory(path, sites):
    """A directory for a host with so many sites."""
    command = [str(binary()), "init", "--dir", str(path), "--sites", str(sites)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


SHELL_OPEN_FILES = 1024


class Server:
    """A running server process. Use as a context manager."""

    def __init__(self, sites=1, options=(), open_files=None, directory=None):
        self.sites = sites
        self.directory = directory
        self.open_files = open_files
        self.options = list(options)
        self.port = None
        self.admin_port = None
        self.process = None
        self._output = []
        self._more_output = threading.Condition()
        self._ready = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts the process and returns once it serves; raises with its output if it does not."""
        self.admin_port = free_port()
        command = [str(binary()), "start", "--sites", str(self.sites), "--client", "127.0.0.1:0",
                   "--admin", "127.0.0.1:%d" % self.admin_port]
        if self.directory is not None:
            command += ["--dir", str(self.directory)]
        for option in self.options:
            command += ["--option", option]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        preexec_fn=self._limit_open_files)
        threading.Thread(target=self._read_output, daemon=True).start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._ready.wait(0.05):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("the server did not get ready:\n" + self.output())

    def _limit_open_files(self):
        """In the child: the soft limit of a login shell, whatever ours is; or a hard limit."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        hard = self.open_files or hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(SHELL_OPEN_FILES, hard), hard))

    def _read_output(self):
        for line in self.process.stdout:
            with self._more_output:
                if len(self._output) < 10_000:
                    self._output.append(line)
                self._more_output.notify_all()
            if line.startswith(READY):
                self.port = int(line[len(READY):].strip().rsplit(":", 1)[1])
                self._ready.set()

    def output(self):
        """What the process printed so far."""
        return "".join(self._output)

    def output_with(self, part, timeout_s=10):
        """What the process printed, once it holds `part`; without it after the time limit."""
        with self._more_output:
            self._more_output.wait_for(lambda: part in self.output(), timeout_s)
        return self.output()

    def rss_kb(self, peak=False):
        """Resident memory of the process in KiB, now or at its highest."""
        wanted = "VmHWM:" if peak else "VmRSS:"
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as status:
            for line in status:
                if line.startswith(wanted):
                    return int(line.split()[1])
        raise RuntimeError("the process has no " + wanted)

    def alive(self):
        """Whether the process still runs."""
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """Ends the process in order; its exit code, or None if it had to be killed."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
