#!/usr/bin/env python3
"""Writes the values that transformer_reference_test compares with, computed by PyTorch.

    python3 tests/reference/make_transformer_fixtures.py tests/reference/testdata

Needs python3-torch (Debian's 1.13 made the files in the repository). The models below are
written from the equations alone, with PyTorch's autograd for the gradients, so that they share
nothing with what they check. Each file (safetensors) has:

    weight.NAME      initial values, under Muster's names and shapes ([out, in] matrices)
    gradient.NAME    of the mean loss over the labels >= 0 of tokens/labels
    tokens, labels   [B, T] i32; -1: no label
    logits           [B, T, V]
    loss             [1]
    step_tokens      [10, B, T + 1] i32: batches of ten AdamW steps
    step_losses      [10]: the mean loss before each of them
"""

import json
import math
import struct
import sys

import torch
import torch.nn.functional as F

B, T, V = 2, 16, 61
STEPS = 10
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1


def write_safetensors(path, tensors):
    header, blobs, offset = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        kind = {torch.float32: "F32", torch.int32: "I32"}[tensor.dtype]
        blob = bytes(tensor.numpy().tobytes())
        header[name] = {
            "dtype": kind,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for blob in blobs:
            file.write(blob)


class Weights:
    """Makes each parameter once, in order of use; big enough that every term matters."""

    def __init__(self, generator):
        self.generator = generator
        self.values = {}

    def matrix(self, name, rows, cols):
        self.values[name] = torch.randn(rows, cols, generator=self.generator) / math.sqrt(cols)

    def vector(self, name, size, mean):
        self.values[name] = mean + 0.2 * torch.randn(size, generator=self.generator)


def attention(q, k, v):
    """q [B, T, H, D]; k, v [B, T, K, D]: causal, each key-value head for H / K query heads."""
    group = q.shape[2] // k.shape[2]
    k = k.repeat_interleave(group, dim=2)
    v = v.repeat_interleave(group, dim=2)
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    length = q.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    probabilities = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return torch.einsum("bhts,bshd->bthd", probabilities, v).flatten(2)


def rotate(x, base):
    """Turns the pairs (i, i + D / 2) of [B, T, H, D] by position / base^(2i / D)."""
    half = x.shape[-1] // 2
    frequency = base ** (-torch.arange(half, dtype=torch.float64) * 2 / x.shape[-1])
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * frequency
    cos = angle.cos().float()[None, :, None, :]
    sin = angle.sin().float()[None, :, None, :]
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Gpt2:
    """LayerNorm, learned positions, GELU (tanh), biases, tied head."""

    layers, width, heads, feed_forward = 2, 32, 4, 128

    def weights(self, generator):
        make, C = Weights(generator), self.width
        make.matrix("embedding.weight", V, C)
        make.matrix("positions.weight", T, C)
        for l in range(self.layers):
            make.vector(f"block{l}.norm1.weight", C, 1)
            make.vector(f"block{l}.norm1.bias", C, 0)
            for name, rows, cols in [("qkv", 3 * C, C), ("proj", C, C)]:
                make.matrix(f"block{l}.{name}.weight", rows, cols)
                make.vector(f"block{l}.{name}.bias", rows, 0)
            make.vector(f"block{l}.norm2.weight", C, 1)
            make.vector(f"block{l}.norm2.bias", C, 0)
            for name, rows, cols in [("up", self.feed_forward, C), ("down", C, self.feed_forward)]:
                make.matrix(f"block{l}.{name}.weight", rows, cols)
                make.vector(f"block{l}.{name}.bias", rows, 0)
        make.vector("norm.weight", C, 1)
        make.vector("norm.bias", C, 0)
        return make.values

    def logits(self, w, tokens):
        D = self.width // self.heads
        linear = lambda x, name: F.linear(x, w[name + ".weight"], w[name + ".bias"])
        norm = lambda x, name: F.layer_norm(
            x, (self.width,), w[name + ".weight"], w[name + ".bias"], 1e-5)
        x = w["embedding.weight"][tokens] + w["positions.weight"][: tokens.shape[1]]
        for l in range(self.layers):
            qkv = linear(norm(x, f"block{l}.norm1"), f"block{l}.qkv")
            q, k, v = (part.unflatten(2, (self.heads, D)) for part in qkv.chunk(3, dim=2))
            x = x + linear(attention(q, k, v), f"block{l}.proj")
            up = linear(norm(x, f"block{l}.norm2"), f"block{l}.up")
            gelu = 0.5 * up * (1 + torch.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
            x = x + linear(gelu, f"block{l}.down")
        return norm(x, "norm") @ w["embedding.weight"].t()


class Llama:
    """RMSNorm, rotary positions, grouped queries, SwiGLU, no biases, a head of its own."""

    layers, width, heads, kv_heads, feed_forward = 2, 32, 4, 2, 64

    def weights(self, generator):
        make, C = Weights(generator), self.width
        D = C // self.heads
        make.matrix("embedding.weight", V, C)
        for l in range(self.layers):
            make.vector(f"block{l}.norm1.weight", C, 1)
            make.matrix(f"block{l}.qkv.weight", (self.heads + 2 * self.kv_heads) * D, C)
            make.matrix(f"block{l}.proj.weight", C, C)
            make.vector(f"block{l}.norm2.weight", C, 1)
            make.matrix(f"block{l}.up.weight", 2 * self.feed_forward, C)
            make.matrix(f"block{l}.down.weight", C, self.feed_forward)
        make.vector("norm.weight", C, 1)
        make.matrix("head.weight", V, C)
        return make.values

    def logits(self, w, tokens):
        D, H, K = self.width // self.heads, self.heads, self.kv_heads
        norm = lambda x, name: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w[
            name + ".weight"]
        x = w["embedding.weight"][tokens]
        for l in range(self.layers):
            qkv = F.linear(norm(x, f"block{l}.norm1"), w[f"block{l}.qkv.weight"])
            q, k, v = qkv.split([H * D, K * D, K * D], dim=2)
            q = rotate(q.unflatten(2, (H, D)), 10000.0)
            k = rotate(k.unflatten(2, (K, D)), 10000.0)
            out = attention(q, k, v.unflatten(2, (K, D)))
            x = x + F.linear(out, w[f"block{l}.proj.weight"])
            gate_up = F.linear(norm(x, f"block{l}.norm2"), w[f"block{l}.up.weight"])
            gate, up = gate_up.chunk(2, dim=2)
            x = x + F.linear(F.silu(gate) * up, w[f"block{l}.down.weight"])
        return norm(x, "norm") @ w["head.weight"].t()


class AdaptedLlama(Llama):
    """The same with low-rank adapters of every layer: y = W x + alpha / rank B (A x)."""

    rank, alpha = 3, 6.0

    def layers_of(self, l):
        """The fused matrix that each adapted layer has rows of, the first of them, and its shape."""
        C, F = self.width, self.feed_forward
        D = C // self.heads
        Q, K = self.heads * D, self.kv_heads * D
        return [("query", "qkv", 0, Q, C), ("key", "qkv", Q, K, C), ("value", "qkv", Q + K, K, C),
                ("output", "proj", 0, C, C), ("gate", "up", 0, F, C), ("up", "up", F, F, C),
                ("down", "down", 0, C, F)]

    def weights(self, generator):
        make = Weights(generator)
        make.values.update(super().weights(generator))
        for l in range(self.layers):
            for name, _, _, rows, cols in self.layers_of(l):
                make.matrix(f"block{l}.{name}.adapter.down", self.rank, cols)
                make.matrix(f"block{l}.{name}.adapter.up", rows, self.rank)
                # As small beside the weights as adapters are.
                make.values[f"block{l}.{name}.adapter.up"] *= 0.1
        return make.values

    def logits(self, w, tokens):
        merged = dict(w)
        for l in range(self.layers):
            added = {}
            for name, fused, first, rows, _ in self.layers_of(l):
                down = w[f"block{l}.{name}.adapter.down"]
                up = w[f"block{l}.{name}.adapter.up"]
                added.setdefault(fused, []).append(self.alpha / self.rank * up @ down)
            for fused, parts in added.items():
                merged[f"block{l}.{fused}.weight"] = w[f"block{l}.{fused}.weight"] + torch.cat(parts)
        return super().logits(merged, tokens)


def mean_loss(logits, labels):
    return F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1).long(), ignore_index=-1)


def make(model, seed, path):
    generator = torch.Generator().manual_seed(seed)
    initial = model.weights(generator)
    random_tokens = lambda *shape: torch.randint(0, V, shape, generator=generator, dtype=torch.int32)
    tokens, labels = random_tokens(B, T), random_tokens(B, T)
    labels[0, 3] = labels[1, T - 1] = -1
    step_tokens = random_tokens(STEPS, B, T + 1)

    weights = {name: value.clone().requires_grad_() for name, value in initial.items()}
    logits = model.logits(weights, tokens.long())
    loss = mean_loss(logits, labels)
    loss.backward()
    out = {f"weight.{name}": value for name, value in initial.items()}
    out.update({f"gradient.{name}": value.grad.clone() for name, value in weights.items()})
    out.update(tokens=tokens, labels=labels, logits=logits, loss=loss.reshape(1))

    weights = {name: value.clone().requires_grad_() for name, value in initial.items()}
    optimizer = torch.optim.AdamW([
        {"params": [w for w in weights.values() if w.dim() == 2], "weight_decay": WEIGHT_DECAY},
        {"params": [w for w in weights.values() if w.dim() == 1], "weight_decay": 0.0},
    ], **ADAMW)
    losses = []
    for batch in step_tokens:
        optimizer.zero_grad()
        loss = mean_loss(model.logits(weights, batch[:, :-1].long()), batch[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    out.update(step_tokens=step_tokens, step_losses=torch.tensor(losses))
    write_safetensors(path, out)


def main():
    if len(sys.argv) != 2:
        sys.exit("give the folder to write to")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make(Gpt2(), 1, sys.argv[1] + "/gpt2.safetensors")
    make(Llama(), 2, sys.argv[1] + "/llama.safetensors")
    make(AdaptedLlama(), 3, sys.argv[1] + "/adapted_llama.safetensors")


if __name__ == "__main__":
    main()
