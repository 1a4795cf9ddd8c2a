"""Network namespaces on one machine: one for each host and one for the clients, joined by a bridge
in a namespace of its own. Faults are rules of nftables in the namespace of a host, and a relay that
delays frames. Nothing outside these namespaces is touched.
"""

import ctypes
import fcntl
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
#: Commands that switch off checksums, segments and large frames that only the kernel completes: a
#: relay reads frames as they are.
OFFLOADS_OFF = (0x17, 0x1f, 0x24, 0x2c)
CLIENT = 3
COMMAND_TIMEOUT_S = 10
CHAINS = """add table inet faults
flush table inet faults
add chain inet faults input { type filter hook input priority 0 ; policy accept ; }
add chain inet faults output { type filter hook output priority 0 ; policy accept ; }
"""


class Missing(Exception):
    """A right or a tool is missing: what needs it is skipped."""


def run(*command, given=None):
    """Runs a command of the system, which has to succeed."""
    done = subprocess.run(command, input=given, capture_output=True, text=True,
                          timeout=COMMAND_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(command), done.stderr.strip()))


def without_offloads(name):
    """Has an interface of the present namespace send whole frames."""
    with socket.socket() as any_socket:
        for command in OFFLOADS_OFF:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sQ", name.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def enter(namespace):
    """Moves the calling thread, and what it starts from now on, into a namespace."""
    with open("/run/netns/" + namespace, "rb") as opened:
        if ctypes.CDLL(None, use_errno=True).setns(opened.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns %s" % namespace)


class Network:
    """Namespaces of three hosts and of the clients. Use as a context manager, on the main thread
    before others begin: it moves the process into the clients' namespace."""

    def __init__(self):
        self.prefix = "ls%d" % os.getpid()
        self.hub = self.prefix + "-hub"
        self.relay = None

    @staticmethod
    def check():
        """Raises `Missing` where the machine cannot have such a network."""
        for tool in ("ip", "nft"):
            if not shutil.which(tool):
                raise Missing("`%s` is not installed (packages iproute2 and nftables)" % tool)
        if os.geteuid() != 0:
            raise Missing("network namespaces need root")

    def namespace(self, number):
        """The namespace of a host, or of the clients."""
        return "%s-%d" % (self.prefix, number)

    @staticmethod
    def address(number):
        """The address of a host, or of the clients."""
        return "10.99.0.%d" % (10 + number)

    def __enter__(self):
        self.check()
        try:
            self._build()
        except (RuntimeError, OSError) as error:
            self.remove()
            raise Missing("the network cannot be made: %s" % error) from error
        return self

    def __exit__(self, *_):
        self.remove()

    def _build(self):
        run("ip", "netns", "add", self.hub)
        hub = ("ip", "-n", self.hub, "link")
        run(*hub, "add", "bridge", "type", "bridge", "forward_delay", "0")
        run(*hub, "set", "bridge", "up")
        for number in range(CLIENT + 1):
            namespace, port = self.namespace(number), "p%d" % number
            run("ip", "netns", "add", namespace)
            run(*hub, "add", port, "type", "veth", "peer", "name", "net", "netns", namespace)
            run(*hub, "set", port, "master", "bridge", "up")
            own = ("ip", "-n", namespace)
            run(*own, "address", "add", self.address(number) + "/24", "dev", "net")
            run(*own, "link", "set", "net", "up")
            run(*own, "link", "set", "lo", "up")
            enter(namespace)
            without_offloads("net")
            self.rules(number)
        enter(self.namespace(CLIENT))

    def remove(self):
        """Removes all namespaces, and with them what is in them."""
        self.stop_relay()
        for namespace in [self.hub, *map(self.namespace, range(CLIENT + 1))]:
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True,
                           timeout=COMMAND_TIMEOUT_S, check=False)

    def rules(self, number, *rules):
        """Replaces the rules in the namespace of a host: none of them, if none are given."""
        lines = CHAINS + "".join("add rule inet faults %s\n" % rule for rule in rules)
        run("ip", "netns", "exec", self.namespace(number), "nft", "-f", "-", given=lines)

    def heal(self):
        """Ends all faults."""
        self.stop_relay()
        for number in range(CLIENT):
            self.rules(number)

    def cut(self, number, others, directions=("input", "output")):
        """Drops what a host gets from others, or sends to them."""
        field = {"input": "saddr", "output": "daddr"}
        self.rules(number, *("%s ip %s %s drop" % (direction, field[direction], self.address(other))
                             for direction in directions for other in others))

    def lose(self, number, percent):
        """Drops each packet that a host gets with a probability."""
        self.rules(number, "input numgen random mod 100 < %d drop" % percent)

    def delay(self, number, delay_ms):
        """Delays everything to and from a host."""
        hub, port = ("ip", "-n", self.hub, "link"), "p%d" % number
        run(*hub, "add", "near", "type", "veth", "peer", "name", "far")
        run(*hub, "set", "far", "master", "bridge", "up")
        run(*hub, "set", "near", "up")
        run(*hub, "set", port, "nomaster")
        self.relay = number, subprocess.Popen(
            ["ip", "netns", "exec", self.hub, sys.executable, str(HERE / "relay.py"), port, "near",
             str(delay_ms)], stdin=subprocess.DEVNULL)

    def stop_relay(self):
        """Joins a host that is delayed to the bridge again."""
        if self.relay is None:
            return
        (number, process), self.relay = self.relay, None
        process.kill()
        process.wait()
        hub = ("ip", "-n", self.hub, "link")
        run(*hub, "delete", "near")
        run(*hub, "set", "p%d" % number, "master", "bridge")
