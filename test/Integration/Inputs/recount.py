# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recounts the figures of `mpc explain --json` in the text of `mpc dump`.

usage: recount.py MODEL [FLAG...]
Prints the counts that both agree on.
"""
import json
import math
import re
import subprocess
import sys

BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i1": 8}


def mpc(*words):
    done = subprocess.run(["mpc", *words, "--quiet"], check=False, capture_output=True)
    if done.returncode:
        sys.exit(f"mpc {' '.join(words)}: {done.stderr.decode()}")
    return done.stdout.decode(errors="replace")


def dump(model, flags, stage):
    return mpc("dump", model, *flags, "--after", stage).splitlines()


def tensor_bytes(text):
    *shape, element = text.split("x")
    return math.prod(int(extent) for extent in shape) * BITS[element.lstrip("u")] // 8


def casts(lines):
    """Bytes in and out of each cast."""
    pattern = re.compile(r"= mpc\.cast .*: tensor<([^>]*)> to tensor<([^>]*)>")
    return [tensor_bytes(m[1]) + tensor_bytes(m[2]) for m in map(pattern.search, lines) if m]


def narrow_constants(lines):
    pattern = re.compile(r"= mpc\.constant .*: tensor<([^>]*)>")
    return sum(m[1].split("x")[-1] in ("f16", "bf16") for m in map(pattern.search, lines) if m)


def functions(lines):
    """The body of each kernel by name."""
    bodies, name = {}, None
    for line in lines:
        match = re.match(r"  func\.func private @(\S+?)\(", line)
        if match:
            name = match[1]
            bodies[name] = []
        elif line.startswith("  }"):
            name = None
        elif name:
            bodies[name].append(line)
    return bodies


def agree(what, explained, counted):
    if explained != counted:
        sys.exit(f"{what}: explain says {explained}, the IR {counted}")
    print(f"{what}: {counted}")


def main():
    model, flags = sys.argv[1], sys.argv[2:]
    report = json.loads(mpc("explain", model, *flags, "--json"))
    simplified, precise = dump(model, flags, "simplify"), dump(model, flags, "precision")
    agree("casts", report["casts"], len(casts(precise)))
    agree("cast_bytes", report["cast_bytes"], sum(casts(precise)))
    agree("constants_precast", report["constants_precast"], narrow_constants(precise) - narrow_constants(simplified))
    agree("constants", len(report["constants"]), sum("mpc.narrowing" in line for line in precise))
    decided = [line for line in precise if "#mpc.decision" in line]
    agree("decisions", sum(op["rule"] is not None for op in report["ops"]), len(decided))
    agree("overrides", sum(op["override"] is not None for op in report["ops"]),
          sum("override = " in line for line in decided))

    planned = dump(model, flags, "plan")
    bodies = functions(planned)
    launches = [m for m in map(re.compile(r"exe\.launch @(\S+) .*flops\((\d+)\) bytes\((\d+)\)").search, planned) if m]
    agree("kernels", [k["name"] for k in report["kernels"]], [m[1] for m in launches])
    agree("flops", sum(k["flops"] for k in report["kernels"]), sum(int(m[2]) for m in launches))
    agree("bytes", sum(k["bytes"] for k in report["kernels"]), sum(int(m[3]) for m in launches))
    inside = [casts(bodies[m[1]]) for m in launches]
    agree("casts of kernels", [k["casts"] for k in report["kernels"]], [len(list_) for list_ in inside])
    agree("casts executed", sorted((c["launch"], c["bytes"]) for c in report["cast_list"]),
          sorted((i, n) for i, list_ in enumerate(inside) for n in list_))
    alone = {m[1] for m in launches
             if all(re.search(r"mpc\.(cast|transpose|reshape|pad|constant)\b|^    return", line)
                    for line in bodies[m[1]] if line.strip())}
    agree("alone", sorted(c["kernel"] for c in report["cast_list"] if c["stands_alone"]),
          sorted(m[1] for m, list_ in zip(launches, inside) if m[1] in alone for _ in list_))


main()
