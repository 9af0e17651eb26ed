"""docs/data.md in a newcomer's folder: its commands run in order, its `data` blocks are valid, and so are those of other forms."""

import gzip
import json
import pathlib
import random
import re
import struct
import subprocess

import pytest

MUSTER = pathlib.Path("client/muster").resolve()
PAGE = pathlib.Path("docs/data.md").read_text()
COMMANDS = re.findall(r"^    (muster .*?)(?: +#.*)?$", PAGE, re.MULTILINE)
BLOCKS = re.findall(r"^```\n(data \{.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

TEMPLATE = """{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{{ eos_token }}{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""
MODEL = """
optimizer { name: "sgd" learning_rate: 0.1 }
update { dense: ALL_REDUCE }
name: "newcomer" workers: 1 batch_size: 2 seed: 1 stop { steps: 20000 }
"""
TRANSFORMER = "model { transformer { layers: 1 width: 16 heads: 2 context: 16 } }"
LINEAR = "model { logistic_regression { classes: 2 } }"


def run(folder, *words):
    """Returns what a command printed on standard output; it has to succeed."""
    done = subprocess.run([MUSTER, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout


def chat(i):
    return [{"role": "user", "content": f"What is {i} + {i}?"}, {"role": "assistant", "content": f"It is {2 * i}."}]


def text(seed):
    words = random.Random(seed)
    return " ".join(words.choice(["the", "cat", "dog", "sleeps", "and", "runs.\n"]) for _ in range(400))


def llm_c(version, tokens):
    """A shard of tokens: 256 numbers, then u16 for the first version of GPT-2 and u32 for that of Llama 3."""
    magic, kind = (20240520, "H") if version == 1 else (20240801, "I")
    return struct.pack("<256i", magic, version, len(tokens), *[0] * 253) + struct.pack(f"<{len(tokens)}{kind}", *tokens)


def numpy(tokens):
    head = f"{{'descr': '<u2', 'fortran_order': False, 'shape': ({len(tokens)},), }}"
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(tokens)}H", *tokens)


def megatron(lengths):
    """The index of documents of one sequence each, of u16."""
    bounds, offsets = range(len(lengths) + 1), [2 * sum(lengths[:i]) for i in range(len(lengths))]
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(bounds)) + struct.pack(f"<{len(lengths)}i", *lengths)
            + struct.pack(f"<{len(lengths)}q", *offsets) + struct.pack(f"<{len(bounds)}q", *bounds))  # fmt: skip


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def thrift(*fields):
    """A struct in the compact protocol, of (id, value): a number is a pair of its bits and itself, a list has one kind of values."""
    out, last = b"", 0
    for number, value in fields:
        kind, body = thrift_value(value)
        out += bytes([(number - last) << 4 | kind]) + body
        last = number
    return out + b"\0"


def thrift_value(value):
    if isinstance(value, tuple):
        return {32: 5, 64: 6}[value[0]], varint(value[1] << 1)
    if isinstance(value, str):
        return 8, varint(len(value)) + value.encode()
    if isinstance(value, bytes):
        return 12, value
    kinds = [thrift_value(each) for each in value]
    return 9, bytes([len(value) << 4 | kinds[0][0]]) + b"".join(body for _, body in kinds)


def parquet(columns):
    """A file with one group of rows: columns of texts or whole numbers by name, plain, none of them null."""
    file, schema, chunks = b"PAR1", [thrift((4, "rows"), (5, (32, len(columns))))], []
    for name, values in columns.items():
        texts = isinstance(values[0], str)
        body = b"".join(struct.pack("<I", len(v.encode())) + v.encode() if texts else struct.pack("<q", v) for v in values)
        page = thrift((1, (32, len(values))), (2, (32, 0)), (3, (32, 3)), (4, (32, 3)))
        page = thrift((1, (32, 0)), (2, (32, len(body))), (3, (32, len(body))), (5, page)) + body
        kind = (32, 6 if texts else 2)
        schema.append(thrift((1, kind), (3, (32, 0)), (4, name), *([(6, (32, 0))] if texts else [])))
        sizes = [(5, (64, len(values))), (6, (64, len(page))), (7, (64, len(page))), (9, (64, len(file)))]
        chunks.append(thrift((2, (64, len(file))), (3, thrift((1, kind), (2, [(32, 0)]), (3, [name]), (4, (32, 0)), *sizes))))
        file += page
    rows = (64, len(next(iter(columns.values()))))
    footer = thrift((1, (32, 1)), (2, schema), (3, rows), (4, [thrift((1, chunks), (2, (64, len(file))), (3, rows))]))
    return file + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the page names, made up."""
    at = tmp_path_factory.mktemp("newcomer")
    for each in ("smollm3", "chats", "books", "ads"):
        (at / each).mkdir()
    chats = "".join(json.dumps({"messages": chat(i)}) + "\n" for i in range(200))
    (at / "chats.jsonl").write_text(chats)
    run(at, "tokenizer", "train", "--data", "chats.jsonl", "--vocabulary", "300", "--out", "smollm3/tokenizer.json")
    config = {"chat_template": TEMPLATE, "eos_token": "<|endoftext|>"}
    (at / "smollm3/tokenizer_config.json").write_text(json.dumps(config))
    for i in range(2):
        (at / f"books/{i}.txt").write_text(text(i))
        subprocess.run(["zstd", "-q", "-o", at / f"chats/part-{i}.jsonl.zst"], input=chats.encode(), check=True)
        rows = "".join(f"{j % 2};{j % 60};{j}.5;site{j % 3};{'at' if j % 2 else 'de'}\n" for j in range(40))
        (at / f"ads/part-{i}.csv.gz").write_bytes(gzip.compress(f"clicked;age;price;site;country\n{rows}".encode()))
    (at / "lines.jsonl").write_text("".join(json.dumps({"body": text(i), "id": i}) + "\n" for i in range(9)))
    for i in range(2):
        (at / f"chats/train-{i}.parquet").write_bytes(parquet({"text": [text(j) for j in range(9)]}))
    clicks = {"clicked": [j % 2 for j in range(40)], "age": [j % 60 for j in range(40)], "site": [f"site{j % 3}" for j in range(40)]}
    (at / "table.parquet").write_bytes(parquet(clicks))
    (at / "train.ffm").write_text("".join(f"{j % 2} 0:{j % 5}:1 1:{5 + j % 7}:1\n" for j in range(40)))
    (at / "wiki.txt.gz").write_bytes(gzip.compress(text(3).encode()))
    tokens = [random.Random(4).randrange(256) for _ in range(1000)]
    (at / "train.bin").write_bytes(struct.pack("<1000H", *tokens))
    (at / "v1.bin").write_bytes(llm_c(1, tokens))
    (at / "v7.bin").write_bytes(llm_c(7, tokens))
    (at / "array.npy").write_bytes(numpy(tokens))
    (at / "megatron.idx").write_bytes(megatron([300, 700]))
    (at / "megatron.bin").write_bytes(struct.pack("<1000H", *tokens))
    (at / "pairs.jsonl").write_text("".join(f'{{"prompt": "{i}+1=", "completion": "{i + 1}"}}\n' for i in range(50)))
    for each in ("web", "code", "exam"):
        run(at, "data", "tokenize", "--data", "books", "--tokenizer", "bytes", "--out", f"{each}.tokens")
    return at


def check(folder, block):
    """The block is part of a valid job, whose data are as it says."""
    model = LINEAR if "csv {" in block or "libffm {" in block else TRANSFORMER
    (folder / "job.textproto").write_text(MODEL + model + block)
    run(folder, "validate", "job.textproto")


def test_the_commands_run_in_order(folder):
    assert len(COMMANDS) >= 10
    for command in COMMANDS:
        subprocess.run(command.replace("muster", str(MUSTER), 1), shell=True, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    printed = run(folder, "data", "inspect", "chats.tokens", "--output", "json")
    assert int(json.loads(printed)["documents"]) == 200


def test_the_blocks_are_valid(folder):
    assert len(BLOCKS) >= 4
    for block in BLOCKS:
        if "chats.tokens" in block:
            run(folder, "data", "tokenize", "--data", "chats.jsonl", "--tokenizer", "smollm3", "--out", "chats.tokens", "--force")
        check(folder, block)


@pytest.mark.parametrize(
    "path, form, options",
    [
        ("books", "text", []),
        ("wiki.txt.gz", "compressed text", []),
        ("chats/part-*", "JSON lines", []),
        ("pairs.jsonl", "JSON lines", []),
        ("lines.jsonl", "JSON lines", ["--field", "body"]),
        ("train.bin", "raw tokens", ["--raw", "u16"]),
        ("v1.bin", "a shard of tokens of llm.c", []),
        ("v7.bin", "a shard of tokens of llm.c", []),
        ("array.npy", "a NumPy array of tokens", []),
        ("megatron.idx", "indexed tokens of Megatron", []),
        ("web.tokens", "a token file", []),
    ],
)
def test_inspect_and_init_name_every_form_alike(folder, path, form, options):
    found = json.loads(run(folder, "data", "inspect", path, "--tokenizer", "smollm3", *options, "--output", "json"))
    assert found["form"] == form and int(found["tokens"]) > 0
    check(folder, found["job"])
    job = json.loads(run(folder, "init", "--data", path, "--tokenizer", "smollm3", *options, "--output", "json"))
    named = job["data"]["sequences"]
    whole = named["packing"] == "WHOLE_DOCUMENTS"
    assert named["path"] == str(folder / path) and ("documents" in named) == bool(options)
    assert whole == ("packing: WHOLE_DOCUMENTS" in found["job"]) == (path in ("pairs.jsonl", "chats/part-*"))
    run(folder, "init", "--data", path, "--tokenizer", "smollm3", *options, "--out", "starter.yaml", "--force")
    run(folder, "validate", "starter.yaml")
