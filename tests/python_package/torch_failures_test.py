"""The backend "muster" of torch.distributed where something goes wrong: ranks that disagree, stay away or die, and wrong calls."""

import datetime
import os
import signal
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def different_counts(rank, size):
    dist.all_reduce(torch.ones(3 + rank))


def test_ranks_that_disagree_end_in_one_error_that_names_them(ranks):
    _, errors = ranks(different_counts, 2)
    for rank in range(2):
        assert "CollectiveError FAILED_PRECONDITION" in errors[rank], errors
        assert "rank 0 calls all_reduce f32 sum x 3" in errors[rank] and "rank 1 calls all_reduce f32 sum x 4" in errors[rank]


def different_types(rank, size):
    dist.all_reduce(torch.ones(3, dtype=torch.float64 if rank else torch.float32))


def test_tensors_of_different_types_are_named(ranks):
    _, errors = ranks(different_types, 2)
    for rank in range(2):
        assert "rank 0 calls all_reduce f32" in errors[rank] and "rank 1 calls all_reduce f64" in errors[rank], errors


def different_parameters(rank, size):
    net = torch.nn.Linear(4, 3 if rank else 2)
    DistributedDataParallel(net)(torch.ones(1, 4)).sum().backward()


def test_models_that_differ_end_on_all_ranks(ranks):
    _, errors = ranks(different_parameters, 2)
    assert sorted(errors) == [0, 1], errors
    assert any("appears not to match" in each or "calls" in each for each in errors.values()), errors


def parameters_change_on_one(rank, size):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    trained = DistributedDataParallel(net)
    trained(torch.ones(1, 4)).sum().backward()
    if rank == 1:
        # A hook of DistributedDataParallel never comes, so this rank's gradients are never complete.
        net[0].weight.requires_grad_(False)
        net[0].bias.requires_grad_(False)
    trained(torch.ones(1, 4)).sum().backward()
    dist.barrier()


def test_parameters_that_change_on_one_rank_end_in_an_error_that_names_it(ranks):
    _, errors = ranks(parameters_change_on_one, 2, timeout=3.0)
    assert sorted(errors) == [0, 1], errors
    assert any("CollectiveError" in each and "rank 1" in each for each in errors.values()), errors


def makes_a_group_of(rank, size, counts, store):
    import muster.torch

    group = dist.FileStore(store, -1)
    limit = datetime.timedelta(seconds=2)
    group.set_timeout(limit)
    muster.torch.ProcessGroup(group, rank, counts[rank], limit)


@pytest.mark.parametrize("counts", [(2, 3), (3, 3)])
def test_a_wrong_world_size_is_named(ranks, tmp_path, counts):
    _, errors = ranks(makes_a_group_of, 2, counts, str(tmp_path / f"group{counts[0]}"))
    assert sorted(errors) == [0, 1], errors
    for each in errors.values():
        said = "every rank needs the same world_size" if counts[0] == 2 else "rank 2 of 3 has not come; are there 3 processes?"
        assert said in each, errors


def one_stays_away(rank, size):
    if rank == 1:
        # Until the other's call has ended.
        dist.distributed_c10d._get_default_store().wait(["over"])
        return
    try:
        dist.all_reduce(torch.ones(3))
    finally:
        dist.distributed_c10d._get_default_store().set("over", "1")


def test_a_rank_that_stays_away_is_named(ranks):
    _, errors = ranks(one_stays_away, 2, timeout=2.0)
    assert list(errors) == [0] and "DEADLINE_EXCEEDED" in errors[0] and "rank 1" in errors[0], errors


def one_is_killed(rank, size):
    dist.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        dist.all_reduce(torch.ones(1000))


def test_a_rank_that_dies_ends_the_others_calls(ranks):
    _, errors = ranks(one_is_killed, 3, killed=(2,))
    assert sorted(errors) == [0, 1]
    for error in errors.values():
        assert "CollectiveError UNAVAILABLE" in error and "rank 2" in error, error


def one_dies_in_backward(rank, size):
    net = DistributedDataParallel(torch.nn.Linear(4, 2))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    net(torch.ones(1, 4)).sum().backward()


def test_a_rank_that_dies_ends_a_backward_pass(ranks):
    _, errors = ranks(one_dies_in_backward, 2, killed=(1,))
    assert "rank 1" in errors[0], errors


def leaves_a_call_under_way(rank, size):
    if rank == 0:
        from muster import _native

        wait, waits = _native.Work.wait, threading.Event()
        _native.Work.wait = lambda work: (waits.set(), wait(work))
        dist.irecv(torch.zeros(1000), 1).get_future()
        dist.irecv(torch.zeros(1000), 1)
        # Until the thread that completes futures is in the first call.
        waits.wait()
        return
    dist.recv(torch.zeros(1000), 0)


def test_a_process_ends_well_with_calls_under_way(ranks):
    _, errors = ranks(leaves_a_call_under_way, 2, forked=False)
    assert list(errors) == [1] and "its process ends while calls are under way" in errors[1], errors


def more_works_than_are_kept(rank, size):
    from muster import _native
    from muster.torch import _process_group

    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["go"])
        for _ in range(6):
            dist.all_reduce(torch.ones(1000))
        dist.barrier()
        return
    _process_group._MOST_UNWAITED = 3
    wait = _native.Work.wait

    def wait_for_the_other(work):
        store.set("go", "1")
        wait(work)

    _native.Work.wait = wait_for_the_other
    had_ended = []
    make = _process_group.Work.__init__

    def watched(work, group, calls, *rest):
        weakref.finalize(work, lambda: had_ended.append(all(each.ended() for each in calls)))
        make(work, group, calls, *rest)

    _process_group.Work.__init__ = watched
    for _ in range(6):
        dist.all_reduce(torch.ones(1000), async_op=True)
    store.set("go", "1")
    before_the_end = list(had_ended)
    # A process that ends earlier ends the other's calls.
    dist.barrier()
    return before_the_end


def test_works_that_nobody_waits_for_are_kept_until_they_have_ended(ranks):
    results, errors = ranks(more_works_than_are_kept, 2)
    assert not errors, "\n".join(errors.values())
    assert results[0] == [True] * 3


def fails_without_harm(rank, size):
    from muster import InvalidArgument

    group = dist.distributed_c10d._get_default_group()
    options = dist.BroadcastOptions()
    options.rootRank = 7
    # The native call is refused; the output is lost meanwhile.
    def lost():
        tensor = torch.ones(4, 2).t()
        work = dist.all_reduce(tensor, async_op=True)
        tensor.resize_(0)
        return work

    for start, said, kind in (
        (lambda: group.broadcast([torch.ones(2)], options), "root is 7 in a group of 2 ranks", InvalidArgument),
        (lost, "must match the size of tensor", RuntimeError),
    ):
        work = start()
        future = work.get_future()
        with pytest.raises(Exception, match=said):
            future.wait()
        raised = []
        for _ in range(2):
            with pytest.raises(kind, match=said) as error:
                work.wait()
            raised.append(error.value)
        assert raised[0] is raised[1] is work.exception() and not work.is_success()
    # The thread that completes futures goes on.
    tensor = torch.ones(2)
    dist.all_reduce(tensor, async_op=True).get_future().wait()
    return tensor.tolist()


def test_a_work_that_fails_in_any_way_ends_its_future_and_no_other(ranks):
    results, errors = ranks(fails_without_harm, 2, timeout=20.0)
    assert not errors, "\n".join(errors.values())
    assert results == {0: [2.0, 2.0], 1: [2.0, 2.0]}


def wrong_calls(rank, size):
    from muster import InvalidArgument

    group = dist.distributed_c10d._get_default_group()
    for call, said in (
        (lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool)), "torch.bool cannot be reduced; expected one of float32, "),
        (lambda: dist.all_reduce(torch.ones(3, device="meta")), "takes dense tensors on the processor; this is a strided tensor on"),
        (lambda: dist.broadcast(torch.eye(2).to_sparse(), 0), "this is a sparse_coo tensor on cpu"),
        (lambda: dist.all_reduce(torch.eye(2).to_sparse(), op=dist.ReduceOp.MAX), "reduced by SUM alone, and this is MAX"),
        (lambda: group.allreduce(torch.ones(2), dist.ReduceOp.PREMUL_SUM), "PREMUL_SUM is not known to the backend muster; "),
        (lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BXOR), "reduction is bxor, which only integers have"),
        (lambda: dist.all_reduce(torch.ones(1).expand(3)), "elements of the (3,) tensor are one place in memory (expand)"),
        (lambda: dist.recv(torch.ones(1).expand(3), 1 - rank), "are one place in memory (expand)"),
        (lambda: dist.all_gather([torch.ones(1).expand(3)] * 2, torch.ones(3)), "are one place in memory (expand)"),
        (lambda: group.allreduce([torch.ones(1)] * 2), "has one tensor, or list of them, a rank; this has 2"),
        (lambda: dist.all_gather([torch.ones(1)] * 3, torch.ones(1)), "the output has 3 tensors; expected 2, one for each rank"),
        (lambda: dist.all_gather([torch.ones(2)] * 2, torch.ones(1)), "tensor 0 of the output has 2 elements of torch.float32; "),
        (lambda: dist._all_gather_base(torch.ones(3), torch.ones(2)), "the output has 3 elements; expected 2 ranks x 2"),
        (lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)), "the input has 3 rows, which 2 ranks cannot divide"),
        (lambda: dist.all_to_all_single(torch.ones(2), torch.ones(2), [1, 1], [1, 2]), "the input's splits are [1, 2]; expected 2"),
    ):  # fmt: skip
        try:
            call()
        except InvalidArgument as error:
            assert said in str(error), str(error)
        else:
            raise AssertionError(f"no error {said}")
    # None of them did harm.
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    return tensor.tolist()


def test_wrong_calls_are_errors_that_do_no_harm(ranks):
    results, errors = ranks(wrong_calls, 2)
    assert not errors, "\n".join(errors.values())
    assert results == {0: [2.0, 2.0], 1: [2.0, 2.0]}
