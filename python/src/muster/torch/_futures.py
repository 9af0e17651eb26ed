"""Completes futures on threads, where their callbacks run."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator

# How long a callback does nothing before it counts as one that waits for a future behind it.
_PATIENCE_SECONDS = 0.5

_here = threading.local()
_lines: weakref.WeakSet[_Line] = weakref.WeakSet()
_watch: threading.Thread | None = None


class Futures:
    """Completes futures one after the other: in the order in which they were asked for, on a thread of their own.

    A callback runs on that thread, and the next future waits until the callback has returned, so that calls which callbacks
    make come in one order on all ranks. A callback may itself ask for futures and wait for them: they stand in a line of
    their own, that of the callback's thread. One that waits for a future behind its own is found after a while, since its
    thread does nothing; then another thread goes on with the line.
    """

    def __init__(self) -> None:
        self._line = _Line()

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

    def __init__(self) -> None:
        self._inner: _Line | None = None
        self.queue: queue.SimpleQueue[tuple[Callable[[], object], Callable[[], object]] | None] = queue.SimpleQueue()
        # Guards what follows.
        self.lock = threading.Lock()
        # Number of futures that are not complete.
        self.pending = 0
        # The thread that takes from the queue.
        self.thread: threading.Thread | None = None
        # Number of the callback that runs on it, and 0 if none does.
        self.callback = 0
        self._callbacks = 0
        # True while the callback waits for a call, not for a future.
        self.in_call = False

    @property
    def inner(self) -> _Line:
        """The line of futures for which this one's callbacks ask."""
        with self.lock:
            if self._inner is None:
                self._inner = _Line()
            return self._inner

    def put(self, wait: Callable[[], object], complete: Callable[[], object]) -> None:
        """Adds a future; starts the line's thread if there is none."""
        global _watch
        self.queue.put((wait, complete))
        with self.lock:
            self.pending += 1
            if self.thread is not None:
                return
            self.go_on()
            _lines.add(self)
            if _watch is None or not _watch.is_alive():
                _watch = threading.Thread(target=_watch_lines, name="muster-futures-watch", daemon=True)
                _watch.start()

    def go_on(self) -> None:
        """Has a new thread take from the queue. REQUIRES: the lock."""
        self.callback = 0
        self.thread = threading.Thread(target=self._run, name="muster-futures", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        _here.line = self
        for wait, complete in iter(self.queue.get, None):
            wait()
            with self.lock:
                self._callbacks += 1
                number = self.callback = self._callbacks
            complete()
            del wait, complete
            with self.lock:
                self.pending -= 1
                if self.callback != number:
                    # Another thread has gone on.
                    return
                self.callback = 0
        self.inner.queue.put(None)

    def look(self) -> tuple[int, float] | None:
        """Returns the callback that may hold others up, and the processor time of its thread; None if there is none."""
        if self.inner.is_busy():
            return None
        with self.lock:
            if self.callback == 0 or self.queue.empty() or self.in_call:
                return None
            assert self.thread is not None and self.thread.ident is not None
            return self.callback, time.clock_gettime(time.pthread_getcpuclockid(self.thread.ident))

    def is_busy(self) -> bool:
        """Returns True if some future is not complete."""
        with self.lock:
            return self.pending > 0

    def go_on_after(self, callback: int) -> None:
        """Has another thread go on with the line if this callback is still running."""
        with self.lock:
            if self.callback == callback:
                self.go_on()


@contextlib.contextmanager
def in_call() -> Iterator[None]:
    """Tells that this thread waits for a call in the block."""
    line: _Line | None = getattr(_here, "line", None)
    if line is not None:
        line.in_call = True
    try:
        yield
    finally:
        if line is not None:
            line.in_call = False


def _watch_lines() -> None:
    """Has lines go on whose callbacks wait for a future behind them."""
    seen: dict[_Line, tuple[int, float]] = {}
    while True:
        time.sleep(_PATIENCE_SECONDS)
        looks = ((line, line.look()) for line in list(_lines))
        looked = {line: look for line, look in looks if look is not None}
        for line, look in looked.items():
            if seen.get(line) == look:
                line.go_on_after(look[0])
        seen = looked
