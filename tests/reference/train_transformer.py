#!/usr/bin/env python3
"""Trains a transformer job's model with PyTorch over the very batches that Muster trains it on.

    muster export JOB --out initial.safetensors      # of a job with stop { steps: 1 } and a rate of 1e-30
    python3 tests/reference/train_transformer.py --text tinyshakespeare.txt --initial initial.safetensors \\
        --steps 8000 --type bf16 > curve.jsonl

What `examples/shakespeare_10m.textproto` says, in PyTorch's own operators: a byte-level model of GPT-2's
kind (LayerNorm, learned positions, GELU, tied head, biases where the file has them), AdamW with decay for
matrices, clipping by global norm, cosine schedule with warm-up, dropout of the embedding, of both branches and,
with --attention-dropout, of attention's probabilities.
The order of examples is that of worker/data/sampling/sampler.h and dropout's masks are those of
common/kernels/transformer/dropout.h, so that both train on the same numbers. Prints a line of JSON for each evaluation on
the held-out end of the text: step, tokens, seconds (of training alone, without making masks), loss per token of
the last step, bits per byte.

Needs python3-torch (with a BLAS that uses threads), python3-numpy, python3-xxhash.
"""

import argparse
import contextlib
import json
import math
import os
import struct
import time

import numpy
import torch
import torch.nn.functional as F
import xxhash

MASK64 = (1 << 64) - 1


def philox_words(key, x):
    """Philox4x32-10 (common/base/philox.h): four words of 32 bits for a counter of four; numbers or
    arrays of uint64."""
    key0, key1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [(b >> 32) ^ x[1] ^ key0, b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ key1, a & 0xFFFFFFFF]
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return x


def philox(key, low, high):
    """The first 64 of its bits for a counter of 128."""
    x = philox_words(key, [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32])
    return x[1] << 32 | x[0]


def mix_bits(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK64
    return x ^ (x >> 31)


class Permutation:
    """worker/data/sampling/permutation.h: the order of an epoch's `n` examples."""

    def __init__(self, seed, epoch, n):
        key = xxhash.xxh3_64_intdigest(b"shuffle", seed=seed)
        key = xxhash.xxh3_64_intdigest(b"examples", seed=key)
        self.n, self.half = n, 3
        while 1 << (2 * self.half) < n:
            self.half += 1
        self.keys = [philox(key, epoch, r) for r in range(8)]

    def __getitem__(self, position):
        mask, x = (1 << self.half) - 1, position
        while True:
            left, right = x >> self.half, x & mask
            for key in self.keys:
                mixed = mix_bits((right + key) & MASK64) >> (64 - self.half)
                left, right = right, left ^ mixed
            x = left << self.half | right
            if x < self.n:
                return x


class DropoutMasks:
    """What each use of dropout multiplies by in one step (common/kernels/transformer/dropout.h)."""

    def __init__(self, seed, probability, examples, shape):
        self.key = xxhash.xxh3_64_intdigest(b"dropout", seed=seed)
        self.threshold = round(probability * 65536)
        self.shape = (examples, *shape)
        words = numpy.arange(math.prod(shape) // 8, dtype=numpy.uint64)
        self.counters = numpy.tile(words, (examples, 1))
        self.examples = numpy.repeat(numpy.arange(examples, dtype=numpy.uint64)[:, None], len(words), axis=1)

    def factors(self, name, step):
        key = xxhash.xxh3_64_intdigest(name.encode(), seed=self.key)
        zeros = numpy.zeros_like(self.counters)
        words = philox_words(key, [self.counters, zeros + numpy.uint64(step), self.examples, zeros])
        halves = numpy.stack(words, axis=-1).astype("<u4").view("<u2").reshape(self.shape)
        kept = torch.from_numpy(halves >= self.threshold)
        return kept.float() * (65536 / (65536 - self.threshold))

    def of_step(self, step, layers):
        names = ["embedding"]
        for l in range(layers):
            names += [f"block{l}.attention", f"block{l}.feed_forward"]
        return {name: self.factors(name, step) for name in names}


class ProbabilityMasks:
    """The same of attention's probabilities (common/kernels/transformer/attention.h): a query's keys are an example."""

    def __init__(self, seed, probability, examples, heads, length):
        self.masks = DropoutMasks(seed, probability, examples * heads * length, (length,))
        self.shape = (examples, heads, length, length)

    def of_step(self, step, layers):
        names = [f"block{l}.probabilities" for l in range(layers)]
        return {name: self.masks.factors(name, step).view(self.shape) for name in names}


class Examples:
    """Windows of `context` tokens with their successors, the last `holdout` of them kept back."""

    def __init__(self, text, context, holdout, seed):
        self.tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        count = (len(text) - 1) // context
        self.context, self.seed = context, seed
        self.held_out = math.floor(holdout * count + 0.5)
        self.training = count - self.held_out
        self.order = (None, None)

    def read(self, indices):
        rows = torch.stack([self.tokens[i * self.context : (i + 1) * self.context + 1] for i in indices])
        return rows[:, :-1], rows[:, 1:]

    def batch(self, step, size):
        indices = []
        for position in range(step * size, (step + 1) * size):
            epoch = position // self.training
            if self.order[0] != epoch:
                self.order = (epoch, Permutation(self.seed, epoch, self.training))
            indices.append(self.order[1][position % self.training])
        return self.read(indices)

    def evaluation(self, size):
        for first in range(self.training, self.training + self.held_out, size):
            yield self.read(range(first, min(first + size, self.training + self.held_out)))


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        blob = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(bytearray(blob[begin:end]), dtype=torch.float32).view(entry["shape"])
    return tensors


def layers_of(weights):
    return sum(name.endswith(".qkv.weight") for name in weights)


def attention(q, k, v, future, f32_scores, factors):
    """PyTorch 1.13 has no fused attention for training on CPUs, and its autocast rounds the scores to bf16;
    later releases' fused one, and Muster's, keep them in f32, as is done here with `f32_scores`."""
    with torch.autocast("cpu", enabled=False) if f32_scores else contextlib.nullcontext():
        if f32_scores:
            q, k, v = q.float(), k.float(), v.float()
        scores = (q @ k.transpose(2, 3)) / math.sqrt(q.shape[3])
        probabilities = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return (probabilities if factors is None else probabilities * factors) @ v


def loss_of(weights, tokens, labels, heads, masks=None, f32_scores=False):
    """Mean over tokens."""
    width, length = weights["embedding.weight"].shape[1], tokens.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    linear = lambda x, name: F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))
    norm = lambda x, name: F.layer_norm(
        x, (width,), weights[name + ".weight"], weights.get(name + ".bias"), 1e-5)
    masks = masks or {}
    dropped = lambda x, name: x * masks[name] if name in masks else x
    x = dropped(F.embedding(tokens, weights["embedding.weight"]) + weights["positions.weight"][:length], "embedding")
    for l in range(layers_of(weights)):
        qkv = linear(norm(x, f"block{l}.norm1"), f"block{l}.qkv")
        q, k, v = (part.unflatten(2, (heads, width // heads)).transpose(1, 2) for part in qkv.chunk(3, dim=2))
        out = attention(q, k, v, future, f32_scores, masks.get(f"block{l}.probabilities"))
        x = x + dropped(linear(out.transpose(1, 2).flatten(2), f"block{l}.proj"), f"block{l}.attention")
        up = F.gelu(linear(norm(x, f"block{l}.norm2"), f"block{l}.up"), approximate="tanh")
        x = x + dropped(linear(up, f"block{l}.down"), f"block{l}.feed_forward")
    logits = F.linear(norm(x, "norm"), weights["embedding.weight"])
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def rate_at(step, options):
    if step < options.warmup_steps:
        return options.rate * (step + 1) / options.warmup_steps
    progress = (step - options.warmup_steps) / (options.steps - options.warmup_steps)
    final = options.final_fraction
    return options.rate * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--initial", required=True, help="safetensors with Muster's names")
    parser.add_argument("--type", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--f32-scores", action="store_true", help="of attention, with --type bf16")
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--attention-dropout", type=float, default=0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--stop-at", type=int, help="end after this step, the schedule being that of --steps")
    parser.add_argument("--state", help="file to keep the training in at each evaluation, and to go on from")
    parser.add_argument("--evaluate-every", type=int, default=500)
    parser.add_argument("--holdout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--beta2", type=float, default=0.99)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1)
    parser.add_argument("--warmup-steps", type=int, default=100)
    parser.add_argument("--final-fraction", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    weights = {name: w.requires_grad_() for name, w in read_safetensors(options.initial).items()}
    with open(options.text, "rb") as file:
        examples = Examples(file.read(), weights["positions.weight"].shape[0], options.holdout, options.seed)
    optimizer = torch.optim.AdamW([
        {"params": [w for w in weights.values() if w.dim() == 2], "weight_decay": options.decay},
        {"params": [w for w in weights.values() if w.dim() == 1], "weight_decay": 0.0},
    ], lr=options.rate, betas=(0.9, options.beta2), eps=1e-8)
    computing = lambda: torch.autocast("cpu", torch.bfloat16, enabled=options.type == "bf16")

    def evaluate(step, loss, seconds):
        total = tokens = 0
        with torch.no_grad(), computing():
            for x, y in examples.evaluation(options.batch):
                total += loss_of(weights, x, y, options.heads, f32_scores=options.f32_scores).item() * y.numel()
                tokens += y.numel()
        print(json.dumps({
            "step": step, "tokens": step * options.batch * examples.context, "seconds": round(seconds, 1),
            "loss": loss, "bits_per_byte": total / tokens / math.log(2)}), flush=True)

    width = weights["embedding.weight"].shape[1]
    dropout = DropoutMasks(options.seed, options.dropout, options.batch, (examples.context, width))
    probabilities = ProbabilityMasks(
        options.seed, options.attention_dropout, options.batch, options.heads, examples.context)
    first, loss, seconds = 0, float("nan"), 0.0
    if options.state and os.path.exists(options.state):
        state = torch.load(options.state)
        with torch.no_grad():
            for name, w in weights.items():
                w.copy_(state["weights"][name])
        optimizer.load_state_dict(state["optimizer"])
        first, loss, seconds = state["step"], state["loss"], state["seconds"]
    evaluate(first, loss, seconds)
    last = options.stop_at or options.steps
    for step in range(first, last):
        # PyTorch would make its own in less time; this is not counted.
        masks = dropout.of_step(step, layers_of(weights)) if options.dropout else {}
        if options.attention_dropout:
            masks.update(probabilities.of_step(step, layers_of(weights)))
        began = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, options)
        x, y = examples.batch(step, options.batch)
        optimizer.zero_grad()
        with computing():
            value = loss_of(weights, x, y, options.heads, masks, options.f32_scores)
        value.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), options.clip)
        optimizer.step()
        loss = value.item()
        seconds += time.monotonic() - began
        if (step + 1) % options.evaluate_every == 0 or step + 1 == last:
            evaluate(step + 1, loss, seconds)
            if options.state:
                torch.save({"weights": weights, "optimizer": optimizer.state_dict(), "step": step + 1, "loss": loss,
                            "seconds": seconds}, options.state + ".new")
                os.replace(options.state + ".new", options.state)


if __name__ == "__main__":
    main()
