"""Reads YAML."""

from __future__ import annotations

from muster._job_text.tree import Kind, Node, Position, TreeBuilder, weight_of


def parse_yaml(text: str, origin: str) -> Node:
    """Returns the tree of a text in YAML. Tags, merge keys and several documents are refused.

    Raises:
        InvalidArgument: says what is wrong, with line and column.
    """
    # Imported here, so that a program that reads no YAML does not need it.
    import yaml

    reader = _Reader(origin)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Position(mark.line + 1, mark.column + 1) if mark else Position()
        raise reader.builder.error(place, f"this is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise reader.builder.error(Position(), f"this is not YAML: {error}") from None
    return reader.builder.root


class _Reader:
    """Makes the tree of PyYAML's events."""

    def __init__(self, origin: str) -> None:
        self.builder = TreeBuilder(origin, names_repeat=False)
        self._documents = 0
        # Anchors of the open lists and groups.
        self._open: list[str | None] = []
        self._kept: dict[str, Node] = {}

    def take(self, event: object) -> None:
        import yaml

        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self.builder.error(Position(), "the file has several documents, but may hold only one job")
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            position = _position(event)
            self._check_tag(event, position)
            if self.builder.expects_name():
                raise self.builder.error(position, "expected the name of a field, not a list or group")
            self.builder.begin(Kind.LIST if isinstance(event, yaml.SequenceStartEvent) else Kind.GROUP, position)
            self._open.append(event.anchor)
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            anchor = self._open.pop()
            self.builder.end()
            self._keep(anchor)

    def _scalar(self, event) -> None:  # type: ignore[no-untyped-def]
        position = _position(event)
        # The words that stand for nothing where no quotes say otherwise.
        nothing = event.style is None and event.tag is None and event.value in ("", "~", "null", "Null", "NULL")
        if not nothing:
            self._check_tag(event, position)
        if self.builder.expects_name():
            if nothing:
                raise self.builder.error(position, "expected the name of a field")
            if event.value == "<<":
                raise self.builder.error(position, "merge keys are not supported; write the group's fields out")
            self.builder.name(event.value, position)
            return
        if nothing:
            self.builder.add(Node(position=position))
        else:
            self.builder.add(Node(Kind.VALUE, position, event.value, may_be_text=True))
        self._keep(event.anchor)

    def _alias(self, event) -> None:  # type: ignore[no-untyped-def]
        position = _position(event)
        kept = self._kept.get(event.anchor)
        if self.builder.expects_name() or kept is None:
            raise self.builder.error(position, "an alias has to stand for a whole value that came before it")
        self.builder.add(Node(kept.kind, position, kept.value, kept.may_be_text, kept.items, kept.entries))

    def _check_tag(self, event, position: Position) -> None:  # type: ignore[no-untyped-def]
        # YAML's own tags say no more than the field does that the value is for.
        if event.tag not in (None, "!") and not event.tag.startswith("tag:yaml.org,2002:"):
            raise self.builder.error(position, f"the tag {event.tag} is not supported")

    def _keep(self, anchor: str | None) -> None:
        if anchor is None:
            return
        # Values kept for aliases count like values of the text, since anchors within anchors are kept many times.
        node = self.builder.last
        self.builder.count(weight_of(node), node.position)
        self._kept[anchor] = node


def _position(event) -> Position:  # type: ignore[no-untyped-def]
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)


