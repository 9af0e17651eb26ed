"""Finds the name that a wrong word probably meant; as common/text/nearest_name does in C++."""

from __future__ import annotations

from collections.abc import Sequence

# Longest word looked up: no name is as long, but a file may hold words of any length.
_LONGEST_WORD = 100
_FEWEST_PREFIX_CHARACTERS = 3


def did_you_mean(word: str, names: Sequence[str]) -> str:
    """Returns `; did you mean "NAME"?`, or nothing if no name is near."""
    near = nearest_name(word, names) if len(word) <= _LONGEST_WORD else None
    return "" if near is None else f'; did you mean "{near}"?'


def nearest_name(wrong: str, right: Sequence[str]) -> str | None:
    """Returns the name with the fewest edits to make it of `wrong`, if these are few; else the shortest that it begins."""
    if not wrong:
        return None
    typed = _folded(wrong)
    most_edits = max(1, len(typed) // 3)
    nearest, fewest, longer = None, most_edits + 1, None
    for name in right:
        difference = abs(len(name) - len(typed))
        folded = _folded(name)
        begins = len(name) > len(typed) >= _FEWEST_PREFIX_CHARACTERS and folded.startswith(typed)
        if begins and (longer is None or len(name) < len(longer)):
            longer = name
        # All characters replaced would be another name, not a slip of the finger.
        if difference > most_edits or len(name) <= difference:
            continue
        edits = _edit_distance(typed, folded)
        if edits < fewest and edits < max(len(name), len(typed)):
            nearest, fewest = name, edits
    return nearest if nearest is not None else longer


def _folded(name: str) -> str:
    return name.replace("-", "_").lower()


def _edit_distance(a: str, b: str) -> int:
    """Returns the fewest insertions, deletions, replacements and exchanges of neighbours that make b of a."""
    before_last: list[int] = []
    last = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            edits = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                edits = min(edits, before_last[j - 2] + 1)
            row.append(edits)
        before_last, last = last, row
    return last[len(b)]
