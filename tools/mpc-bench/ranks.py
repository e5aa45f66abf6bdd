#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a data-parallel training step of mpc and of PyTorch's DistributedDataParallel on gloo.

  tools/mpc-bench/ranks.py [--ranks N] [--models cnn,transformer] [--rounds N] [--steps N] [--folder FOLDER]

Both train the same model on the same global batch of random data with SGD and momentum, one
thread per rank, in turns, mpc also with a sharded optimizer; a step's time is the median over
rounds of an interval's mean. FOLDER stores the models for later calls. Needs torch and onnx,
mpirun and mpc."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BATCH = {"cnn": 128, "transformer": 16}
SHAPE = {"cnn": (1, 28, 28), "transformer": (64, 256)}
PRECISIONS = {"float32": None, "mixed_bfloat16": "bfloat16"}


def model_of(name):
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([
                nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True) for _ in range(4)])
            self.out = nn.Linear(256, 10)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.out(x.mean(1))

    torch.manual_seed(0)
    if name == "transformer":
        return Encoder()
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def data_of(name, count):
    import numpy as np
    source = np.random.default_rng(0)
    return (source.standard_normal((count, *SHAPE[name])).astype("float32"),
            source.integers(0, 10, count).astype("int32"))


def torch_rank(arguments):
    """One rank of DistributedDataParallel; rank 0 prints seconds per step."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(model_of(arguments.model))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    part = BATCH[arguments.model] // ranks
    x, y = data_of(arguments.model, BATCH[arguments.model])
    x = torch.from_numpy(x)[rank * part:(rank + 1) * part]
    y = torch.from_numpy(y)[rank * part:(rank + 1) * part].long()
    narrow = PRECISIONS[arguments.precision]

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", getattr(torch, narrow or "bfloat16"), enabled=narrow is not None):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(arguments.steps):
        step()
    dist.barrier()
    if rank == 0:
        print(json.dumps((time.perf_counter() - start) / arguments.steps), flush=True)
    dist.destroy_process_group()


def run(command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          env=dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **environment))
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def time_torch(arguments, model, precision):
    out = run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", arguments.ranks, __file__,
               "--rank-of", model, "--precision", precision, "--steps", arguments.steps])
    return float(out.splitlines()[-1])


def time_mpc(arguments, folder, model, precision, shard="none"):
    out = run(["mpirun", "--oversubscribe", "-n", arguments.ranks, arguments.mpc, "train",
               folder / f"{model}.onnx", "--data", folder / f"{model}.npz", "--batch", BATCH[model], "--policy",
               precision, "--optimizer", "sgd,momentum=0.9", "--lr", "0.01", "--threads", "1", "--shard", shard,
               "--steps", 3 + arguments.steps, "--epochs", 1000, "--log-every", 3 + arguments.steps, "--normalize", "none",
               "--json", "--quiet"])
    speeds = [document["samples_per_second"] for document in map(json.loads, out.splitlines())
              if "samples_per_second" in document and not document.get("final")]
    return BATCH[model] / speeds[-1]


def export(folder, model):
    import numpy as np
    import torch
    x, y = data_of(model, BATCH[model] * 64)
    np.savez(folder / f"{model}.npz", x_train=x, y_train=y)
    module = model_of(model).eval()
    torch.onnx.export(module, (torch.from_numpy(x[:2]),), folder / f"{model}.onnx", input_names=["x"],
                      output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True,
                      external_data=False, verbose=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpc", default=os.environ.get("MPC", "mpc"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--models", default="cnn,transformer")
    parser.add_argument("--precisions", default="float32,mixed_bfloat16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--rank-of", dest="model", help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.model:
        return torch_rank(arguments)
    print(f"| {arguments.ranks} ranks, ms per step | DDP on gloo | mpc | ratio | mpc, sharded | ratio |\n"
          "|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or pathlib.Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for model in arguments.models.split(","):
            if not (folder / f"{model}.onnx").exists():
                export(folder, model)
            for precision in arguments.precisions.split(","):
                times = {"torch": [], "none": [], "optimizer": []}
                for _ in range(arguments.rounds):
                    times["torch"].append(time_torch(arguments, model, precision))
                    for shard in ("none", "optimizer"):
                        times[shard].append(time_mpc(arguments, folder, model, precision, shard))
                peer, own, cut = (1e3 * statistics.median(rounds) for rounds in times.values())
                print(f"| {model}, {precision} | {peer:.1f} | {own:.1f} | {own / peer:.2f} | {cut:.1f} | "
                      f"{cut / peer:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
