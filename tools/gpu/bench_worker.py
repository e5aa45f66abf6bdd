#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One peer of bench.py: times one workload in a separate process.

usage: bench_worker.py SYSTEM WORKLOAD PACK [DEVICE=cuda]

SYSTEM is torch-eager, torch-compile or jax, for training steps also torch-graph; their
WORKLOAD has the type after a colon (g1-mlp:bfloat16). Prepares and warms up, then answers
each line on standard input with one line of JSON: the median of a round. DEVICE cpu is for
tests: it uses the small training steps and captures no graph.
"""
import json
import os
import pathlib
import sys

import training
import training_peers
import workloads

REPLAYS = 25
# Rotates inputs, so that none is in the 60 MB of L2; as in tools/mpc/Bench.cpp.
ROTATED_BYTES, MOST_SETS = 256 << 20, 32


def set_count(size):
    """Number of buffer sets of `size` bytes to rotate through."""
    return min(MOST_SETS, 1 + ROTATED_BYTES // max(size, 1))


def replay_timer(replays):
    """Times consecutive replays by GPU events, as for mpc: the host runs ahead, so that times exclude launch
    latency."""
    import torch

    def measure():
        for replay in replays:
            replay()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 1)]
        events[0].record()
        for i, event in enumerate(events[1:]):
            replays[i % len(replays)]()
            event.record()
        events[-1].synchronize()
        return sorted(begin.elapsed_time(end) for begin, end in zip(events, events[1:]))
    return measure


def stand_ins():
    """Stubs for the data and exporter imports of make_models.py; loads the network."""
    import types
    import numpy
    caught = {}

    def write_onnx_case(folder, model, inputs, *rest, **options):
        caught["case"] = (model, inputs)
    casekit = types.ModuleType("casekit")
    casekit.SEED, casekit.write_onnx_case, casekit.write_readme = 1, write_onnx_case, lambda *rest: None
    fashion = types.ModuleType("fashion")
    generator = numpy.random.default_rng(1)
    fashion.fashion_mnist = lambda which: (generator.integers(0, 256, (2000, 28, 28), dtype=numpy.uint8),
                                           generator.integers(0, 10, 2000))
    fashion.pixels = lambda images, shape: (images / 255).astype(numpy.float32).reshape(len(images), *shape)
    fashion.train = lambda network, *rest, **options: network
    fashion.classifier_facts = lambda *rest, **options: {}
    sys.modules |= {"casekit": casekit, "fashion": fashion}
    return caught


def model_case(name, pack):
    """The network of a model case and its inputs as tensors on the GPU."""
    import tempfile
    import torch
    caught = stand_ins()
    sys.path.insert(0, str(pathlib.Path(pack) / "bench"))
    import make_models
    with tempfile.TemporaryDirectory() as folder:
        make_models.CASES[name](pathlib.Path(folder))
    model, inputs = caught["case"]
    return model.eval().cuda(), [torch.as_tensor(array).cuda() for array in inputs.values()]


def torch_timer(system, name, pack):
    import torch
    known = {workload.name: workload for workload in workloads.workloads()}
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    if name in known:
        function, policy = workloads.torch_function(known[name].torch), None
        sample = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in known[name].shapes.values()]
    else:
        function, sample = model_case(name, pack)
        policy = torch.bfloat16
    if system == "torch-compile":
        # Graphs are captured below, over inputs at fixed addresses.
        function = torch.compile(function, mode="max-autotune-no-cudagraphs", fullgraph=name in known)

    def run(inputs):
        if policy is None:
            return function(*inputs)
        with torch.autocast("cuda", policy):
            return function(*inputs)
    results = run(sample)
    results = results if isinstance(results, (tuple, list)) else [results]
    size = sum(tensor.numel() * tensor.element_size() for tensor in [*sample, *results])
    sets = [sample] + [[torch.randn_like(t) if t.is_floating_point() else t.clone() for t in sample]
                       for _ in range(set_count(size) - 1)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for inputs in sets[:3]:
            run(inputs)
    torch.cuda.synchronize()
    graphs = []
    for inputs in sets:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = run(inputs)
        graphs.append((graph, result))

    return replay_timer([graph.replay for graph, _ in graphs]), torch.__version__


def jax_timer(name):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import time
    import jax
    import jax.numpy as jnp
    workload = {workload.name: workload for workload in workloads.workloads()}[name]
    function = jax.jit(workloads.jax_function(workload.jax))
    sets = []
    for seed in range(set_count(workload.bytes())):
        keys = jax.random.split(jax.random.key(seed), len(workload.shapes))
        sets.append([jax.random.normal(key, shape, jnp.bfloat16)
                     for key, shape in zip(keys, workload.shapes.values())])
    for inputs in sets[:3]:
        jax.block_until_ready(function(*inputs))

    def measure():
        # Back-to-back launches hide the host's overhead.
        times = []
        for _ in range(REPLAYS):
            start = time.perf_counter()
            results = [function(*sets[i % len(sets)]) for i in range(20)]
            jax.block_until_ready(results)
            times.append((time.perf_counter() - start) / 20 * 1e3)
        return sorted(times)
    return measure, jax.__version__


def training_data(name, device):
    """(workload, inputs, type)."""
    import numpy
    name, _, kind = name.partition(":")
    workload = training.find(name, small=device == "cpu")
    return workload, workload.draw(numpy.random.default_rng(1)), kind


def torch_training_timer(system, name, device):
    """torch-eager: the ordinary loop, with the host running ahead; the others replay a graph of the whole
    step."""
    import torch
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    workload, drawn, kind = training_data(name, device)
    step = training_peers.TorchStep(workload, drawn, device, kind, compiled=system == "torch-compile")
    if device == "cpu":
        step()
        return row_timer(step, lambda: None), torch.__version__
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(11):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    once = step
    if system != "torch-eager":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = step()

        def once():
            graph.replay()
            return kept
    return replay_timer([once] * 5), torch.__version__


def jax_training_timer(name, device):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    workload, drawn, kind = training_data(name, device)
    step, state, (x, label) = training_peers.jax_step(workload, drawn, kind)
    last = [state]

    def once():
        last[0], value = step(last[0], x, label)
        return value
    for _ in range(3):
        once()
    return row_timer(once, lambda: jax.block_until_ready(last[0])), jax.__version__


def row_timer(once, wait):
    """Times sequences of 20 calls by the host's clock; `wait` synchronizes after each."""
    import time

    def measure():
        times = []
        for _ in range(REPLAYS):
            wait()
            start = time.perf_counter()
            for _ in range(20):
                once()
            wait()
            times.append((time.perf_counter() - start) / 20 * 1e3)
        return sorted(times)
    return measure


def timer(system, name, pack, device="cuda"):
    if ":" in name:
        if system == "jax":
            return jax_training_timer(name, device)
        return torch_training_timer(system, name, device)
    return jax_timer(name) if system == "jax" else torch_timer(system, name, pack)


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    measure, version = timer(*sys.argv[1:])
    print(json.dumps({"ready": True, "version": version}), flush=True)
    for _ in sys.stdin:
        times = measure()
        print(json.dumps({"median_ms": times[len(times) // 2], "min_ms": times[0]}), flush=True)


if __name__ == "__main__":
    main()
