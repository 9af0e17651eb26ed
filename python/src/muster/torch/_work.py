"""What an operation of the backend "muster" returns: calls that run in the background."""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional

import torch
import torch.distributed as dist

from muster import _native
from muster.errors import CollectiveError

if TYPE_CHECKING:
    from muster.torch._process_group import ProcessGroup


class Work(dist._Work):  # type: ignore[misc]
    """Calls that were started for one operation. Any thread may wait for it."""

    def __init__(
        self, group: ProcessGroup, calls: list[_native.Work], keep: object, result: list[Any], finish: Callable[[], None] | None
    ) -> None:
        """
        Args:
            keep: what the calls read and write.
            result: the operation's output.
            finish: copies the output to where it belongs, once the calls have ended.
        """
        super().__init__()
        self._group = group
        self._calls = calls
        self._keep = keep
        self._result = result
        self._finish = finish
        self._lock = threading.Lock()
        self._event_end: threading.Thread | None = None
        self._error: Exception | None = None
        self._future: torch.futures.Future[list[Any]] | None = None
        group._keep(self)

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        """Blocks until the operation has ended. The limit is that of the group, not `timeout`.

        Raises:
            CollectiveError: it failed; the message names rank and call.
            InvalidArgument: a call is wrong in itself.
            Exception: what came when the output was copied to where it belongs. Every later wait raises the same error.
        """
        try:
            for each in self._calls:
                each.wait()
            with self._lock:
                finish, self._finish = self._finish, None
                try:
                    if finish is not None:
                        finish()
                except Exception as error:
                    # Before the lock is given up, so that another thread that waits finds it.
                    self._error = error
        except Exception as error:
            if isinstance(error, CollectiveError):
                self._group._tell_failure()
            self._error = self._error or error
        finally:
            # Not after an exception that came before the end, of a signal handler for example.
            if self.is_completed():
                self._group._forget(self)
                if self._event_end is not None:
                    self._event_end.join()
        if self._error is not None:
            raise self._error
        self._keep = None
        return True

    def end_event(self, thread: threading.Thread) -> None:
        """Has each wait also await the thread that ends the operation's event in PyTorch's profiler."""
        self._event_end = thread

    def await_calls(self) -> None:
        """Blocks until the calls have ended, well or not. The output may not yet be where it belongs."""
        for each in self._calls:
            with contextlib.suppress(Exception):
                each.wait()

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(each.ended() for each in self._calls)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        return self._await_error() if self.is_completed() else None

    def result(self) -> list[Any]:
        return self._result

    def source_rank(self) -> int:
        """Returns the rank that sent what was received. REQUIRES: a receive that has ended well."""
        return self._calls[0].source()

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[list[Any]]:
        """Returns a future of the result, which a thread of the group completes."""
        with self._lock:
            if self._future is None:
                ended: torch.futures.Future[None] = torch.futures.Future()
                # PyTorch's C++ sees an error only of a function that is called then; set_exception is for Python alone.
                self._future = ended.then(lambda _: self._outcome())
                self._group._futures.add(self._await_error, lambda: ended.set_result(None))
            return self._future

    def _await_error(self) -> Exception | None:
        """Blocks until the operation has ended; returns its error."""
        with contextlib.suppress(Exception):
            self.wait()
        return self._error

    def _outcome(self) -> list[Any]:
        self.wait()
        return self._result
