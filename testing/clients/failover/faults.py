"""Histories in which something is wrong, to see that the judges find it."""

import subprocess

from history import Final, findings, parse

#: Calls, what the hosts hold, and the rule that is broken.
WRONG = {
    "lost": (["0 insert 1 0 0 1 1 10 20 -"], Final([], [], 0)),
    "doubled": (["0 insert 1 0 0 1 1 10 20 -"], Final([1, 1], [], 0)),
    "refused but there": (["0 note 1 0 0 -2 -1 10 20 -"], Final([], [1], 0)),
    "never sent": (["0 insert 1 0 0 1 1 10 20 -"], Final([1, 2], [], 0)),
    "stale read": (["0 insert 1 0 0 1 1 10 20 -", "1 read 1 0 0 1 0 30 40 -"],
                   Final([1], [], 0)),
    "dirty read": (["0 insert 1 0 0 -7 -1 10 20 -", "1 peek 1 0 0 1 1 15 40 -"],
                   Final([], [], 0)),
    "hung": (["0 insert 1 0 0 late -1 10 10000020 -"], Final([1], [], 0)),
}
#: The same for the counter.
COUNTER = {"lost": (["0 bump 0 0 0 1 1 10 20 -"], Final([], [], 0)),
           "doubled": (["0 bump 0 0 0 -7 -1 10 20 -"], Final([], [], 2))}
RIGHT = ["0 insert 1 0 0 1 1 10 20 -", "0 note 2 0 0 -7 -1 30 40 -", "0 bump 0 0 0 lost -1 50 60 -",
         "1 insert 3 0 0 -5 -1 10 20 -", "1 read 1 0 0 1 1 30 40 -", "1 peek 3 0 0 1 0 50 60 -"]
#: Registers: an old value after a newer one; a value that nobody wrote; a swap that could not be.
NO_ORDER = [
    ["0 put 0 7 0 1 1 10 20 -", "1 get 0 0 0 1 7 30 40 -", "1 get 0 0 0 1 0 50 60 -"],
    ["0 put 0 7 0 -2 -1 10 20 -", "1 get 0 0 0 1 7 30 40 -"],
    ["0 put 0 7 0 1 1 10 20 -", "1 cas 0 8 0 1 1 30 40 -"],
]
#: A write with an unknown outcome that shows later, and a swap that found another value.
ORDER = ["0 put 0 7 0 -7 -1 10 20 -", "1 get 0 0 0 1 0 30 40 -", "1 get 0 0 0 1 7 50 60 -",
         "1 cas 0 8 0 1 0 70 80 -", "1 cas 0 9 7 1 1 90 95 -"]


def unseen_rules():
    """What `findings` gets wrong about the histories above."""
    wrong = []
    for histories in (WRONG, COUNTER):
        for rule, (lines, final) in histories.items():
            found = findings([parse(line) for line in lines], final)
            if not found[rule]:
                wrong.append("a history that is '%s' passes" % rule)
    found = findings([parse(line) for line in RIGHT], Final([1], [2], 1))
    return wrong + ["a good history is '%s'" % rule for rule, words in found.items() if words]


def unseen_orders(judge):
    """What the judge of registers gets wrong about the histories above."""
    def is_refused(lines):
        said = subprocess.run([str(judge)], input="\n".join(lines) + "\n", text=True,
                              capture_output=True, check=False)
        return said.returncode == 1

    wrong = ["this passes: %s" % lines for lines in NO_ORDER if not is_refused(lines)]
    return wrong + (["this is refused: %s" % ORDER] if is_refused(ORDER) else [])
