"""Cables that take time: frames that a host sends come out at the switch DELAY milliseconds later; the other way at once.

    frame_relay.py DELAY SWITCH_PID HOST_PID:PORT…

Each cable is a pair of TAP devices, `eth0` in the host's network namespace and PORT in the switch's, which exist as long as
this process does. Frames pass whole, in order, with what the kernel says of their checksums and segments. Says "ready".
"""

import collections
import ctypes
import fcntl
import os
import selectors
import struct
import sys
import time

IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 1, 2, 4
# A frame of 64 KiB, and the header of 10 bytes in front.
MOST_BYTES = (1 << 16) + 64
# Frames taken from one device before others have their turn.
TURN = 64


def open_tap(pid, name):
    """A descriptor of a new TAP device in the process's network namespace, where this process then is."""
    space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(space, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(space)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
    return tap


def frames_of(tap):
    """Those that wait there, one turn at most."""
    for _ in range(TURN):
        try:
            yield os.read(tap, MOST_BYTES)
        except BlockingIOError:
            return


def put(tap, frame):
    try:
        os.write(tap, frame)
    except OSError:
        # A device that is down, or full, loses what comes.
        pass


def relay(cables, delay):
    """Moves frames between pairs (host's device, switch's device) until it is ended."""
    selector = selectors.DefaultSelector()
    for host, port in cables:
        selector.register(host, selectors.EVENT_READ, (port, True))
        selector.register(port, selectors.EVENT_READ, (host, False))
    under_way = collections.deque()
    while True:
        wait = max(0, under_way[0][0] - time.monotonic()) if under_way else None
        for key, _ in selector.select(wait):
            target, delayed = key.data
            for frame in frames_of(key.fd):
                if delayed:
                    under_way.append((time.monotonic() + delay, target, frame))
                else:
                    put(target, frame)
        while under_way and under_way[0][0] <= time.monotonic():
            _, target, frame = under_way.popleft()
            put(target, frame)


def main():
    delay, switch, *hosts = sys.argv[1:]
    cables = []
    for host in hosts:
        pid, port = host.split(":")
        cables.append((open_tap(pid, "eth0"), open_tap(switch, port)))
    print("ready", flush=True)
    relay(cables, float(delay) / 1000)


if __name__ == "__main__":
    main()
