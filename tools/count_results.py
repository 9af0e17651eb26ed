#!/usr/bin/env python3
"""Counts test cases in JUnit XML files and ends with `N passed, N failed[, N skipped]`.

Usage: count_results.py BAZEL_EXIT_CODE FOLDER...   (folders are searched for test.xml)

A target that left no case behind (it crashed, timed out or did not build) counts as one failed case, with the case that was
under way if its log says so. The programs that took longest come first, then skips by reason, then failures, so that
these are what the output ends with. The exit status is 0 only if something passed and nothing failed.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


# How many of the programs that took longest are named.
SLOWEST = 10


def under_way(log):
    """The GoogleTest case that the log of a program that was ended tells of last, if it did not end itself."""
    if not log.exists():
        return ""
    begun = ""
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("[ RUN      ] "):
            begun = line[len("[ RUN      ] "):]
        elif line.startswith(("[       OK ] ", "[  FAILED  ] ", "[  SKIPPED ] ")):
            begun = ""
    return begun


def cases(xml):
    """Yields (name, "passed" | "failed" | "skipped", message, seconds) of one XML file."""
    try:
        root = ElementTree.parse(xml).getroot()
    except ElementTree.ParseError as error:
        yield str(xml), "failed", f"unreadable result: {error}", 0
        return
    found = False
    for case in root.iter("testcase"):
        if case.get("status") == "notrun":
            continue
        found = True
        name = f"{case.get('classname', '')}.{case.get('name', '')}".lstrip(".")
        seconds = float(case.get("time") or 0)
        failure = case.find("failure")
        if failure is None:
            failure = case.find("error")
        skipped = case.find("skipped")
        if failure is not None:
            yield name, "failed", failure.get("message") or failure.text or "", seconds
        elif skipped is not None:
            yield name, "skipped", skipped.get("message") or skipped.text or "", seconds
        else:
            yield name, "passed", "", seconds
    if not found:
        yield str(xml), "failed", "the target left no test case behind", 0


def main(argv):
    bazel_exit = int(argv[1])
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    skipped = collections.Counter()
    failures = []
    took = collections.Counter()
    longest = {}
    for folder in argv[2:]:
        for xml in sorted(pathlib.Path(folder).rglob("test.xml")):
            target = xml.parent.relative_to(folder)
            # A program's parts have folders of their own.
            program = target.parent if target.name.startswith("shard_") else target
            label = f"//{program.parent}:{program.name}"
            for name, result, message, seconds in cases(xml):
                took[label] += seconds
                longest[label] = max(longest.get(label, (0, "")), (seconds, name))
                counts[result] += 1
                first = " ".join(message.split())[:300]
                if result == "skipped":
                    skipped[label, first] += 1
                elif result == "failed":
                    # Bazel's own words for a program that left no results.
                    ended = under_way(xml.with_name("test.log")) if first.startswith("exited with error code") else ""
                    first += f", in {ended}" if ended else ""
                    failures.append(f"{label} {name}: {first}")
    if bazel_exit != 0 and not failures:
        failures.append(f"the build or a target without results (Bazel's exit code {bazel_exit})")
        counts["failed"] = 1
    for label, seconds in took.most_common(SLOWEST):
        most, name = longest[label]
        print(f"took {seconds:.0f} s: {label}, {most:.0f} s of it {name}")
    for (target, reason), number in skipped.items():
        print(f"skipped: {target}, {number} cases: {reason}")
    for failure in failures:
        print(f"failed: {failure}")
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    if counts["skipped"]:
        line += f", {counts['skipped']} skipped"
    print(line)
    return 0 if counts["failed"] == 0 and counts["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
