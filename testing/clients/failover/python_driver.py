"""Load through VoltDB's unmodified Python clients: what each call did, a line each.

Started with the kind of client, the mode, the number of workers and the addresses of all hosts. It
ends when its standard input is closed. The lines are described in `history.py`; the drivers in Java
and Go send the same calls in the same order.
"""

import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from voltclient import VoltClient, VoltTimeoutError  # noqa: E402
from voltdbclient import FastSerializer, VoltProcedure  # noqa: E402

BIGINT, STRING = FastSerializer.VOLTTYPE_BIGINT, FastSerializer.VOLTTYPE_STRING
LIMIT_S = 10
RETRY_S = 0.1
#: How long a worker waits after a failure at first, and at most after several in a row: a call of
#: unknown outcome doubles the orders that a judge of the history has to look at.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.16
KEYS = 5
#: Groups of registers, and the registers of a group: so many partitioning keys with so many each.
GROUPS, PARTS, REGISTERS_OF_PART = 4, 3, 2
STRIDE = 1_000_000
LINES = sys.stdout
sys.stdout = sys.stderr  # the client prints what it cannot connect to


def types_of(values):
    """The types of a call's parameters."""
    return [STRING if isinstance(value, str) else BIGINT for value in values]


class Plain:
    """One connection to one host; the next host when it is lost."""

    def __init__(self, addresses, worker):
        self.addresses, self.next, self.connection = addresses, worker, None

    def ready(self):
        """Connects if there is no connection; whether there is one."""
        if self.connection is None:
            host, port = self.addresses[self.next % len(self.addresses)].split(":")
            try:
                self.connection = FastSerializer(host, int(port), connect_timeout=2,
                                                 procedure_timeout=LIMIT_S)
            except Exception:  # pylint: disable=broad-except  (the client raises what it likes)
                self.next += 1
        return self.connection is not None

    def call(self, procedure, values):
        """One call: its status as in a history, its tables, a text."""
        call = VoltProcedure(self.connection, procedure, types_of(values))
        try:
            answer = call.call(values)
        except Exception as error:  # pylint: disable=broad-except
            self.lose()
            return "lost", None, str(error)
        if answer.tables is None:
            self.lose()
            late = "timeout" in (answer.statusString or "")
            return "late" if late else "lost", None, answer.statusString
        if answer.status == -5:
            self.refused()
        return str(answer.status), answer.tables, answer.statusString

    def refused(self):
        """The host serves nothing: another one may."""
        self.lose()

    def lose(self):
        """Gives the connection up; the next call takes another host."""
        try:
            self.connection.close()
        except Exception:  # pylint: disable=broad-except
            pass
        self.connection, self.next = None, self.next + 1


class Aware:
    """The client that knows all hosts and leaders, shared by all workers; it got one address."""

    shared = None

    def __init__(self, addresses, worker):
        del worker
        if Aware.shared is None:
            host, port = addresses[0].split(":")
            Aware.shared = VoltClient([host], port=int(port), procedure_timeout=LIMIT_S)

    def ready(self):
        """The client connects by itself."""
        return True

    def call(self, procedure, values):
        """One call: its status as in a history, its tables, a text."""
        try:
            answer = self.shared.call(procedure, types_of(values), values)
        except VoltTimeoutError as error:
            return "late", None, str(error)
        except Exception as error:  # pylint: disable=broad-except
            return "lost", None, str(error)
        return str(answer.status), answer.tables, answer.statusString


class Sticky(Plain):
    """One connection to one host each, in turn, which is made again at that host alone."""

    def __init__(self, addresses, worker):
        super().__init__([addresses[worker % len(addresses)]], worker)
        self.failed_at_s = 0

    def ready(self):
        """Connects if there is no connection, not too often; whether there is one."""
        if self.connection is None and time.monotonic() - self.failed_at_s < RETRY_S:
            return False
        if not super().ready():
            self.failed_at_s = time.monotonic()
        return self.connection is not None

    def refused(self):
        """The host may serve again."""


def steps_on(registers, new):
    """Reads, writes, or a read and a write of each register, in a batch with the step before or in
    the next one; some calls are rolled back at the end."""
    steps = []
    for at, register in enumerate(registers):
        kind = random.randrange(3)
        if kind != 0:
            steps.append("r%d" % register)
        if kind != 1:
            steps.append("w%d=%d" % (register, new + at))
    text = steps[0]
    for step in steps[1:]:
        text += random.choice(",;") + step
    return text + (";x" if random.randrange(8) == 0 else "")


KINDS = {"plain": Plain, "aware": Aware, "sticky": Sticky}


class Driver:
    """What the workers share."""

    def __init__(self, kind, mode, workers, addresses):
        self.kind, self.mode, self.workers, self.addresses = kind, mode, workers, addresses
        self.stop = threading.Event()
        self.output = threading.Lock()
        self.tried = [0] * workers
        self.pauses_s = [FIRST_PAUSE_S] * workers

    def run(self):
        """Runs all workers until the input ends."""
        clients = [KINDS[self.kind](self.addresses, worker) for worker in range(self.workers)]
        work = getattr(self, self.mode)
        threads = [threading.Thread(target=work, args=(worker, client), daemon=True)
                   for worker, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self.stop.set()
        for thread in threads:
            thread.join(2 * LIMIT_S)

    def call(self, worker, client, operation, procedure, values, key, argument=0, old=0,
             steps="-"):
        """One call and its line; the value that came back, or None where it failed."""
        while not client.ready():
            if self.stop.wait(0.02):
                return None
        begin = time.monotonic_ns() // 1000
        status, tables, text = client.call(procedure, values)
        end = time.monotonic_ns() // 1000
        rows = []
        if status == "1" and tables:
            rows = [row[0] for row in tables[0].tuples]
        value = rows[0] if rows else -1
        text = " ".join((text or "-").split())
        if self.mode == "transactions":
            text = "%s %s %s" % (steps, ",".join(map(str, rows)) or "-", text)
        fields = (worker, operation, key, argument, old, status, value, begin, end, text)
        with self.output:
            print(*fields, file=LINES, flush=True)
        if status in ("lost", "-4", "-5"):
            self.stop.wait(self.pauses_s[worker])  # spares a machine whose cluster is electing
            self.pauses_s[worker] = min(2 * self.pauses_s[worker], LONGEST_PAUSE_S)
        else:
            self.pauses_s[worker] = FIRST_PAUSE_S
        return value if status == "1" else None

    def load(self, worker, client):
        """Inserts at one partition and at all, a counter, reads of own and of others' keys."""
        known, count = [], 0
        while not self.stop.is_set():
            count += 1
            key = worker * STRIDE + count
            turn = count % 8
            if turn == 0:
                self.call(worker, client, "bump", "bump", [], 0)
            elif turn == 4:
                self.call(worker, client, "note", "note", [key], key)
            elif turn in (1, 5) and known:
                key = known[-1] if turn == 1 else random.choice(known)
                self.call(worker, client, "read", "find", [key], key)
            elif turn in (3, 7):
                key = self.tried[(worker + 1) % self.workers]
                self.call(worker, client, "peek", "find", [key], key)
            else:
                self.tried[worker] = key
                if self.call(worker, client, "insert", "add_one", [key], key) is not None:
                    known.append(key)

    def registers(self, worker, client):
        """Reads, writes and compare-and-set of a few registers."""
        seen, count = [0] * KEYS, 0
        while not self.stop.is_set():
            count += 1
            key, new = random.randrange(KEYS), worker * STRIDE + count
            kind = random.randrange(4)
            if kind < 2:
                value = self.call(worker, client, "get", "get_one", [key], key)
                seen[key] = seen[key] if value is None else value
            elif kind == 2:
                self.call(worker, client, "put", "put_one", [new, key], key, new)
            else:
                self.call(worker, client, "cas", "cas_one", [new, key, seen[key]], key, new,
                          seen[key])

    def transactions(self, worker, client):
        """Calls of several registers, and of redundant registers."""
        seen, count = [0] * KEYS, 0
        while not self.stop.is_set():
            count += 1
            new = worker * STRIDE + count * PARTS
            if random.randrange(2):
                self.several(worker, client, new)
            else:
                self.redundant(worker, client, seen, new)

    def several(self, worker, client, new):
        """Steps on one to three registers of a group, all of one partition or not."""
        group, part = random.randrange(GROUPS), random.randrange(PARTS)
        if random.randrange(2):
            registers = range(part * REGISTERS_OF_PART, (part + 1) * REGISTERS_OF_PART)
            operation, procedure, first = "single", "SingleRegisters", [1 + part, group]
        else:
            registers = range(PARTS * REGISTERS_OF_PART)
            operation, procedure, first = "multi", "MultiRegisters", [group]
        steps = steps_on(random.sample(registers, min(len(registers), random.randint(1, 3))), new)
        self.call(worker, client, operation, procedure, [*first, steps], group, steps=steps)

    def redundant(self, worker, client, seen, new):
        """Reads, writes and compare-and-set of all copies of a register."""
        key, kind = random.randrange(KEYS), random.randrange(4)
        if kind < 2:
            value = self.call(worker, client, "get_all", "get_copies", [key], key)
            seen[key] = seen[key] if value is None else value
        elif kind == 2:
            self.call(worker, client, "put_all", "put_copies", [new, key], key, new)
        else:
            self.call(worker, client, "cas_all", "cas_copies", [new, key, seen[key]], key, new,
                      seen[key])


if __name__ == "__main__":
    Driver(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]).run()
    os._exit(0)  # threads of the client may wait for a host that is gone
