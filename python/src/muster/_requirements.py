"""What the package needs besides Python, and what to do where that is missing."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
from typing import Any

# What an import of the package needs: the module, Debian's package and pip's.
_NEEDED = {
    "grpc": ("python3-grpcio", "grpcio"),
    "google.protobuf": ("python3-protobuf", "protobuf"),
}
# Parts of it need these.
_OPTIONAL = {
    "numpy": ("python3-numpy", "numpy"),
    "pandas": ("python3-pandas", "pandas"),
    "torch": ("python3-torch", "torch"),
    "yaml": ("python3-yaml", "PyYAML"),
}
# What generate.py makes beside the sources.
_MADE = ("_plain", "_version.py", "v1")


def check() -> None:
    """Checks what an import of the package needs.

    Raises:
        ImportError: a module is missing, or the package was not built; says what to install.
    """
    folder = pathlib.Path(__file__).parent
    missing = [each for each in _MADE if not (folder / each).exists()]
    if missing:
        raise ImportError(
            f"the package muster in {folder} was not built: {', '.join(missing)} is missing there; install it with `pip "
            "install ./python` in a checkout of Muster, or install the wheel that `./muster package` makes"
        )
    for module, names in _NEEDED.items():
        if not _is_there(module):
            raise _lacking("the package muster", module, names)


def optional(module: str, purpose: str) -> Any:
    """Returns a module that only `purpose` needs.

    Raises:
        ImportError: it is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    raise _lacking(purpose, module, _OPTIONAL[module])


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        # The package that it is in.
        return False


def _lacking(purpose: str, module: str, names: tuple[str, str]) -> ImportError:
    debian, pip = names
    return ImportError(
        f"{purpose} needs the module {module}, which is not installed here: install Debian's {debian}, or `pip install {pip}`",
        name=module,
    )
