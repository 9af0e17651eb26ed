"""Ranks of torch.distributed on the backend "muster": processes on this machine, for the fixture `ranks`."""

import atexit
import datetime
import multiprocessing
import multiprocessing.forkserver
import os
import sys
import traceback

import torch
import torch.distributed as dist

WAIT_SECONDS = 120


def run_rank(body, rank, size, store, timeout, results, arguments):
    """A rank's process: puts (rank, result of the body or None, what it raised as text) into the queue."""
    try:
        torch.set_num_threads(1)
        import muster.torch  # noqa: F401

        limit = datetime.timedelta(seconds=timeout)
        dist.init_process_group("muster", init_method=f"file://{store}", rank=rank, world_size=size, timeout=limit)
        results.put((rank, body(rank, size, *arguments), None))
    except BaseException as error:
        results.put((rank, None, f"{type(error).__name__} {getattr(error, 'code', '')}: {error}\n{traceback.format_exc()}"))


def run_forked_rank(*arguments):
    run_rank(*arguments)
    # Multiprocessing ends a forked process without them.
    atexit._run_exitfuncs()


def forking_context():
    """The context of processes that are forked from one that has imported PyTorch, and started nothing.

    A rank imports nothing anew, which takes longer than most tests.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch_ranks", "muster.torch", "pytest"])
    # Python 3.11 gives that process no other path.
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path
    return context


def run_ranks(folder, body, size, *arguments, timeout=60.0, killed=(), forked=True):
    """Runs a function on ranks, which meet in the folder; returns results and errors, by rank.

    A rank that was killed has neither. With `forked` False, ranks are processes of their own from the first to the last line.
    """
    context = forking_context() if forked else multiprocessing.get_context("spawn")
    rank_process = run_forked_rank if forked else run_rank
    results = context.Queue()
    store = folder / f"store{len(list(folder.iterdir()))}"
    processes = [
        context.Process(target=rank_process, args=(body, rank, size, store, timeout, results, arguments))
        for rank in range(size)
    ]
    try:
        for each in processes:
            each.start()
        answers = [results.get(timeout=WAIT_SECONDS) for _ in range(size - len(killed))]
    finally:
        for each in processes:
            each.join(WAIT_SECONDS if sys.exc_info()[0] is None else 0)
            each.kill()
    codes = [each.exitcode for rank, each in enumerate(processes) if rank not in killed]
    assert codes == [0] * len(codes)
    return {rank: result for rank, result, _ in answers}, {rank: error for rank, _, error in answers if error}
