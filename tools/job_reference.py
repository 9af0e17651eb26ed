#!/usr/bin/python3
"""Makes docs/jobs.md, the reference of a job file's fields, out of the comments of proto/job.proto.

Usage: tools/job_reference.py                  writes docs/jobs.md
       tools/job_reference.py --print [PROTO]  prints the page for this file instead
"""

import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).absolute().parent.parent
FIELD = descriptor_pb2.FieldDescriptorProto
# Numbers of fields of FileDescriptorProto, DescriptorProto and EnumDescriptorProto, which paths of comments are made of.
MESSAGES, FIELDS, ENUMS, VALUES = 4, 2, 4, 2
NUMBERS = {
    FIELD.TYPE_UINT32: "whole number", FIELD.TYPE_UINT64: "whole number", FIELD.TYPE_INT32: "whole number",
    FIELD.TYPE_INT64: "whole number", FIELD.TYPE_FLOAT: "number", FIELD.TYPE_DOUBLE: "number",
    FIELD.TYPE_BOOL: "true or false", FIELD.TYPE_STRING: "text", FIELD.TYPE_BYTES: "bytes",
}  # yapf: disable
HEAD = """\
# Fields of a job

Made by `tools/job_reference.py` out of the comments of [proto/job.proto](../proto/job.proto); change those, and run it again.

A job file holds one `JobSpec`, in YAML, JSON or protobuf's text format ([job_files.md](job_files.md)). `examples/` has jobs to start
from. A field that is left out is 0, empty or false,
unless its line says what is taken then. Of fields marked "one of" a job sets one.
"""


def read(proto):
    """The FileDescriptorProto of a file, comments included."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            ["protoc", "--include_source_info", f"--descriptor_set_out={out.name}", f"--proto_path={proto.parent}",
             proto.name], check=True)  # yapf: disable
        return descriptor_pb2.FileDescriptorSet.FromString(out.read()).file[0]


class Page:
    def __init__(self, file):
        self.messages = {f".{file.package}.{each.name}": each for each in file.message_type}
        self.paths = {name: (MESSAGES, index) for index, name in enumerate(self.messages)}
        self.comments = {
            tuple(each.path): " ".join((each.leading_comments or each.trailing_comments).split())
            for each in file.source_code_info.location
        }
        self.shown_as = {}

    def comment(self, *path):
        return self.comments.get(path, "").replace("|", "\\|").replace("<", "&lt;")

    def find(self, name, shown_as):
        """Notes under which names a job has each message, the first way there first."""
        ways = self.shown_as.setdefault(name, [])
        if shown_as:
            ways.append(shown_as)
        for field in self.messages[name].field:
            if field.type_name in self.messages:
                self.find(field.type_name, f"{shown_as}.{field.name}".lstrip("."))

    def type_of(self, message, field):
        if any(each.options.map_entry and field.type_name.endswith(f".{message.name}.{each.name}")
               for each in message.nested_type):
            return "names with values"
        if field.type == FIELD.TYPE_MESSAGE:
            target = field.type_name.rpartition(".")[2]
            text = f"[{target}](#{target.lower()})"
        elif field.type == FIELD.TYPE_ENUM:
            text = "a name below"
        else:
            text = NUMBERS[field.type]
        if field.label == FIELD.LABEL_REPEATED:
            text = f"list: {text}"
        if field.HasField("oneof_index") and not field.proto3_optional:
            text += f", one of `{message.oneof_decl[field.oneof_index].name}`"
        return text

    def section(self, name):
        message, path = self.messages[name], self.paths[name]
        lines = [f"## {message.name}", ""]
        ways = self.shown_as[name]
        about = [", ".join(f"`{each}`" for each in ways) + "." if ways else "The whole file."]
        lines += [" ".join(about + [self.comment(*path)]).strip(), "", "| field | value | meaning |", "|---|---|---|"]
        for index, field in enumerate(message.field):
            meaning = self.comment(*path, FIELDS, index)
            if not meaning and field.type_name in self.messages:
                # Its first sentence.
                meaning = self.comment(*self.paths[field.type_name]).partition(". ")[0].rstrip(".")
                meaning += "." if meaning else ""
            lines.append(f"| `{field.name}` | {self.type_of(message, field)} | {meaning} |".replace("|  |", "| |"))
        enums = {f"{name}.{each.name}": (at, each) for at, each in enumerate(message.enum_type)}
        shown = set()
        for field in message.field:
            if field.type != FIELD.TYPE_ENUM or field.type_name in shown:
                continue
            shown.add(field.type_name)
            at, enum = enums[field.type_name]
            users = ", ".join(f"`{each.name}`" for each in message.field if each.type_name == field.type_name)
            about = self.comment(*path, ENUMS, at)
            lines += ["", f"Values of {users}" + (f" ({about.rstrip('.')}):" if about else ":"), ""]
            for index, value in enumerate(enum.value):
                # What stands for a field that is left out.
                if value.number == 0:
                    continue
                meaning = self.comment(*path, ENUMS, at, VALUES, index)
                lines.append(f"- `{value.name}`" + (f": {meaning}" if meaning else ""))
        return "\n".join(lines) + "\n"


def page(proto):
    """The text of docs/jobs.md for this file."""
    file = read(proto)
    result = Page(file)
    result.find(f".{file.package}.JobSpec", "")
    unused = [name for name in result.messages if name not in result.shown_as]
    if unused:
        sys.exit(f"{proto}: no field of JobSpec leads to {', '.join(unused)}; the page has no place for them")
    return "\n".join([HEAD] + [result.section(name) for name in result.messages])


def main(arguments):
    if arguments[:1] == ["--print"] and len(arguments) <= 2:
        print(page(pathlib.Path(arguments[1] if arguments[1:] else ROOT / "proto/job.proto")), end="")
    elif not arguments:
        (ROOT / "docs/jobs.md").write_text(page(ROOT / "proto/job.proto"))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
