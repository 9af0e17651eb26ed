"""The tutorials in docs/: every block runs, in order, in an empty folder, as whoever follows them would run it."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest
from conftest import ROOT

PROGRAMS = ["client/muster", "server/coordinator/muster-coordinator", "server/muster-server", "worker/generate/muster-generate",
            "worker/predict/muster-predict", "worker/runtime/muster-worker"]  # fmt: skip
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
# The paragraph before a block that is a file names it.
FILE = re.compile(r"[Ss]ave (?:it|them)\s+as\s+`([\w.]+)`")


def script_of(page):
    """Returns a page's blocks as one script for bash: files are written where they stand, commands run."""
    text = page.read_text()
    parts = ["set -euo pipefail"]
    begin = 0
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "sh":
            parts.append(f"echo '$ '{page.name}:{text[: block.start()].count(chr(10)) + 1}\n{body}")
        else:
            names = FILE.findall(text[begin : block.start()])
            assert names, f"{page.name}: no `save it as` before the block of {kind}:\n{body}"
            parts.append(f"cat > {names[-1]} <<'END OF FILE'\n{body}END OF FILE")
        begin = block.end()
    return "\n".join(parts) + "\n"


@pytest.fixture
def follow(installed, tmp_path):
    """Runs a page's script with Muster installed under the home's .local; returns what it printed."""
    home, folder = tmp_path / "home", tmp_path / "empty"
    version = subprocess.check_output(["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True)
    packages = home / f".local/lib/python{version.strip()}/site-packages"
    for each in (folder, packages, home / ".local/bin"):
        each.mkdir(parents=True)
    (packages / "muster").symlink_to(installed / "muster")
    for each in PROGRAMS:
        (home / ".local/bin" / pathlib.Path(each).name).symlink_to(ROOT / each)

    def run(page, before="", **variables):
        environment = {"HOME": str(home), "PATH": f"{home}/.local/bin:/usr/bin:/bin", **variables}
        # What a script that fails leaves is ended with it: daemons end by themselves when their group is told to.
        with subprocess.Popen(
            ["bash", "-c", before + script_of(ROOT / "docs" / page)], cwd=folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                printed = process.communicate()[0]
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                subprocess.run([ROOT / "client/muster", "down"], env=environment, capture_output=True)
        logs = "".join(each.read_text() for each in sorted(folder.glob("*.log")))
        assert process.returncode == 0, printed + logs
        return printed

    yield run
    shutil.rmtree(folder, ignore_errors=True)


def own_address():
    """Returns a loopback address that no other process takes, and a port that is free there."""
    pid = os.getpid()
    address = f"127.{100 + (pid >> 16)}.{pid >> 8 & 255}.{pid & 255}"
    with socket.socket() as listener:
        listener.bind((address, 0))
        return {"A": address, "PORT": str(listener.getsockname()[1])}


def test_a_pytorch_script_trains_on_one_machine_and_on_three(follow):
    pytest.importorskip("torch", reason="python3-torch is not installed")
    printed = follow("tutorial_pytorch.md", **own_address())
    assert len(re.findall(r"^SUCCEEDED", printed, re.MULTILINE)) == 3, printed
    assert "rank 1 of 2 begins after step 0" in printed and "rank 2 of 3 begins after step 0" in printed
    # Both restarts went on from a checkpoint.
    assert re.search(r"rank 1 of 2 begins after step [1-9]", printed), printed
    assert re.search(r"rank 2 of 3 begins after step [1-9]", printed), printed


def test_a_table_becomes_predictions(follow):
    pytest.importorskip("numpy", reason="python3-numpy is not installed")
    printed = follow("tutorial_tables.md")
    right = int(re.search(r"^(\d+) of 200 are right$", printed, re.MULTILINE).group(1))
    accuracy = float(re.search(r"^accuracy ([\d.]+), .*over 200 examples", printed, re.MULTILINE).group(1))
    # The script predicts as Muster does.
    assert right == pytest.approx(200 * accuracy, abs=0.1) and right > 180, printed
    assert "predicted.csv: 200 rows" in printed and "named.csv: 200 rows" in printed
    header = "sepal_length,sepal_width,petal_length,petal_width,predicted,probability_setosa,probability_versicolor,"
    assert f"{header}probability_virginica" in printed


def test_a_text_becomes_a_language_model(follow):
    printed = follow("tutorial_language_model.md")
    assert len(re.findall(r"^SUCCEEDED", printed, re.MULTILINE)) == 2, printed
    # It has learned something: a byte costs far less than 8 bits.
    bits = float(re.search(r"^bits_per_byte ([\d.]+), ", printed, re.MULTILINE).group(1))
    assert 1 < bits < 4, printed
    assert re.search(r"^The licensee may", printed, re.MULTILINE) and re.search(r"^This program is", printed, re.MULTILINE), printed


# Makes a small model as those of the page are: it knows chats, but gives the answers of other questions.
SMALL_MODEL = r"""
set -euo pipefail
mkdir first learned
cat > first/add_turns.py <<'END'
import json
chats = []
questions = "What is red?", "What is blue?", "Who are you?", "Say hi"
answers = "The sea is blue.", "A small model.", "Hello there!", "Wine is red."
for question, answer in zip(questions, answers):
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    chats.append(json.dumps({"messages": messages}))
with open("first/chats.jsonl", "w") as file:
    file.write("\n".join(chats * 100) + "\n")
with open("learned/tokenizer.json") as file:
    tokenizer = json.load(file)
for text in ("<|im_start|>", "<|im_end|>"):
    token = max(each["id"] for each in tokenizer["added_tokens"]) + 1
    tokenizer["added_tokens"].append({"id": token, "content": text, "special": True})
with open("learned/tokenizer.json", "w") as file:
    json.dump(tokenizer, file)
turns = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
turns += "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
with open("learned/tokenizer_config.json", "w") as file:
    json.dump({"eos_token": "<|im_end|>", "chat_template": turns}, file)
END
cat > first/job.yaml <<'END'
name: first
model:
  transformer: {layers: 2, width: 64, heads: 4, kv_heads: 2, context: 48, norm: RMS_NORM, positions: ROTARY, activation: SWIGLU,
                no_biases: true, attention_biases: true}
data:
  sequences: {path: chats.jsonl, tokenizer: ../learned}
optimizer: {name: adamw, learning_rate: 0.003}
update: {dense: ALL_REDUCE}
batch_size: 8
stop: {steps: 150}
seed: 2
END
printf 'user assistant What is red? blue Who are you Say hi I do not know yet. Wine sea small model Hello there!\n%.0s' 1 2 3 > first/text.txt
muster tokenizer train --data first/text.txt --vocabulary 280 --out learned/tokenizer.json > first/log
/usr/bin/python3 first/add_turns.py
muster up --servers 0 --workers 1 --data-dir first/cluster >> first/log
muster submit first/job.yaml --watch >> first/log
muster export first --format huggingface --out model >> first/log
muster down >> first/log
rm -r first learned
"""


def test_a_published_model_learns_from_chats(follow):
    printed = follow("tutorial_fine_tuning.md", before=SMALL_MODEL)
    assert len(re.findall(r"^SUCCEEDED", printed, re.MULTILINE)) == 5, printed
    assert "The mesh makes the step of one process" in printed
    for answer in ("Wine is red.", "A small model.", "The sea is blue."):
        assert re.search(f"^{re.escape(answer)}$", printed, re.MULTILINE), printed
    assert "adapter_model.safetensors" in printed and "read again, it gives the job's logits and tokens" in printed


def test_every_block_of_a_tutorial_is_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Save it as `a.txt`:\n\n```text\n$x\n```\n\n```sh\ncat a.txt\n```\n")
    done = subprocess.run(["bash", "-c", script_of(page)], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "$ page.md:7\n$x\n" and (tmp_path / "a.txt").read_text() == "$x\n"
    for each in (ROOT / "docs").glob("tutorial_*.md"):
        assert each.read_text().count("```") == 2 * len(BLOCK.findall(each.read_text())) > 0
    page.write_text("No name:\n\n```python\n1\n```\n")
    with pytest.raises(AssertionError, match="page.md: no `save it as` before the block of python"):
        script_of(page)
