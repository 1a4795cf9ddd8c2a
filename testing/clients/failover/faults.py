"""Histories in which something is wrong, to see that the judges find it."""

import subprocess

from history import Final, findings, lines_of, parse, partial, redundant_registers

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

#: Several registers, each broken history by what is wrong in it. The first word after the two times
#: is the steps, the second one the rows.
NO_MULTI = {
    "lost update": [
        "0 multi 0 0 0 1 1 10 20 w0=7,w2=7 1,1 -", "1 multi 0 0 0 1 0 30 40 r0,r2 0,7 -"],
    "lost update of two that read the same": [
        "0 multi 0 0 0 1 0 10 40 r0;w0=7 0,1 -", "1 single 0 0 0 1 0 15 45 r0;w0=8 0,1 -"],
    "stale read": [
        "0 single 0 0 0 1 1 10 50 w0=7 1 -", "1 multi 0 0 0 1 7 15 20 r0 7 -",
        "2 multi 0 0 0 1 0 25 30 r0 0 -"],
    "dirty read of a call that was rolled back": [
        "0 multi 0 0 0 -1 -1 10 40 w0=7;w2=7;x - -", "1 single 0 0 0 1 7 15 20 r0 7 -"],
    "dirty read of a call that was rolled back, of unknown outcome": [
        "0 multi 0 0 0 lost -1 10 40 w0=7;w2=7;x - -", "1 single 0 0 0 1 7 45 50 r0 7 -"],
    "dirty read of a call that was refused": [
        "0 multi 0 0 0 -2 -1 10 40 w0=7 - -", "1 single 0 0 0 1 7 15 20 r0 7 -"],
    "rollback that succeeds": ["0 multi 0 0 0 1 1 10 20 w0=7;x 1 -"],
    "partial read": [
        "0 multi 0 0 0 1 1 10 40 w0=7;w2=7 1,1 -", "1 multi 0 0 0 1 7 15 20 r0,r2 7,0 -"],
    "partial write of unknown outcome": [
        "0 multi 0 0 0 -7 -1 10 20 w0=7,w5=7 - -", "1 single 0 0 0 1 7 30 40 r0 7 -",
        "1 single 0 0 0 1 0 50 60 r5 0 -"],
    "two readers see two writers in different orders": [
        "0 multi 0 0 0 1 1 10 90 w0=7 1 -", "1 multi 0 0 0 1 1 10 90 w4=8 1 -",
        "2 multi 0 0 0 1 7 20 80 r0,r4 7,0 -", "3 multi 0 0 0 1 0 20 80 r0,r4 0,8 -"],
    "step without a row": ["0 multi 0 0 0 1 0 10 20 r0;r1 0 -"],
    "read of a missing row": ["0 multi 0 0 0 1 -1 10 20 r0 -1 -"],
    "write of a missing row": ["0 multi 0 0 0 1 0 10 20 w0=7 0 -"],
}
#: A write of two registers with an unknown outcome that shows later, a call that was rolled back,
#: and a register of another group.
MULTI = ["0 multi 0 0 0 -7 -1 10 20 r0;w0=7,w5=8 - -", "1 multi 0 0 0 1 0 30 40 r0,r5 0,0 -",
         "1 single 0 0 0 1 8 50 60 r5,w5=9;r5 8,1,9 -", "1 multi 0 0 0 1 7 70 80 r0;r5 7,9 -",
         "0 multi 0 0 0 -1 -1 70 80 w0=6;x - -", "1 multi 1 0 0 1 0 90 95 r0 0 -"]
#: The same for redundant registers.
NO_REDUNDANT = {
    "lost update": ["0 put_all 0 7 0 1 6 10 20 - 6 -",
                    "1 get_all 0 0 0 1 0 30 40 - 0,0,0,0,0,0 -"],
    "lost update of two swaps": ["0 cas_all 0 7 0 1 6 10 20 - 6 -",
                                 "1 cas_all 0 8 0 1 6 30 40 - 6 -"],
    "stale read": ["0 put_all 0 7 0 1 6 10 50 - 6 -", "1 get_all 0 0 0 1 7 15 20 - 7,7,7,7,7,7 -",
                   "2 get_all 0 0 0 1 0 25 30 - 0,0,0,0,0,0 -"],
    "dirty read": ["0 put_all 0 7 0 -2 -1 10 20 - - -",
                   "1 get_all 0 0 0 1 7 30 40 - 7,7,7,7,7,7 -"],
}
#: Calls that saw a part of a write: each one is found by itself.
PARTIAL = ["1 get_all 0 0 0 1 7 30 40 - 7,7,0,7,7,7 -", "1 get_all 0 0 0 1 7 30 40 - 7,7,7,7,7 -",
           "1 get_all 0 0 0 1 -1 30 40 - - -", "0 put_all 0 7 0 1 4 10 20 - 4 -",
           "0 cas_all 0 7 0 1 2 10 20 - 2 -"]
REDUNDANT = ["0 put_all 0 7 0 -7 -1 10 20 - - -", "1 get_all 0 0 0 1 0 30 40 - 0,0,0,0,0,0 -",
             "1 get_all 0 0 0 1 7 50 60 - 7,7,7,7,7,7 -", "1 cas_all 0 8 0 1 0 70 80 - 0 -",
             "1 cas_all 0 9 7 1 6 90 95 - 6 -", "1 put_all 1 5 0 1 6 90 95 - 6 -"]


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


def is_refused(judge, lines):
    """Whether the judge finds no order of these lines."""
    said = subprocess.run([str(judge)], input="\n".join(lines) + "\n", text=True,
                          capture_output=True, check=False)
    if said.returncode not in (0, 1):
        raise RuntimeError("the judge cannot read %s: %s" % (lines, said.stdout + said.stderr))
    return said.returncode == 1


def unseen_orders(judge):
    """What the judge of registers gets wrong about the histories above."""
    wrong = ["this passes: %s" % lines for lines in NO_ORDER if not is_refused(judge, lines)]
    return wrong + (["this is refused: %s" % ORDER] if is_refused(judge, ORDER) else [])


def unseen_multi(judge):
    """What the judge of several registers gets wrong about the histories above."""
    wrong = ["a history with a %s passes" % rule for rule, lines in NO_MULTI.items()
             if not is_refused(judge, lines)]
    return wrong + (["this is refused: %s" % MULTI] if is_refused(judge, MULTI) else [])


def unseen_redundant(judge):
    """What the judges of redundant registers get wrong about the histories above."""
    def lines_for_judge(lines):
        return lines_of(redundant_registers(parse(line) for line in lines)).splitlines()

    wrong = ["a history with a %s passes" % rule for rule, lines in NO_REDUNDANT.items()
             if not is_refused(judge, lines_for_judge(lines))]
    wrong += ["a partial read passes: %s" % line for line in PARTIAL if not partial([parse(line)])]
    if partial(map(parse, REDUNDANT)) or is_refused(judge, lines_for_judge(REDUNDANT)):
        wrong.append("this is refused: %s" % REDUNDANT)
    return wrong
