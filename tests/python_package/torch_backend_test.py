"""The backend "muster" of torch.distributed: its calls, and models that are trained by it."""

import gc
import os
import subprocess

import pytest
from conftest import ROOT

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

WAIT_SECONDS = 120


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


def both_forms(rank, size):
    group = dist.distributed_c10d._get_default_group()
    total = sum(range(size))
    for call in (
        lambda tensor: group.allreduce(tensor),
        lambda tensor: group.allreduce(tensor, dist.ReduceOp.SUM),
        lambda tensor: group.allreduce([tensor]),
        lambda tensor: group.allreduce([tensor], dist.ReduceOp.SUM),
        lambda tensor: group.allreduce([tensor], op=dist.ReduceOp.SUM),
        lambda tensor: group.allreduce(tensor=tensor, op=dist.ReduceOp.SUM),
    ):
        tensor = torch.full((2,), float(rank))
        call(tensor).wait()
        assert tensor.tolist() == [total] * 2
    tensor = torch.full((2,), float(rank))
    group.allreduce(tensor, dist.ReduceOp.MAX).wait()
    assert tensor.tolist() == [size - 1] * 2
    for call, root in (
        (lambda tensor: group.broadcast(tensor, 1), 1),
        (lambda tensor: group.broadcast(tensor, root=1), 1),
        (lambda tensor: group.broadcast([tensor]), 0),
    ):
        tensor = torch.full((2,), float(rank))
        call(tensor).wait()
        assert tensor.tolist() == [root] * 2
    for call in (lambda tensor: group.reduce(tensor, 1), lambda tensor: group.reduce(tensor, 1, dist.ReduceOp.SUM)):
        tensor = torch.full((2,), float(rank))
        call(tensor).wait()
        assert rank != 1 or tensor.tolist() == [total] * 2
    parts = [torch.zeros(2) for _ in range(size)]
    group.allgather(parts, torch.full((2,), float(rank))).wait()
    assert [part[0].item() for part in parts] == list(range(size))
    parts = [torch.zeros(2) for _ in range(size)]
    group.gather(parts if rank == 1 else [], torch.full((2,), float(rank)), 1).wait()
    assert rank != 1 or [part[0].item() for part in parts] == list(range(size))
    output = torch.zeros(2)
    group.scatter(output, [torch.full((2,), float(each)) for each in range(size)] if rank == 1 else [], 1).wait()
    assert output.tolist() == [rank] * 2
    group.reduce_scatter(output, [torch.full((2,), float(each)) for each in range(size)]).wait()
    assert output.tolist() == [size * rank] * 2
    group.barrier().wait()
    # Ranks have different numbers of batches, and not every step uses every parameter.
    torch.manual_seed(1)
    net = torch.nn.ModuleList([torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)])
    net.forward = lambda x, which: net[which](x)
    trained = DistributedDataParallel(net, find_unused_parameters=True)
    with trained.join():
        for step in range(2 + rank):
            trained(torch.full((2, 4), float(step + rank)), (step + rank) % 2).sum().backward()
            with torch.no_grad():
                for each in net.parameters():
                    each -= 0.01 * each.grad
                    each.grad = None
    return torch.cat([each.detach().reshape(-1) for each in net.parameters()]).tolist()


def test_calls_take_one_tensor_as_well_as_lists(ranks):
    results, errors = ranks(both_forms, 2)
    assert not errors, "\n".join(errors.values())
    assert results[0] == results[1]


def unusual_tensors(rank, size):
    # A conjugate or negative view has the memory of another value.
    view = torch.tensor([1 + 2j, 3 - 1j]).conj()
    assert view.is_conj()
    parts = [torch.zeros(2, dtype=torch.cfloat) for _ in range(size)]
    dist.distributed_c10d._get_default_group().allgather(parts, view).wait()
    assert torch.view_as_real(parts[0]).tolist() == [[1, -2], [3, 1]]
    negative = torch.tensor([1 + 2j, 3 - 1j]).conj().imag
    assert negative.is_neg() and negative.tolist() == [-2, 1]
    dist.all_reduce(negative)
    assert negative.tolist() == [-2 * size, size]
    target = torch.zeros(2, dtype=torch.cfloat).conj()
    dist.broadcast(target if rank else torch.tensor([1 + 2j, 3 - 1j]), 0)
    assert rank == 0 or target.resolve_conj().tolist() == [1 + 2j, 3 - 1j]
    # An expanded tensor can be read, and not written.
    wide = torch.tensor([float(rank)]).expand(3)
    parts = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(parts, wide)
    assert [part.tolist() for part in parts] == [[each] * 3 for each in range(size)]
    if rank == 0:
        dist.send(wide, 1)
    elif rank == 1:
        got = torch.ones(3)
        dist.recv(got, 0)
        assert got.tolist() == [0.0] * 3
    got = torch.ones(3)
    dist.broadcast(wide if rank == 1 else got, 1)
    assert rank == 1 or got.tolist() == [1.0] * 3

    for dtype in (torch.int8, torch.int16):
        for op, expected in (
            (dist.ReduceOp.SUM, [size * -3 + 3, 100 * size]),
            (dist.ReduceOp.MIN, [-3, 100]),
            (dist.ReduceOp.MAX, [size - 4, 100]),
            (dist.ReduceOp.BAND, [-4, 100]),
        ):
            tensor = torch.tensor([rank - 3 if op != dist.ReduceOp.BAND else -4 | rank, 100], dtype=dtype)
            dist.all_reduce(tensor, op=op)
            if op == dist.ReduceOp.SUM:
                expected = torch.tensor([sum(each - 3 for each in range(size)), 100 * size]).to(dtype).tolist()
            assert tensor.tolist() == expected, (dtype, op, tensor)
        output = torch.zeros(1, dtype=dtype)
        dist.reduce_scatter(output, [torch.tensor([each - rank], dtype=dtype) for each in range(size)])
        assert output.item() == size * rank - sum(range(size))
    for dtype in (torch.uint8, torch.int32, torch.int64):
        for op, expected in ((dist.ReduceOp.BAND, 8), (dist.ReduceOp.BOR, 8 | 7), (dist.ReduceOp.BXOR, 8 ^ 7)):
            tensor = torch.tensor([8 | 1 << rank], dtype=dtype)
            dist.all_reduce(tensor, op=op)
            assert tensor.item() == expected, (dtype, op)


def test_views_expanded_tensors_small_integers_and_bits(ranks):
    _, errors = ranks(unusual_tensors, 3)
    assert not errors, "\n".join(errors.values())


def sparse_gradients(rank, size):
    # Rank r has rows 0 and r, of which row r twice.
    tensor = torch.sparse_coo_tensor([[0, rank, rank]], torch.ones(3, 2) * (rank + 1), (4, 2))
    work = dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    work.wait()
    expected = torch.zeros(4, 2)
    for each in range(size):
        expected[0] += each + 1
        expected[each] += 2 * (each + 1)
    assert torch.equal(tensor.to_dense(), expected), tensor
    nothing = torch.sparse_coo_tensor(torch.zeros((1, 0)), torch.zeros(0), (4,))
    if rank == 1:
        nothing = torch.sparse_coo_tensor([[2]], [5.0], (4,))
    dist.all_reduce(nothing)
    assert nothing.to_dense().tolist() == [0, 0, 5, 0]
    try:
        dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (3 + rank,)))
    except Exception as error:
        assert "all have to be alike" in str(error), error
    else:
        raise AssertionError("no error")

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.EmbeddingBag(20, 4, sparse=True), torch.nn.Linear(4, 1))
    trained = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        (trained(torch.tensor([[step, step + rank]])) ** 2).mean().backward()
        optimizer.step()
    return net[0].weight.detach().numpy()


def test_sparse_tensors_are_added_up(ranks):
    results, errors = ranks(sparse_gradients, 2)
    assert not errors, "\n".join(errors.values())
    assert (results[0] == results[1]).all()
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.EmbeddingBag(20, 4), torch.nn.Linear(4, 1))
    for step in range(3):
        net.zero_grad()
        (sum((net(torch.tensor([[step, step + rank]])) ** 2).mean() for rank in range(2)) / 2).backward()
        with torch.no_grad():
            for each in net.parameters():
                each -= 0.1 * each.grad
    assert torch.allclose(torch.from_numpy(results[0]), net[0].weight, atol=1e-6)


def tags(rank, size):
    tensor = torch.zeros(3)
    if rank == 0:
        # The first is larger than what a pipe holds, and is asked for last.
        works = [dist.isend(torch.full((count,), float(tag)), 1, tag=tag) for tag, count in ((7, 1 << 20), (3, 3), (3, 2))]
        for work in works:
            work.wait()
        senders = [dist.recv(tensor) for _ in range(2)]
        assert sorted(senders) == [1, 2], senders
        work = dist.irecv(tensor, tag=9)
        work.wait()
        assert work.source_rank() == 2 and tensor.tolist() == [9.0] * 3
    elif rank == 1:
        assert dist.recv(tensor, 0, tag=3) == 0 and tensor.tolist() == [3.0] * 3
        assert dist.recv(tensor[:2], tag=3) == 0
        large = torch.zeros(1 << 20)
        dist.recv(large, 0, tag=7)
        assert large.eq(7).all()
        dist.send(tensor, 0)
    else:
        dist.send(torch.full((3,), 9.0), 0, tag=9)
        dist.send(tensor, 0)
    dist.barrier()


def test_messages_match_by_tag_and_come_from_any_rank(ranks):
    _, errors = ranks(tags, 3)
    assert not errors, "\n".join(errors.values())


def waits_inside_callbacks(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    order = []
    # Calls of callbacks and of this thread have no order among them.
    others = dist.new_group()

    def again(number, depth):
        def callback(done):
            order.append(number)
            value = done.value()[0]
            if depth > 0:
                # A future of a call that is made here, whose own callback waits, too.
                called = dist.all_reduce(value, group=others, async_op=True)
                value = called.get_future().then(again(number, depth - 1)).wait()
            order.append(-number)
            return value

        return callback

    futures = [
        dist.all_reduce(torch.ones(1), async_op=True).get_future().then(again(number, 2)) for number in range(1, 4)
    ]
    assert [each.wait().item() for each in futures] == [size**3] * 3
    # One callback, and all that it waits for, comes after the other.
    assert order == [each for number in range(1, 4) for each in [number] * 3 + [-number] * 3], order

    def train(hook):
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
        trained = DistributedDataParallel(net)
        hook(trained)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        numbers = torch.Generator().manual_seed(rank)
        for _ in range(5):
            optimizer.zero_grad()
            (trained(torch.randn(8, 16, generator=numbers)) ** 2).mean().backward()
            optimizer.step()
        return torch.cat([each.detach().reshape(-1) for each in net.parameters()]).tolist()

    state = power.PowerSGDState(None, 1, start_powerSGD_iter=2)
    return train(lambda net: net.register_comm_hook(state, power.powerSGD_hook))


def test_callbacks_wait_for_calls_that_they_make(ranks):
    results, errors = ranks(waits_inside_callbacks, 2, timeout=30.0)
    assert not errors, "\n".join(errors.values())
    assert results[0] == results[1]


def waits_for_a_future_behind_its_own(rank, size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        # The other's callbacks are there before the calls end, so that they run on its thread for them.
        store.wait(["go"])
        for _ in range(2):
            dist.all_reduce(torch.ones(1))
        store.wait(["over"])
        return None
    first = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    second = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda done: done.value()[0] + 1)
    waits = first.then(lambda _: second.wait())
    store.set("go", "1")
    value = waits.wait().item()
    store.set("over", "1")
    return value


def test_a_callback_that_waits_for_a_future_behind_its_own_goes_on_after_the_timeout(ranks):
    results, errors = ranks(waits_for_a_future_behind_its_own, 2, timeout=8.0)
    assert not errors, "\n".join(errors.values())
    assert results[0] == 3.0


def profiled(rank, size):
    dist.all_reduce(torch.ones(2, 3))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(torch.ones(2, 3))
        work = dist.broadcast(torch.ones(4), 0, async_op=True)
        dist.barrier()
        work.wait()
        dist.distributed_c10d._get_default_group().allgather([torch.ones(5)] * size, torch.ones(5)).wait()
    events = {each.name: each for each in profiler.events() if each.name.startswith("muster:")}
    assert all(each.is_async and each.count == 1 for each in events.values())
    return {name: each.input_shapes for name, each in events.items()}


def test_calls_are_events_of_the_profiler(ranks):
    results, errors = ranks(profiled, 2)
    assert not errors, "\n".join(errors.values())
    for shapes in results.values():
        assert shapes == {
            "muster:all_reduce": [[2, 3]], "muster:broadcast": [[4]], "muster:barrier": [], "muster:all_gather": [[5]],
        }  # fmt: skip


def forks(rank, size):
    from muster.torch import _process_group

    tensor = torch.ones(1000)
    # Calls are under way while rank 0 forks.
    work = dist.all_reduce(tensor, async_op=True) if rank == 0 else None
    if rank == 0:
        work.get_future()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                work.wait()
            except Exception as first:
                try:
                    dist.barrier()
                except Exception as second:
                    os.write(write, f"{first}|{second}".encode())
            # Ends as a program does: what it has of its parent's does no harm.
            _process_group._end_groups()
            del work
            dist.destroy_process_group()
            gc.collect()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        said = os.read(read, 10_000).decode()
        assert said.count(f"process {child} was forked from process {os.getpid()}, which alone is a rank") == 2, said
        dist.distributed_c10d._get_default_store().set("forked", "1")
    else:
        dist.distributed_c10d._get_default_store().wait(["forked"])
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    dist.barrier()
    return tensor[0].item()


def test_a_forked_process_is_no_rank_and_does_no_harm(ranks):
    results, errors = ranks(forks, 2)
    assert not errors, "\n".join(errors.values())
    assert results == {0: 2.0, 1: 2.0}


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


TORCHRUN_PROGRAM = """
import os
import torch
import torch.distributed as dist
import muster.torch

dist.init_process_group("muster")
tensor = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(tensor)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "has", tensor.item(), flush=True)
dist.destroy_process_group()
"""


def test_torchrun_starts_ranks(installed, tmp_path):
    (tmp_path / "train.py").write_text(TORCHRUN_PROGRAM)
    # The flags as docs/python.md has them, and others that choose a free port.
    document = (ROOT / "docs/python.md").read_text()
    assert "`torchrun --nproc_per_node 2 train.py" in document and "`--redirects 1 --tee 1`" in document
    port = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    command = ["torchrun", "--nproc_per_node", "2", *port, "--redirects", "1", "--tee", "1", "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, text=True, timeout=WAIT_SECONDS,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    for rank in range(2):
        assert f"rank {rank} of 2 has 3.0" in done.stdout, done.stdout
