#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes a Fashion-MNIST classifier within `top1 0.1%` by `mpc tune`, and tests the result on unseen
images.

  tools/mpc-bench/tuning_fashion.py --mpc build/bin/mpc MODEL.onnx --data FOLDER [--objective time]
                                    [--isa avx512bf16] [--budget "top1 0.1%"]

MODEL.onnx has one input of 32 images of 28 x 28 pixels in [0, 1]. FOLDER holds the data set's files
(Debian's dataset-fashion-mnist). Batches of the first 2,000 test images are the samples, half of
them for validation; float32, the built-in policies and the tuned one are tested on the other 8,000.
Prints a Markdown table: accuracies, images classified differently from float32, bytes and the
minimum time of `mpc bench`, policies in turn.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

BATCH, SEEN = 32, 2000
POLICIES = ["float32", "mixed_bfloat16", "mixed_float16"]


def read(path, offset, shape):
    return np.frombuffer(gzip.open(path).read(), np.uint8, offset=offset).reshape(shape)


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--mpc", default="mpc")
    parser.add_argument("--isa", default="avx512bf16")
    parser.add_argument("--objective", default="time")
    parser.add_argument("--budget", default="top1 0.1%")
    parser.add_argument("--input", default="image", help="name of the model's input")
    parser.add_argument("--samples", type=int, default=SEEN // BATCH)
    arguments = parser.parse_args()
    images = read(arguments.data / "t10k-images-idx3-ubyte.gz", 16, (-1, 1, 28, 28))
    labels = read(arguments.data / "t10k-labels-idx1-ubyte.gz", 8, -1)
    images = images.astype(np.float32) / 255
    flags = ["--isa", arguments.isa]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        name = arguments.input
        seen = folder / "seen.npz"
        count = arguments.samples
        np.savez(seen, **{name: images[:count * BATCH].reshape(count, BATCH, 1, 28, 28)})
        tuned = folder / "tuned.json"
        found = json.loads(run([arguments.mpc, "tune", arguments.model, "--inputs", seen, "--stacked",
                                "--budget", arguments.budget, "--objective", arguments.objective,
                                "-o", tuned, "--json", "--quiet", *flags]))
        policies = [*POLICIES, tuned]
        rest, classes = folder / "rest.npz", {}
        np.savez(rest, **{name: images[SEEN:]})
        for policy in policies:
            run([arguments.mpc, "run", arguments.model, "--batch", len(images) - SEEN, "--inputs",
                 rest, "--policy", policy, "--output", folder / "out.npz", "--quiet", *flags])
            classes[policy] = next(iter(np.load(folder / "out.npz").values())).argmax(1)
        batch = folder / "batch.npz"
        np.savez(batch, **{name: images[:BATCH]})
        times = dict.fromkeys(policies, np.inf)
        for _ in range(5):
            for policy in policies:
                report = json.loads(run([arguments.mpc, "bench", arguments.model, "--inputs", batch,
                                         "--policy", policy, "--json", "--quiet", *flags]))
                times[policy] = min(times[policy], report["min_ms"])
        wanted, exact = labels[SEEN:], classes["float32"]
        print("| policy | accuracy | other class than float32 | MB moved | ms |")
        print("|---|--:|--:|--:|--:|")
        for policy in policies:
            report = json.loads(run([arguments.mpc, "explain", arguments.model, "--policy", policy,
                                     "--target", f"cpu:{arguments.isa}", "--json", "--quiet"]))
            moved = sum(kernel["bytes"] for kernel in report["kernels"]) / 1e6
            label = "tuned" if policy == tuned else policy
            print(f"| {label} | {(classes[policy] == wanted).mean():.2%} | "
                  f"{(classes[policy] != exact).mean():.3%} | {moved:.2f} | {times[policy]:.3f} |")
        chosen = found["chosen"]
        print(f"\nErrors {chosen['measured']:.3%} on the samples of the search, "
              f"{chosen['held_back']:.3%} on those held back; {found['seconds']:.0f} s, "
              f"{found['measurements']} compiled choices.")
        policy = json.loads(tuned.read_text())
        print(json.dumps({key: policy[key] for key in ("products", "values")}))


if __name__ == "__main__":
    sys.exit(main())
