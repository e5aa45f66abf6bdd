# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damages a file by its format: `mutate(kind, bytes, random)`. See mutants.py."""

import hashlib
import io
import json
import re
import zipfile

KINDS = ["onnx", "text", "stablehlo", "arrays", "idx", "safetensors", "executable", "policy"]
NUMBERS = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def bytes_of(data, random):
    """Bytes changed, removed, inserted, or truncated."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 4, 16])):
        if not data:
            return b"\0"
        at, count = random.randrange(len(data)), random.choice([1, 1, 2, 4, 8, 64])
        what = random.randrange(7)
        if what == 0:
            data[at] ^= 1 << random.randrange(8)
        elif what == 1:
            data[at] = random.randrange(256)
        elif what == 2:
            del data[at:at + count]
        elif what == 3:
            data[at:at] = data[at:at + count]
        elif what == 4:
            data[at:at] = bytes(random.randrange(256) for _ in range(count))
        elif what == 5:
            width = random.choice([1, 2, 4, 8])
            number = random.choice(NUMBERS) % 256**width
            data[at:at + width] = number.to_bytes(width, random.choice(["little", "big"]))
        elif random.random() < 0.2:
            del data[at:]
    return bytes(data)


# Protobufs


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def varint(value):
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def fields_of(data):
    """(number, wire type, content) of each field; None if it is not a message."""
    fields, at = [], 0
    try:
        while at < len(data):
            key, at = read_varint(data, at)
            number, wire = key >> 3, key & 7
            if wire == 0:
                content, at = read_varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                content, at = data[at:at + size], at + size
            elif wire == 2:
                size, at = read_varint(data, at)
                content, at = data[at:at + size], at + size
            else:
                return None
            if not 0 < number < 1000 or at > len(data):
                return None
            fields.append([number, wire, content])
    except IndexError:
        return None
    return fields


def encode(fields):
    result = b""
    for number, wire, content in fields:
        result += varint(number << 3 | wire)
        result += varint(content) if wire == 0 else (varint(len(content)) if wire == 2 else b"") + content
    return result


def message(data, random):
    """Changes a random field of a possibly nested message."""
    fields = fields_of(data)
    if not fields:
        return bytes_of(data, random)
    at = random.randrange(len(fields))
    field = fields[at]
    if field[1] == 2 and random.random() < 0.8 and fields_of(field[2]):
        field[2] = message(field[2], random)
        return encode(fields)
    what = random.randrange(5)
    if what == 0:
        del fields[at]
    elif what == 1:
        fields.insert(random.randrange(len(fields) + 1), list(random.choice(fields)))
    elif what == 2:
        fields.insert(random.randrange(len(fields)), fields.pop(at))
    elif field[1] == 0:
        field[2] = random.choice(NUMBERS)
    elif what == 4:
        field[0] = random.randrange(1, 21)
    else:
        field[2] = bytes_of(field[2], random)
    return encode(fields)


# Text


def tokens(data, random):
    """A token or a line replaced, duplicated, moved or removed."""
    text = data.decode(errors="replace")
    for _ in range(random.choice([1, 1, 2, 3])):
        if random.random() < 0.25:
            parts = text.splitlines(keepends=True)
        else:
            parts = re.findall(r"[%@#!]?\w+|\s+|.", text)
        if not parts:
            return b""
        at, other = random.randrange(len(parts)), random.randrange(len(parts))
        what = random.randrange(5)
        if what == 0:
            del parts[at]
        elif what == 1:
            parts.insert(at, parts[other])
        elif what == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif what == 3:
            numbers = [i for i, part in enumerate(parts) if part.isdigit()]
            if numbers:
                parts[random.choice(numbers)] = str(random.choice([*NUMBERS, -1, 99999999999999999999, "1.0e400", "?"]))
        else:
            types = [i for i, part in enumerate(parts) if re.fullmatch(r"(x|\d+x)*(bf16|f16|f32|f64|i1|i8|i32|i64|ui8)", part)]
            if types:
                i = random.choice(types)
                new = random.choice(["f32", "f16", "i1", "i64", "bf16", "f64", "i7", "f8E5M2", "index", "tensor<f32>"])
                parts[i] = re.sub(r"(bf16|f16|f32|f64|i1|i8|i32|i64|ui8)$", new, parts[i])
        text = "".join(parts)
    return text.encode()


def document(data, random):
    """A JSON value replaced, or a key renamed, duplicated, nested or removed."""
    root = json.loads(data)
    places = []

    def walk(value):
        for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
            places.append((value, key))
            if isinstance(child, (dict, list)):
                walk(child)

    walk(root)
    if not places:
        return tokens(data, random)
    for _ in range(random.choice([1, 1, 2])):
        value, key = random.choice(places)
        other, otherKey = random.choice(places)
        if (key not in value if isinstance(value, dict) else key >= len(value)):
            continue
        what = random.randrange(6)
        if what == 0:
            del value[key]
        elif what == 1:
            value[key] = random.choice([None, True, "", "f32", "bf16", -1, 0.5, 1e308, [], {}, [[]], *NUMBERS])
        elif what == 2 and isinstance(value, dict):
            value[random.choice(["", "policy", str(key) + "s", str(otherKey)])] = value[key]
        elif what == 3:
            deep = value[key]
            for _ in range(random.choice([1, 10, 300])):
                deep = [deep] if random.random() < 0.5 else {"a": deep}
            value[key] = deep
        elif what == 4 and (otherKey in other if isinstance(other, dict) else otherKey < len(other)):
            # A copy, to avoid cycles.
            value[key] = json.loads(json.dumps(other[otherKey]))
        else:
            value[key] = [value[key], value[key]]
    text = json.dumps(root, separators=(",", ":"))
    if random.random() < 0.1:
        text = text.replace("{", '{"name": 1, "name": 2, ', 1)
    return text.encode()


# Arrays and containers


def numpy(data, random):
    """Mutates an array's header literal and corrects its length."""
    size = int.from_bytes(data[8:10], "little")
    header = tokens(data[10:10 + size], random)
    return data[:8] + len(header).to_bytes(4, "little")[:2] + header + data[10 + size:]


def archive(data, random):
    """Mutates an array in an archive, or the archive's directory."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        names = {name: old.read(name) for name in old.namelist()}
    new = io.BytesIO()
    with zipfile.ZipFile(new, "w", random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as out:
        for name, content in names.items():
            what = random.randrange(4)
            if what == 0:
                name = random.choice(["x", "../" + name, name[:-4], "other.npy", name * 50])
            out.writestr(name, numpy(content, random) if what == 1 else bytes_of(content, random) if what == 2 else content)
            if what == 3:
                out.writestr("more.npy", content[:random.randrange(len(content))])
    return new.getvalue()


def tensor_file(data, random):
    """Mutates the header of a safetensors file and corrects its length and digest."""
    size = int.from_bytes(data[:8], "little")
    header = document(data[8:8 + size], random)
    header += b" " * (-len(header) % 8)
    data = len(header).to_bytes(8, "little") + header + data[8 + size:]
    digest = re.search(rb'"sha256":"([0-9a-f]{64})"', data)
    if digest and random.random() < 0.9:
        at = digest.start(1)
        zeroed = data[:at] + b"0" * 64 + data[at + 64:]
        data = zeroed.replace(b"0" * 64, hashlib.sha256(zeroed).hexdigest().encode(), 1)
    return data


def idx(data, random):
    """Mutates a number in the header of an idx file."""
    data = bytearray(data)
    if random.random() < 0.4:
        data[random.randrange(4)] = random.randrange(256)
    else:
        at = 4 + 4 * random.randrange(3)
        data[at:at + 4] = (random.choice(NUMBERS) % 2**32).to_bytes(4, "big")
    return bytes(data)


def mutate(kind, data, random):
    """A file that differs from `data`, deterministic in the state of `random`."""
    for _ in range(100):
        mutant = damage(kind, data, random)
        if mutant != data:
            return mutant
    return data + b"\0"


def damage(kind, data, random):
    if random.random() < 0.4:
        return bytes_of(data, random)
    if kind == "onnx":
        for _ in range(random.choice([1, 1, 2, 4])):
            data = message(data, random)
        return data
    if kind in ("text", "stablehlo"):
        return tokens(data, random)
    if kind == "policy":
        return document(data, random)
    if kind == "arrays":
        return numpy(data, random) if data.startswith(b"\x93") else archive(data, random)
    if kind == "safetensors":
        return tensor_file(data, random)
    if kind == "idx" and not data.startswith(b"\x1f\x8b"):
        return idx(data, random)
    # Compressed data and data with a digest have no other structure to mutate.
    return bytes_of(data, random)
