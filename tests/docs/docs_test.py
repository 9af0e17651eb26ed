"""README.md and docs/: what is made from sources is up to date, the README is short, and links lead somewhere."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, "tools")
import job_reference

PAGES = [*map(pathlib.Path, ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted(pathlib.Path("docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


def anchors(page):
    """Names of a page's headings, as links to them have them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_reference_of_jobs_is_what_the_comments_say():
    expected = job_reference.page(pathlib.Path("proto/job.proto"))
    assert pathlib.Path("docs/jobs.md").read_text() == expected, "run tools/job_reference.py"


def test_the_reference_shows_comments_names_and_ways(tmp_path):
    proto = tmp_path / "job.proto"
    proto.write_text("""
        syntax = "proto3";
        package other.v2;
        // The job.
        message JobSpec {
          // How long.
          StopSpec stop = 1;
          oneof reader { TextData text = 2; }
          repeated uint32 sizes = 3;  // a < b | c
        }
        // When it ends. Always.
        message StopSpec {
          enum Unit { UNIT_UNSPECIFIED = 0; STEPS = 1; }
          Unit unit = 1;
        }
        // Any bytes. Or none.
        message TextData { optional string path = 1; }
    """)
    text = job_reference.page(proto)
    assert "## StopSpec\n\n`stop`. When it ends. Always.\n" in text
    assert "| `stop` | [StopSpec](#stopspec) | How long. |" in text
    assert "| `text` | [TextData](#textdata), one of `reader` | Any bytes. |" in text
    assert "| `sizes` | list: whole number | a &lt; b \\| c |" in text
    assert "| `path` | text | |" in text
    assert "Values of `unit`:\n\n- `STEPS`\n" in text
    assert "UNSPECIFIED" not in text


def test_a_message_that_no_job_has_is_an_error(tmp_path):
    proto = tmp_path / "job.proto"
    proto.write_text('syntax = "proto3"; message JobSpec { } message Lost { }')
    with pytest.raises(SystemExit, match="Lost"):
        job_reference.page(proto)


def test_the_readme_is_short():
    assert len(pathlib.Path("README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_lines_fit_140_columns(page):
    if page == pathlib.Path("docs/jobs.md"):
        pytest.skip("its paragraphs are made of comments")
    long = [each for each in page.read_text().splitlines() if len(each) > 140 and not each.startswith("|")]
    assert not long, f"{page} has lines of more than 140 columns: {long}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text()):
        if target.startswith(("http:", "https:")) or (target and not target.endswith(".md")):
            continue
        where = page.parent / target if target else page
        assert where.exists(), f"{page} links to {target}"
        assert not anchor or anchor[1:] in anchors(where), f"{page} links to {target}{anchor}"
