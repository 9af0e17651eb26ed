#!/usr/bin/python3
"""PyTorch's training speed on the models of train_bench: torch_train CASE TYPE THREADS SECONDS.

Prints one line of JSON: items per second of each step, after warm-up, and the kernels that its BLAS has
chosen; or, as a string, why it ended. Written as one would for speed on a CPU: one fused matrix for queries,
keys and values, autocast for bf16, contiguous batches.
"""

import ctypes
import json
import math
import os
import signal
import sys
import time

# OpenBLAS looks for the processor's best kernels; what a user's environment says instead may halve the speed
# of f32. Before torch, which loads it.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        mask = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(C, dim=2))
        scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(C // self.heads)) + self.mask
        out = (torch.softmax(scores, dim=-1).to(v.dtype) @ v).transpose(1, 2).reshape(B, T, C)
        x = x + self.proj(out)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, context):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.Sequential(*(Block(width, heads, context) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def loss(self, tokens, labels):
        x = self.norm(self.blocks(self.embedding(tokens) + self.positions))
        logits = F.linear(x, self.embedding.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def loss(self, features, labels):
        return F.cross_entropy(self.layers(features), labels)


class DeepFm(nn.Module):
    """26 tables of a million rows in one, each row a weight and 16 factors; sparse gradients."""

    fields, rows, dim = 26, 1000000, 16

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(self.fields * self.rows, 1 + self.dim, sparse=True)
        with torch.no_grad():
            self.table.weight.uniform_(-0.01, 0.01)
        self.layers = nn.Sequential(
            nn.Linear(self.fields * self.dim, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(),
            nn.Linear(400, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def loss(self, keys, labels):
        rows = self.table(keys)
        first, factors = rows[..., 0].sum(1), rows[..., 1:]
        pairs = 0.5 * (factors.sum(1).pow(2) - factors.pow(2).sum(1)).sum(1)
        deep = self.layers(factors.flatten(1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(first + pairs + deep + self.bias, labels)


GPT = {
    "gpt-10m": dict(layers=6, width=384, heads=6, vocabulary=256, context=256),
    "gpt2-124m": dict(layers=12, width=768, heads=12, vocabulary=50257, context=64),
}
BATCH = {"gpt-10m": 8, "gpt2-124m": 4, "mlp": 128, "deep-fm": 2048}


def make(case):
    """The model, its optimizer, four batches, and the items of a step."""
    B = BATCH[case]
    if case in GPT:
        shape = GPT[case]
        model = Gpt(**shape)
        T, V = shape["context"], shape["vocabulary"]
        batches = [tuple(torch.randint(0, V, (B, T)) for _ in range(2)) for _ in range(4)]
        return model, torch.optim.AdamW(model.parameters(), lr=3e-4), batches, B * T
    if case == "mlp":
        model = Mlp()
        batches = [(torch.rand(B, 784), torch.randint(0, 10, (B,))) for _ in range(4)]
        return model, torch.optim.SGD(model.parameters(), lr=0.01), batches, B
    model = DeepFm()
    first = torch.arange(DeepFm.fields) * DeepFm.rows
    batches = [(torch.randint(0, DeepFm.rows, (B, DeepFm.fields)) + first,
                torch.randint(0, 2, (B,)).float()) for _ in range(4)]
    return model, torch.optim.SGD(model.parameters(), lr=0.01), batches, B


def blas_kernels():
    """The processor whose kernels OpenBLAS takes, and what its threads are: of others than OpenMP's PyTorch
    is two to five times slower."""
    try:
        library = ctypes.CDLL("libopenblas.so.0")
        library.openblas_get_corename.restype = ctypes.c_char_p
        threads = ("no threads", "pthreads", "OpenMP")[library.openblas_get_parallel()]
        return f"{library.openblas_get_corename().decode()}, {threads}"
    except (OSError, AttributeError):
        return "another BLAS"


def end_after(seconds):
    """Ends the program with a line that says so, be it in the middle of a step."""

    def end(*_):
        print(json.dumps(f"its first steps take more than {seconds} s"), flush=True)
        os._exit(1)

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)


def main():
    case, kind, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    end_after(90 + 2 * math.ceil(seconds))
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, optimizer, batches, items = make(case)
    rates, started, step = [], None, 0
    while step < 6 or time.perf_counter() - started < seconds:
        if step == 3:
            started = time.perf_counter()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "bf16"):
            loss = model.loss(*batches[step % len(batches)])
        loss.backward()
        optimizer.step()
        loss.item()
        if step >= 3:
            rates.append(items / (time.perf_counter() - begin))
        step += 1
    print(json.dumps({"rates": rates, "blas": blas_kernels()}), flush=True)


if __name__ == "__main__":
    main()
