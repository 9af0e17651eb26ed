"""Images of digits to learn from: MNIST's files, or drawn ones where there are none."""

import gzip
import pathlib

import torch

# Digits of 3 x 5 points.
GLYPHS = (
    "111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001",
    "111100111001111", "111100111101111", "111001001001001", "111101111101111", "111101111001111",
)  # fmt: skip
SIDE = 28
SCALE = 5
NOISE = 0.2


def load(folder):
    """Returns images [N, 1, 28, 28] from 0 to 1 and labels [N]: of the folder's IDX files, or drawn if it is None."""
    if folder is None:
        return draw(4000)
    folder = pathlib.Path(folder)
    images = read_idx(folder / "t10k-images-idx3-ubyte.gz", header=16).reshape(-1, 1, SIDE, SIDE)
    return images / 255, read_idx(folder / "t10k-labels-idx1-ubyte.gz", header=8)


def read_idx(path, header):
    """Returns the bytes of an IDX file behind its header."""
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[header:].long()


def draw(count):
    """Returns `count` digits at random places, with noise; the same ones each time."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 10, (count,), generator=generator)
    points = torch.tensor([[float(point) for point in glyph] for glyph in GLYPHS]).reshape(10, 5, 3)
    digits = points.repeat_interleave(SCALE, 1).repeat_interleave(SCALE, 2)
    images = torch.rand(count, 1, SIDE, SIDE, generator=generator) * NOISE
    height, width = digits.shape[1:]
    for image, label in zip(images, labels):
        top, left = (int(torch.randint(0, SIDE - side + 1, (1,), generator=generator)) for side in (height, width))
        image[0, top : top + height, left : left + width] += (1 - NOISE) * digits[label]
    return images, labels
