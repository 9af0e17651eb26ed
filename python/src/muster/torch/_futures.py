"""Completes futures on threads, where their callbacks run."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable

_LOOK_SECONDS = 0.5

_here = threading.local()
_lines: weakref.WeakSet[_Line] = weakref.WeakSet()
_watch: threading.Thread | None = None


class Futures:
    """Completes futures one after the other: in the order in which they were asked for, on a thread of their own.

    A callback runs on that thread, and the next future waits until the callback has returned, so that calls which callbacks
    make come in one order on all ranks. A callback may itself ask for futures and wait for them: they stand in a line of
    their own, that of the callback's thread. One that waits for a future behind its own would wait for ever: after `timeout`
    seconds another thread goes on with the line.
    """

    def __init__(self, timeout: float) -> None:
        self._line = _Line(timeout)

    def add(self, wait: Callable[[], object], complete: Callable[[], object]) -> None:
        """Has `complete` called once `wait`, which raises nothing, has returned."""
        outer: _Line | None = getattr(_here, "line", None)
        line = self._line if outer is None else outer.inner
        line.put(wait, complete)

    def close(self) -> None:
        """Ends the threads once all futures are complete. Does not wait for them."""
        self._line.queue.put(None)

    def join(self) -> None:
        """Waits for the thread that has the line. REQUIRES: closed."""
        if self._line.thread is not None:
            self._line.thread.join()


class _Line:
    """Futures that wait for their turn. Its threads know it alone, so that its owner can end before them."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._inner: _Line | None = None
        self.queue: queue.SimpleQueue[tuple[Callable[[], object], Callable[[], object]] | None] = queue.SimpleQueue()
        # Guards what follows.
        self._lock = threading.Lock()
        # The thread that takes from the queue.
        self.thread: threading.Thread | None = None
        # Since when it has been in a callback; None if it is in none.
        self._since: float | None = None

    @property
    def inner(self) -> _Line:
        """The line of futures for which this one's callbacks ask."""
        with self._lock:
            if self._inner is None:
                self._inner = _Line(self._timeout)
            return self._inner

    def put(self, wait: Callable[[], object], complete: Callable[[], object]) -> None:
        """Adds a future; starts the line's thread if there is none."""
        global _watch
        self.queue.put((wait, complete))
        with self._lock:
            if self.thread is not None:
                return
            self._go_on()
            _lines.add(self)
            if _watch is None or not _watch.is_alive():
                _watch = threading.Thread(target=_watch_lines, name="muster-futures-watch", daemon=True)
                _watch.start()

    def go_on_if_late(self) -> None:
        """Has another thread go on if a callback has held others up for too long."""
        with self._lock:
            if self._since is not None and time.monotonic() - self._since > self._timeout and not self.queue.empty():
                self._go_on()

    def _go_on(self) -> None:
        """Has a new thread take from the queue. REQUIRES: the lock."""
        self._since = None
        self.thread = threading.Thread(target=self._run, name="muster-futures", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        _here.line = self
        for wait, complete in iter(self.queue.get, None):
            wait()
            with self._lock:
                self._since = time.monotonic()
            complete()
            del wait, complete
            with self._lock:
                if self.thread is not threading.current_thread():
                    return
                self._since = None
        self.inner.queue.put(None)


def _watch_lines() -> None:
    while True:
        time.sleep(_LOOK_SECONDS)
        for line in list(_lines):
            line.go_on_if_late()
