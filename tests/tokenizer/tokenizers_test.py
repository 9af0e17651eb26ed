"""Holds tokenizers against npm's @anush008/tokenizers, the binding of Hugging Face's tokenizers."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import made_up_tokenizers

FOLDER = pathlib.Path(__file__).parent
MODULES_FOLDER = pathlib.Path(os.environ.get("MUSTER_NODE_MODULES") or "third_party/npm/node_modules")
MODULE = (MODULES_FOLDER / "@anush008" / "tokenizers").resolve()

pytestmark = pytest.mark.skipif(
    not MODULE.is_dir() or shutil.which("node") is None,
    reason="@anush008/tokenizers is not there: npm ci --prefix third_party/npm, with MUSTER_NODE_MODULES its node_modules")


def answers(command, texts):
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # Not splitlines(), which would cut at other ends of lines within texts.
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


@pytest.mark.parametrize("family", sorted(made_up_tokenizers.TOKENIZERS))
def test_ids_are_the_originals(family, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(made_up_tokenizers.TOKENIZERS[family]()))
    texts = made_up_tokenizers.texts()
    ours = answers([FOLDER / "encode_texts", path], texts)
    theirs = answers(["node", FOLDER / "encode_with_npm.mjs", MODULE, path], texts)
    assert len(ours) == len(theirs) == len(texts)
    for text, our, their in zip(texts, ours, theirs):
        assert our["ids"] == their["ids"], json.dumps(text)
