#!/usr/bin/env python3
"""Counts test cases in JUnit XML files and ends with `N passed, N failed[, N skipped]`.

Usage: count_results.py BAZEL_EXIT_CODE FOLDER...   (folders are searched for test.xml)

A target that left no case behind (it crashed, timed out or did not build) counts as one failed case. Skips are listed
by reason, then failures, so that these are what the output ends with. The exit status is 0 only if something passed and
nothing failed.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def cases(xml):
    """Yields (name, "passed" | "failed" | "skipped", message) of one XML file."""
    try:
        root = ElementTree.parse(xml).getroot()
    except ElementTree.ParseError as error:
        yield str(xml), "failed", f"unreadable result: {error}"
        return
    found = False
    for case in root.iter("testcase"):
        if case.get("status") == "notrun":
            continue
        found = True
        name = f"{case.get('classname', '')}.{case.get('name', '')}".lstrip(".")
        failure = case.find("failure")
        if failure is None:
            failure = case.find("error")
        skipped = case.find("skipped")
        if failure is not None:
            yield name, "failed", failure.get("message") or failure.text or ""
        elif skipped is not None:
            yield name, "skipped", skipped.get("message") or skipped.text or ""
        else:
            yield name, "passed", ""
    if not found:
        yield str(xml), "failed", "the target left no test case behind"


def main(argv):
    bazel_exit = int(argv[1])
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    skipped = collections.Counter()
    failures = []
    for folder in argv[2:]:
        for xml in sorted(pathlib.Path(folder).rglob("test.xml")):
            target = xml.parent.relative_to(folder)
            for name, result, message in cases(xml):
                counts[result] += 1
                first = " ".join(message.split())[:300]
                if result == "skipped":
                    skipped[f"//{target.parent}:{target.name}", first] += 1
                elif result == "failed":
                    failures.append(f"//{target.parent}:{target.name} {name}: {first}")
    if bazel_exit != 0 and not failures:
        failures.append(f"the build or a target without results (Bazel's exit code {bazel_exit})")
        counts["failed"] = 1
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
