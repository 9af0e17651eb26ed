"""Tests of figures_table.py: the medians of runs, in the rows of the coordinator's page."""

import json
import subprocess
import sys

sys.path.insert(0, "tests/benchmarks/coordinator")
import figures_table  # noqa: E402

SCRIPT = "tests/benchmarks/coordinator/figures_table.py"


def write_run(path, value):
    records = []
    for part, _, _, metrics, form, _ in figures_table.ROWS:
        if "/ {}" in form:
            metrics = [f"{metrics[0]}, median", f"{metrics[0]}, 99th percentile"]
        for metric in metrics:
            for workers in (10, 1000):
                records.append({"case": {"part": part, "workers": workers}, "metric": metric, "median": value * workers})
    path.write_text(json.dumps(records))
    return path


def table(*runs):
    return subprocess.run([sys.executable, SCRIPT, *runs], capture_output=True, text=True)


def test_cells_have_the_medians_of_all_runs(tmp_path):
    runs = [write_run(tmp_path / f"{value}.json", value) for value in (0.5, 0.03, 7)]
    lines = table(*runs).stdout.splitlines()
    assert lines[0] == "| part | what | unit | 10 | 1,000 | is to be below |"
    assert "| restart | a status is answered | s | 5 | 500 | 10 |" in lines
    assert "| many jobs | reports of progress (heartbeats) | 1/s | 5 (5) | 500 (500) | |" in lines
    assert "| | all tasks have reported progress | s | 5 | 500 | 10 |" in lines
    assert len(lines) == 2 + len(figures_table.ROWS)


def test_a_run_without_a_figure_makes_no_table(tmp_path):
    run = write_run(tmp_path / "run.json", 1)
    run.write_text(json.dumps(json.loads(run.read_text())[:-1]))
    assert table(run).returncode != 0
