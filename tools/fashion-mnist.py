#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains two small classifiers on Fashion-MNIST with mpc under three policies and with PyTorch in
float32, with the same initial weights and order of batches, and compares accuracies and losses.

usage: fashion-mnist.py --mpc build/bin/mpc [--output FOLDER] [--models mlp,cnn] [--seeds 3]
                        [--epochs 3] [--threads N] [--minutes 60] [--systems mixed_bfloat16,mxfp8]

The data are Debian's dataset-fashion-mnist. NumPy, onnx and PyTorch are PyPI's packages of those
names; without PyTorch its rows are omitted. FOLDER stores finished runs, which are not repeated;
no run is started that would exceed the given time. Prints the table of docs/HowTo/Training.md. Exit
code 4 if two mean test accuracies differ by more than half a point and by more than two standard
errors of their difference.
"""
import argparse
import itertools
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from char_gpt_compare import interval  # noqa: E402

POLICIES = ["float32", "mixed_float16", "mixed_bfloat16"]
BATCH, RATE = 128, 1e-3
WIDTHS = [784, 512, 256, 10]


def write_mlp(path):
    """A three-layer perceptron as a framework's exporter writes it; its weights are initialized later."""
    import numpy
    import onnx
    from onnx import helper, numpy_helper
    nodes, tensors, value = [], [], "image"
    for i, (before, after) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        last = after == WIDTHS[-1]
        names = [f"{2 * i}.weight", f"{2 * i}.bias"]
        for name, shape in zip(names, [(after, before), (after,)]):
            tensors.append(numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name))
        out = "logits" if last else f"hidden{i}"
        nodes.append(helper.make_node("Gemm", [value, *names], [out], name=f"fc{i}", transB=1))
        value = out
        if not last:
            nodes.append(helper.make_node("Relu", [value], [value + "_relu"], name=f"relu{i}"))
            value += "_relu"
    shapes = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [BATCH, width])
              for name, width in (("image", WIDTHS[0]), ("logits", WIDTHS[-1]))]
    graph = helper.make_graph(nodes, "mlp", shapes[:1], shapes[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def epoch_order(count, seed, epoch):
    """mpc's order of examples (mpc/Training/Dataset.h)."""
    import numpy as np

    def mix(v):
        v = (v ^ (v >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return v ^ (v >> np.uint64(31))
    step = 0x9e3779b97f4a7c15
    start = mix(np.array([(seed + epoch * step) % 2**64], np.uint64))
    keys = mix(start + np.arange(count, dtype=np.uint64) * np.uint64(step))
    return np.argsort(keys, kind="stable")


def read_idx(path, axes):
    import gzip
    import struct

    import numpy as np
    data = gzip.open(path).read()
    shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def train_by_torch(options):
    """One PyTorch run in a separate process; prints its result as JSON."""
    import numpy as np
    import onnx
    import torch
    import torch.nn.functional as F
    from onnx import numpy_helper
    if options.threads:
        torch.set_num_threads(options.threads)
    weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()).requires_grad_()
               for t in onnx.load(options.torch).graph.initializer
               if t.data_type == onnx.TensorProto.FLOAT and len(t.dims) > 0}
    cnn = "0.conv1.weight" in weights

    def model(x):
        if not cnn:
            for i in (0, 2):
                x = F.relu(F.linear(x, weights[f"{i}.weight"], weights[f"{i}.bias"]))
            return F.linear(x, weights["4.weight"], weights["4.bias"])
        x = F.relu(F.conv2d(x, weights["0.conv1.weight"], weights["0.conv1.bias"]))
        x = F.relu(F.conv2d(x, weights["0.conv2.weight"], weights["0.conv2.bias"]))
        x = F.max_pool2d(x, 2).flatten(1)
        x = F.relu(F.linear(x, weights["0.fc1.weight"], weights["0.fc1.bias"]))
        return F.linear(x, weights["0.fc2.weight"], weights["0.fc2.bias"])

    def load(part):
        images = read_idx(options.data / f"{part}-images-idx3-ubyte.gz", 3)
        shape = (-1, 1, 28, 28) if cnn else (-1, 784)
        return (torch.from_numpy(images.astype(np.float32) / 255).reshape(shape),
                torch.from_numpy(read_idx(options.data / f"{part}-labels-idx1-ubyte.gz", 1).astype(np.int64)))
    (x, y), (test_x, test_y) = load("train"), load("t10k")
    optimizer = torch.optim.Adam(weights.values(), RATE)
    per_epoch = len(x) // BATCH
    total = per_epoch * options.epochs
    start, step = time.monotonic(), 0
    for epoch in range(options.epochs):
        losses = []
        order = torch.from_numpy(epoch_order(len(x), options.seed, epoch))
        for pick in order[:per_epoch * BATCH].split(BATCH):
            optimizer.param_groups[0]["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * step / total))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[pick]), y[pick])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
    seconds = time.monotonic() - start
    with torch.no_grad():
        hits = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(test_x.split(500), test_y.split(500)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"test_accuracy": hits / len(test_y), "train_loss": statistics.mean(losses), "seconds": seconds, "peak_rss_bytes": peak,
                      "skipped_steps": 0}))


def last_document(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_one(options, model, system, seed):
    """One run, or the stored result of an earlier call."""
    kept = options.output / f"{model}-{system}-{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    drawn = options.output / f"{model}-{seed}.onnx"
    source = options.output / "mlp.onnx" if model == "mlp" else ROOT / "test/Inputs/mnist-cnn/model.onnx"
    train = [options.mpc, "train", "--data", options.data, "--batch", BATCH, "--quiet", "--json",
             "--seed", seed, *(["--threads", options.threads] if options.threads else [])]
    if not drawn.exists():
        if model == "mlp" and not source.exists():
            write_mlp(source)
        # A learning rate of zero leaves the initial weights unchanged.
        last_document([*map(str, train), source, "--init", str(seed), "--lr", "0", "--steps", "1",
                       "--export", drawn])
    if system == "torch":
        result = last_document([sys.executable, __file__, "--torch", drawn, "--seed", str(seed), "--epochs",
                                str(options.epochs), "--threads", str(options.threads), "--data", options.data])
    else:
        result = last_document([*map(str, train), drawn, "--policy", system, "--epochs", str(options.epochs),
                                "--lr", str(RATE), "--schedule", "cosine"])
    kept.write_text(json.dumps(result))
    return result


def report(model, results):
    """Prints the table of one model; returns the pairs of systems whose mean accuracies differ significantly."""
    rows, apart = [], []
    base = next(iter(results))
    print(f"\n{model}\n\n| system | test accuracy | loss of the last epoch | from {base}, % | 95 % interval, % | seconds "
          "| peak memory | skipped steps |\n|---|---|--:|--:|--:|--:|--:|--:|")
    for system, runs in results.items():
        accuracies, losses = [100 * run["test_accuracy"] for run in runs], [run["train_loss"] for run in runs]
        spread = statistics.stdev(accuracies) if len(runs) > 1 else 0.0
        rows.append((system, statistics.mean(accuracies), spread, len(runs)))
        away = [loss - run["train_loss"] for loss, run in zip(losses, results[base])]
        paired = f"{100 * statistics.mean(away) / statistics.mean(losses):+.2f} | {interval(away, losses)}"
        print(f"| {system} | {rows[-1][1]:.2f} ± {spread:.2f} % | {statistics.mean(losses):.4f} | "
              f"{'- | -' if system == base else paired} | {statistics.mean(run['seconds'] for run in runs):.0f} | "
              f"{max(run['peak_rss_bytes'] for run in runs) / 1e6:.0f} MB | "
              f"{sum(run['skipped_steps'] for run in runs)} |")
    for a, b in itertools.combinations(rows, 2):
        error = math.sqrt(a[2] ** 2 / a[3] + b[2] ** 2 / b[3])
        difference = abs(a[1] - b[1])
        if difference > max(0.5, 2 * error):
            apart.append(f"{model}: {a[0]} and {b[0]} differ by {difference:.2f} points, two standard errors "
                         f"are {2 * error:.2f}")
    return apart


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpc", type=pathlib.Path, default=ROOT / "build/bin/mpc")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("fashion-mnist-runs"))
    parser.add_argument("--models", default="mlp,cnn")
    parser.add_argument("--systems", default=",".join([*POLICIES, "torch"]))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--torch", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        return train_by_torch(options)
    options.output.mkdir(parents=True, exist_ok=True)
    systems = options.systems.split(",")
    if "torch" in systems and subprocess.run([sys.executable, "-c", "import torch, onnx"],
                                             stderr=subprocess.DEVNULL).returncode:
        print("PyTorch or onnx is missing; its rows are left out", file=sys.stderr)
        systems.remove("torch")
    end = time.monotonic() + 60 * options.minutes
    apart, longest = [], {}
    results = {model: {system: [] for system in systems} for model in options.models.split(",")}
    for seed in range(1, options.seeds + 1):
        for model, of_model in results.items():
            for system, runs in of_model.items():
                start = time.monotonic()
                if start + longest.get((model, system), 0) > end:
                    sys.exit("the time is over; call again to continue")
                runs.append(run_one(options, model, system, seed))
                took = time.monotonic() - start
                longest[model, system] = max(longest.get((model, system), 0), took)
                print(f"{model} {system} seed {seed}: {100 * runs[-1]['test_accuracy']:.2f} %, "
                      f"{runs[-1]['seconds']:.0f} s", file=sys.stderr, flush=True)
    for model, of_model in results.items():
        apart += report(model, of_model)
    print("\n".join(["", *apart] if apart else ["", "all means agree"]))
    return 4 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
