"""Folders of sources do not include one another in a circle, so each can be read, built and moved without those above it.

Folders are compared with their siblings, and the files of a folder with its subfolders."""

import collections
import pathlib
import re

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# Nothing includes a program, so what it includes makes no circle.
PROGRAM = re.compile(r"(.*_)?(main|test|bench|benchmark|fuzz)\.cc")


def include_edges(root):
    """Pairs of folders, the first of which includes the second, each with a line for every such include."""
    edges = collections.defaultdict(list)
    for layer in ("common", "server", "worker", "client"):
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu") or PROGRAM.fullmatch(path.name):
                continue
            source = path.relative_to(root)
            for included in map(pathlib.PurePath, INCLUDE.findall(path.read_text())):
                if included.parts[0] == layer and included.parent != source.parent:
                    edges[apart(source.parent, included.parent)].append(f"{source} includes {included}")
    return edges


def apart(one, other):
    """The two folders as named in the deepest folder that both are in; "FOLDER itself" stands for its own files."""
    common = next(each for each in (one, *one.parents) if each == other or each in other.parents)
    return tuple(
        f"{common} itself" if each == common else str(common / each.relative_to(common).parts[0]) for each in (one, other)
    )


def circle(edges):
    """Folders, each of which includes the next and the last the first; none if there is no such circle."""
    below = collections.defaultdict(list)
    for one, other in edges:
        below[one].append(other)
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder) :]
        if folder in done:
            return []
        path.append(folder)
        found = next((each for each in map(visit, below[folder]) if each), [])
        path.pop()
        done.add(folder)
        return found

    return next((each for each in map(visit, list(below)) if each), [])


def described(folders, edges):
    """The includes that make the circle."""
    steps = zip(folders, folders[1:] + folders[:1])
    return "\n".join(f"{one} -> {other}:\n    " + "\n    ".join(edges[one, other]) for one, other in steps)


def test_folders_do_not_include_one_another_in_a_circle():
    edges = include_edges(pathlib.Path("."))
    assert len(edges) > 100, "the sources are missing"
    found = circle(edges)
    assert not found, "these folders include one another; move what they share below both:\n" + described(found, edges)


def test_a_circle_is_named_with_its_includes(tmp_path):
    for name, included in {
        "common/a/x/one.h": "common/b/two.h",
        "common/b/two.cc": "common/a/three.h",
        "common/b/two_test.cc": "common/c/four.h",
        "common/c/four.h": "common/b/two.h",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f'#include "{included}"\n')
    edges = include_edges(tmp_path)
    assert circle(edges) == ["common/a", "common/b"]
    assert described(circle(edges), edges) == (
        "common/a -> common/b:\n    common/a/x/one.h includes common/b/two.h\n"
        "common/b -> common/a:\n    common/b/two.cc includes common/a/three.h"
    )


def test_a_folder_and_its_subfolder_make_a_circle(tmp_path):
    (tmp_path / "server/a/b").mkdir(parents=True)
    (tmp_path / "server/a/one.h").write_text('#include "server/a/b/two.h"\n')
    (tmp_path / "server/a/b/two.h").write_text('#include "server/a/one.h"\n')
    assert circle(include_edges(tmp_path)) == ["server/a/b", "server/a itself"]
