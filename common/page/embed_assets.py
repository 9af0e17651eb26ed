"""Writes C++ that holds files: embed_assets.py FILE..."""

import pathlib
import sys

# Compilers take string literals of up to 64 KiB without complaint.
PART = 4096


def literal(content):
    """C++ string literals of bytes, joined by the compiler."""
    parts = []
    for begin in range(0, len(content), PART):
        # Three octal digits end an escape, whatever follows.
        parts.append('"' + "".join(
            chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else "\\%03o" % byte
            for byte in content[begin:begin + PART]) + '"')
    return "\n        ".join(parts) or '""'


def main(paths):
    print('#include "common/page/page_assets.h"\n')
    print("namespace muster {\n")
    print("absl::Span<const PageAsset> PageAssets() {")
    print("  static constexpr PageAsset kAssets[] = {")
    for path in sorted(map(pathlib.Path, paths), key=lambda each: each.name):
        content = path.read_bytes()
        print(f'    {{"{path.name}", absl::string_view(\n        {literal(content)},\n        {len(content)})}},')
    print("  };\n  return kAssets;\n}\n\n}  // namespace muster")


main(sys.argv[1:])
