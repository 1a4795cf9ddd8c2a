"""Builds the drivers of the three languages, and Java procedures; runs a driver as a process."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from cluster import binary
from history import parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TARGET = ROOT / "target/failover"
BUILD_TIMEOUT_S = 600
END_TIMEOUT_S = 30
#: The clients: the language, and what its driver takes as its first argument.
CLIENTS = {"python": ("python", "plain"), "python-aware": ("python", "aware"),
           "java": ("java", "client"), "java-client2": ("java", "client2"), "go": ("go", "go")}
OPENS = ["java.base/sun.nio.ch", "java.base/java.nio", "java.base/java.lang"]


class Missing(Exception):
    """A tool is not installed: what needs it is skipped."""


def go():
    """The Go compiler, in the path or where its own installer puts it."""
    found = shutil.which("go") or "/usr/local/go/bin/go"
    if not pathlib.Path(found).exists():
        raise Missing("Go 1.23 or newer is not installed (https://go.dev/dl)")
    return found


def built_go(name):
    """Builds one of the two programs in Go; its path."""
    program = TARGET / name
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    built = subprocess.run([go(), "build", "-o", str(program), "./" + name], cwd=HERE / "go",
                           env=environment, timeout=BUILD_TIMEOUT_S, check=False)
    if built.returncode != 0:
        raise RuntimeError("go build ./%s failed" % name)
    return program


def java_classpath():
    """Where Maven keeps the Java client and what it needs, resolved once for each pom."""
    pom = ROOT / "java/driver-tests/pom.xml"
    key = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    kept = TARGET / ("classpath-" + key)
    if not kept.exists():
        TARGET.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mvn", "-B", "-q", "-ntp", "-f", str(ROOT / "java/pom.xml"), "-pl",
                        "driver-tests", "-Pclient-13", "dependency:build-classpath",
                        "-Dmdep.includeScope=test", "-Dmdep.outputFile=%s" % kept],
                       timeout=BUILD_TIMEOUT_S, check=True)
    return kept.read_text(encoding="utf-8").strip()


def built_java():
    """Compiles the driver in Java; the class path to start it with."""
    if not shutil.which("mvn") or not shutil.which("javac"):
        raise Missing("Maven or a JDK is not installed")
    path, classes = java_classpath(), TARGET / "classes"
    subprocess.run(["javac", "-Xlint:all", "-cp", path, "-d", str(classes),
                    str(HERE / "java/FailoverDriver.java")], timeout=BUILD_TIMEOUT_S, check=True)
    return "%s:%s" % (classes, path)


def built_procedures():
    """Compiles the procedures in Java against the server's own API; the path of their jar."""
    if not shutil.which("javac"):
        raise Missing("a JDK is not installed")
    folder = TARGET / "procedures"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    api, jar = folder / "api.jar", folder / "procedures.jar"
    sources = sorted(str(source) for source in (HERE / "java/procedures").glob("*.java"))
    for command in ([str(binary()), "java-api", str(api)],
                    ["javac", "-Xlint:all", "-cp", str(api), "-d", str(folder / "classes"),
                     *sources],
                    ["jar", "cf", str(jar), "-C", str(folder / "classes"), "."]):
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=BUILD_TIMEOUT_S, check=True)
    return jar


def command_of(client):
    """The command that starts a client's driver, without the arguments that all drivers take."""
    language, kind = CLIENTS[client]
    TARGET.mkdir(parents=True, exist_ok=True)
    if language == "python":
        return [sys.executable, str(HERE / "python_driver.py"), kind]
    if language == "go":
        return [str(built_go("driver")), kind]
    opens = ["--add-opens=%s=ALL-UNNAMED" % package for package in OPENS]
    return ["java", *opens, "-cp", built_java(), "FailoverDriver", kind]


class Driver:
    """A driver that runs. Use as a context manager."""

    def __init__(self, command, mode, workers, addresses, errors):
        self.command = [*command, mode, str(workers), *addresses]
        self.workers, self.errors = workers, errors
        self.calls, self.process = [], None
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self):
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, text=True,
                                            stdout=subprocess.PIPE, stderr=errors)
        self._reader.start()
        return self

    def __exit__(self, *_):
        self.end()

    def _read(self):
        for line in self.process.stdout:
            call = parse(line)
            with self._more:
                self.calls.append(call)
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    def answered(self, count, timeout_s):
        """Waits until so many calls succeeded; whether they did in time."""
        with self._more:
            return self._more.wait_for(
                lambda: len(self.calls) >= count and sum(call.ok() for call in self.calls) >= count,
                timeout_s)

    def stuck(self, count, since_us, timeout_s):
        """Waits for so many successes of each worker in calls that began after a moment; the
        workers that did not have them in time."""
        deadline = time.monotonic() + timeout_s
        done, seen = [0] * self.workers, 0
        with self._more:
            while min(done) < count and time.monotonic() < deadline:
                for call in self.calls[seen:]:
                    done[call.worker] += call.ok() and call.begin_us > since_us
                seen = len(self.calls)
                if min(done) < count:
                    self._more.wait(0.2)
        return [worker for worker in range(self.workers) if done[worker] < count]

    def end(self):
        """Ends the load and waits for the calls in flight; whether all of them ended."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(END_TIMEOUT_S)
            ended = True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            ended = False
        self._reader.join(END_TIMEOUT_S)
        return ended
