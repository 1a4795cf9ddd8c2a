"""The kinds of faults. Each one lasts for some seconds, ends healed, and returns words about it."""

import threading

import clocks
import disks
from network import CLIENT

HOSTS = 3


def wait(seconds):
    """Lets time pass under a fault: what is tested is what happens within it."""
    threading.Event().wait(seconds)


def others(victim):
    """The other hosts."""
    return [number for number in range(HOSTS) if number != victim]


def kill(_network, cluster, victim, _random, seconds):
    """The process ends as by `kill -9`."""
    cluster.kill(victim)
    wait(seconds)
    return ""


def pause(_network, cluster, victim, _random, seconds):
    """The process stands still."""
    cluster.pause(victim)
    wait(seconds)
    cluster.resume(victim)
    return ""


def healed(fault):
    """A fault of the network that is there for all of the time."""
    def run(network, _cluster, victim, random, seconds):
        words = fault(network, victim, random)
        wait(seconds)
        network.heal()
        return words or ""
    return run


def cut(network, victim, _random):
    """A host reaches nobody."""
    network.cut(victim, [*others(victim), CLIENT])


def halves(network, victim, _random):
    """A host reaches its clients, and no other host."""
    network.cut(victim, others(victim))


def deaf(network, victim, _random):
    """A host sends to the others and hears nothing of them."""
    network.cut(victim, others(victim), ["input"])


def mute(network, victim, _random):
    """A host hears the others and cannot send to them."""
    network.cut(victim, others(victim), ["output"])


def pair(network, victim, random):
    """Two hosts do not reach each other; the third one reaches both."""
    other = random.choice(others(victim))
    network.cut(victim, [other])
    return " and %d" % other


def client(network, victim, _random):
    """Clients do not reach a host; the other hosts do."""
    network.cut(victim, [CLIENT])


def loss(network, _victim, random):
    """All hosts lose a part of what is sent to them."""
    percent = random.randint(5, 30)
    for number in range(HOSTS):
        network.lose(number, percent)
    return " and the others, %d %%" % percent


def delay(network, victim, random):
    """What a host sends and gets comes late."""
    delay_ms = random.randint(5, 60)
    network.delay(victim, delay_ms)
    return ", %d ms" % delay_ms


def flap(network, _cluster, victim, random, seconds):
    """A host is cut off and healed again and again."""
    times = 0
    while seconds > 0:
        cut_s, whole_s = random.uniform(0.05, 0.3), random.uniform(0.05, 0.3)
        halves(network, victim, random)
        wait(cut_s)
        network.heal()
        wait(whole_s)
        seconds, times = seconds - cut_s - whole_s, times + 1
    return ", %d times" % times


KINDS = {"kill": kill, "pause": pause, "cut": healed(cut), "halves": healed(halves),
         "deaf": healed(deaf), "mute": healed(mute), "pair": healed(pair),
         "client": healed(client), "loss": healed(loss), "delay": healed(delay), "flap": flap,
         "clock": clocks.stepped(clocks.near), "clock-far": clocks.stepped(clocks.far),
         **disks.KINDS}
