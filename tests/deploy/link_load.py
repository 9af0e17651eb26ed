"""A plain load of a network: streams bytes to each TARGET (HOST:PORT), and counts those that come to PORT.

    link_load.py PORT BEGIN END TARGET…

Prints how many bytes came between BEGIN and END, two times of the clock in seconds.
"""

import socket
import sys
import threading
import time

PIECE_BYTES = 1 << 18


def send(target, end):
    host, port = target.split(":")
    while True:
        try:
            connection = socket.create_connection((host, int(port)), timeout=max(0.1, end - time.time()))
            break
        except ConnectionRefusedError:
            # The other side is about to listen.
            time.sleep(0.02)
    piece = bytes(PIECE_BYTES)
    try:
        while time.time() < end:
            connection.sendall(piece)
    except OSError:
        # The other side has counted enough.
        pass
    connection.close()


class Counter:
    """Counts what comes to a port between two times."""

    def __init__(self, port, begin, end):
        self._begin, self._end = begin, end
        self._listener = socket.create_server(("", port))
        # The sizes that each connection has received; each list has one writer.
        self._received = []
        threading.Thread(target=self._listen, daemon=True).start()

    def total(self):
        return sum(sum(each) for each in self._received)

    def _listen(self):
        while True:
            connection, _ = self._listener.accept()
            sizes = []
            self._received.append(sizes)
            threading.Thread(target=self._receive, args=(connection, sizes), daemon=True).start()

    def _receive(self, connection, sizes):
        piece = bytearray(PIECE_BYTES)
        while size := connection.recv_into(piece):
            if self._begin <= time.time() < self._end:
                sizes.append(size)


def main():
    port, begin, end, *targets = sys.argv[1:]
    begin, end = float(begin), float(end)
    counter = Counter(int(port), begin, end)
    for target in targets:
        threading.Thread(target=send, args=(target, end), daemon=True).start()
    time.sleep(max(0, end - time.time()))
    print(counter.total())


if __name__ == "__main__":
    main()
