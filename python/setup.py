"""The build of the package: what pyproject.toml says, and what generate.py makes."""

import pathlib
import shutil
import sys

import setuptools
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
import generate  # noqa: E402


class BuildWithMadeFiles(build_py):
    """Writes the package anew, with the files that are made."""

    def run(self):
        if self.editable_mode:
            # The sources are used where they are.
            generate.generate(generate.SOURCES)
            return
        target = pathlib.Path(self.build_lib, "muster")
        # What an earlier build left there may be of an earlier release.
        shutil.rmtree(target, ignore_errors=True)
        generate.build(target)

    def get_source_files(self):
        return []


setuptools.setup(version=generate.release(), cmdclass={"build_py": BuildWithMadeFiles})
