"""PyTorch's own tests of torch.distributed: muster passes what gloo passes, or docs/python.md says why not."""

import re

import pytest
import torch_suite
from conftest import ROOT

torch = pytest.importorskip("torch")

RANKS = 2


def test_muster_passes_what_gloo_passes(installed, monkeypatch):
    passed_by_gloo = set(re.findall(r"^test_\w+", (ROOT / "tests/python_package/passed_by_gloo.txt").read_text(), re.M))
    excused = set(re.findall(r"^\| `(test_\w+)` \|", (ROOT / "docs/python.md").read_text(), re.M))
    if not torch.__version__.startswith("1.13"):
        pytest.skip(f"the list is that of PyTorch 1.13, and this is {torch.__version__}")
    monkeypatch.setenv("PYTHONPATH", str(installed))
    answers = {name: (outcome, said) for name, outcome, said in torch_suite.run("muster", RANKS) if outcome != "skipped"}
    faults = {name: answers.get(name) for name in passed_by_gloo | set(answers) if answers.get(name, [""])[0] != "passed"}
    assert set(faults) <= excused, "\n".join(f"{name}: {fault}" for name, fault in faults.items() if name not in excused)
    # The ones that gloo lacks.
    assert len([name for name in answers if name.startswith("test_all_to_all")]) == 9
