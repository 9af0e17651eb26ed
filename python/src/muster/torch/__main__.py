"""Runs a script that names its backend by an argument, with PyTorch knowing "muster", too:

    python3 -m muster.torch train.py --backend muster
"""

import os
import runpy
import sys

import muster.torch  # noqa: F401


def main() -> None:
    """Runs the script that the first argument names, as `python3 SCRIPT` does."""
    if len(sys.argv) < 2:
        sys.exit("usage: python3 -m muster.torch SCRIPT [ARGUMENT...]")
    del sys.argv[0]
    # The folder of the script comes first, where `python3 -m` has the working folder.
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
