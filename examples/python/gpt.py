"""A small GPT learns a text's bytes, in the form that people know: a script for torchrun. Nothing in it is for Muster.

    torchrun --nproc_per_node 2 gpt.py --text input.txt                      # torch.distributed's Gloo
    muster submit gpt.yaml                                                   # the same script, on Muster's collectives
    python3 gpt.py --text input.txt                                          # one process
"""

import argparse
import contextlib
import math
import os
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

BYTES = 256


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        by_head = self.queries_keys_values(x).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = by_head.permute(2, 0, 3, 1, 4)
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(width // self.heads)
        is_later = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(is_later, -math.inf).softmax(-1)
        return self.output((weights @ values).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(x)


class GPT(nn.Module):
    """A decoder-only transformer whose head has the embedding's weights."""

    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.tokens = nn.Embedding(BYTES, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, tokens, targets):
        """Returns the mean loss of [B, T] tokens whose next ones are the targets."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        logits = self.norm(self.blocks(x)) @ self.tokens.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def read_text(path):
    """Returns the training and the held-out bytes of a text; without one, of sums written out."""
    if path is not None:
        text = pathlib.Path(path).read_bytes()
    else:
        text = "".join(f"{a} + {b} = {a + b}\n" for a in range(100) for b in range(100)).encode()
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    held_out = len(tokens) // 10
    return tokens[:-held_out], tokens[-held_out:]


def draw(tokens, batch, context, generator):
    """Returns `batch` windows of the text at random places, and what follows each token."""
    begins = torch.randint(len(tokens) - context - 1, (batch,), generator=generator)
    windows = torch.stack([tokens[begin : begin + context + 1] for begin in begins.tolist()])
    return windows[:, :-1], windows[:, 1:]


def learning_rate(step, options):
    """Rises in a line, then falls to a tenth as a cosine does."""
    if step < options.warmup:
        return options.learning_rate * (step + 1) / options.warmup
    passed = (step - options.warmup) / max(1, options.steps - options.warmup)
    return options.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * passed)))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", help="file to learn; without it, sums are written out")
    parser.add_argument("--out", default=".", help="folder of the checkpoint")
    parser.add_argument("--backend", default="gloo", help="of torch.distributed")
    for name, value in (("layers", 6), ("width", 384), ("heads", 6), ("context", 128), ("batch", 8), ("accumulate", 1),
                        ("steps", 200), ("warmup", 20), ("evaluate", 50)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    return parser.parse_args()


def main():
    options = parse_options()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        dist.init_process_group(options.backend)
    training, held_out = read_text(options.text)
    torch.manual_seed(1)
    net = GPT(options.layers, options.width, options.heads, options.context)
    optimizer = torch.optim.AdamW(net.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    begin = 0
    checkpoint = pathlib.Path(options.out, "gpt.pt")
    if checkpoint.exists():
        state = torch.load(checkpoint)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["step"]
    trained = DistributedDataParallel(net) if ranks > 1 else net
    if rank == 0:
        print(f"{sum(each.numel() for each in net.parameters()) / 1e6:.1f} million parameters on {ranks} processes", flush=True)

    for step in range(begin, options.steps):
        # Other windows on each rank and in each step, the same ones if the step is repeated.
        generator = torch.Generator().manual_seed(step * ranks + rank)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        optimizer.zero_grad()
        for part in range(options.accumulate):
            last = part == options.accumulate - 1
            with contextlib.nullcontext() if last or ranks == 1 else trained.no_sync():
                loss = trained(*draw(training, options.batch, options.context, generator))
                (loss / options.accumulate).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if rank == 0 and (step + 1) % options.evaluate == 0:
            with torch.no_grad():
                windows = draw(held_out, 4 * options.batch, options.context, torch.Generator().manual_seed(0))
                print(f"step {step + 1}: loss {loss.item():.4f}, held out {net(*windows).item():.4f}", flush=True)
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").rename(checkpoint)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
