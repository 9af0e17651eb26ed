"""The files of uPlot here are those of npm's package, and the package is the one that third_party/npm locks."""

import base64
import hashlib
import json
import os
import pathlib

import pytest

FOLDER = pathlib.Path("third_party/uplot")
SOURCE = json.loads((FOLDER / "source.json").read_text())
LOCKED = json.loads(pathlib.Path("third_party/npm/package-lock.json").read_text())["packages"]
MODULES_FOLDER = pathlib.Path(os.environ.get("MUSTER_NODE_MODULES") or "third_party/npm/node_modules")


@pytest.mark.parametrize("name", SOURCE["files"])
def test_a_file_has_its_hash(name):
    content = (FOLDER / pathlib.PurePath(name).name).read_bytes()
    assert "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode() == SOURCE["files"][name]


def test_the_script_says_its_version():
    assert f"uPlot (v{SOURCE['version']})" in (FOLDER / "uPlot.iife.min.js").read_text().splitlines()[0]


def test_the_package_is_the_one_that_npm_locks():
    locked = LOCKED["node_modules/uplot"]
    assert (locked["version"], locked["integrity"]) == (SOURCE["version"], SOURCE["integrity"])


@pytest.mark.skipif(not (MODULES_FOLDER / "uplot").is_dir(),
                    reason="uplot is not there: npm ci --prefix third_party/npm, with MUSTER_NODE_MODULES its node_modules")
@pytest.mark.parametrize("name", SOURCE["files"])
def test_a_file_is_that_of_the_package(name):
    # npm has checked the package's integrity.
    assert (FOLDER / pathlib.PurePath(name).name).read_bytes() == (MODULES_FOLDER / "uplot" / name).read_bytes()
