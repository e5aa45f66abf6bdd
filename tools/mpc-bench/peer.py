#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of bench.py that needs PyTorch and ONNX Runtime; runs in their environment.

  peer.py prepare WORKLOAD FOLDER         writes models, inputs and answers in float64
  peer.py judge ACTUAL.npz EXPECTED.npz   prints the error of an output
  peer.py serve WORKLOAD SYSTEM PRECISION FOLDER
prepares a system, then times for the number of seconds in each line on stdin, until end of file.
All answers are lines of JSON. WORKLOAD is a name of workloads.py, or a directory with a model.onnx.
"""
import json
import os
import pathlib
import resource
import sys
import time

import workloads


def find(name):
    """A workload, or None if the name is a directory."""
    return None if "/" in name else workloads.find(name)


def error_of(actual, expected):
    """(relative rms error, largest error)."""
    import numpy
    expected = numpy.asarray(expected, numpy.float64)
    difference = numpy.asarray(actual, numpy.float64).reshape(expected.shape) - expected
    rms = (difference ** 2).mean() ** 0.5 / (expected ** 2).mean() ** 0.5
    return {"rms_relative_error": float(rms), "max_abs_error": float(abs(difference).max())}


def read_array(path, name=None):
    import numpy
    arrays = numpy.load(path)
    array = arrays[name or arrays.files[0]]
    if array.dtype.kind == "V":  # bfloat16 is the upper half of a float32
        array = (array.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return array


def prepare(name, folder, small):
    import numpy
    workload, folder = find(name), pathlib.Path(folder)
    if workload is None:  # random floats; integers are the case's
        random = numpy.random.default_rng(7)
        given = numpy.load(f"{name}/inputs.npz")
        numpy.savez(folder / "inputs.npz", **{
            key: random.standard_normal(given[key].shape, given[key].dtype)
            if given[key].dtype == numpy.float32 else given[key] for key in given.files})
        return {"flops": 0, "bytes": 0}
    inputs = workloads.export(workload, folder / "float32.onnx", small=small)
    bytes_ = 0
    if not workload.trains:
        import torch
        numpy.savez(folder / "inputs.npz", **{key: value.numpy() for key, value in inputs.items()})
        workloads.export(workload, folder / "bfloat16.onnx", "bfloat16", small)
        module, given, _ = workloads.build(workload, small)
        with torch.no_grad():
            answer = module.double()(*(value.double() for value in given))
        numpy.savez(folder / "expected.npz", y=answer.numpy())
        values = sum(value.numel() for value in given) + answer.numel()
        bytes_ = 4 * (values + sum(p.numel() for p in module.parameters()))
    elif workload.make == "update":  # gradient, parameter and two moments; three are written
        extents = workload.extents(small)
        bytes_ = 28 * extents["tensors"] * extents["side"] ** 2
    return {"flops": workloads.count_flops(workload, small), "bytes": bytes_}


# ---------------------------------------------------------------- systems: -> (step, output, facts)

def torch_update(workload, small, compiled):
    """Unscales and checks gradients; Adam skips the step if one is not finite."""
    import torch
    extents = workload.extents(small)
    make = lambda scale: [torch.randn(extents["side"] ** 2) * scale
                          for _ in range(extents["tensors"])]
    weights, gradients, first = make(0.02), make(1.0), make(1e-3)
    second = [value * value for value in make(1e-3)]
    inverse, rate, epsilon = torch.tensor(1 / 1024), 1e-4, 1e-8

    def formula():
        bad = torch.zeros((), dtype=torch.bool)
        for gradient in gradients:
            bad = bad | ~torch.isfinite(gradient).all()
        for w, g, m, v in zip(weights, gradients, first, second):
            g = g * inverse
            mean, square = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
            new = w - rate * mean / (square.sqrt() * 1.0005 + epsilon)
            for old, value in ((w, new), (m, mean), (v, square)):
                old.copy_(torch.where(bad, old, value))

    if compiled:
        run = torch.compile(formula)

        def step():
            with torch.no_grad():
                run()
        return step
    parameters = [torch.nn.Parameter(value) for value in weights]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    optimizer = torch.optim.Adam(parameters, rate, fused=True)
    found = torch.zeros(())

    def fused():
        found.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, torch.ones(()))
        optimizer.grad_scale, optimizer.found_inf = None, found
        optimizer.step()
    return fused


def torch_step(workload, small, system, precision):
    import torch
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    compiled = system == "torch-compile"
    if workload.make == "update":
        return torch_update(workload, small, compiled), None, torch.__version__
    module, inputs, target = workloads.build(workload, small)
    if any(isinstance(part, torch.nn.Conv2d) for part in module.modules()):
        module = module.to(memory_format=torch.channels_last)
        inputs = [value.to(memory_format=torch.channels_last) for value in inputs]
    if precision == "bfloat16":
        module = module.bfloat16()
        inputs = [value.bfloat16() if value.is_floating_point() else value for value in inputs]
    mixed = lambda: torch.autocast("cpu", torch.bfloat16, enabled=precision == "mixed",
                                   cache_enabled=workload.trains)
    kept = [None]
    if not workload.trains:
        import torch._inductor.config as inductor
        inductor.freezing = compiled
        run = torch.compile(module) if compiled else module

        def infer():
            with torch.no_grad(), mixed():
                kept[0] = run(*inputs)
        return infer, lambda: kept[0].float().numpy(), torch.__version__
    judge = workloads.loss_of(workload)
    forward = lambda *values: judge(module(*values), target)
    run = torch.compile(forward) if compiled else forward
    module.train()
    if workload.optimizer == "adam":
        optimizer = torch.optim.Adam(module.parameters(), 1e-4, fused=True)
    else:
        optimizer = torch.optim.SGD(module.parameters(), 1e-3, fused=True)

    def train():
        optimizer.zero_grad(set_to_none=True)
        with mixed():
            loss = run(*inputs)
        loss.backward()
        optimizer.step()
    return train, None, torch.__version__


def onnxruntime_step(name, folder):
    import numpy
    import onnxruntime
    model = f"{name}/model.onnx" if find(name) is None else f"{folder}/float32.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    arrays = numpy.load(f"{folder}/inputs.npz")
    feed = {given.name: arrays[given.name] for given in session.get_inputs()}
    kept = [None]

    def step():
        kept[0] = session.run(None, feed)[0]
    return step, lambda: kept[0], onnxruntime.__version__


# ---------------------------------------------------------------- timing

def timed(step):
    """(milliseconds, whether another process interrupted it)."""
    used, start = time.process_time(), time.perf_counter()
    step()
    took = time.perf_counter() - start
    used = time.process_time() - used
    return 1e3 * took, took - used > 0.02 * took + 2e-5


def time_slice(step, seconds, least=2):
    """Undisturbed runs for `seconds`, at least `least`; disturbed ones if there are none."""
    once = timed(step)[0]  # warms up as well
    for _ in range(min(20, int(100 / once))):
        step()
    calm, disturbed, start = [], [], time.perf_counter()
    while True:
        took, was_disturbed = timed(step)
        (disturbed if was_disturbed else calm).append(took)
        passed = time.perf_counter() - start
        if passed > seconds and (len(calm) >= least or passed > 4 * seconds + 3e-3 * once):
            break
    times = sorted(calm or disturbed)
    return {"median_ms": times[len(times) // 2], "min_ms": times[0],
            "runs": len(calm) + len(disturbed), "disturbed_runs": len(disturbed)}


def serve(name, system, precision, folder, small, answer):
    start = time.perf_counter()
    if system == "onnxruntime":
        step, output, version = onnxruntime_step(name, folder)
    else:
        step, output, version = torch_step(find(name), small, system, precision)
    step()
    ready = {"version": version, "prepare_ms": 1e3 * (time.perf_counter() - start)}
    expected = pathlib.Path(folder) / "expected.npz"
    if output and expected.exists():
        ready.update(error_of(output(), read_array(expected)))
    answer(ready)
    for line in sys.stdin:
        measured = time_slice(step, json.loads(line)["seconds"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer({**measured, "peak_rss_bytes": peak})


def main():
    small = "--small" in sys.argv
    verb, *words = [word for word in sys.argv[1:] if word != "--small"]
    # Frameworks print to stdout; only answers may reach the caller.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(document):
        print(json.dumps(document), file=out, flush=True)
    if verb == "prepare":
        answer(prepare(*words, small))
    elif verb == "judge":
        answer(error_of(read_array(words[0]), read_array(words[1])))
    else:
        serve(*words, small, answer)


if __name__ == "__main__":
    main()
