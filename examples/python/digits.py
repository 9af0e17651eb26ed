"""A convolutional network learns digits, in one process. digits_ddp.py is the same in several: three more lines.

    python3 digits.py --data FOLDER       # with MNIST's t10k files; without --data, digits are drawn
"""

import argparse
import os

import torch
from torch.nn import functional

import digit_images


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 32, 3)
        self.second = torch.nn.Conv2d(32, 64, 3)
        self.hidden = torch.nn.Linear(9216, 128)
        self.output = torch.nn.Linear(128, 10)

    def forward(self, images):
        maps = functional.relu(self.second(functional.relu(self.first(images))))
        return self.output(functional.relu(self.hidden(functional.max_pool2d(maps, 2).flatten(1))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="examples of a process in a step")
    options = parser.parse_args()
    torch.manual_seed(0)
    net = Net()
    images, labels = digit_images.load(options.data)
    held_out = len(images) // 5
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    # Torchrun and Muster say which process this is; each takes other examples.
    order = torch.Generator().manual_seed(int(os.environ.get("RANK", 0)))
    for step in range(options.steps):
        batch = torch.randint(held_out, len(images), (options.batch,), generator=order)
        loss = functional.cross_entropy(net(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    with torch.no_grad():
        # In parts, since the maps of all images take much memory.
        guesses = torch.cat([net(part).argmax(1) for part in images[:held_out].split(50)])
        right = (guesses == labels[:held_out]).float().mean().item()
    print(f"accuracy {right:.3f} of {held_out} held-out digits", flush=True)


if __name__ == "__main__":
    main()
