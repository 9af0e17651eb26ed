"""Reads a run folder of TensorBoard by the format's description alone, and prints what TensorBoard would show: a line
"tag step wall_time value" for each point, by tag and step. A file that breaks the format is an error, and so is a
point of a step that the tag has passed.

Usage: read_events.py FOLDER

A TFRecord file holds records: length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C of the data (4),
all little-endian. Data is an Event in protobuf's wire format: wall_time = 1 (double), step = 2 (int64), file_version =
3 (string), summary = 5 {value = 1 {tag = 1 (string), simple_value = 2 (float)}}, session_log = 7 {status = 1}. Files
are read in the order of their names. A session_log with status 1 drops all points from its step on.
"""

import pathlib
import struct
import sys

START = 1


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, checksum = struct.unpack_from("<QI", data, at)
        if checksum != masked(data[at:at + 8]):
            raise ValueError(f"wrong checksum of the length at byte {at}")
        record = data[at + 12:at + 12 + length]
        (checksum,) = struct.unpack_from("<I", data, at + 12 + length)
        if checksum != masked(record):
            raise ValueError(f"wrong checksum of the record at byte {at}")
        yield record
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Numbers and values of a message's fields."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, at = varint(data, at)
        elif wire_type == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif wire_type == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        elif wire_type == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise ValueError(f"field {number} has wire type {wire_type}")
        yield number, value


def read_event(record, first, points):
    """Applies an event to points, (wall_time, value) by tag and step."""
    wall_time, step, summary, log = 0.0, 0, None, None
    version = None
    for number, value in fields(record):
        if number == 1:
            wall_time = value
        elif number == 2:
            step = value
        elif number == 3:
            version = value
        elif number == 5:
            summary = value
        elif number == 7:
            log = value
    if (version is not None) != first or (first and version != b"brain.Event:2"):
        raise ValueError(f"the version is {version}")
    if log is not None and dict(fields(log)).get(1) == START:
        for steps in points.values():
            for later in [each for each in steps if each >= step]:
                del steps[later]
    for number, value in fields(summary or b""):
        if number != 1:
            continue
        parts = dict(fields(value))
        steps = points.setdefault(parts[1].decode(), {})
        if steps and max(steps) >= step:
            raise ValueError(f"{parts[1]} has step {step} after step {max(steps)}")
        steps[step] = (wall_time, parts.get(2, 0.0))


def read_run(folder):
    points = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        if "tfevents" not in path.name:
            continue
        for number, record in enumerate(records(path.read_bytes())):
            read_event(record, number == 0, points)
    return points


def main():
    for tag, steps in sorted(read_run(sys.argv[1]).items()):
        for step, (wall_time, value) in sorted(steps.items()):
            print(f"{tag} {step} {wall_time:.3f} {value:g}")


if __name__ == "__main__":
    main()
