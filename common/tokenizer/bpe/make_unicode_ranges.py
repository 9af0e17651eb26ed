#!/usr/bin/env python3
"""Prints unicode_ranges.cc: the code points of general categories L* and N*, by Python's own tables.

Run it as `python3 make_unicode_ranges.py > unicode_ranges.cc` to move to the Unicode version of a newer Python.
"""
import sys
import unicodedata


def ranges(category):
    found = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] != category:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, category):
    words = ["{0x%x, 0x%x}" % tuple(each) for each in ranges(category)]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + word + ","
    lines.append(line)
    return "constexpr CodePointRange %s[] = {\n%s\n};\n" % (name, "\n".join(lines))


print("// Made by make_unicode_ranges.py from Unicode %s; change that, not this." % unicodedata.unidata_version)
print("// clang-format off")
print('#include "common/tokenizer/bpe/unicode_ranges.h"\n')
print("namespace muster {\nnamespace {\n")
print(table("kLetters", "L"))
print(table("kNumbers", "N"))
print("}  // namespace\n")
print("absl::Span<const CodePointRange> LetterRanges() { return kLetters; }\n")
print("absl::Span<const CodePointRange> NumberRanges() { return kNumbers; }\n")
print("}  // namespace muster")
