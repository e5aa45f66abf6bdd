#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Evaluates the trained MNIST CNN of test/Inputs on the first 1,000 test images of Debian's
dataset-fashion-mnist under each policy, then decodes with a GPT of 110 million random parameters
whose weights are stored in each type.

usage: quickstart.py [--mpc build/bin/mpc] [--batch 500] [--decoder LAYERS,WIDTH,VOCABULARY | none]
Standard library only: the few .npy fields that it needs are read here.
"""
import argparse
import array
import ast
import gzip
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

from gpt import Gpt
from onnx_file import Normal, npy_bytes

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASE = ROOT / "test" / "Inputs" / "mnist-cnn"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
IMAGES = 1000
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
# Storage types of a decoder's weights; narrow ones are converted in the product.
WEIGHTS = ("float32", "bfloat16", "float16", "int8", "int4")
CACHE, TOKENS = 512, 24


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


def read_npz(path):
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): parse_npy(archive.read(name)) for name in archive.namelist()}


def read_idx(name, begin, size):
    """Contents of one of the data set's files after a header of `begin` bytes."""
    try:
        with gzip.open(DATA / name) as file:
            return file.read(begin + size)[begin:]
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} is missing; tools/install-deps.sh installs it")


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def time_in_turns(mpc, rounds=3):
    """Minimum of the medians of each policy on one core in ms: interference affects single turns only."""
    times = {policy: [] for policy in POLICIES}
    for _ in range(rounds):
        for policy, found in times.items():
            found.append(run([mpc, "bench", CASE / "model.onnx", "--policy", policy, "--threads", "1",
                              "--json"])["median_ms"])
    return {policy: min(found) for policy, found in times.items()}


def choice(mpc):
    """A sentence that names the unit for 16 bits, or says that there is none."""
    command = [mpc, "bench", CASE / "model.onnx", "--policy", "auto", "--runs", "1"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    notes = [line.removeprefix("note: ") for line in done.stderr.splitlines() if "--policy auto is" in line]
    return notes[0]


def score(mpc, policy, images, labels, batch, folder):
    """Accuracy; the images are given in batches."""
    pixels = array.array("f", (byte / 255.0 for byte in range(256)))
    hits = 0
    for first in range(0, len(labels), batch):
        part = images[first * 784:(first + batch) * 784]
        (folder / "image.npy").write_bytes(
            npy_bytes("<f4", (len(part) // 784, 1, 28, 28), array.array("f", map(pixels.__getitem__, part))))
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


def write_decoder_inputs(path, gpt, past=7):
    """Inputs of one decoding step with a few cached tokens."""
    size = gpt.width // gpt.heads
    normal = Normal(2)
    arrays = {"input_ids": npy_bytes("<i8", (1, 1), array.array("q", [1])),
              "attention_mask": npy_bytes("<i8", (1, past + 1), array.array("q", [1] * (past + 1))),
              "position_ids": npy_bytes("<i8", (1, 1), array.array("q", [past]))}
    for i in range(gpt.layers):
        for kind in ("key", "value"):
            arrays[f"past_key_values.{i}.{kind}"] = npy_bytes(
                "<f4", (1, gpt.heads, past, size), normal.draw(gpt.heads * past * size, 1.0))
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in arrays.items():
            archive.writestr(name + ".npy", data)
    return ["--dim", "tokens=1", "--dim", f"past={past}", "--dim", f"total={past + 1}"]


def decode(mpc, sizes, folder):
    """The second table: token-by-token decoding on one core, with weights of each type."""
    layers, width, vocabulary = sizes
    gpt = Gpt(vocabulary, 2 * CACHE, layers, width // 64, width)
    model, inputs = folder / "decoder.onnx", folder / "inputs.npz"
    gpt.write_decoder(model, gpt.draw(1))
    dims = write_decoder_inputs(inputs, gpt)
    print(f"\ndecoder: {gpt.parameters():,} drawn parameters, cache of {CACHE} tokens, one core")
    print(f"{'weights':10} {'tokens/s':>9} {'of f32':>7} {'MB/token':>9} {'error':>9}")
    exact = rate = None
    for kind in WEIGHTS:
        policy = folder / f"{kind}.json"
        policy.write_text(json.dumps({"name": f"weights-{kind}", "extends": "float32", "weights": kind}))
        common = [model, "--policy", policy, "--threads", "1", "--json"]
        found = run([mpc, "generate", *common, "--prompt-ids", "1,2,3", "--tokens", TOKENS, "--cache", CACHE])
        run([mpc, "run", *common, *dims, "--input", inputs, "--output", folder / "out.npz"])
        logits = array.array("f", read_npz(folder / "out.npz")["logits"][2])
        exact, rate = exact or logits, rate or found["tokens_per_second"]
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(logits, exact)) / sum(b * b for b in exact))
        print(f"{kind:10} {found['tokens_per_second']:9.1f} {found['tokens_per_second'] / rate:7.2f} "
              f"{found['bytes_per_token'] / 1e6:9.1f} {f'{error:.1e}' if error else '-':>9}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--decoder", default="12,768,32768", metavar="LAYERS,WIDTH,VOCABULARY",
                        help="of the second table (default: %(default)s, 110 M parameters), or none")
    args = parser.parse_args()
    meta = json.loads((CASE / "meta.json").read_text())
    images = read_idx("t10k-images-idx3-ubyte.gz", 16, IMAGES * 784)
    labels = read_idx("t10k-labels-idx1-ubyte.gz", 8, IMAGES)
    stated = meta["test_accuracy"]["float32"]
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
    if args.decoder != "none":
        with tempfile.TemporaryDirectory() as name:
            decode(args.mpc, map(int, args.decoder.split(",")), pathlib.Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
