"""Jinja as Hugging Face's apply_chat_template sets it up."""

import datetime
import json

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

# A Wednesday.
NOW = 1721810096


class Generation(Extension):
    """Marks what generation blocks print with characters that no case has."""

    tags = {"generation"}
    BEGIN = "\ue000"
    END = "\ue001"

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        return self.BEGIN + caller() + self.END


def raise_exception(message):
    raise TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    made.filters["tojson"] = tojson
    made.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return made


def render(template, values):
    """Returns the text and the byte ranges of what generation blocks printed; raises what Jinja does."""
    marked = environment().from_string(template).render(**values)
    text, generated, begin = "", [], 0
    for character in marked:
        if character == Generation.BEGIN:
            begin = len(text.encode())
        elif character == Generation.END:
            if len(text.encode()) > begin:
                generated.append([begin, len(text.encode())])
        else:
            text += character
    return text, generated
