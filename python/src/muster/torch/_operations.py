"""What all operations of the process group have in common: the forms of a call, and its event in PyTorch's profiler."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def operation(name: str, inputs: str = "", short: Callable[..., tuple[Any, ...]] | None = None) -> Callable[[Any], Any]:
    """Returns a decorator for a method that takes lists of tensors, starts calls and returns a Work.

    Args:
        name: the operation in PyTorch's profiler, after "muster:".
        inputs: the argument with the tensors whose shapes the profiler shows; "" for none.
        short: makes the method's arguments of those of PyTorch's other form of the call, which has a single tensor.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def call(self: Any, *args: Any, **named: Any) -> Any:
            if short is not None and any(isinstance(each, Tensor) for each in (*args, *named.values())):
                args, named = short(*args, **named), {}
            if not torch.autograd._profiler_enabled():
                return method(self, *args, **named)
            given = signature.bind(self, *args, **named).arguments.get(inputs)
            event = torch.autograd._record_function_with_args_enter(f"muster:{name}", *_tensors(given))
            try:
                work = method(self, *args, **named)
            except BaseException:
                torch.autograd._record_function_with_args_exit(event)
                raise
            work.end_event(_ended_after(work, event))
            return work

        return call

    return decorate


def _ended_after(work: Any, event: Any) -> threading.Thread:
    """Ends an event when the calls of a work have ended; returns the thread that does so.

    An event that ends on another thread than it began is shown as asynchronous, as those of other backends are. PyTorch's
    function ends it with this thread's state of the profiler, without which it would not be counted.
    """
    ended: torch.futures.Future[None] = torch.futures.Future()
    torch.ops.profiler._call_end_callbacks_on_jit_fut(event, ended)

    def end() -> None:
        work.await_calls()
        ended.set_result(None)

    thread = threading.Thread(target=end, name="muster-profiler", daemon=True)
    thread.start()
    return thread


def _tensors(given: Any) -> Iterator[Tensor]:
    """Yields the tensors in lists of lists."""
    if isinstance(given, Tensor):
        yield given
        return
    for each in given or ():
        yield from _tensors(each)
