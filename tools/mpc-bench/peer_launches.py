#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tabulates the launches of XLA and inductor on an H200 for the blocks of networks.py.

  peer_launches.py xla [NAME...] --target-config h200.txtpb [--all] [--training]
  peer_launches.py inductor [NAME...] [--all]

Needs no GPU: both compile ahead of time; nothing is run, so nothing is autotuned. Each
compiler is used in several ways; the table has the one with the fewest launches, --all each of them.

XLA (jax, jax-cuda13-plugin, torchax) gets the exported module in bfloat16, weights as
arguments. Launches are the instructions of the scheduled module except parameters, tuples,
bitcasts and constants. The target configuration is a file of XLA's sources,
xla/backends/gpu/target_config/specs/h200.txtpb. With --training it gets a whole step: the mean
squared error of the first result, its gradients, and Adam on f32 parameters, which are rounded
to bfloat16 for use. Parameters and states are donated.

Inductor (torch, triton) gets the module in bfloat16, and in float32 under autocast, each
unchanged and with attention as one call. Launches are the calls in the wrapper that it writes.

A library call may be several kernels. MB are the operands and results of every launch, for
inductor its scheduler's estimate.
"""

import argparse
import functools
import itertools
import os
import re
import sys
import tempfile
import traceback
import types

import torch

import networks

WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4,
          "s64": 8, "u64": 8, "f64": 8}


def built(name, bfloat16):
    """(module, positional inputs) of a block, in bfloat16 or in its original float32."""
    module, inputs = networks.build(name)
    if not bfloat16:
        return module, tuple(inputs.values())
    return module.bfloat16(), tuple(t.bfloat16() if t.is_floating_point() else t for t in inputs.values())


# ---- XLA -------------------------------------------------------------------------------------

# Instructions without memory traffic or a kernel.
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
        "opt-barrier", "async-done", "copy-done"}
# Fields of target configurations unknown to jaxlib 0.10.2.
UNKNOWN_FIELDS = ("collective_memory_granularity",)
XLA_SETTINGS = {
    "Triton GEMM": {"xla_gpu_experimental_force_split_k": 1},
    "cuBLASLt": {"xla_gpu_enable_triton_gemm": False, "xla_gpu_enable_cublaslt": True},
    "no flags": {},
}


class Absent:
    """Placeholder for operators that torchax names and newer torch versions lack."""

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return Absent()


def load_torchax():
    from torch._ops import OpOverloadPacket, _OpNamespace
    kept = {kind: kind.__getattr__ for kind in (OpOverloadPacket, _OpNamespace)}

    def tolerant(kind):
        def get(self, key):
            try:
                return kept[kind](self, key)
            except AttributeError:
                if key.startswith("__"):
                    raise
                return Absent()
        return get

    for kind in kept:
        kind.__getattr__ = tolerant(kind)
    try:
        import torchax.export
        torchax.default_env()
    finally:
        for kind, get in kept.items():
            kind.__getattr__ = get
    return torchax.export


def size_of(shape):
    """Bytes of an HLO shape, summed for tuples."""
    total = 0
    for width, dims in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shape):
        count = 1
        for dim in filter(None, dims.split(",")):
            count *= int(dim)
        total += WIDTHS.get(width, 1) * count
    return total


class Hlo:
    """The computations of a module's text: instructions as (name, shape, opcode, operands, rest)."""

    LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")

    def __init__(self, text):
        self.bodies, self.entry, body = {}, None, None
        for line in text.splitlines():
            if line and not line[0].isspace() and line.rstrip().endswith("{"):
                name = re.match(r"(ENTRY )?%?([\w.\-]+)", line)
                body = self.bodies.setdefault(name[2], [])
                self.entry = name[2] if name[1] else self.entry
            elif body is not None and (found := self.LINE.match(line)):
                body.append(self.instruction(found[1], found[2]))

    @staticmethod
    def instruction(name, text):
        depth, at = 0, 0
        if text.startswith("("):
            for at, letter in enumerate(text):
                depth += (letter == "(") - (letter == ")")
                if not depth:
                    break
            at += 1
        else:
            at = text.index(" ")
        shape, rest = text[:at], text[at:].strip()
        opcode, _, rest = rest.partition("(")
        depth, end = 1, 0
        for end, letter in enumerate(rest):
            depth += (letter == "(") - (letter == ")")
            if not depth:
                break
        return name, shape, opcode, re.findall(r"%([\w.\-]+)", rest[:end]), rest[:end], rest[end + 1:]

    def read_by(self, computation, index, whole):
        """Bytes that a fusion reads of a parameter: of the slices only, if all users are slices."""
        body = self.bodies.get(computation, [])
        name = next((i[0] for i in body if i[2] == "parameter" and i[4] == str(index)), None)
        users = [i for i in body if name in i[3]]
        if users and all(i[2] in ("slice", "dynamic-slice", "gather") and i[3][0] == name for i in users):
            return min(whole, sum(size_of(i[1]) for i in users))
        return whole

    def launches(self, computation=None):
        """(opcode or library, bytes) of every launch; loops count by their trip counts."""
        body = self.bodies[computation or self.entry]
        shapes, found = {i[0]: i[1] for i in body}, []
        for _, shape, opcode, operands, _, rest in body:
            called = re.search(r"(?:calls|to_apply)=%?([\w.\-]+)", rest)
            if opcode in FREE or opcode.endswith("-done"):
                continue
            if opcode == "while":
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
                inner = self.launches(re.search(r"body=%?([\w.\-]+)", rest)[1])
                found += inner * int(trips[1] if trips else 1)
            elif opcode == "call":
                found += self.launches(called[1])
            else:
                read = sum(self.read_by(called[1], at, size_of(shapes[o])) if opcode == "fusion" else size_of(shapes[o])
                           for at, o in enumerate(operands))
                target = re.search(r'custom_call_target="([^"]+)"', rest)
                kind = re.search(r"kind=(\w+)", rest)
                what = target[1] if target else opcode + (" " + kind[1] if kind else "")
                # The last element of a library call's result is its workspace.
                found.append((what, read + size_of(re.sub(r", s8\[\d+\]\{0\}\)$", ")", shape))))
        return found


def training_step(jax, jnp, function):
    """A step of Adam on f32 parameters that `function` takes rounded."""
    def loss(trained, other, inputs, target):
        states = [o if t is None else t.astype(jnp.bfloat16) for t, o in zip(trained, other)]
        return jnp.mean((function(tuple(states), inputs)[0].astype(jnp.float32) - target) ** 2)

    def step(trained, first, second, count, other, inputs, target):
        value, gradients = jax.value_and_grad(loss)(trained, other, inputs, target)
        count = count + 1
        rates = 1 - 0.9 ** count, 1 - 0.999 ** count
        new = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        trained = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / rates[0]) / (jnp.sqrt(v / rates[1]) + 1e-8),
                               trained, new, squares)
        return value, trained, new, squares, count

    return step


def count_xla(names, arguments):
    os.environ.update(JAX_PLATFORMS="cpu", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1")
    import jax
    import jax.numpy as jnp
    from jax.experimental import topologies
    export = load_torchax()
    if arguments.target_config is None:
        sys.exit("xla needs --target-config")
    with open(arguments.target_config, encoding="utf-8") as file:
        config = "".join(line for line in file if not line.strip().startswith(UNKNOWN_FIELDS))
    device = topologies.get_topology_desc(platform="cuda", target_config=config, topology="1x1x1").devices[0]
    where = jax.sharding.SingleDeviceSharding(device)
    for name in names:
        module, inputs = built(name, bfloat16=True)
        states, function = export.exported_program_to_jax(torch.export.export(module, inputs))
        shaped = [jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=where) for s in states]
        given = [jax.ShapeDtypeStruct(tuple(t.shape), jnp.bfloat16 if t.is_floating_point() else jnp.int32,
                                      sharding=where) for t in inputs]
        if arguments.training:
            def wide(shape):
                return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=where)
            is_float = [jnp.issubdtype(s.dtype, jnp.floating) for s in shaped]
            trained = tuple(wide(s.shape) if is_one else None for s, is_one in zip(shaped, is_float))
            other = tuple(None if is_one else s for s, is_one in zip(shaped, is_float))
            result = jax.eval_shape(function, tuple(shaped), tuple(given))[0]
            traced = jax.jit(training_step(jax, jnp, function), donate_argnums=(0, 1, 2, 3)).trace(
                trained, trained, trained, wide(()), other, tuple(given), wide(result.shape))
        else:
            traced = jax.jit(function).trace(tuple(shaped), tuple(given))
        lowered = traced.lower(lowering_platforms=("cuda",))
        for setting, options in XLA_SETTINGS.items():
            try:
                text = lowered.compile(compiler_options=options).as_text()
            except Exception as error:  # Any error of a peer becomes a cell of the table.
                yield name, setting, None, first_line(error)
                continue
            keep(arguments, f"xla-{name}-{setting.replace(' ', '-')}.hlo", text)
            launches = Hlo(text).launches()
            yield name, setting, [what for what, _ in launches], sum(size for _, size in launches)


# ---- inductor --------------------------------------------------------------------------------


def index(tensor, key):
    """`tensor[key]` by views only: torch's own indexing queries the driver for the device."""
    keys = key if isinstance(key, tuple) else (key,)
    if not all(k is None or k is Ellipsis or isinstance(k, (slice, int)) for k in keys):
        return torch._C.TensorBase.__getitem__(tensor, key)
    if Ellipsis in keys:
        at, used = keys.index(Ellipsis), sum(k is not None and k is not Ellipsis for k in keys)
        keys = keys[:at] + (slice(None),) * (tensor.dim() - used) + keys[at + 1:]
    dim = 0
    for k in keys:
        if k is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(k, int):
            tensor = tensor.select(dim, k)
            continue
        elif k != slice(None):
            tensor = torch.ops.aten.slice(tensor, dim, k.start, k.stop, k.step or 1)
        dim += 1
    return tensor


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    """Torch's attention backend on an H200; its own selection queries the driver and falls back to plain
    products."""
    aten = torch.ops.aten
    if query.dtype == torch.float32:
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, False, dropout_p, is_causal, scale=scale)[0]
    return aten._scaled_dot_product_cudnn_attention(
        query, key, value, attn_mask, False, dropout_p, is_causal, False, scale=scale)[0]


def called(node):
    """The name of the function or method that a traced node calls."""
    return getattr(node.target, "__name__", node.target)


def reads_product(node):
    return called(node) == "matmul" or any(reads_product(n) for n in node.all_input_nodes)


# Blocks whose masks are equivalent to `is_causal`; a single new token needs neither.
CAUSAL = {"gpt2": True, "llama-prefill": True, "whisper": True, "llama-decode": False}


def fuse_attention(graph, name):
    """Replaces matmul, softmax, matmul in a traced block by one attention call, as a user may."""
    for node in list(graph.nodes):
        users = list(node.users)
        if called(node) != "softmax" or [called(u) for u in users] != ["matmul"]:
            continue
        steps, scale, scores = [], 1.0, node.args[0]
        while called(scores) != "matmul":
            at = next(i for i, n in enumerate(scores.args) if n in scores.all_input_nodes and reads_product(n))
            if called(scores) in ("truediv", "div"):
                scale /= scores.args[1]
            elif called(scores) == "mul":
                scale *= scores.args[1]
            else:
                steps.insert(0, (scores, at))
            scores = scores.args[at]
        query, turned = scores.args
        with graph.inserting_before(users[0]):
            key, mask, options = graph.call_method("transpose", (turned, -2, -1)), None, {"scale": scale}
            if steps and name in CAUSAL:
                options["is_causal"] = CAUSAL[name]
            elif steps:
                # Applying the score ops to zero gives the additive mask.
                mask = graph.call_function(torch.zeros, ((),), {"device": "cuda"})
                for step, at in steps:
                    rest = [*step.args[:at], mask, *step.args[at + 1:]]
                    mask = graph.create_node(step.op, step.target, tuple(rest), step.kwargs)
                mask = graph.call_method("type_as", (mask, query))
            fused = graph.call_function(attention, (query, key, users[0].args[1], mask), options)
        users[0].replace_all_uses_with(fused)
    graph.eliminate_dead_code()


class Compiled(BaseException):
    """Raised once the wrapper is written: it need not be loaded."""


def fake_device():
    """Makes torch assume one H200. The driver is never called: tensors are fake, kernels are not compiled."""
    properties = types.SimpleNamespace(
        name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=151397597184, warp_size=32,
        regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
        L2_cache_size=52428800, clock_rate=1980000, memory_clock_rate=3201000, memory_bus_width=6144, gcnArchName="",
        is_integrated=False, is_multi_gpu_board=False)
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_capability": (9, 0),
        "get_device_properties": properties, "get_device_name": properties.name, "_lazy_init": None,
        "synchronize": None, "is_bf16_supported": True, "manual_seed_all": None, "set_device": None,
        "get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None, "_exchange_device": 0,
        "_maybe_exchange_device": 0, "is_current_stream_capturing": False}
    from torch._dynamo import device_interface
    torch.accelerator.is_available = lambda: False
    for name, answer in answers.items():
        stub = functools.partial(lambda answer, *_, **__: answer, answer)
        setattr(torch.cuda, name, stub)
        if hasattr(device_interface.CudaInterface, name):
            setattr(device_interface.CudaInterface, name, staticmethod(stub))
    device_interface.CudaInterface.Worker.get_device_properties = staticmethod(lambda device=None: properties)
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    utilities = types.SimpleNamespace(get_device_properties=lambda device: {
        "max_shared_mem": 232448, "multiprocessor_count": 132, "max_num_regs": 65536, "warpSize": 32})
    driver.set_active(types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32), get_current_device=lambda: 0, utils=utilities))


# Kernel launches and library calls in inductor's wrapper.
CALL = re.compile(r"^\s+.*?(?:(\w+)\.run\(|(extern_kernels\.\w+)\(|(torch\.ops\.\w+\.[\w.]+)\(|(\w+\.copy_)\()")


def calls(code):
    """The launches of the wrapper `code`, in order."""
    body, found = code[code.index("class Runner"):], []
    for line in body[:body.find("\nrunner =")].splitlines():
        match = CALL.match(line)
        what = match and next(filter(None, match.groups()))
        if what and "reinterpret_tensor" not in what:
            found.append(what)
    return found


def count_inductor(names, arguments):
    fake_device()
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.fx_passes import fuse_attention as patterns, joint_graph, post_grad
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch._subclasses.functional_tensor import FunctionalTensor
    FakeTensor.__getitem__ = FunctionalTensor.__getitem__ = index
    FakeTensor.__invert__ = FunctionalTensor.__invert__ = lambda tensor: torch.bitwise_not(tensor)
    patterns._scaled_dot_product_attention = attention
    config.force_disable_caches, config.compile_threads, config.shape_padding = True, 1, False
    config.joint_graph_constant_folding = False
    torch._dynamo.config.allow_rnn = True
    for passes in (joint_graph, post_grad):  # Device-independent patterns, but tracing allocates.
        passes.lazy_init = functools.partial(lambda make, *_: make(torch.device("cpu")), passes.lazy_init)
    seen = []

    def save(code):
        seen.append((code, sum(node.get_read_write_buffers_sizes() for node in V.graph.scheduler.nodes)))
        raise Compiled()

    GraphLowering.save_output_code = staticmethod(save)

    def with_attention(module, inputs):
        fuse_attention(module.graph, name)
        module.recompile()
        return compile_fx(module, inputs)

    settings = [(how, backend, how + note) for how in ("bfloat16", "autocast")
                for backend, note in (("inductor", ""), (with_attention, ", attention called"))]
    for name in names:
        for how, backend, said in settings:
            torch._dynamo.reset()
            seen.clear()
            try:
                module, inputs = built(name, bfloat16=how != "autocast")
                with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
                    module = module.to_empty(device="cuda").requires_grad_(False)
                    inputs = [torch.empty(t.shape, dtype=t.dtype) for t in inputs]
                    with torch.autocast("cuda", torch.bfloat16, enabled=how == "autocast"):
                        torch.compile(module, fullgraph=True, backend=backend)(*inputs)
            except BaseException as error:  # Any error of a peer becomes a cell of the table.
                if isinstance(error, KeyboardInterrupt):
                    raise
                if not seen:
                    traceback.print_exc()
                    yield name, said, None, first_line(error)
                    continue
            code, moved = seen[0]
            keep(arguments, f"inductor-{name}-{said.replace(' ', '-')}.py", code)
            yield name, said, calls(code), moved


# ---- the table -------------------------------------------------------------------------------


def keep(arguments, name, text):
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)
        with open(os.path.join(arguments.keep, name), "w", encoding="utf-8") as file:
            file.write(text)


def first_line(error):
    return str(error).strip().split("\n", maxsplit=1)[0][:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("compiler", choices=["xla", "inductor"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target-config", help="XLA's description of the GPU, a text proto")
    parser.add_argument("--all", action="store_true", help="a line for each way that the compiler is asked")
    parser.add_argument("--training", action="store_true", help="a training step (XLA)")
    parser.add_argument("--launches", action="store_true", help="list the launches too")
    parser.add_argument("--keep", metavar="FOLDER", help="write what the compiler emitted there")
    arguments = parser.parse_args()
    count = count_xla if arguments.compiler == "xla" else count_inductor
    status = 0
    print("| block | how | launches | MB |\n|---|---|--:|--:|", flush=True)
    with torch.no_grad(), tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        rows = count(arguments.names or list(networks.NETWORKS), arguments)
        for name, ways in itertools.groupby(rows, key=lambda row: row[0]):
            ways = list(ways)
            good = [way for way in ways if way[2] is not None]
            best = [min(good, key=lambda way: (len(way[2]), way[3]))] if good else ways[:1]
            for _, how, launches, moved in ways if arguments.all else best:
                if launches is None:
                    print(f"| {name} | {how} | {moved} | |", flush=True)
                    continue
                print(f"| {name} | {how} | {len(launches)} | {moved / 1e6:.2f} |", flush=True)
                for launch in launches if arguments.launches else []:
                    print(f"| | {launch} | | |")
            status |= not good
    return status


if __name__ == "__main__":
    sys.exit(main())
