#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scores the trained MNIST CNN of test/Inputs on real test images under each policy.

usage: quickstart.py [--mpc build/bin/mpc] [--batch 500]
Standard library only: the few .npy fields that it needs are read here.
"""
import argparse
import array
import ast
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASE = ROOT / "test" / "Inputs" / "mnist-cnn"
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def parse_npy(data):
    """(type string, shape, raw bytes) of an .npy file in C order."""
    if data[:6] != b"\x93NUMPY":
        raise ValueError("not an .npy file")
    wide = data[6] > 1
    start = 12 if wide else 10
    size = struct.unpack("<I" if wide else "<H", data[8:start])[0]
    header = ast.literal_eval(data[start:start + size].decode("latin1"))
    if header["fortran_order"]:
        raise ValueError("Fortran order")
    return header["descr"], header["shape"], data[start + size:]


def write_npy(path, code, shape, values):
    header = repr({"descr": code, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values.tobytes())


def read_npz(path):
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): parse_npy(archive.read(name)) for name in archive.namelist()}


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def time_in_turns(mpc, rounds=3):
    """Least median time of each policy on one core in ms: other work disturbs a turn, not all of them."""
    times = {policy: [] for policy in POLICIES}
    for _ in range(rounds):
        for policy, found in times.items():
            found.append(run([mpc, "bench", CASE / "model.onnx", "--policy", policy, "--threads", "1",
                              "--json"])["median_ms"])
    return {policy: min(found) for policy, found in times.items()}


def choice(mpc):
    """The sentence that names the unit for 16 bits, or says that there is none."""
    command = [mpc, "bench", CASE / "model.onnx", "--policy", "auto", "--runs", "1"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    notes = [line.removeprefix("note: ") for line in done.stderr.splitlines() if "--policy auto is" in line]
    return notes[0]


def score(mpc, policy, images, labels, batch, folder):
    """Share of right answers; the images are given in batches."""
    pixels = array.array("f", (byte / 255.0 for byte in range(256)))
    hits = 0
    for first in range(0, len(labels), batch):
        part = images[first * 784:(first + batch) * 784]
        write_npy(folder / "image.npy", "<f4", (len(part) // 784, 1, 28, 28), array.array("f", map(pixels.__getitem__, part)))
        run([mpc, "run", CASE / "model.onnx", "--policy", policy, "--batch", len(part) // 784, "--input",
             f"image={folder / 'image.npy'}", "--output", folder / "out.npz", "--json"])
        code, shape, raw = read_npz(folder / "out.npz")["probabilities"]
        if code != "<f4":
            raise ValueError(f"outputs must be float32, found {code}")
        rows = array.array("f", raw)
        for i, label in enumerate(labels[first:first + batch]):
            row = rows[i * shape[1]:(i + 1) * shape[1]]
            hits += row.index(max(row)) == label
    return hits / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--batch", type=int, default=500)
    args = parser.parse_args()
    meta = json.loads((CASE / "meta.json").read_text())
    testset = read_npz(CASE / "testset.npz")
    images = testset["images"][2]
    code, _, raw = testset["labels"]
    labels = list(array.array({"<i8": "q", "<i4": "i", "|u1": "B"}[code], raw))
    stated = meta["test_accuracy"]["testset_fp32"]
    print(f"mnist-cnn: {meta['parameters']:,} parameters, {len(labels):,} Fashion-MNIST test images; "
          f"accuracy stated by its trainer: {100 * stated:.2f} %")
    print(f"{'policy':16} {'accuracy':>9} {'rms error':>10} {'ms/batch':>9} {'of f32':>7} {'kernels':>8} {'casts':>6}")
    accuracies, times = {}, time_in_turns(args.mpc)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for policy in POLICIES:
            common = [CASE / "model.onnx", "--policy", policy, "--json"]
            check = run([args.mpc, "check", *common, "--inputs", CASE / "inputs.npz"])
            explain = run([args.mpc, "explain", *common])
            accuracies[policy] = score(args.mpc, policy, images, labels, args.batch, folder)
            error = max(output["rms_relative_error"] for output in check["outputs"])
            print(f"{policy:16} {100 * accuracies[policy]:7.2f} % {error:10.1e} {times[policy]:9.3f} "
                  f"{times[policy] / times['float32']:7.2f} {len(explain['kernels']):8d} {explain['casts']:6d}")
            if not check["ok"]:
                sys.exit(f"{policy}: an output breaks its tolerance")
    print(choice(args.mpc))
    spread = [stated, *accuracies.values()]
    if max(spread) - min(spread) > 0.003:
        sys.exit("the accuracies differ by more than 0.3 percentage points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
