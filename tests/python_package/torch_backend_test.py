"""The backend "muster" of torch.distributed: ranks are processes on this machine."""

import datetime
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import weakref

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

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


@pytest.fixture
def ranks(tmp_path):
    """Runs a function on ranks; returns results and errors, by rank. A rank that was killed has neither."""
    context = multiprocessing.get_context("spawn")

    def run(body, size, *arguments, timeout=60.0, killed=()):
        results = context.Queue()
        store = tmp_path / f"store{len(list(tmp_path.iterdir()))}"
        processes = [
            context.Process(target=run_rank, args=(body, rank, size, store, timeout, results, arguments))
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

    return run


def numbers(rank, shape=(3,)):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) + 100 * rank


def every_collective(rank, size):
    total = sum(numbers(each) for each in range(size))
    tensor = numbers(rank)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, total)
    for op, expected in (
        (dist.ReduceOp.MAX, numbers(size - 1)),
        (dist.ReduceOp.MIN, numbers(0)),
        (dist.ReduceOp.AVG, total / size),
        (dist.ReduceOp.PRODUCT, numbers(0) * numbers(1) * numbers(2)),
    ):
        tensor = numbers(rank)
        dist.all_reduce(tensor, op=op)
        assert torch.allclose(tensor, expected), op
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        tensor = torch.tensor([1, 2], dtype=dtype)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size, 2 * size], dtype
    # Neither contiguous nor dense in memory.
    tensor = numbers(rank, (4, 6)).t()[1:, ::2]
    dist.all_reduce(tensor)
    assert torch.equal(tensor, sum(numbers(each, (4, 6)) for each in range(size)).t()[1:, ::2])
    several = [torch.ones(2) * rank, torch.ones(3)]
    dist.all_reduce_coalesced(several)
    assert several[0].tolist() == [3.0, 3.0] and several[1].tolist() == [3.0] * 3

    tensor = numbers(rank)
    dist.reduce(tensor, 1, op=dist.ReduceOp.MAX)
    assert rank != 1 or torch.equal(tensor, numbers(2))
    tensor = numbers(rank)
    dist.broadcast(tensor, 2)
    assert torch.equal(tensor, numbers(2))
    parts = [torch.zeros(1, 3).t() for _ in range(size)]
    dist.all_gather(parts, numbers(rank, (3, 1)))
    assert all(torch.equal(part, numbers(each, (3, 1))) for each, part in enumerate(parts))
    whole = torch.zeros(size * 3)
    dist._all_gather_base(whole, numbers(rank))
    assert torch.equal(whole, torch.cat([numbers(each) for each in range(size)]))
    output = torch.zeros(3)
    dist.reduce_scatter(output, [numbers(rank) + each for each in range(size)])
    assert torch.equal(output, total + size * rank)
    dist._reduce_scatter_base(output, torch.cat([numbers(rank) + each for each in range(size)]))
    assert torch.equal(output, total + size * rank)
    parts = [torch.zeros(3) for _ in range(size)]
    dist.gather(numbers(rank), parts if rank == 1 else None, 1)
    assert rank != 1 or all(torch.equal(part, numbers(each)) for each, part in enumerate(parts))
    dist.scatter(output, [numbers(each + 5) for each in range(size)] if rank == 2 else None, 2)
    assert torch.equal(output, numbers(rank + 5))
    output = torch.zeros(size, 2)
    dist.all_to_all_single(output, numbers(rank, (size, 2)))
    assert torch.equal(output, torch.stack([numbers(each, (size, 2))[rank] for each in range(size)]))
    # Rank r sends e + 1 rows to rank e.
    output = torch.zeros(size * (rank + 1), 2)
    rows = sum(range(1, size + 1))
    dist.all_to_all_single(output, torch.full((rows, 2), float(rank)), [rank + 1] * size, list(range(1, size + 1)))
    assert output[:, 0].tolist() == [each for each in range(size) for _ in range(rank + 1)]
    outputs = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(outputs, [torch.full((each + 1,), float(rank)) for each in range(size)])
    assert all(part.eq(each).all() for each, part in enumerate(outputs))

    # Types that cannot be added are moved all the same, and so is whatever can be pickled.
    flags = [torch.zeros(2, dtype=torch.bool) for _ in range(size)]
    dist.all_gather(flags, torch.tensor([rank == 1, True]))
    assert [part.tolist() for part in flags] == [[each == 1, True] for each in range(size)]
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank})
    assert things == [{"rank": each} for each in range(size)]
    things = [rank, "text"] if rank == 0 else [None, None]
    dist.broadcast_object_list(things, 0)
    assert things == [0, "text"]

    tensor = numbers(rank)
    if rank == 0:
        dist.send(numbers(7), 1)
        dist.send(numbers(8), 1)
    elif rank == 1:
        assert dist.recv(tensor, 0) == 0 and torch.equal(tensor, numbers(7))
        work = dist.irecv(tensor, 0)
        work.wait()
        assert torch.equal(tensor, numbers(8))
    dist.barrier()

    pair = dist.new_group([0, 2])
    if rank != 1:
        tensor = torch.ones(1) * (rank + 1)
        dist.all_reduce(tensor, group=pair)
        assert tensor.item() == 4 and dist.get_world_size(pair) == 2
    dist.barrier()

    works = [dist.all_reduce(torch.ones(1000) * each, async_op=True) for each in range(20)]
    for each, work in enumerate(works):
        work.wait()
        assert work.is_completed() and work.is_success() and work.result()[0][0] == size * each
    tensor = torch.ones(3)
    doubled = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert doubled.wait().tolist() == [2.0 * size] * 3
    return dist.get_backend()


def test_every_collective_gives_what_it_should(ranks):
    results, errors = ranks(every_collective, 3)
    assert not errors, "\n".join(errors.values())
    assert results == dict.fromkeys(range(3), "muster")


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4, track_running_stats=False), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 30), torch.nn.Tanh(), torch.nn.Linear(30, 5),
    )  # fmt: skip


def batch(step, size):
    """8 examples for each of 4 parts, the same ones however many ranks there are."""
    generator = torch.Generator().manual_seed(step)
    images = torch.randn(4, 8, 1, 8, 8, generator=generator)
    labels = torch.randint(0, 5, (4, 8), generator=generator)
    return images.chunk(size), labels.chunk(size)


def loss_of(net, images, labels):
    """The mean over parts, each of which is normalized by itself."""
    losses = [torch.nn.functional.cross_entropy(net(part), truth) for part, truth in zip(images, labels)]
    return sum(losses) / len(losses)


def train(rank, size, steps):
    net = model()
    trained = DistributedDataParallel(net, bucket_cap_mb=0.01) if dist.is_initialized() else net
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for step in range(steps):
        images, labels = batch(step, size)
        optimizer.zero_grad()
        if dist.is_initialized() and len(images[rank]) > 1:
            # Parts are micro-batches, whose gradients are summed before they are sent.
            count = len(images[rank])
            for i in range(count - 1):
                with trained.no_sync():
                    (loss_of(trained, images[rank][i : i + 1], labels[rank][i : i + 1]) / count).backward()
            (loss_of(trained, images[rank][count - 1 :], labels[rank][count - 1 :]) / count).backward()
        else:
            loss_of(trained, images[rank], labels[rank]).backward()
        optimizer.step()
    return [each.detach().numpy() for each in net.parameters()]


@pytest.mark.parametrize("size", [2, 4])
def test_data_parallel_training_is_that_of_one_process(ranks, size):
    steps = 50
    results, errors = ranks(train, size, steps)
    assert not errors, "\n".join(errors.values())
    expected = train(0, 1, steps)
    for rank in range(size):
        for mine, first, alone in zip(results[rank], results[0], expected):
            assert (mine == first).all()
            difference = torch.linalg.norm(torch.from_numpy(mine - alone)) / torch.linalg.norm(torch.from_numpy(alone))
            assert difference <= 1e-5


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
    _, errors = ranks(leaves_a_call_under_way, 2)
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
    # The native call is refused; the output cannot be written.
    for start, said, kind in (
        (lambda: group.broadcast([torch.ones(2)], options), "root is 7 in a group of 2 ranks", InvalidArgument),
        (lambda: dist.all_reduce(torch.ones(1).expand(3), async_op=True), "single memory location", RuntimeError),
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

    for call, said in (
        (lambda: dist.all_reduce(torch.ones(3, dtype=torch.int8)), "torch.int8 cannot be reduced; expected one of float32, "),
        (lambda: dist.all_reduce(torch.ones(3, device="meta")), "takes dense tensors on the processor; this is a strided tensor on"),
        (lambda: dist.all_reduce(torch.eye(2).to_sparse()), "this is a sparse_coo tensor on cpu"),
        (lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BXOR), "is not known to the backend muster; expected one of SUM"),
        (lambda: dist.send(torch.ones(1), 1 - rank, tag=3), "the tag is 3; the backend muster has no tags"),
        (lambda: dist.recv(torch.ones(1)), "receives from a rank that is named"),
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
