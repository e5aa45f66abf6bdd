#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests `mpc` with malicious input: time, memory, exit codes, diagnostics and files written.

  tools/ci/hostile.py [KIND...] [--count 3000] [--seed 0] [--mpc build/bin/mpc] [--jobs 2] [--failures FOLDER]

Kinds: see KINDS. A case is determined by its kind and number. It may take 10 s of CPU time and
2 GiB, and must exit with 0, 1, 2 or 4, with a diagnostic unless 0; its output has no control
characters; it writes only to its output directory and the cache. Exit code 1 if a case failed.
tools/ci/mutants.py corrupts files at random; the cases here are crafted.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import io
import json
import os
import pathlib
import pickle
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]

import mutants  # noqa: E402
import mutations  # noqa: E402
from onnx_file import FLOAT, Message, _attribute  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS, BYTES = 10, 2 << 30
CHECK = ["check", "--device", "cpu", "--threads", "1"]
LARGE = [2**20, 2**24, 2**28, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -1, -2**31, -2**63, 0]
HIDDEN = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
PIECES = ["\n", "\r", "\v", "\f", "\u2028", "\0", "\\", "??/", "'", '"', "`", "$(touch owned)", "; touch owned;", "</script>",
          "<img src=x onerror=a()>", "-->", "]]>", "*/", "/*", "//", "\n#error owned\n", "\r#include \"/etc/passwd\"\r", "%s%n",
          "{{data}}", "\x1b[2J", "\x1b]0;owned\x07", "\x9b2J", "../", "../../owned", "/owned", "__proto__", "\u202e", "é", "層", "\U0001f642",
          ") { } extern \"C\" void owned() {", "a" * 5000, "=", ",", ":", "name:", "--output=owned", "\ufeff", "\ud800"]


class Case:
    """One case: its directories and its random choices."""

    def __init__(self, kind, number, folder, state):
        self.random, self.number, self.state = random.Random(f"hostile {kind} {number}"), number, state
        self.input, self.output = folder / "input", folder / "output"
        self.input.mkdir()
        self.output.mkdir()

    def pick(self, *choices):
        return self.random.choice(choices)

    def name(self):
        count = self.pick(1, 2, 3, 8)
        return "".join(self.random.choice(PIECES if self.random.random() < 0.7 else HIDDEN) for _ in range(count))

    def file(self, name, data):
        path = self.input / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def report(self, model):
        """A command that reads a model, in a random output format."""
        words = self.pick(CHECK, CHECK, [*CHECK, "--json"], [*CHECK, "--per-op"], ["explain"], ["explain", "--json"], ["lint"],
                          ["lint", "--json"], ["dump", "--after", "import"], ["dump", "--after", "plan"],
                          ["compile", "--target", "cpu:avx2", "-o", self.output / "model.mpcx"],
                          [*CHECK, "--dump-dir", self.output / "dump"], ["bench", "--runs", "1", "--json"],
                          ["explain", "--html", self.output / "page.html"])
        return [words[0], model, *words[1:]]


# ===----------------------------------------------------------------------=== #
# Models
# ===----------------------------------------------------------------------=== #


def text_of(value):
    return value.encode("utf-8", "surrogatepass")


def tensor(name, dims, data=b"", code=FLOAT, external=None):
    made = Message()
    for extent in dims:
        made.integer(1, extent)
    made.integer(2, code).raw(8, text_of(name))
    if external is None:
        return made.raw(9, data)
    for key, value in external.items():
        made.nested(13, Message().text(1, key).raw(2, text_of(str(value))))
    return made.integer(14, 1)


def value(name, dims, code=FLOAT):
    shape = Message()
    for extent in dims:
        shape.nested(1, Message().raw(2, text_of(extent)) if isinstance(extent, str) else Message().integer(1, extent))
    kind = Message().nested(1, Message().integer(1, code).nested(2, shape))
    return Message().raw(1, text_of(name)).nested(2, kind)


def node(kind, inputs, outputs, name="", domain="", attributes=(), metadata=()):
    made = Message()
    for read in inputs:
        made.raw(1, text_of(read))
    for written in outputs:
        made.raw(2, text_of(written))
    made.raw(3, text_of(name)).raw(4, text_of(kind)).raw(7, text_of(domain))
    for attribute in attributes:
        made.nested(5, attribute)
    for key, said in metadata:
        made.nested(9, Message().raw(1, text_of(key)).raw(2, text_of(said)))
    return made


def graph_of(nodes, inputs, outputs, weights=(), name="main"):
    graph = Message()
    for number, parts in ((1, nodes), (5, weights), (11, inputs), (12, outputs)):
        for part in parts:
            graph.nested(number, part)
    return graph.raw(2, text_of(name))


def onnx(graph, functions=(), opset=18):
    model = Message().integer(1, 9).nested(7, graph).nested(8, Message().text(1, "").integer(2, opset))
    for function in functions:
        model.nested(25, function).nested(8, Message().text(1, "local").integer(2, 1))
    return b"".join(model.parts)


def subgraph(name, graph):
    return Message().text(1, name).nested(6, graph).integer(20, 5)


def names(case):
    """Malicious text for every name of a model."""
    x, w, h, y = (case.name() + suffix for suffix in "xwhy")
    if case.random.random() < 0.7:
        # Invisible characters in input and output names are rejected.
        x, y = ("".join(c for c in label if c.isprintable()) + label[-1] for label in (x, y))
    made = [node("MatMul", [x, w], [h], case.name(), metadata=[("pkg.torch.onnx.name_scopes", str(["", case.name(), "op"]))]),
            node(case.pick("Relu", "Relu", "Relu", "Tanh", case.name()), [h], [y], case.name(), metadata=[(case.name(), case.name())])]
    extent = case.pick(2, case.name())
    graph = graph_of(made, [value(x, [extent, 4])], [value(y, [extent, 4])], [tensor(w, [4, 4], bytes(64))], case.name())
    words = case.report(case.file("model.onnx", onnx(graph)))
    if case.random.random() < 0.1:
        words = [words[0], words[1], *words[2:], case.pick("--set", "--dim"), f"name:{case.name()}=f16".replace("\0", "")]
    return [*words, "--policy", case.pick("float32", "mixed_bfloat16", "float16"), *([] if extent == 2 else ["--batch", "2"])]


def sizes(case):
    """Extents, attributes and counts that overflow or exceed the data."""
    huge = case.random.choice(LARGE)
    kind = case.number % 6
    x, y = value("x", [2, 4]), value("y", [2, 4])
    if kind == 0:
        graph = graph_of([node("Relu", ["x"], ["y"])], [value("x", [huge, case.random.choice(LARGE)])], [value("y", [])])
    elif kind == 1:
        graph = graph_of([node("Add", ["x", "w"], ["y"])], [x], [y], [tensor("w", [huge, 4], bytes(case.pick(0, 4, 16)))])
    elif kind == 2:
        shape = struct.pack("<2q", huge, case.random.choice(LARGE))
        op = case.pick("Reshape", "Expand", "Tile", "ConstantOfShape")
        graph = graph_of([node(op, ["s"] if op == "ConstantOfShape" else ["x", "s"], ["y"])], [x], [value("y", [])],
                         [tensor("s", [2], shape, 7)])
    elif kind == 3:
        pads = struct.pack("<4q", huge, 0, case.random.choice(LARGE), 0)
        graph = graph_of([node("Pad", ["x", "p"], ["y"])], [x], [value("y", [])], [tensor("p", [4], pads, 7)])
    elif kind == 4:
        bounds = [tensor(n, [], struct.pack("<q", v), 7) for n, v in (("a", 0), ("b", huge), ("c", case.pick(1, 0, -1)))]
        graph = graph_of([node("Range", ["a", "b", "c"], ["y"])], [x], [value("y", [None or 1], 7)], bounds)
    else:
        attributes = [_attribute(n, [huge, case.random.choice(LARGE)]) for n in case.random.sample(["kernel_shape", "strides", "dilations"], 2)]
        graph = graph_of([node(case.pick("Conv", "MaxPool", "AveragePool"), ["x", "w"][:case.pick(1, 2)], ["y"], attributes=attributes)],
                         [value("x", [1, 1, 8, 8])], [value("y", [])], [tensor("w", [1, 1, 3, 3], bytes(36))])
    return [*case.report(case.file("model.onnx", onnx(graph))), *case.pick([], [], ["--max-memory", "1G"], ["--batch", str(huge)])]


def cycles(case):
    """Cyclic or unboundedly nested nodes, functions, subgraphs and files."""
    kind, x, y = case.number % 7, value("x", [2]), value("y", [2])
    functions = []
    if kind == 0:
        length = case.pick(1, 2, 50)
        graph = graph_of([node("Add", ["x", f"v{(i + 1) % length}"], [f"v{i}"]) for i in range(length)], [x], [value("v0", [2])])
    elif kind == 1:
        length = case.pick(1, 2, 30)
        for i in range(length):
            body = node(f"f{(i + 1) % length}", ["a"], ["b"], domain="local")
            functions.append(Message().text(1, f"f{i}").text(4, "a").text(5, "b").nested(7, body).text(10, "local")
                             .nested(9, Message().text(1, "local").integer(2, 1)))
        graph = graph_of([node("f0", ["x"], ["y"], domain="local")], [x], [y])
    elif kind == 2:
        # 2^depth calls.
        depth = case.pick(8, 20, 64)
        for i in range(depth):
            call = ("Neg", "") if i + 1 == depth else (f"f{i + 1}", "local")
            made = Message().text(1, f"f{i}").text(4, "a").text(5, "b").text(10, "local")
            made.nested(7, node(call[0], ["a"], ["m"], domain=call[1])).nested(7, node(call[0], ["m"], ["b"], domain=call[1]))
            made.nested(9, Message().text(1, "local").integer(2, 1)).nested(9, Message().text(1, "").integer(2, 18))
            functions.append(made)
        graph = graph_of([node("f0", ["x"], ["y"], domain="local")], [x], [y])
    elif kind == 3:
        inner = graph_of([node("Neg", ["x"], ["r"])], [], [value("r", [2])])
        for _ in range(case.pick(3, 30, 95, 200)):
            inner = graph_of([node("If", ["c"], ["r"], attributes=[subgraph("then_branch", inner), subgraph("else_branch", graph_of(
                [node("Neg", ["x"], ["r"])], [], [value("r", [2])]))])], [], [value("r", [2])])
        graph = graph_of([node("If", ["c"], ["y"], attributes=[subgraph("then_branch", inner), subgraph("else_branch", inner)])],
                         [x, value("c", [], 9)], [y])
    elif kind == 4:
        chain = case.pick(2000, 20000)
        graph = graph_of([node("Neg", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(chain)], [x], [value(f"v{chain}", [2])])
        return ["lint", case.file("model.onnx", onnx(graph))]
    elif kind == 5:
        data = b"\x0a\x00"
        for _ in range(case.pick(50, 99, 101, 5000)):
            data = b"\x3a" + mutations.varint(len(data)) + data
        return [*case.report(case.file("model.onnx", data))]
    else:
        first, second = case.input / "a.json", case.input / "b.json"
        first.write_text(json.dumps({"name": "a", "extends": case.pick("a", str(second), "b.json", "../input/b.json")}))
        second.write_text(json.dumps({"name": "b", "extends": str(first)}))
        return [*CHECK, model_of(case), "--policy", first]
    return case.report(case.file("model.onnx", onnx(graph, functions)))


def model_of(case):
    return str(mutants.INPUTS / "onnx" / "small-cnn.onnx")


def traversal(case):
    """External data whose path leaves the model's directory."""
    secret = case.input / "secret"
    secret.write_bytes(bytes(64))
    model = case.input / "model"
    model.mkdir()
    place = case.pick("../secret", str(secret), "/etc/passwd", "./../secret", "a/../../secret", "..\\secret", "link", "folder/link", "link/secret",
                      "hard", "pipe", "folder", "", ".", "..", "/", "//", "/dev/zero", "/proc/self/environ", "data\0/../secret", "a" * 5000,
                      "a/" * 3000, "~/secret", "$HOME/secret", "file:///etc/passwd", "C:\\secret", case.name())
    (model / "link").symlink_to(case.pick(secret, model.parent, "link", "/etc/passwd", "/dev/zero"))
    (model / "folder").mkdir()
    (model / "folder" / "link").symlink_to(secret)
    os.link(secret, model / "hard")
    os.mkfifo(model / "pipe")
    external = {"location": place, "offset": case.pick("0", "0", "-1", str(2**63), "x"), "length": case.pick("64", "64", "-64", str(2**63), "")}
    graph = graph_of([node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", [4])], [tensor("w", [4, 4], external=external)])
    return case.report(case.file("model/model.onnx", onnx(graph)))


def links(case):
    """File names that are links, directories, pipes, devices or missing."""
    real = case.file("real.onnx", (mutants.INPUTS / "onnx" / "small-cnn.onnx").read_bytes())
    goal = case.pick(real, case.input, "loop.onnx", "/dev/zero", "/dev/null", "/proc/self/mem", "nothing", "/dev/stdin", "pipe")
    suffix = case.pick(".onnx", ".mlir", ".mpcx", ".npz", ".json")
    (case.input / "loop.onnx").symlink_to("loop.onnx")
    os.mkfifo(case.input / "pipe")
    path = case.input / f"link{suffix}"
    path.symlink_to(goal)
    outside = case.input / "outside"
    outside.write_text("outside")
    for name in ("out.npz", "model.mpcx", "page.html", "policy.json"):
        (case.output / name).symlink_to(outside)
    model = str(real)
    if suffix == ".json":
        return [*CHECK, model, "--policy", path]
    if suffix == ".npz":
        return [*CHECK, model, "--input", path]
    if suffix == ".mpcx":
        return ["run", path]
    if goal == real and suffix == ".onnx":
        return case.pick(["compile", path, "--target", "cpu:avx2", "-o", case.output / "model.mpcx"],
                         ["run", path, "--output", case.output / "out.npz"], ["explain", path, "--html", case.output / "page.html"],
                         ["check", path, "--dump-dir", case.output / "dump"])
    return case.report(path)


def sparse(case):
    """Files with a declared or sparse size beyond the machine's memory."""
    size = case.pick(2**30, 2**31 - 1, 2**31, 2**33, 2**36, 200 << 30)
    kind = case.pick("external", "onnx", "mlir", "npy", "npz", "mpcx", "json", "safetensors")

    def hole(name, head=b""):
        path = case.file(name, head)
        os.truncate(path, size)
        return path

    limit = case.pick([], ["--max-memory", "1G"])
    if kind == "external":
        hole("data")
        dims = case.pick([4], [size // 4], [2**16, size // 2**18])
        graph = graph_of([node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", dims)],
                         [tensor("w", dims, external={"location": "data", "offset": 0, "length": 4 * dims[0] * (dims[1] if dims[1:] else 1)})])
        return [*case.pick(CHECK, ["run"], ["bench", "--runs", "1"]), case.file("model.onnx", onnx(graph)), *limit]
    if kind in ("onnx", "mlir"):
        head = (mutants.INPUTS / "onnx" / "small-cnn.onnx").read_bytes() if kind == "onnx" else b"module {}\n" * case.pick(1, 10000)
        return [*case.pick(CHECK, ["run"], ["bench", "--runs", "1"]), hole(f"model.{kind}", head), *limit]
    if kind in ("npy", "npz"):
        head = mutants.array((case.pick(size // 4, 128), 1, 8, 8), b"") if kind == "npy" else (case.state / "image.npy").read_bytes()
        path = hole(f"data.{kind}", head)
        return [*CHECK, model_of(case), "--input", f"image={path}" if kind == "npy" else path, *limit]
    if kind == "mpcx":
        return ["run", hole("model.mpcx", (case.state / "model.mpcx").read_bytes())]
    if kind == "json":
        return [*CHECK, model_of(case), "--policy", hole("policy.json", b'{"name": "a", ')]
    checkpoints = case.output / "checkpoints"
    checkpoints.mkdir()
    header = case.pick(b'{"a": 1}', json.dumps({"a": {"dtype": "U8", "shape": [size - 256], "data_offsets": [0, size - 256]}}).encode().ljust(248))
    hole("step", struct.pack("<Q", case.pick(size - 8, len(header))) + header).rename(checkpoints / "step-000000000002.safetensors")
    return train(case, checkpoints)


# ===----------------------------------------------------------------------=== #
# Data
# ===----------------------------------------------------------------------=== #


def train(case, checkpoints):
    return ["train", model_of(case), "--batch", "16", "--quiet", "--device", "cpu", "--threads", "1", "--data", case.state / "data",
            "--steps", "3", "--checkpoint", checkpoints, "--resume"]


class Payload:
    def __reduce__(self):
        return os.system, ("touch owned",)


def pickles(case):
    """Pickled objects in place of arrays."""
    payload = pickle.dumps(Payload(), protocol=case.pick(0, 2, 4))
    array = mutants.array((1,), payload, case.pick("|O", "O", "|O8", "<O4", "object", "|V8", "|S4294967295", "[('a', 'O')]", "<f4', (2,)"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", case.pick(zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)) as archive:
        archive.writestr(case.pick("image.npy", "image", "archive/data.pkl", "data.pkl"), case.pick(array, payload))
        archive.writestr("archive/version", "3\n")
    suffix, data = case.pick((".npy", array), (".npy", payload), (".npz", packed.getvalue()), (".npz", payload), (".npz", array),
                             (".onnx", payload), (".mlir", payload), (".mpcx", packed.getvalue()), (".json", payload), (".onnx", packed.getvalue()))
    path = case.file(f"data{suffix}", data)
    if suffix == ".npy":
        return [*CHECK, model_of(case), "--input", f"image={path}"]
    if suffix == ".npz":
        return case.pick([*CHECK, model_of(case), "--input", path], [*CHECK, model_of(case), "--expected", path])
    if suffix == ".json":
        return [*CHECK, model_of(case), "--policy", path]
    return ["run", path] if suffix == ".mpcx" else case.report(path)


def archives(case):
    """Malformed zip files: zip bombs, wrong headers, path traversal."""
    array = (case.state / "image.npy").read_bytes()
    packed, kind = io.BytesIO(), case.number % 6
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        if kind == 0:
            count = case.pick(2**20, 2**23, 2**25)
            archive.writestr("image.npy", mutants.array((count,), bytes(4 * count)))
        elif kind == 1:
            for name in ("../image.npy", "/image.npy", "../../owned.npy", "image.npy/", "a\\..\\image.npy", "image.npy", case.name() or "x"):
                archive.writestr(zipfile.ZipInfo(name.replace("\0", "0").encode("utf-8", "replace").decode()), array)
        elif kind == 2:
            for i in range(case.pick(300, 2000, 66000 if case.number % 60 == 2 else 3000)):
                archive.writestr(f"{i}.npy", b"")
        elif kind == 3:
            for _ in range(3):
                archive.writestr("image.npy", array)
        else:
            archive.writestr("image.npy", array)
    data = bytearray(packed.getvalue())
    if kind == 4:
        # Sizes, checksums, methods and flags of the central directory and of the local header.
        for sign, start, fields in ((b"PK\1\2", 8, (2, 2, 4, 4, 4, 4, 2, 2, 2, 2, 2, 4, 4)), (b"PK\3\4", 6, (2, 2, 4, 4, 4, 4, 2, 2))):
            at = data.find(sign)
            for size in fields:
                if at >= 0 and case.random.random() < 0.3:
                    number = case.random.choice(mutations.NUMBERS) % 256**size
                    data[at + start:at + start + size] = number.to_bytes(size, "little")
                start += size
    elif kind == 5:
        data = mutations.mutate("arrays", bytes(data), case.random)
    path = case.file("data.npz", data)
    return [*CHECK, model_of(case), case.pick("--input", "--expected"), path]


def safetensors(case):
    """Checkpoints with an inconsistent header or wrong offsets."""
    source = (case.state / "checkpoint").read_bytes()
    size = int.from_bytes(source[:8], "little")
    header = json.loads(source[8:8 + size])
    key = case.random.choice([key for key in header if key != "__metadata__"])
    kind = case.number % 7
    if kind == 0:
        header[key]["data_offsets"] = [case.random.choice(LARGE), case.random.choice(LARGE)]
    elif kind == 1:
        header[key]["shape"] = [case.random.choice(LARGE) for _ in range(case.pick(1, 2, 4, 1000))]
    elif kind == 2:
        header = {name: {**entry, "data_offsets": [0, 4]} if name != "__metadata__" else entry for name, entry in header.items()}
    elif kind == 3:
        header[case.name()] = header.pop(key)
    elif kind == 4:
        for name in header["__metadata__"]:
            if case.random.random() < 0.3:
                header["__metadata__"][name] = case.pick(case.name(), "[" * 100000, str(2**70), json.dumps([case.name()]), "-1", "{}")
    elif kind == 5:
        header[key]["dtype"] = case.pick("F8_E4M3", "Q4", "", case.name(), None, 3, "F64")
    text = json.dumps(header).encode("utf-8", "replace")
    if kind == 6:
        text = case.pick(b"{" * 100000, b"[" * 100000, b'{"a":' * 50000 + b"1" + b"}" * 50000, b"\xff" * 64, b"", b"null",
                         b'{"__metadata__":{"format":"pt"},"__metadata__":{}}')
    text += b" " * (-len(text) % 8)
    length = len(text) if case.random.random() < 0.8 else case.random.choice(mutations.NUMBERS) % 2**64
    data = length.to_bytes(8, "little") + text + source[8 + size:]
    found = re.search(rb'"sha256": *"([0-9a-f]{64})"', data)
    if found:
        data = data[:found.start(1)] + b"0" * 64 + data[found.end(1):]
        data = data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)
    checkpoints = case.output / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "step-000000000002.safetensors").write_bytes(data)
    return train(case, checkpoints)


def executables(case):
    """Compiled files with a corrupt table and a valid digest, which are never executed."""
    data = bytearray((case.state / "model.mpcx").read_bytes())
    table = int.from_bytes(data[24:32], "little")
    for _ in range(case.pick(1, 1, 2, 4, 32)):
        at, width = 64 + case.random.randrange(table), case.pick(1, 2, 4, 8)
        data[at:at + width] = (case.random.choice(mutations.NUMBERS) % 256**width).to_bytes(width, "little")
    if case.random.random() < 0.2:
        data[24:32] = (case.random.choice(mutations.NUMBERS) % 2**64).to_bytes(8, "little")
    if case.random.random() < 0.1:
        data = data[:case.random.randrange(len(data))]
        data[16:24] = len(data).to_bytes(8, "little")
    data[32:64] = bytes(32)
    data[32:64] = hashlib.sha256(data).digest()
    # Without its input it is rejected before execution.
    return ["run", case.file("model.mpcx", data), *case.pick([], ["--json"])]


def caches(case):
    """Corrupt caches and caches writable by other users: nothing of them may be executed or followed."""
    cache, kept = case.input.parent / "cache", case.input / "kept"
    shutil.copytree(case.state / "cache", cache)
    entry = next((cache / "compiles").iterdir())
    place, kind = case.pick(cache, cache / "compiles", entry), case.number % 7
    if kind in (0, 1):
        data, size = bytearray(entry.read_bytes()), case.pick(1, 8)
        for _ in range(case.pick(1, 3)):
            at = case.random.randrange(case.pick(64, len(data)) - size)
            data[at:at + size] = (case.random.choice(mutations.NUMBERS) % 256**size).to_bytes(size, "little")
        entry.write_bytes(data)
    elif kind == 2:
        os.truncate(entry, case.pick(0, 63, 64, entry.stat().st_size // 2, 2**31, 2**36, 2**40))
    elif kind == 3:
        place.rename(kept)
        place.symlink_to(case.pick(kept, kept, "nothing", "/dev/zero", "/"))
    elif kind == 4:
        place.rename(kept)
        case.pick(os.mkfifo, os.mkdir, pathlib.Path.touch)(place)
    elif kind == 5 or os.geteuid() != 0:
        place.chmod(case.pick(0o666, 0o777, 0o770, 0o000, 0o1777))
    else:
        os.chown(place, case.pick(1, 65534), -1)
    return ["bench", model_of(case), "--runs", "1", "--device", "cpu", "--threads", "1", *case.pick([], ["--json"], ["--verify-files"])]


def policies(case):
    """Policies with deep nesting, repetition, catastrophic regular expressions or unknown names."""
    kind = case.number % 5
    if kind == 0:
        depth = case.pick(100, 1000, 100000)
        text = '{"name": "a", "x": ' + case.pick("[", '{"a":') * depth
    elif kind == 1:
        pattern = case.pick("(a+)+$", "(" * 2000, "a{1000}{1000}", "(.*)*" * 50, "[\ud800]", "\\", case.name(), "(?:" * 300 + ")" * 300, "x" * 10**6)
        text = json.dumps({"name": "a", "extends": "mixed_bfloat16", "layers": [{"match": pattern, "policy": "float32"}],
                           "overrides": {f"layer:{pattern}": "float32"}})
        if case.random.random() < 0.5:
            text = json.dumps({"name": "a", "extends": "mixed_bfloat16", "overrides": {f"layer:{pattern}": "float32"}})
    elif kind == 2:
        text = json.dumps({"name": case.name(), "extends": case.pick("float32", "mixed_float16", case.name()), "description": case.name(),
                           case.name(): case.name(), "overrides": {case.pick("op:", "name:", "layer:", "") + case.name(): "float32"}})
    elif kind == 3:
        return [*CHECK, model_of(case), "--policy",
                case.file("policy.json", mutations.mutate("policy", case.random.choice(case.state.policies), case.random))]
    else:
        text = json.dumps({"name": "a", "extends": "mixed_bfloat16", case.pick("ranges", "moments", "weights", "cache", "layers", "overrides", "low"):
                           case.pick([], {}, [[]], 1e308, -1, "x" * 10**6, {case.name(): case.random.choice(LARGE) for _ in range(3)}, [None] * 10**5)})
    return [*CHECK, model_of(case), "--policy", case.file("policy.json", text.encode("utf-8", "replace"))]


# ===----------------------------------------------------------------------=== #
# Text
# ===----------------------------------------------------------------------=== #


def quoted(text):
    return '"' + "".join(c if c.isalnum() and c.isascii() else "".join(f"\\{b:02X}" for b in text_of(c)) for c in text) + '"'


def text(case):
    """mpc text: nesting, sizes, names, and ops that are invalid in a model."""
    kind = case.number % 6
    extent = case.pick(4, 4, 4, abs(case.random.choice(LARGE)))
    shape, body, more, location = f"tensor<{extent}xf32>", "", "", ""
    result = "%0"
    if kind == 0:
        depth = case.pick(50, 300, 20000)
        location = " loc(" + "fused[" * depth + '"a"' + "]" * depth + ")"
    elif kind == 1:
        name = case.name()
        body = (f"  %1 = mpc.fusion kind(elementwise) name({quoted(name)}) (%a = %x : {shape}) -> {shape} {{\n    %r = mpc.relu %a : {shape}\n"
                f"    mpc.yield %r : {shape}\n  }}\n")
        result = "%1"
    elif kind == 2:
        attribute = case.pick("mpc.kernel_kind = #mpc<fusion_kind elementwise>", "mpc.kernel_kind", "llvm.emit_c_interface", f"mpc.layer = {quoted(case.name())}")
        more = f"func.func private @{quoted(case.name() or 'f')}(%x: {shape}) -> {shape} attributes {{{attribute}}} {{ return %x : {shape} }}\n"
    elif kind == 3:
        body = f"  %1 = mpc.constant {case.pick('dense<0.5>', 'dense_resource<blob>', 'dense<[1.0, 2.0]>', 'sparse<[[0]], [1.0]>')} : {shape}\n"
    elif kind == 4:
        body = case.pick("  %1 = arith.constant 1 : i32\n", f"  func.call @main(%x) : ({shape}) -> {shape}\n", "  llvm.inline_asm \"nop\" : () -> ()\n",
                         "  %1 = \"mpc.relu\"(%1) : (tensor<4xf32>) -> tensor<4xf32>\n", "  scf.while : () -> () { scf.condition } do { scf.yield }\n")
    name = quoted(case.name())
    model = (f"{more}func.func @main(%x: {shape} {{mpc.role = #mpc.role<input>, mpc.name = {name}}}) -> ({shape} {{mpc.role = #mpc.role<output>, "
             f"mpc.name = {quoted(case.name())}}}) {{\n  %0 = mpc.relu %x : {shape} loc({quoted(case.name())}){location if kind == 0 else ''}\n{body}"
             f"  return {result} : {shape}\n}}\n")
    if kind == 5:
        model = case.random.choice(case.state.texts).decode(errors="replace")
        for number in case.random.sample(re.findall(r"\d+", model) or ["0"], 1):
            model = model.replace(number, str(case.random.choice(LARGE)), case.pick(1, 1000))
    if kind == 0:
        model = model.replace(") loc(", ") //", 0)
    return [*case.report(case.file("model.mlir", model.encode("utf-8", "replace"))), *case.pick([], ["--policy", "mixed_bfloat16"])]


def stablehlo(case):
    """StableHLO: infinite loops, sizes, and corrupted JAX modules."""
    kind = case.number % 3
    if kind == 0:
        huge = abs(case.random.choice(LARGE))
        model = case.random.choice(case.state.modules).decode(errors="replace")
        found = re.findall(r"\d+", model) or ["0"]
        model = model.replace(case.random.choice(found), str(huge), case.pick(1, 1000)).encode()
    elif kind == 1:
        stop = case.pick("%c = stablehlo.constant dense<true> : tensor<i1>", "%c = stablehlo.compare LT, %i, %i : (tensor<i64>, tensor<i64>) -> tensor<i1>",
                         f"%b = stablehlo.constant dense<{case.pick(10, 10**6, 10**12)}> : tensor<i64>\n %c = stablehlo.compare LT, %i, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>")
        step = case.pick("%n = stablehlo.add %i, %i : tensor<i64>", "%n = stablehlo.subtract %i, %i : tensor<i64>",
                         "%o = stablehlo.constant dense<1> : tensor<i64>\n %n = stablehlo.add %i, %o : tensor<i64>")
        model = ("func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {\n %z = stablehlo.constant dense<0> : tensor<i64>\n"
                 " %r:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i64>, tensor<4xf32>\n cond {\n " + stop + "\n stablehlo.return %c : tensor<i1>\n } do {\n "
                 + step + "\n %m = stablehlo.add %a, %a : tensor<4xf32>\n stablehlo.return %n, %m : tensor<i64>, tensor<4xf32>\n }\n return %r#1 : tensor<4xf32>\n}\n").encode()
    else:
        model = mutations.mutate("stablehlo", case.random.choice(case.state.modules), case.random)
    words = case.report(case.file("model.mlir", model))
    # A number that became an extent makes a valid model, whose run takes as long as its arithmetic does.
    return [*words, "--max-memory", "256M"] if kind == 0 and words[0] in ("check", "bench") else words


KINDS = {each.__name__: each for each in (names, sizes, cycles, traversal, links, sparse, pickles, archives, safetensors, executables, caches,
                                          policies, text, stablehlo)}

# ===----------------------------------------------------------------------=== #
# Judgement
# ===----------------------------------------------------------------------=== #


def tree_of(folder):
    """Modes, sizes and times of all files in a directory."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        found[str(path.relative_to(folder))] = (facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_nlink)
    return found


def judge(code, seconds, memory, said):
    """What is wrong with an outcome; empty if nothing is."""
    if code not in (0, 1, 2, 4):
        return f"exit {code}"
    if seconds > SECONDS:
        return f"{seconds:.1f} s"
    if memory > BYTES:
        return f"{memory >> 20} MiB"
    if code in (1, 2) and b"error" not in said:
        return "refused in silence"
    try:
        words = said.decode()
    except UnicodeDecodeError:
        return "prints what is no UTF-8"
    hidden = {c for c in words if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
    return f"prints {sorted(hidden)[:3]}" if hidden else ""


def run_case(task):
    """Runs one case: (kind, number, exit code, seconds, bytes, failure, output)."""
    kind, number, mpc, state, failures = task
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = pathlib.Path(name)
        case = Case(kind, number, folder, state)
        words = [str(word).replace("\0", "") for word in KINDS[kind](case)]
        words = [word.encode("utf-8", "replace").decode() for word in words]
        home, temporary = folder / "home", folder / "temporary"
        for made in (home, temporary):
            made.mkdir()
        before = tree_of(case.input)
        environment = {**os.environ, "HOME": str(home), "TMPDIR": str(temporary), "MPC_CACHE_DIR": str(folder / "cache")}
        output = folder / "said"
        # In the output directory, for relative names.
        previous = subprocess.list2cmdline(words)
        code, seconds, memory = mutants.run_limited([str(mpc), *words], output, environment, cwd=case.output, seconds=SECONDS)
        said = output.read_bytes()
        wrong = judge(code, seconds, memory, said)
        if not wrong and tree_of(case.input) != before:
            wrong = "wrote to its input"
        if not wrong and any(home.iterdir()):
            wrong = "wrote to the home folder"
        if not wrong and any(temporary.iterdir()):
            wrong = "left temporary files"
        extra = {path.name for path in folder.iterdir()} - {"input", "output", "home", "temporary", "cache", "said"}
        if not wrong and (extra or any(folder.rglob("owned")) or pathlib.Path("/owned").exists()):
            wrong = f"wrote elsewhere: {extra or 'owned'}"
        if wrong and failures:
            failures.mkdir(parents=True, exist_ok=True)
            (failures / f"{kind}-{number}.txt").write_bytes(f"{wrong}: mpc {previous}\n".encode() + said[-4000:])
            for path in case.input.iterdir():
                if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20:
                    (failures / f"{kind}-{number}-{path.name}").write_bytes(path.read_bytes())
    return kind, number, code, seconds, memory, wrong, said[-300:].decode(errors="replace")


class State(type(pathlib.Path())):
    """The state directory that cases are made from, and its texts."""


def prepare(folder, mpc):
    sources = mutants.make_sources(folder, mpc)
    state = State(folder)
    state.texts = [data for data, _ in sources["text"]]
    state.modules = [data for data, _ in sources["stablehlo"]]
    state.policies = [data for data, _ in sources["policy"]]
    (folder / "checkpoint").write_bytes(sources["safetensors"][0][0])
    subprocess.run([mpc, "bench", model_of(None), "--runs", "1", "--device", "cpu"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "MPC_CACHE_DIR": str(folder / "cache")})
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--count", type=int, default=3000, help="cases of all kinds together")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case of each kind")
    parser.add_argument("--mpc", type=pathlib.Path, default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--failures", type=pathlib.Path, help="folder that receives the cases that failed")
    arguments = parser.parse_args()
    arguments.mpc = arguments.mpc.resolve()
    unknown = set(arguments.kinds) - set(KINDS)
    if unknown:
        sys.exit(f"no such kind: {', '.join(sorted(unknown))}")
    kinds, failed, began = arguments.kinds or list(KINDS), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        state = prepare(pathlib.Path(folder), arguments.mpc)
        for place, kind in enumerate(kinds):
            # The remainder goes to the first kinds.
            count = arguments.count // len(kinds) + (place < arguments.count % len(kinds))
            tasks = [(kind, number, arguments.mpc, state, arguments.failures) for number in range(arguments.seed, arguments.seed + count)]
            codes, longest, largest = collections.Counter(), 0.0, 0
            for _, number, code, seconds, memory, wrong, said in pool.map(run_case, tasks):
                codes[code] += 1
                longest, largest = max(longest, seconds), max(largest, memory)
                if wrong:
                    failed += 1
                    print(f"{kind} {number}: {wrong}: {said.strip()[-200:]!r}", flush=True)
            print(f"{kind}: {count} cases, {codes[1] + codes[2]} refused, {codes[0]} done, at most {longest:.1f} s and {largest >> 20} MiB", flush=True)
    print(f"{failed} failures in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
