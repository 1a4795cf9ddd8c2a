"""A cluster of processes on loopback: three hosts, one copy more of each partition."""

import pathlib
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

from server import READY, binary  # noqa: E402  (needs the path above)
from history import COPIES  # noqa: E402
from voltdbclient import FastSerializer, VoltProcedure  # noqa: E402

#: What the drivers' calls need.
SCHEMA = """
CREATE TABLE one (k BIGINT NOT NULL); PARTITION TABLE one ON COLUMN k;
CREATE TABLE everywhere (k BIGINT NOT NULL);
CREATE TABLE counter (n BIGINT NOT NULL);
CREATE TABLE register (k BIGINT NOT NULL PRIMARY KEY, v BIGINT NOT NULL);
PARTITION TABLE register ON COLUMN k;
CREATE PROCEDURE add_one PARTITION ON TABLE one COLUMN k AS INSERT INTO one VALUES (?);
CREATE PROCEDURE find PARTITION ON TABLE one COLUMN k AS SELECT COUNT(*) FROM one WHERE k = ?;
CREATE PROCEDURE note AS INSERT INTO everywhere VALUES (?);
CREATE PROCEDURE bump AS UPDATE counter SET n = n + 1;
CREATE PROCEDURE get_one PARTITION ON TABLE register COLUMN k AS
    SELECT v FROM register WHERE k = ?;
CREATE PROCEDURE put_one PARTITION ON TABLE register COLUMN k PARAMETER 1 AS
    UPDATE register SET v = ? WHERE k = ?;
CREATE PROCEDURE cas_one PARTITION ON TABLE register COLUMN k PARAMETER 1 AS
    UPDATE register SET v = ? WHERE k = ? AND v = ?;
"""
#: What calls of several registers need in addition. A group of registers has the partitioning keys
#: 1, 2, and 3, each of another partition, with REGISTERS_OF_PART registers each; a redundant
#: register has COPIES rows.
TRANSACTIONS_SCHEMA = """
CREATE TABLE multi_register (p BIGINT NOT NULL, r BIGINT NOT NULL, v BIGINT NOT NULL,
    PRIMARY KEY (p, r));
PARTITION TABLE multi_register ON COLUMN p;
CREATE PROCEDURE FROM CLASS failover.MultiRegisters;
CREATE PROCEDURE PARTITION ON TABLE multi_register COLUMN p FROM CLASS failover.SingleRegisters;
CREATE TABLE redundant_register (n BIGINT NOT NULL, k BIGINT NOT NULL, v BIGINT NOT NULL,
    PRIMARY KEY (n, k));
PARTITION TABLE redundant_register ON COLUMN n;
CREATE PROCEDURE get_copies AS SELECT v FROM redundant_register WHERE k = ? ORDER BY n;
CREATE PROCEDURE put_copies AS UPDATE redundant_register SET v = ? WHERE k = ?;
CREATE PROCEDURE cas_copies AS UPDATE redundant_register SET v = ? WHERE k = ? AND v = ?;
CREATE PROCEDURE registers_here PARTITION ON TABLE multi_register COLUMN p WITH LOCAL DATA AS
    SELECT COUNT(*) FROM multi_register WHERE ? IS NOT NULL;
CREATE PROCEDURE copies_here PARTITION ON TABLE redundant_register COLUMN n WITH LOCAL DATA AS
    SELECT COUNT(*) FROM redundant_register WHERE ? IS NOT NULL;
"""
KEYS = 5
GROUPS, PARTS, REGISTERS_OF_PART = 4, 3, 2
START_TIMEOUT_S = 60
#: Until a host has its share of copies, or has given its own to others.
CHANGE_TIMEOUT_S = 90
STOP_TIMEOUT_S = 10
CALL_TIMEOUT_S = 10


class Refused(Exception):
    """A call of the test itself failed."""


def reserved_port():
    """A socket that keeps its port from all but a host that is told to listen there."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


class Cluster:
    """Three hosts with K = 1, at first. What they print is kept in a folder. Use as a context
    manager."""

    def __init__(self, folder, hosts=3, sites=2, options=()):
        self.folder, self.sites, self.options = folder, sites, options
        self.reserved = [reserved_port() for _ in range(3 * hosts)]
        self.ports = [reserved.getsockname()[1] for reserved in self.reserved]
        self.peers = ["127.0.0.1:%d" % port for port in self.ports[:hosts]]
        self.addresses = ["127.0.0.1:%d" % port for port in self.ports[hosts:2 * hosts]]
        self.admin = ["127.0.0.1:%d" % port for port in self.ports[2 * hosts:]]
        #: `--peers` as it was given when a host was added; None for the hosts with which the
        #: cluster was made.
        self.listed = None
        self.processes = []

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
        except BaseException:  # also where the test is told to end
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts all hosts and waits until they serve."""
        for number in range(len(self.peers)):
            self._spawn(number)
        for number in range(len(self.peers)):
            self._wait_until_ready(number)

    def crash(self):
        """Ends all hosts at once and forgets them: the next is `start`. What they printed is kept
        under another name."""
        for process in self.processes:
            process.kill()
        for number, process in enumerate(self.processes):
            process.wait()
            for what in ("out", "err"):
                log = self._log(number, what)
                log.rename(log.with_suffix(".before." + what))
        self.processes = []

    def _log(self, number, what):
        return self.folder / ("host-%d.%s" % (number, what))

    def _spawn(self, number, more=()):
        """Starts the process of a host: another one, or again."""
        command = [*self.prefix(number), str(binary()), "start", *self.data(number),
                   "--option", "cluster_start_timeout_ms=60000", *more,
                   "--internal", self.peers[number], "--peers", self.listed or ",".join(self.peers),
                   "--client", self.addresses[number], "--admin", self.admin[number]]
        for option in self.options:
            command += ["--option", option]
        with open(self._log(number, "out"), "wb") as out, \
                open(self._log(number, "err"), "ab") as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.processes[number:number + 1] = [process]

    def prefix(self, number):
        """The command that starts the command of a host."""
        del number
        return []

    def data(self, number):
        """The arguments about the data of a host: in memory, with a copy more of each."""
        del number
        return ["--kfactor", "1", "--sites", str(self.sites)]

    def _wait_until_ready(self, number):
        deadline = time.monotonic() + START_TIMEOUT_S
        while READY not in self._log(number, "out").read_text(encoding="utf-8"):
            ended = self.processes[number].poll() is not None
            if ended or time.monotonic() > deadline:
                raise RuntimeError("host %d did not get ready:\n%s" % (number, self.said(number)))
            time.sleep(0.02)

    def said(self, number):
        """What a host logged."""
        return self._log(number, "err").read_text(encoding="utf-8", errors="replace")

    def was_put_out(self, number):
        """Whether a host that ran is out of the cluster, as it logged itself."""
        said = self.said(number)
        return said.rfind("have taken this host out") > said.rfind("takes part in the cluster")

    def alive(self):
        """The numbers of the hosts whose processes run."""
        return [number for number, process in enumerate(self.processes) if process.poll() is None]

    def kill(self, number):
        """Ends a host at once."""
        self.processes[number].kill()
        self.processes[number].wait()

    def add(self, by):
        """Adds a host, starts it, and waits until it has its share of copies; its number."""
        ports = [reserved_port() for _ in range(3)]
        self.reserved += ports
        address, client, admin = ("127.0.0.1:%d" % it.getsockname()[1] for it in ports)
        number, self.listed = self.administer(by, "@AddHost", [address])[0].tuples[0]
        if number != len(self.peers):
            raise RuntimeError("the new host has the number %d" % number)
        self.peers.append(address)
        self.addresses.append(client)
        self.admin.append(admin)
        self._spawn(number)
        self._wait_until_ready(number)
        self._wait("host %d has its share" % number, lambda: self.plans(by)[number] == "stays")
        return number

    def remove(self, number, by):
        """Removes a host, and waits until its process has ended."""
        self.administer(by, "@RemoveHost", [number])
        self._wait("host %d has ended" % number, lambda: self.processes[number].poll() is not None)

    def restart(self, number, by):
        """Stops a host in order, starts it again, and waits until it has its copies."""
        # Soon after a removal, before another host has the vote of the removed one, the others may
        # be no majority without it, and the stop is refused.
        self._wait("host %d stops" % number, lambda: self.processes[number].poll() is not None
                   or self.administer(by, "@StopNode", [number]) is not None)
        self._wait("host %d has ended" % number, lambda: self.processes[number].poll() is not None)
        self._spawn(number, more=["--rejoin"])
        self._wait_until_ready(number)
        self._wait("all copies are in sync", lambda: self.missing_copies(by) == 0)

    def plans(self, by):
        """By number, what becomes of each host that is listed."""
        table = self.administer(by, "@SystemInformation", ["CLUSTER"])[1]
        names = [column.name for column in table.columns]
        host, plan = names.index("HOST_ID"), names.index("PLAN")
        return {row[host]: row[plan] for row in table.tuples}

    def missing_copies(self, by):
        """Copies that partitions lack."""
        table = self.administer(by, "@Statistics", ["KSAFETY", 0])[0]
        return sum(row[2] for row in table.tuples)

    @staticmethod
    def _wait(what, is_so):
        """Waits until it is so. A call that is refused meanwhile is made again."""
        deadline, said = time.monotonic() + CHANGE_TIMEOUT_S, ""
        while time.monotonic() < deadline:
            try:
                if is_so():
                    return
            except Refused as refused:
                said = ": %s" % refused
            time.sleep(0.05)
        raise RuntimeError("never: %s%s" % (what, said))

    def administer(self, number, procedure, values):
        """One call at the port for administrators of a host; the tables of its answer."""
        types = [FastSerializer.VOLTTYPE_STRING if isinstance(value, str)
                 else FastSerializer.VOLTTYPE_INTEGER for value in values]
        return self._call_at(self.admin[number], number, procedure, types, values, CHANGE_TIMEOUT_S)

    def pause(self, number):
        """Stops a host's process until `resume`."""
        self.processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number):
        """Lets a paused process go on."""
        self.processes[number].send_signal(signal.SIGCONT)

    def stop(self):
        """Ends all hosts."""
        for reserved in self.reserved:
            reserved.close()
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def call(self, number, procedure, types, values, timeout_s=CALL_TIMEOUT_S):
        """One call at one host; the tables of its answer."""
        return self._call_at(self.addresses[number], number, procedure, types, values, timeout_s)

    @staticmethod
    def _call_at(address, number, procedure, types, values, timeout_s):
        host, port = address.split(":")
        connection = FastSerializer(host, int(port), procedure_timeout=timeout_s)
        try:
            answer = VoltProcedure(connection, procedure, types).call(values)
        finally:
            connection.close()
        if answer.status != 1:
            raise Refused("%s %.200s at host %d: %s %s" % (procedure, values, number,
                                                           answer.status, answer.statusString))
        return answer.tables

    def sql(self, number, text):
        """Ad hoc SQL at one host; the tables of its answer."""
        return self.call(number, "@AdHoc", [FastSerializer.VOLTTYPE_STRING], [text])

    def fill(self):
        """Makes the tables and procedures of the drivers."""
        self.sql(0, SCHEMA)
        self.sql(0, "INSERT INTO counter VALUES (0)")
        for key in range(KEYS):
            self.sql(0, "INSERT INTO register VALUES (%d, 0)" % key)

    def fill_transactions(self, jar):
        """Makes the tables and procedures of calls of several registers."""
        self.call(0, "@UpdateClasses", [FastSerializer.VOLTTYPE_VARBINARY,
                                         FastSerializer.VOLTTYPE_STRING], [jar.read_bytes(), ""])
        self.sql(0, TRANSACTIONS_SCHEMA)
        of_group = PARTS * REGISTERS_OF_PART
        self.sql(0, "; ".join("INSERT INTO multi_register VALUES (%d, %d, 0)" % (
            1 + register % of_group // REGISTERS_OF_PART, register)
            for register in range(GROUPS * of_group)))
        self.sql(0, "; ".join("INSERT INTO redundant_register VALUES (%d, %d, 0)" % (copy, key)
                              for copy in range(COPIES) for key in range(KEYS)))
        self._check_partitions()

    def _check_partitions(self):
        """A group and the copies of a register have rows at each partition, or the calls would not
        be of several partitions."""
        bigint = FastSerializer.VOLTTYPE_BIGINT
        keys = self.call(0, "@GetPartitionKeys", [FastSerializer.VOLTTYPE_STRING], ["INTEGER"])
        for partition, key in keys[0].tuples:
            registers, copies = (self.call(0, procedure, [bigint], [key])[0].tuples[0][0]
                                 for procedure in ("registers_here", "copies_here"))
            if registers != GROUPS * REGISTERS_OF_PART or copies == 0:
                raise RuntimeError("partition %d has %d registers and %d copies" % (
                    partition, registers, copies))

    def column(self, number, text):
        """The first column of an ad hoc query at one host."""
        return [row[0] for row in self.sql(number, text)[0].tuples]
