"""A program whose every step on servers is one that PyTorch's optimizer makes beside it. served_step_test.py runs it as a job.

Each rank computes with its own copy of the model what all ranks' gradients come to; every kind of step is made on both.
"""

import copy
import os
import sys

import torch

import muster
import muster.torch

RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Net(torch.nn.Module):
    """Two branches in front of a head, and a layer that is read without being called."""

    def __init__(self):
        super().__init__()
        self.left, self.right = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.head = torch.nn.Linear(4, 1)
        self.memory = torch.nn.LSTM(4, 4, batch_first=True)

    def forward(self, x, branch):
        hidden = self.norm((self.left if branch == "left" else self.right)(x))
        hidden, _ = self.memory(hidden[:, None])
        return torch.nn.functional.linear(hidden[:, 0], self.head.weight, self.head.bias)


class Boom(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError("bad batch")


def batch(number, rank):
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(100 * number + rank))


def plain(net, number, rank, drop):
    net(batch(number, rank), "left").pow(2).mean().backward()


def both_branches_in_two_passes(net, number, rank, drop):
    net(batch(number, rank), "left").pow(2).mean().backward()
    net(batch(number, rank), "right").pow(2).mean().backward()


def clipped(net, number, rank, drop):
    (100 * net(batch(number, rank), "right")).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)


def by_hand(net, number, rank, drop):
    chosen = [net.head.weight, net.left.bias]
    loss = net(batch(number, rank), "left").pow(2).mean()
    for parameter, gradient in zip(chosen, torch.autograd.grad(loss, chosen)):
        parameter.grad = 2 * gradient


def penalty(net, number, rank, drop):
    x = batch(number, rank).requires_grad_()
    with torch.backends.mkldnn.flags(enabled=False):
        (slope,) = torch.autograd.grad(net.head(net.left(x)).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()


def scaled_and_zeroed(net, number, rank, drop):
    plain(net, number, rank, drop)
    for name, parameter in net.named_parameters():
        if parameter.grad is not None:
            parameter.grad.zero_() if name == "norm.bias" else parameter.grad.mul_(0.25)


def other_branches_of_ranks(net, number, rank, drop):
    net(batch(number, rank), "left" if rank == 0 else "right").pow(2).mean().backward()


def after_a_bad_batch(net, number, rank, drop):
    try:
        net.head(Boom.apply(net.left(batch(number, rank)))).sum().backward()
        raise AssertionError("no exception came")
    except ValueError:
        drop()
    plain(net, number, rank, drop)


def frozen(net, number, rank, drop):
    net.left.requires_grad_(False)
    plain(net, number, rank, drop)


def learning_again(net, number, rank, drop):
    net.left.requires_grad_(True)
    plain(net, number, rank, drop)


def nothing(net, number, rank, drop):
    pass


KINDS = [
    plain, both_branches_in_two_passes, clipped, by_hand, penalty, scaled_and_zeroed, other_branches_of_ranks, nothing,
    after_a_bad_batch, frozen, learning_again,
]  # fmt: skip


def mean_of_ranks(alone, kind, number):
    """Makes the gradients that all ranks come to, in `alone`: the mean, with zeros of ranks without; None if no rank has one."""
    sums = [None for _ in alone.parameters()]
    for rank in range(SIZE):
        alone.zero_grad(set_to_none=True)
        kind(alone, number, rank, lambda: alone.zero_grad(set_to_none=True))
        for i, parameter in enumerate(alone.parameters()):
            if parameter.grad is not None:
                sums[i] = parameter.grad / SIZE if sums[i] is None else sums[i] + parameter.grad / SIZE
    for parameter, gradient in zip(alone.parameters(), sums):
        parameter.grad = gradient


def check_same(net, alone, what):
    for (name, ours), theirs in zip(net.named_parameters(), alone.parameters()):
        assert torch.allclose(ours, theirs, rtol=2e-5, atol=2e-6), (what, name, ours, theirs)


def raises(error, words, call):
    try:
        call()
    except error as raised:
        assert words in str(raised), str(raised)
        return
    raise AssertionError(f"no error says {words}")


def make_steps(served, net, alone, optimizer):
    for number, kind in enumerate(KINDS):
        mean_of_ranks(alone, kind, number)
        optimizer.step()
        kind(net, number, RANK, served.zero_grad)
        served.step()
        # Read through the model, without a call.
        check_same(net, alone, kind.__name__)


def refuse_what_cannot_be(served, net, alone, optimizer):
    """Each is refused by name, and after it is mended the step is as if it had not been."""
    number = len(KINDS)
    mean_of_ranks(alone, plain, number)
    optimizer.step()
    plain(net, number, RANK, None)

    weight = net.head.weight
    weight.grad[0, 0] = float("nan")
    raises(muster.NotFinite, f"the gradient of head.weight is not finite in step {number}, and was not sent", served.step)
    served.zero_grad()
    plain(net, number, RANK, None)

    values = weight.detach().clone()
    for change in (lambda: weight.data.mul_(2), lambda: weight.data[0, 1].add_(1e-3), torch.no_grad()(lambda: weight.zero_())):
        change()
        raises(muster.Error, "head.weight was changed by hand", served.step)
        weight.data.copy_(values)
    memory, weight.data = weight.data, values
    raises(muster.Error, "head.weight would be changed by hand", served.step)
    weight.data = memory
    other = copy.deepcopy(net).state_dict()
    net.load_state_dict(other)
    other["head.bias"] = other["head.bias"] + 1
    raises(muster.Error, "head.bias would be changed by hand", lambda: net.load_state_dict(other))

    net.more = torch.nn.Linear(1, 1)
    raises(muster.InvalidArgument, "parameter more.weight learns now", served.step)
    del net.more
    head, net.head = net.head, torch.nn.Linear(4, 1).requires_grad_(False)
    raises(muster.Error, "parameter head.weight is not in the model any more", served.step)
    net.head = head
    dense, weight.grad = weight.grad, weight.grad.to_sparse()
    raises(muster.InvalidArgument, "the gradient of head.weight is torch.float32, torch.sparse_coo", served.step)
    weight.grad = dense
    raises(muster.InvalidArgument, "tensor is 12; there are 12, counted from 0", lambda: served._servers.acquire(12))
    raises(muster.InvalidArgument, "table is 0; there are 0", lambda: served._servers.look_up(0, 0, 0, 0, False))
    raises(muster.Error, "has a ParameterServer already", lambda: muster.torch.ParameterServer(Net(), muster.SGD(lr=1.0)))

    served.step()
    check_same(net, alone, "after what was refused")
    # Copies are of this step, and have nothing to do with servers.
    twin = copy.deepcopy(net)
    check_same(twin, alone, "a copy")
    twin.load_state_dict({name: value + 1 for name, value in twin.state_dict().items()})


def refuse_in_backward(served, net):
    """With push="backward", what was sent has to be what counts."""
    plain(net, 0, RANK, None)
    net.left.weight.grad.mul_(0.5)
    raises(muster.Error, "the gradient of left.weight was changed or dropped after it was pushed", served.step)
    net.left.weight.grad.mul_(2)
    raises(muster.Error, "the gradient of left.weight was changed or dropped after it was pushed", served.step)
    raises(muster.Error, "cannot be dropped", served.zero_grad)
    said = "has been pushed at step 0 already; call step() after each backward"
    raises(muster.InvalidArgument, said, lambda: plain(net, 0, RANK, None))


def drop_rows():
    """A dropped step's rows are dropped with it, whatever it came to."""
    keys = torch.tensor([[1, 2], [2, 7]]) + RANK
    net = torch.nn.Sequential(muster.torch.Embedding(3, std=0.0), torch.nn.Linear(3, 1))
    alone = copy.deepcopy(net[1])
    rows = torch.zeros(9, 3, requires_grad=True)
    served = muster.torch.ParameterServer(net, muster.SGD(lr=0.5))
    optimizer = torch.optim.SGD([rows, *alone.parameters()], 0.5)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        for rank in range(SIZE):
            (alone(rows[keys - RANK + rank]).exp().sum() / SIZE).backward()
        optimizer.step()

        # Dropped: passes that ended, one that did not, and one whose gradients are not finite.
        net(keys).sum().backward()
        raises(ValueError, "bad batch", lambda: net[1](Boom.apply(net[0](keys))).sum().backward())
        served.zero_grad()
        (net[0](keys) * float("inf")).sum().backward()
        raises(muster.NotFinite, "the gradient of rows of 0 is not finite", served.step)
        served.zero_grad()
        # In two passes, of which the second looks up rows of the first.
        for row in range(2):
            net(keys[row]).exp().sum().backward()
        served.step()
    with torch.no_grad():
        assert torch.allclose(net[0](torch.arange(9)), rows, rtol=1e-5), (net[0](torch.arange(9)), rows)
    check_same(net[1], alone, "rows")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    if sys.argv[1] == "rows":
        drop_rows()
        return
    net = Net()
    alone = copy.deepcopy(net)
    if sys.argv[1] == "backward":
        refuse_in_backward(muster.torch.ParameterServer(net, muster.SGD(lr=0.1), push="backward"), net)
        os._exit(0)
    if sys.argv[1] == "clip":
        served = muster.torch.ParameterServer(net, muster.SGD(lr=0.1), clip=0.01)
        optimizer = torch.optim.SGD(alone.parameters(), 0.1)
        for number in range(3):
            mean_of_ranks(alone, plain, number)
            assert torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.01) > 0.02
            optimizer.step()
            plain(net, number, RANK, None)
            served.step()
            check_same(net, alone, number)
        return
    served = muster.torch.ParameterServer(net, muster.AdamW(lr=0.01, weight_decay=0.1), deterministic=True)
    optimizer = torch.optim.AdamW(alone.parameters(), 0.01, weight_decay=0.1)
    make_steps(served, net, alone, optimizer)
    refuse_what_cannot_be(served, net, alone, optimizer)


if __name__ == "__main__":
    main()
