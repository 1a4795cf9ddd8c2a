"""Moves frames between two interfaces, each some milliseconds after it came: `relay.py A B MS`."""

import collections
import select
import socket
import sys
import time

FRAME_BYTES = 65536
ALL_PROTOCOLS = 3
OUTGOING = 4


def opened(interface):
    """A socket for all frames of an interface."""
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    frames.bind((interface, 0))
    frames.setblocking(False)
    return frames


def take(source, target, waiting, due_s):
    """Takes what has come in."""
    while True:
        try:
            frame, address = source.recvfrom(FRAME_BYTES)
        except BlockingIOError:
            return
        if address[2] != OUTGOING:
            waiting.append((due_s, target, frame))


def main():
    """Runs until the process is killed."""
    first, second = opened(sys.argv[1]), opened(sys.argv[2])
    delay_s, waiting = float(sys.argv[3]) / 1000, collections.deque()
    while True:
        wait_s = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        select.select([first, second], [], [], wait_s)
        now_s = time.monotonic()
        take(first, second, waiting, now_s + delay_s)
        take(second, first, waiting, now_s + delay_s)
        while waiting and waiting[0][0] <= now_s:
            _, target, frame = waiting.popleft()
            try:
                target.send(frame)
            except OSError:
                pass  # as on a wire that is full


if __name__ == "__main__":
    main()
