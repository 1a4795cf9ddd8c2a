"""What a driver reports of its calls, and what has to be true of it.

A line of a driver: worker, operation, key, argument, expected old value, status, value, begin and
end in microseconds of the monotonic clock, text. The status is the server's number, or `lost` where
the client lost the connection, or `late` where nothing came within the client's limit.

In the mode `transactions` the text begins with two words: the steps of a call of several registers,
as `Steps.java` describes them, and the first column of all rows of the answer; `-` where there is
none. The operations `multi` and `single` are such calls, of all partitions and of one; their key is
the group. `get_all`, `put_all` and `cas_all` read and write all copies of a redundant register.
"""

import collections
import dataclasses

OK = "1"
#: The client or the server states that the call was not executed, or was undone.
REFUSED = ("-1", "-2", "-5", "-14", "-15")
#: No answer within the limit of ten seconds.
LATE = ("late", "-16")
MAYBE_S = 10
#: The rows of a redundant register.
COPIES = 6


@dataclasses.dataclass
class Call:
    """One finished call."""

    worker: int
    operation: str
    key: int
    argument: int
    old: int
    status: str
    value: int
    begin_us: int
    end_us: int
    text: str

    def rows(self):
        """The first column of the answer of a call in the mode `transactions`."""
        word = self.text.split(" ", 2)[1]
        return [] if word == "-" else [int(value) for value in word.split(",")]

    def ok(self):
        """Whether the call was answered with success."""
        return self.status == OK

    def refused(self):
        """Whether the call had no effect, as its answer says."""
        return self.status in REFUSED

    def unknown(self):
        """Whether nobody knows if the call had an effect."""
        return not self.ok() and not self.refused()

    def late(self):
        """Whether the call ended by the client's limit alone, or after it."""
        return self.status in LATE or self.end_us - self.begin_us > MAYBE_S * 1_000_000


def parse(line):
    """The call that a line reports."""
    fields = line.rstrip("\n").split(" ", 9)
    numbers = [int(field) for field in fields[2:5] + fields[6:9]]
    return Call(int(fields[0]), fields[1], *numbers[:3], fields[5], *numbers[3:], fields[9])


def lines_of(calls):
    """The calls as the lines that a driver prints."""
    return "".join("%d %s %d %d %d %s %d %d %d %s\n" % (
        call.worker, call.operation, call.key, call.argument, call.old, call.status, call.value,
        call.begin_us, call.end_us, call.text) for call in calls)


def longest_gap_s(calls, since_us):
    """The longest time between two successes of a worker that ends after a moment."""
    longest, last = 0, {}
    for call in sorted((call for call in calls if call.ok()), key=lambda call: call.end_us):
        before = last.get(call.worker)
        if before is not None and call.end_us > since_us:
            longest = max(longest, call.end_us - before)
        last[call.worker] = call.end_us
    return longest / 1e6


@dataclasses.dataclass
class Final:
    """What surviving hosts hold at the end: rows of two tables, and a counter."""

    rows: list
    notes: list
    counter: int


def kinds_of(calls):
    """Numbers of calls: sent, answered, unknown, refused."""
    return {"sent": len(calls), "answered": sum(call.ok() for call in calls),
            "unknown": sum(call.unknown() for call in calls),
            "refused": sum(call.refused() for call in calls)}


def hung(calls, final=None):
    """The calls that had no answer in time, as a list of words by the rule that they break."""
    del final
    return {"hung": [str(call) for call in calls if call.late()]}


def partial(calls):
    """The calls that saw a part of a write of all copies, as words."""
    return [str(call) for call in calls if call.ok() and call.operation.endswith("_all")
            and not _is_whole(call)]


def _is_whole(call):
    rows = call.rows()
    if call.operation == "get_all":
        return len(rows) == COPIES and len(set(rows)) == 1
    return rows == [COPIES] or (call.operation == "cas_all" and rows == [0])


def multi_registers(calls):
    """The calls of several registers."""
    return [call for call in calls if call.operation in ("multi", "single")]


def redundant_registers(calls):
    """The calls of redundant registers as calls of registers with one row each. A read of copies
    that differ has a value that no register has."""
    found = []
    for call in calls:
        if call.operation.endswith("_all"):
            value = call.value if _is_whole(call) else -1
            if call.operation == "cas_all":
                value = int(call.value == COPIES)
            found.append(dataclasses.replace(call, operation=call.operation[:3], value=value))
    return found


def findings(calls, final):
    """Everything that must not be, as lists of words by the rule that it breaks."""
    found = collections.defaultdict(list, hung(calls))
    _written_once(found, calls, "insert", collections.Counter(final.rows))
    _written_once(found, calls, "note", collections.Counter(final.notes))
    _counted(found, calls, final.counter)
    _read_what_is_there(found, calls, set(final.rows))
    return found


def _written_once(found, calls, operation, rows):
    written = [call for call in calls if call.operation == operation]
    for call in written:
        times = rows[call.key]
        if call.ok() and times == 0:
            found["lost"].append(str(call))
        if times > 1:
            found["doubled"].append("%d times: %s" % (times, call))
        if call.refused() and times > 0:
            found["refused but there"].append(str(call))
    sent = {call.key for call in written}
    found["never sent"] += [str(key) for key in rows if key not in sent]


def _counted(found, calls, counter):
    bumps = [call for call in calls if call.operation == "bump"]
    least = sum(call.ok() for call in bumps)
    most = least + sum(call.unknown() for call in bumps)
    if counter < least:
        found["lost"].append("the counter is %d after %d increments" % (counter, least))
    if counter > most:
        found["doubled"].append("the counter is %d after at most %d increments" % (counter, most))


def _read_what_is_there(found, calls, rows):
    acknowledged = {call.key: call.end_us for call in calls
                    if call.operation == "insert" and call.ok()}
    for call in calls:
        if call.operation not in ("read", "peek") or not call.ok():
            continue
        before = acknowledged.get(call.key)
        if call.value == 0 and before is not None and before < call.begin_us:
            found["stale read"].append(str(call))
        if call.value > 0 and call.key not in rows:
            found["dirty read"].append(str(call))
        if call.value > 1:
            found["doubled"].append("read %d times: %s" % (call.value, call))
