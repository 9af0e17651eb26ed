"""Reads exported weights."""

import array
import json


def sums_of_weights(path):
    """{tensor: sum of the absolute values} of a file in the format of safetensors, whose tensors are F32."""
    content = path.read_bytes()
    head = 8 + int.from_bytes(content[:8], "little")
    sums = {}
    for name, tensor in json.loads(content[8:head]).items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        sums[name] = sum(map(abs, array.array("f", content[head + begin : head + end])))
    return sums
