"""The build of the package: what pyproject.toml says, and what generate.py makes."""

import pathlib
import shutil
import sys

import setuptools
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
import generate  # noqa: E402


class BuildWithMadeFiles(build_py):
    """Writes the package anew, with the files that are made."""

    def run(self):
        native = generate.native_libraries()
        if self.editable_mode:
            # The sources are used where they are.
            generate.generate(generate.SOURCES)
            generate.copy_native(native, generate.SOURCES)
            return
        target = pathlib.Path(self.build_lib, "muster")
        # What an earlier build left there may be of an earlier release.
        shutil.rmtree(target, ignore_errors=True)
        generate.build(target, native)

    def get_source_files(self):
        return []


class WheelOfAnyPython(bdist_wheel):
    """A wheel for every version of Python: no file in it is for one."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class PackageOfThisMachine(setuptools.Distribution):
    """The package is for this machine's kind alone if it has a library."""

    def has_ext_modules(self):
        return bool(generate.native_libraries())


setuptools.setup(
    version=generate.release(),
    cmdclass={"build_py": BuildWithMadeFiles, "bdist_wheel": WheelOfAnyPython},
    distclass=PackageOfThisMachine,
)
