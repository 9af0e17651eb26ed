"""Holds common/chat_template against npm's @huggingface/jinja, by which chats become text in browsers."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

pytest.importorskip("jinja2", reason="Debian's python3-jinja2 is not installed")

import jinja_settings  # noqa: E402
import written_cases  # noqa: E402

FOLDER = pathlib.Path(__file__).parent
MODULES_FOLDER = pathlib.Path(os.environ.get("MUSTER_NODE_MODULES") or "third_party/npm/node_modules")
MODULE = (MODULES_FOLDER / "@huggingface" / "jinja" / "dist" / "index.js").resolve()
# The package has no such filter for keys and values, though Jinja does.
NOT_THERE = "Unknown ObjectValue filter: map"

pytestmark = pytest.mark.skipif(
    not MODULE.is_file() or shutil.which("node") is None,
    reason="@huggingface/jinja is not there: npm ci --prefix third_party/npm, with MUSTER_NODE_MODULES its node_modules")


def answers(command, cases):
    lines = "".join(
        json.dumps({"template": template, "values": values, "now": jinja_settings.NOW}) + "\n" for template, values in cases)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=True, env={**os.environ, "TZ": "UTC"})
    # Not splitlines(), which would cut at other ends of lines within texts.
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


@pytest.mark.parametrize("family", sorted(written_cases.TEMPLATES))
def test_written_templates(family):
    cases = [(written_cases.TEMPLATES[family], {**values, "add_generation_prompt": prompt})
             for values in written_cases.chats() for prompt in (False, True)]
    ours = answers([FOLDER / "render_chats"], cases)
    theirs = answers(["node", FOLDER / "render_with_npm.mjs", MODULE], cases)
    assert len(ours) == len(theirs) == len(cases)
    compared = 0
    for (_, values), our, their in zip(cases, ours, theirs):
        if their.get("error") == NOT_THERE:
            continue
        assert our.get("text") == their.get("text"), f"{json.dumps(values)}: {our} and {their}"
        compared += "text" in their
    assert compared >= 4
