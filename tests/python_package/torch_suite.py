"""Runs PyTorch's own tests of torch.distributed (torch.testing._internal.distributed.distributed_test) on a backend.

    /usr/bin/python3 tests/python_package/torch_suite.py BACKEND RANKS [TEST...]

prints a line for each test: its name, then passed, skipped or failed. For the backend muster, PYTHONPATH has the package.

Ranks are processes that are started once and run test after test; after one that failed they are started anew. Where a
test asks for the backend's name, muster takes the branch of gloo.
"""

import datetime
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import shutil
import sys
import tempfile
import traceback
import types
import unittest

# For one test; the slowest takes half a minute on two processors.
LIMIT_SECONDS = 200


class LikeGloo(str):
    """A backend's name that is equal to gloo's, too, and found where gloo's is."""

    def __eq__(self, other):
        return str(self) == str(other) or other == "gloo"

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


def load_suite(backend, size, folder):
    """Imports the suite for a backend; returns the module."""
    # Stands in for a package that Debian's PyTorch does not bring; the suite only derives from this class.
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    sys.argv[1:] = []
    os.environ.update(
        BACKEND=backend, WORLD_SIZE=str(size), TEMP_DIR=str(folder), INIT_METHOD=f"file://{folder}/init_dir/shared_init_file",
        MASTER_ADDR="127.0.0.1",
    )  # fmt: skip
    from torch.testing._internal import common_distributed

    for each in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in each:
            each.add(backend)
    if backend == "muster":
        import muster.torch  # noqa: F401

        plain, os.environ = os.environ, {**os.environ, "BACKEND": LikeGloo(backend)}
    from torch.testing._internal.distributed import distributed_test as suite

    if backend == "muster":
        os.environ = plain
        for name in vars(suite):
            if name.endswith("PROFILING_SUPPORTED_BACKENDS"):
                getattr(suite, name).append(backend)
    return suite


def names_of(suite):
    return sorted(name for name in dir(suite.DistributedTest._DistTestBase) if name.startswith("test_"))


def run_test(suite, name, rank, size, folder):
    """Runs one test; returns its outcome and what it raised."""
    import torch.distributed as dist

    class Case(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        pass

    test = getattr(Case, name)
    why = test.__unittest_skip_why__ if getattr(test, "__unittest_skip__", False) else ""
    # Of those that only MPI passes, muster passes the ones of all-to-all.
    if why and not ("Only MPI" in why and suite.BACKEND == "muster"):
        return "skipped", why
    case = Case(name)
    case.rank = rank
    case.skip_return_code_checks = []
    case.file_name = str(folder / "store")
    suite.INIT_METHOD = os.environ["INIT_METHOD"]
    suite.Barrier.barrier_id = 0
    try:
        seconds = suite.CUSTOM_PG_TIMEOUT.get(name, suite.default_pg_timeout)
        dist.init_process_group(
            init_method=case.init_method, backend=str(suite.BACKEND), world_size=size, rank=rank,
            timeout=datetime.timedelta(seconds=seconds),
        )  # fmt: skip
        case._barrier()
        getattr(case, name)()
        case._barrier()
    except unittest.SkipTest as skip:
        return "skipped", str(skip)
    except SystemExit as end:
        return ("passed" if end.code == 0 else "skipped"), f"status {end.code}"
    except BaseException:
        return "failed", traceback.format_exc()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return "passed", ""


def run_rank(backend, rank, size, pipe):
    """A rank's process: runs the tests whose names and folders come."""
    faulthandler.enable()
    suite = None
    while True:
        asked = pipe.recv()
        if asked is None:
            return
        name, folder = asked
        folder = pathlib.Path(folder)
        os.environ.update(TEMP_DIR=str(folder), INIT_METHOD=f"file://{folder}/init_dir/shared_init_file")
        if suite is None:
            import torch

            torch.set_num_threads(1)
            suite = load_suite(backend, size, folder)
        pipe.send(names_of(suite) if name is None else run_test(suite, name, rank, size, folder))


class Ranks:
    """The processes of all ranks."""

    def __init__(self, backend, size):
        context = multiprocessing.get_context("spawn")
        self.pipes, ends = zip(*(context.Pipe() for _ in range(size)))
        self.processes = [
            context.Process(target=run_rank, args=(backend, rank, size, end), daemon=True) for rank, end in enumerate(ends)
        ]
        for each, end in zip(self.processes, ends):
            each.start()
            end.close()

    def ask(self, name):
        """Has all ranks run a test; returns what each answers, until one has failed."""
        folder = tempfile.mkdtemp()
        for each in ("barrier", "test_dir", "init_dir"):
            os.mkdir(f"{folder}/{each}")
        try:
            for each in self.pipes:
                each.send((name, folder))
            answers, left = [], list(self.pipes)
            while left and not any(each[0] == "failed" for each in answers):
                ready = multiprocessing.connection.wait(left, LIMIT_SECONDS)
                if not ready:
                    answers.append(("failed", f"no end within {LIMIT_SECONDS} s"))
                for each in ready:
                    left.remove(each)
                    try:
                        answers.append(each.recv())
                    except EOFError:
                        answers.append(("failed", "a rank's process has ended"))
            return answers
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def end(self):
        for each in self.processes:
            each.kill()
            each.join()


def run(backend, size, names=()):
    """Runs the tests of these names, or all; yields name, outcome and what a rank said."""
    ranks = Ranks(backend, size)
    try:
        for name in names or ranks.ask(None)[0]:
            answers = ranks.ask(name)
            outcomes = {each[0] for each in answers}
            outcome = "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "skipped"
            yield name, outcome, "\n".join(text for each, text in answers if each == outcome)
            if outcome == "failed":
                ranks.end()
                ranks = Ranks(backend, size)
    finally:
        ranks.end()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    backend, size, *names = sys.argv[1:]
    counts = {}
    for name, outcome, said in run(backend, int(size), names):
        counts[outcome] = counts.get(outcome, 0) + 1
        print(name, outcome, flush=True)
        if outcome == "failed":
            print("   ", said.replace("\n", "\n    "), file=sys.stderr, flush=True)
    print(*(f"{count} {outcome}" for outcome, count in counts.items()), sep=", ", file=sys.stderr)


if __name__ == "__main__":
    main()
