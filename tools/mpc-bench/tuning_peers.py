#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares `mpc tune` with onnxconverter-common's auto_mixed_precision and ModelOpt's AutoCast.

  tools/mpc-bench/tuning_peers.py --mpc build/bin/mpc MODELS NAME... [--budget 1e-3]

For each model, auto_mixed_precision searches for nodes to convert to float16 within the budget (rms
error relative to float64, of the worst output), as evaluated by ONNX Runtime; AutoCast has no budget.
On a CPU, ONNX Runtime computes float16 in float32 between casts and fuses some of these away, so it
does not show the effect of a model's types; `mpc run` of the peer's model does, as it rounds each
result to its type in the model. That error is the budget of `mpc tune`, with the peers' type
(`--types f16`). One sample is used, as by the peers; the target is one with faster 16-bit products,
interpreted where it cannot run. Reported are
- flops in 16 bits: the fraction of the contractions (MatMul, Gemm, Conv, ConvTranspose) of the ONNX
  model, by name, with float16 or bfloat16 operands; products that mpc fuses into attention have its
  type;
- runs: the number of runs of a model on a sample: ONNX Runtime's runs of a peer, and for mpc tune
  float64 forward and backward runs and runs of compiled candidates.

Needs onnx, onnxruntime, onnxconverter-common and nvidia-modelopt[onnx]. Prints a Markdown table.
"""
import argparse
import contextlib
import io
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

CONTRACTIONS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
NARROW = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def named(model):
    """The model with inferred shapes and a name for each node."""
    for number, node in enumerate(model.graph.node):
        if not node.name:
            node.name = f"node_{number}"
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def types_of(model):
    """Shape and element type by value."""
    found = {}
    graph = model.graph
    for info in [*graph.value_info, *graph.input, *graph.output]:
        tensor = info.type.tensor_type
        found[info.name] = ([d.dim_value for d in tensor.shape.dim], tensor.elem_type)
    for init in graph.initializer:
        found[init.name] = (list(init.dims), init.data_type)
    return found


def flops_of(model):
    """Flops of each float contraction, by name."""
    types, flops = types_of(model), {}
    for node in model.graph.node:
        if node.op_type not in CONTRACTIONS:
            continue
        left, right, out = (types.get(name, ([], 0))[0]
                            for name in (node.input[0], node.input[1], node.output[0]))
        if node.op_type == "Conv":
            terms = math.prod(right[1:])
            flops[node.name] = 2 * math.prod(out) * terms
        elif node.op_type == "ConvTranspose":
            flops[node.name] = 2 * math.prod(left) * math.prod(right[1:])
        else:
            axis = 0 if any(a.name == "transA" and a.i for a in node.attribute) else -1
            flops[node.name] = 2 * math.prod(out) * left[axis]
    return flops


def narrow_in(model):
    """Names of contractions with 16-bit operands."""
    types = types_of(onnx.shape_inference.infer_shapes(model))
    return {node.name for node in model.graph.node if node.op_type in CONTRACTIONS
            and types.get(node.input[0], ([], 0))[1] in NARROW}


class Runs:
    """Counts session runs inside the context."""

    def __enter__(self):
        self.count = 0
        self.original = onnxruntime.InferenceSession.run
        counter = self

        def counted(session, *args, **kwargs):
            counter.count += 1
            return counter.original(session, *args, **kwargs)

        onnxruntime.InferenceSession.run = counted
        return self

    def __exit__(self, *_):
        onnxruntime.InferenceSession.run = self.original


def error_of(outputs, wanted):
    worst = 0.0
    for output, exact in zip(outputs, wanted):
        if exact.dtype.kind != "f":
            continue
        difference = output.astype(np.float64) - exact.astype(np.float64)
        size = np.sqrt(np.mean(np.square(exact.astype(np.float64))))
        error = np.sqrt(np.mean(np.square(difference))) / (size or 1)
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return worst


def run_model(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def typed_error(mpc, model, inputs, wanted, scratch):
    """The error of a model with the compute types of its ops."""
    path, sample, out = (os.path.join(scratch, name)
                         for name in ("narrow.onnx", "typed.npz", "typed_out.npz"))
    onnx.save(model, path)
    np.savez(sample, **inputs)
    subprocess.run([mpc, "run", path, "--inputs", sample, "--output", out, "--isa", "avx2",
                    "--quiet"], check=True, capture_output=True)
    found = np.load(out)
    return error_of([found[output.name] for output in model.graph.output], wanted)


def by_bisection(model, inputs, wanted, budget):
    """(model, runs) of auto_mixed_precision."""
    from onnxconverter_common import auto_mixed_precision

    def keeps(_, outputs):
        return error_of(outputs, wanted) <= budget

    with Runs() as runs:
        narrow = auto_mixed_precision.auto_convert_mixed_precision(
            model, inputs, keeps, keep_io_types=True)
    return narrow, runs.count


def by_autocast(path, inputs, scratch):
    """(model, runs) of AutoCast."""
    from modelopt.onnx.autocast import convert_to_mixed_precision

    data = os.path.join(scratch, "calibration.npz")
    np.savez(data, **inputs)
    with Runs() as runs:
        narrow = convert_to_mixed_precision(path, keep_io_types=True, calibration_data=data)
    return narrow, runs.count


def with_attention(model, products):
    """`products` with the contractions that mpc fuses into an op named after their softmax."""
    nodes, made, read = list(model.graph.node), {}, {}
    for node in nodes:
        made.update((name, node) for name in node.output)
        for name in node.input:
            read.setdefault(name, []).append(node)
    found = dict(products)
    for start in nodes:
        if start.op_type not in CONTRACTIONS or start.name in products:
            continue
        ahead, behind = [start], [start]
        for way, near in ((ahead, lambda node: [n for o in node.output for n in read.get(o, [])]),
                          (behind, lambda node: [made[i] for i in node.input if i in made])):
            while way:
                for node in near(way.pop()):
                    if node.op_type in CONTRACTIONS:
                        continue
                    if node.name in products:
                        found[start.name] = products[node.name]
                    else:
                        way.append(node)
    return found


def by_mpc(mpc, path, inputs, budget, scratch, target):
    """(names of contractions in 16 bits, runs, error) of mpc tune."""
    sample, file = os.path.join(scratch, "sample.npz"), os.path.join(scratch, "tuned.json")
    np.savez(sample, **inputs)
    done = subprocess.run([mpc, "tune", path, "--inputs", sample, "--budget", f"rms {budget}",
                           "--target", target, "--objective", "time", "--types", "f16", "-o",
                           file, "--json", "--quiet"],
                          capture_output=True, text=True)
    if done.returncode:
        return set(), 0, math.nan
    found = json.loads(done.stdout)
    policy = json.loads(pathlib.Path(file).read_text())
    products = with_attention(onnx.load(path), policy["products"])
    narrow = {name for name, kind in products.items() if kind in ("float16", "bfloat16")}
    return narrow, found["runs"], found["chosen"]["measured"]


def share(flops, names):
    return sum(flops.get(name, 0) for name in names) / sum(flops.values())


def quietly(function, *args):
    """Suppresses a peer's output."""
    logging.disable(logging.CRITICAL)
    start = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = function(*args)
    return *found, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--mpc", default="mpc")
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--budget", type=float, default=1e-3)
    arguments = parser.parse_args()
    print("| model | peer | error in ORT | as typed | 16-bit flops | runs | s "
          "| mpc: error | 16-bit flops | runs | s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in arguments.names:
        folder = arguments.models / name
        inputs = dict(np.load(folder / "inputs.npz"))
        wanted = list(np.load(folder / "expected.npz").values())
        model = named(onnx.load(folder / "model.onnx"))
        flops = flops_of(model)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "model.onnx")
            onnx.save(model, path)
            peers = {"auto_mixed_precision":
                     lambda: by_bisection(model, inputs, wanted, arguments.budget),
                     "AutoCast": lambda: by_autocast(path, inputs, scratch)}
            for peer, convert in peers.items():
                try:
                    narrow, runs, seconds = quietly(convert)
                    error = error_of(run_model(narrow, inputs), wanted)
                    typed = typed_error(arguments.mpc, narrow, inputs, wanted, scratch)
                except Exception as problem:  # pylint: disable=broad-except
                    print(f"| {name} | {peer} | fails: {str(problem).splitlines()[0][:60]} |"
                          " | | | | | | | |", flush=True)
                    continue
                start = time.monotonic()
                ours, our_runs, our_error = by_mpc(arguments.mpc, path, inputs, typed, scratch,
                                                   arguments.target)
                print(f"| {name} | {peer} | {error:.1e} | {typed:.1e} | "
                      f"{share(flops, narrow_in(narrow)):.0%} | {runs} | {seconds:.1f} | "
                      f"{our_error:.1e} | {share(flops, ours):.0%} | {our_runs} | {time.monotonic() - start:.1f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
