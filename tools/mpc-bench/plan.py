#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares step times predicted by `mpc plan --network host` with `mpc train`, on 1, 2 and 4 ranks.

  tools/mpc-bench/plan.py [--ranks 1,2,4] [--models cnn,transformer] [--rounds N] [--steps N]
  tools/mpc-bench/plan.py --write FOLDER     # resnet50.onnx and bert.onnx, of docs/HowTo/Scaling.md

Models and data are those of ranks.py: one thread per rank. Communication times are
measured by MPI, once. Needs torch and onnx, mpirun and mpc."""

import argparse
import json
import os
import pathlib
import statistics
import tempfile

import ranks


def plan(arguments, model, precision, count, batch):
    command = [arguments.mpc, "plan", model, "--batch", batch, "--policy", precision, "--optimizer",
               "sgd,momentum=0.9", "--threads", "1", "--network", "host", "--ranks", count, "--json", "--quiet"]
    if count > 1:  # communication time
        ranks.run(["mpirun", "--oversubscribe", "-n", count, *command])
    return json.loads(ranks.run(command))["plans"][0]["step_ms"]


def write(folder):
    """ResNet-50, and a BERT-base encoder with its word embedding."""
    import torch
    from torch import nn
    import workloads

    class Bert(nn.Module):
        def __init__(self, words=30522, width=768):
            super().__init__()
            self.table, self.position = nn.Embedding(words, width), nn.Parameter(torch.zeros(128, width))
            self.layers = nn.ModuleList([
                nn.TransformerEncoderLayer(width, 12, 4 * width, dropout=0.0, batch_first=True) for _ in range(12)])
            self.head = nn.Linear(width, words)

        def forward(self, x):
            x = self.table(x) + self.position
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    resnet, images, _ = workloads.modules()["resnet"](batch=2, size=224)
    folder.mkdir(parents=True, exist_ok=True)
    for name, module, inputs in (("resnet50", resnet, images),
                                 ("bert", Bert(), [torch.zeros(2, 128, dtype=torch.int64)])):
        torch.onnx.export(module.train(name == "resnet50"), tuple(inputs), folder / f"{name}.onnx", input_names=["x"],
                          output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True,
                          external_data=False, verbose=False)


def train(arguments, folder, model, precision, count):
    """Milliseconds per step in the last of three intervals; the first ones warm up caches and pages."""
    launcher = ["mpirun", "--oversubscribe", "-n", count] if count > 1 else []
    out = ranks.run([*launcher, arguments.mpc, "train", folder / f"{model}.onnx", "--data", folder / f"{model}.npz",
                     "--batch", ranks.BATCH[model], "--policy", precision, "--optimizer", "sgd,momentum=0.9", "--lr",
                     "0.01", "--threads", "1", "--steps", 3 * arguments.steps, "--epochs", 1000, "--log-every",
                     arguments.steps, "--normalize", "none", "--json", "--quiet"])
    speeds = [document["samples_per_second"] for document in map(json.loads, out.splitlines())
              if "samples_per_second" in document and not document.get("final")]
    return 1e3 * ranks.BATCH[model] / speeds[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpc", default=os.environ.get("MPC", "mpc"))
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--models", default="cnn,transformer")
    parser.add_argument("--precisions", default="float32")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the models for further calls")
    parser.add_argument("--write", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.write:
        return write(arguments.write)
    counts = [int(count) for count in arguments.ranks.split(",")]
    print("| ms per step | ranks | planned | measured | planned / measured |\n|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or pathlib.Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for model in arguments.models.split(","):
            if not (folder / f"{model}.onnx").exists():
                ranks.export(folder, model)
            for precision in arguments.precisions.split(","):
                for count in counts:
                    file, batch = folder / f"{model}.onnx", ranks.BATCH[model]
                    planned, measured = [], []
                    for _ in range(arguments.rounds):
                        planned.append(plan(arguments, file, precision, count, batch))
                        measured.append(train(arguments, folder, model, precision, count))
                    expected, took = map(statistics.median, (planned, measured))
                    print(f"| {model}, {precision} | {count} | {expected:.1f} | {took:.1f} | {expected / took:.2f} |",
                          flush=True)


if __name__ == "__main__":
    main()
