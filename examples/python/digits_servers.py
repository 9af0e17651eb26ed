"""A convolutional network learns digits, with its parameters on Muster's servers. digits.py is the same in one process.

    muster submit digits_servers.yaml
    python3 digits_servers.py             # by hand, with the servers of `muster up --allow-programs`
"""

import argparse
import os

import torch
from torch.nn import functional

import digit_images
import muster
import muster.torch
from digits import Net


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="examples of a process in a step")
    parser.add_argument("--staleness", type=float, default=0, help="0 is BSP, a number of steps SSP, inf ASP")
    parser.add_argument("--checkpoint-every", type=int, default=100)
    options = parser.parse_args()
    torch.manual_seed(0)
    net = Net()
    images, labels = digit_images.load(options.data)
    held_out = len(images) // 5
    served = muster.torch.ParameterServer(net, muster.Adam(lr=1e-3), staleness=options.staleness)
    start = served.clock
    for step in range(start, options.steps):
        if step > start and step % options.checkpoint_every == 0:
            # Servers keep what this program goes on from, so there is no file to write but one that says whose it is.
            with served.checkpoint() as folder:
                (folder / f"rank-{os.environ['RANK']}").touch()
        # Each process takes other examples, and each step, also when it is made again after a loss, the same ones.
        order = torch.Generator().manual_seed(step * 1000 + int(os.environ["RANK"]))
        batch = torch.randint(held_out, len(images), (options.batch,), generator=order)
        loss = functional.cross_entropy(net(images[batch]), labels[batch])
        loss.backward()
        served.step()
        muster.report(served.clock, loss=loss, examples=options.batch)
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    with torch.no_grad():
        # In parts, since the maps of all images take much memory.
        guesses = torch.cat([net(part).argmax(1) for part in images[:held_out].split(50)])
        right = (guesses == labels[:held_out]).float().mean().item()
    print(f"accuracy {right:.3f} of {held_out} held-out digits", flush=True)


if __name__ == "__main__":
    main()
