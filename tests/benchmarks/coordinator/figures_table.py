#!/usr/bin/python3
"""Prints the table of figures of docs/performance/coordinator.md, of the medians of several runs.

Usage: figures_table.py RUN.json...     each written by `./muster bench coordinator --json RUN.json`
"""

import collections
import json
import statistics
import sys

DAEMONS = "heartbeats"
REPORTS = "reports of progress"
CPU = "coordinator's processor time"
# Part, text, unit, metrics of which a cell has the medians, the form of the cell, what 1,000 workers are to stay below.
ROWS = [
    ("idle", "all daemons have registered", "s", ["all daemons have registered"], "{}", ""),
    ("idle", "heartbeats", "1/s", [DAEMONS], "{}", ""),
    ("idle", "processor time of the coordinator", "% of a core", [CPU], "{}", ""),
    ("idle", "memory", "MiB", ["memory"], "{}", ""),
    ("gang", "every slot has its order", "s", ["every slot has its order"], "{}", "5"),
    ("gang", "all slots have met", "s", ["all slots have met"], "{}", "5"),
    ("gang", "a round is left, and all have met again", "s", ["a round is left, and all have met again"], "{}", "2"),
    ("gang", "a worker is replaced, and all have met again", "s", ["a worker is replaced, and all have met again"], "{}", "2"),
    ("gang reports", "reports of progress (heartbeats)", "1/s", [REPORTS, DAEMONS], "{} ({})", ""),
    ("gang reports", "processor time of the coordinator", "% of a core", [CPU], "{}", ""),
    ("gang reports", "status of the job, median / 99th percentile", "ms", ["status of a job"], "{} / {}", "– / 50"),
    ("many jobs", "reports of progress (heartbeats)", "1/s", [REPORTS, DAEMONS], "{} ({})", ""),
    ("many jobs", "processor time of the coordinator", "% of a core", [CPU], "{}", ""),
    ("many jobs", "processor time of the simulated daemons", "% of a core", ["simulated daemons' processor time"], "{}", ""),
    ("many jobs", "status of a job, median / 99th percentile", "ms", ["status of a job"], "{} / {}", "– / 50"),
    ("many jobs", "list of 500 jobs, median / 99th percentile", "ms", ["list of 500 jobs"], "{} / {}", ""),
    ("many jobs", "the page's first view, median / 99th percentile", "ms", ["the page's first view"], "{} / {}", "– / 1,000"),
    ("many jobs", "/metrics, median / 99th percentile", "ms", ["/metrics"], "{} / {}", ""),
    ("many jobs", "submission of a job that waits", "ms", ["submission of one that waits"], "{}", ""),
    ("restart", "a status is answered", "s", ["a status is answered"], "{}", "10"),
    ("restart", "all tasks have reported progress", "s", ["all tasks have reported progress"], "{}", "10"),
    ("restart", "all daemons are back", "s", ["all daemons are back"], "{}", "10"),
    ("restart", "most memory", "MiB", ["most memory after"], "{}", "1,024"),
]  # yapf: disable


def shown(value):
    """Two digits that count, or all before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def main():
    found = collections.defaultdict(list)
    for path in sys.argv[1:]:
        with open(path) as run:
            for record in json.load(run):
                case = record["case"]
                found[case["part"], record["metric"], case["workers"]].append(record["median"])
    sizes = sorted({workers for *_, workers in found})
    heads = ["part", "what", "unit", *(f"{each:,}" for each in sizes), "is to be below"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    last = None
    for part, text, unit, metrics, form, below in ROWS:
        if "/ {}" in form:
            metrics = [f"{metrics[0]}, {which}" for which in ("median", "99th percentile")]
        cells = [form.format(*(shown(statistics.median(found[part, metric, size])) for metric in metrics)) for size in sizes]
        print(f"| {' | '.join(['' if part == last else part, text, unit, *cells, below])} |".replace("|  |", "| |"))
        last = part


if __name__ == "__main__":
    main()
