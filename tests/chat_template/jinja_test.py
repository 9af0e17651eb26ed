"""Holds common/chat_template against Jinja, which Debian's package python3-jinja2 brings."""

import json
import pathlib
import subprocess

import pytest

pytest.importorskip("jinja2", reason="Debian's python3-jinja2 is not installed")

import generated_cases  # noqa: E402
import jinja_settings  # noqa: E402
import written_cases  # noqa: E402

PROGRAM = pathlib.Path(__file__).parent / "render_chats"


def rendered(cases):
    lines = "".join(
        json.dumps({"template": template, "values": values, "now": jinja_settings.NOW}) + "\n" for template, values in cases)
    done = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True)
    # Not splitlines(), which would cut at other ends of lines within texts.
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def expected(template, values):
    """Returns what Jinja renders, or None if it raises an error."""
    try:
        text, generated = jinja_settings.render(template, values)
    except Exception:  # pylint: disable=broad-except
        return None
    return {"text": text, "generated": generated}


def compare(cases):
    """Fails at the first template that is rendered otherwise; returns how many Jinja rendered without an error."""
    count = 0
    answers = rendered(cases)
    assert len(answers) == len(cases)
    for (template, values), answer in zip(cases, answers):
        wanted = expected(template, values)
        count += wanted is not None
        where = f"{template!r} with {json.dumps(values)}: {answer}"
        if wanted is None:
            assert "error" in answer, f"Jinja raises an error for {where}"
        else:
            assert answer == wanted, where
    return count


@pytest.mark.parametrize("family", sorted(written_cases.TEMPLATES))
def test_written_templates(family):
    cases = [(written_cases.TEMPLATES[family], values) for values in written_cases.chats()]
    assert compare(cases) >= 2


def test_small_templates():
    assert compare([(template, written_cases.SMALL_VALUES) for template in written_cases.SMALL]) == len(written_cases.SMALL)


def test_errors():
    assert compare([(template, written_cases.SMALL_VALUES) for template in written_cases.ERRORS]) == 0


def test_generated_templates():
    cases = generated_cases.cases(seed=51, count=600)
    # Enough are rendered that the comparison is not one of errors.
    assert compare(cases) >= 200
