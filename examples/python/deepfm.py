"""DeepFM (Guo et al., 2017) learns which ads are clicked. The rows of its features are on Muster's servers, one for each value
that occurs, however many these become.

    muster submit deepfm.yaml
    python3 deepfm.py --data criteo.csv   # by hand, with the servers of `muster up --allow-programs`
"""

import argparse
import csv
import hashlib
import math
import os

import torch
from torch.nn import functional

import muster
import muster.torch

NUMERIC, FIELDS = 13, 26


class DeepFm(torch.nn.Module):
    """A factorisation machine and a perceptron over the same rows: the first float of a row is the value's own weight, the
    others are its vector. `table` gives rows by key."""

    def __init__(self, table, dim=16, hidden=(64, 32)):
        super().__init__()
        self.table = table
        self.numeric = torch.nn.Linear(NUMERIC, 1)
        widths = [FIELDS * dim + NUMERIC, *hidden]
        layers = [each for sizes in zip(widths, hidden) for each in (torch.nn.Linear(*sizes), torch.nn.ReLU())]
        self.deep = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 1))

    def forward(self, keys, numbers):
        rows = self.table(keys)
        vectors = rows[..., 1:]
        total = vectors.sum(1)
        pairs = (total * total - (vectors * vectors).sum(1)).sum(1) / 2
        deep = self.deep(torch.cat([vectors.flatten(1), numbers], 1))
        return rows[..., 0].sum(1) + pairs + (self.numeric(numbers) + deep).squeeze(1)


def key_of(field, text):
    """The 64-bit key of a value of a field; a missing value has one, too."""
    digest = hashlib.blake2b(f"{field}={text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def load(path):
    """Returns keys [N, 26], numbers [N, 13] and labels [N] of a file in Criteo's columns."""
    keys, numbers, labels = [], [], []
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            keys.append([key_of(f"C{each}", line[f"C{each}"]) for each in range(1, FIELDS + 1)])
            values = (float(line[f"I{each}"] or 0) for each in range(1, NUMERIC + 1))
            numbers.append([math.log1p(max(0.0, value)) for value in values])
            labels.append(float(line["label"]))
    return torch.tensor(keys), torch.tensor(numbers), torch.tensor(labels)


def draw(count):
    """Returns the same for a click log that is drawn, whose clicks depend on one field; the same ones each time."""
    generator = torch.Generator().manual_seed(1)
    values = (torch.rand(count, FIELDS, generator=generator) ** 3 * 1000).long()
    labels = (values[:, 0] % 2).float()
    return values * FIELDS + torch.arange(FIELDS), torch.rand(count, NUMERIC, generator=generator), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="CSV with the columns label, I1 to I13 and C1 to C26; without it, clicks are drawn")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64, help="examples of a process in a step")
    parser.add_argument("--staleness", type=float, default=4)
    options = parser.parse_args()
    torch.manual_seed(0)
    keys, numbers, labels = draw(4000) if options.data is None else load(options.data)
    model = DeepFm(muster.torch.Embedding(17, std=0.01))
    served = muster.torch.ParameterServer(model, muster.Adagrad(lr=0.05), staleness=options.staleness)
    for step in range(served.clock, options.steps):
        order = torch.Generator().manual_seed(step * 1000 + int(os.environ["RANK"]))
        batch = torch.randint(0, len(labels), (options.batch,), generator=order)
        loss = functional.binary_cross_entropy_with_logits(model(keys[batch], numbers[batch]), labels[batch])
        loss.backward()
        served.step()
        muster.report(served.clock, loss=loss, examples=options.batch)
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    with torch.no_grad():
        loss = functional.binary_cross_entropy_with_logits(model(keys, numbers), labels).item()
    print(f"loss {loss:.3f} over all {len(labels)} examples", flush=True)


if __name__ == "__main__":
    main()
