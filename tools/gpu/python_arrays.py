#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the Python package on GPU arrays: memory ownership, streams, accuracy.

usage: python_arrays.py make FOLDER [TARGET]   where the compiler is (TARGET: cuda:sm_90a)
       python_arrays.py check FOLDER           on a machine with a GPU and PyTorch

`make` writes .mpcx files, for packages without a compiler. `check` prints a line for each check;
exit code 1 if one failed. JAX, CuPy and numba are checked if installed; torch.compile and
mpc.Trainer if the package has a compiler.
"""

import gc
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

# JAX would preallocate most of the memory measured here.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import mpc  # noqa: E402
import numpy as np  # noqa: E402

ROWS, DEPTH, COLUMNS = 64, 256, 128
LARGE = 256 << 20
LAYER = f"""func.func @main(%x: tensor<{ROWS}x{DEPTH}xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}},
                %w: tensor<{DEPTH}x{COLUMNS}xf32> {{mpc.role = #mpc.role<parameter>, mpc.name = "w"}})
    -> (tensor<{ROWS}x{COLUMNS}xf32> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %0 = mpc.matmul %x, %w : (tensor<{ROWS}x{DEPTH}xf32>, tensor<{DEPTH}x{COLUMNS}xf32>) -> tensor<{ROWS}x{COLUMNS}xf32>
  %1 = mpc.relu %0 : tensor<{ROWS}x{COLUMNS}xf32>
  return %1 : tensor<{ROWS}x{COLUMNS}xf32>
}}
"""
MOST = f"""func.func @main(%x: tensor<{LARGE}xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}})
    -> (tensor<f32> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %0 = mpc.reduce_max %x axes([0]) : tensor<{LARGE}xf32> -> tensor<f32>
  return %0 : tensor<f32>
}}
"""
NARROW = """func.func @main(%x: tensor<1000xbf16> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<1000xbf16> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<1000xbf16> {mpc.role = #mpc.role<output>, mpc.name = "z"}) {
  %0 = mpc.relu %x : tensor<1000xbf16>
  %1 = mpc.neg %x : tensor<1000xbf16>
  return %0, %1 : tensor<1000xbf16>, tensor<1000xbf16>
}
"""
MODELS = {"layer-float32": (LAYER, "float32"), "layer-bfloat16": (LAYER, "mixed_bfloat16"),
          "most": (MOST, "float32"), "narrow": (NARROW, "float32")}


def make(folder, target):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (text, policy) in MODELS.items():
        mpc.compile(text, policy=policy).save(folder / f"{name}.mpcx", targets=target)
        print(folder / f"{name}.mpcx")


# ===----------------------------------------------------------------------=== #
# What is right
# ===----------------------------------------------------------------------=== #


def tolerances(x, w, policy):
    """The layer in float64, and error bounds: that of a sum of DEPTH products in float32, plus under
    bfloat16 two factors and a result rounded to 8 bits."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    unit = DEPTH * 2.0**-24 + (3 * 2.0**-8 if policy == "bfloat16" else 0)
    return np.maximum(x @ w, 0), unit * (np.abs(x) @ np.abs(w))


def farthest(found, x, w, policy="float32"):
    """The largest error as a fraction of its bound."""
    wanted, allowed = tolerances(x, w, policy)
    return float(np.max(np.abs(np.asarray(found, np.float64) - wanted) / allowed))


def numbers(seed=0):
    draw = np.random.default_rng(seed)
    return draw.standard_normal((ROWS, DEPTH), np.float32), draw.standard_normal((DEPTH, COLUMNS), np.float32)


# ===----------------------------------------------------------------------=== #
# Checks, each of which gives a line
# ===----------------------------------------------------------------------=== #


class Checks:
    def __init__(self, folder):
        import torch

        self.torch, self.folder = torch, folder
        self.gpu = torch.device("cuda", 0)

    def load(self, name):
        return mpc.load(self.folder / f"{name}.mpcx", device="cuda")

    def layer(self, policy="float32"):
        x, w = numbers()
        return self.load(f"layer-{policy}"), x, w, self.torch.from_numpy(x).cuda(), self.torch.from_numpy(w).cuda()

    def check_results_of_pytorch(self):
        shares = []
        for policy in ("float32", "bfloat16"):
            function, x, w, tx, tw = self.layer(policy)
            y = function(tx, tw.requires_grad_())
            assert y.device == self.gpu and y.dtype == self.torch.float32 and not y.requires_grad
            shares.append(farthest(y.cpu(), x, w, policy))
            turned = function(tx.t().contiguous().t(), tw)
            assert self.torch.equal(turned, y), "strides matter"
            assert isinstance(function(x, w), np.ndarray), "host arrays"
        assert max(shares) <= 1, shares
        return f"error {shares[0]:.3f} and {shares[1]:.3f} of what is allowed (float32, mixed_bfloat16)"

    def check_types(self):
        torch = self.torch
        x = torch.randn(1000, device="cuda", dtype=torch.bfloat16)
        y, z = self.load("narrow")(x)
        assert y.dtype == torch.bfloat16 and torch.equal(y, x.relu()) and torch.equal(z, -x)
        return "bfloat16, two results"

    def check_no_copy(self):
        torch, function = self.torch, self.load("most")
        x = torch.rand(LARGE, device="cuda")
        x[12345] = 7
        function(x)  # Warm-up: loads code, allocates workspace.
        torch.cuda.synchronize()
        free, held = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
        lowest = free
        stop = threading.Event()

        def watch():
            nonlocal lowest
            while not stop.is_set():
                lowest = min(lowest, torch.cuda.mem_get_info()[0])

        watcher = threading.Thread(target=watch)
        watcher.start()
        results = [function(x) for _ in range(20)]
        torch.cuda.synchronize()
        stop.set()
        watcher.join()
        assert all(float(r) == 7 for r in results)
        moved, grown = free - lowest, torch.cuda.memory_allocated() - held
        assert moved < 64 << 20, f"{moved >> 20} MiB more"
        assert grown == 20 * 512, f"PyTorch's allocator has {grown} bytes more"
        x[777] = 9  # The next run reads the tensor's memory.
        assert float(function(x)) == 9
        return f"an input of {LARGE * 4 >> 20} MiB, {moved >> 20} MiB more at most; results are PyTorch's memory"

    def check_stream_order(self):
        torch = self.torch
        function, x, w, tx, tw = self.layer()
        function(tx, tw)
        lazy = torch.zeros_like(tx)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            function(lazy, tw)
            side.synchronize()
            torch.cuda._sleep(400_000_000)  # 0.2 s: a missing synchronization reads zeros.
            lazy.copy_(tx)
            start = time.perf_counter()
            y = function(lazy, tw)
            took = time.perf_counter() - start
            pending = not side.query()
            lazy.zero_()  # After the run.
            share = farthest(y.cpu(), x, w)
        assert share <= 1 and pending, (share, pending)
        assert took < 0.1, f"the call waited {took:.3f} s"
        return f"the run waited on its stream, the call took {took * 1e6:.0f} us"

    def check_threads(self):
        torch, function = self.torch, self.layer()[0]
        failures = []

        def work(seed):
            x, w = numbers(seed)
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                tx, tw = torch.from_numpy(x).cuda(), torch.from_numpy(w).cuda()
                found = [function(tx * 1, tw) for _ in range(200)]
                stream.synchronize()
            if max(farthest(y.cpu(), x, w) for y in found[::20]) > 1:
                failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        return "8 threads, a stream each, 200 calls each"

    def check_overhead(self):
        torch = self.torch
        function, _, _, tx, tw = self.layer()
        times = []
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(50):
                function(tx, tw)
            times.append((time.perf_counter() - start) / 50 * 1e6)
        torch.cuda.synchronize()
        inside = function.bench(tx, tw, seconds=0.2)
        return (f"a call takes the host {statistics.median(times):.1f} us (least {min(times):.1f}), "
                f"a run the GPU {inside['median_ms'] * 1e3:.1f} us")

    def check_errors(self):
        torch = self.torch
        function, x, w, tx, tw = self.layer()
        cases = [((tx, w), "input 'w': is in host memory, but other inputs are on cuda:0"),
                 ((tx.double(), tw), "has elements of type f32, not f64"),
                 ((tx[:, :8], tw), "was compiled for"), ((tx.to(torch.complex64), tw), "no model takes")]
        for arguments, text in cases:
            try:
                function(*arguments)
            except mpc.Error as error:
                assert text in str(error), error
            else:
                raise AssertionError(f"nothing said: {text}")
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                function(tx, tw)
        except mpc.Error as error:
            assert "under capture" in str(error), error
        else:
            raise AssertionError("a capture was not refused")
        return f"{len(cases) + 1} sentences"

    def check_cycles(self):
        torch = self.torch
        _, x, w, tx, tw = self.layer()

        def cycle(count):
            for _ in range(count):
                self.load("layer-float32")(tx, tw)
            torch.cuda.synchronize()
            gc.collect()
            # Memory in PyTorch's cache is not leaked.
            torch.cuda.empty_cache()
            return torch.cuda.mem_get_info()[0]

        before = cycle(50)
        lost = before - cycle(1000)
        assert lost < 32 << 20, f"{lost >> 20} MiB lost"
        return f"1000 loads, runs and frees: {lost >> 10} KiB of the GPU's memory fewer"

    def check_exit(self):
        program = (f"import mpc, torch\nf = mpc.load({str(self.folder / 'layer-float32.mpcx')!r}, device='cuda')\n"
                   f"y = f(torch.ones({ROWS}, {DEPTH}, device='cuda'), torch.ones({DEPTH}, {COLUMNS}, device='cuda'))\n"
                   "print(float(y[0, 0]))")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, f"{float(DEPTH)}", ""), done
        return "with a function and a result alive"

    def check_jax(self):
        import jax

        function, x, w, _, _ = self.layer()
        jx, jw = jax.device_put(x, jax.devices("gpu")[0]), jax.device_put(w, jax.devices("gpu")[0])
        y = function(jx, jw)
        assert isinstance(y, jax.Array) and y.devices() == jx.devices()
        chained = jax.jit(lambda a: a @ a.T)(function(jx * 1, jw))
        share = farthest(y, x, w)
        for _ in range(200):  # Short-lived arguments, whose memory is reused.
            y = function(jx + 0, jw + 0)
        assert max(share, farthest(y, x, w)) <= 1
        np.testing.assert_allclose(chained, np.asarray(y) @ np.asarray(y).T, rtol=1e-2, atol=1e-1)
        return f"error {share:.3f} of what is allowed"

    def check_cupy(self):
        import cupy

        function, x, w, tx, _ = self.layer()
        cx, cw = cupy.asarray(x), cupy.asarray(w)
        y = function(cx, cw)
        assert isinstance(y, cupy.ndarray)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            turned = function(cupy.asfortranarray(cx), cw)
            mixed = function(tx, cw)
            stream.synchronize()
        self.torch.cuda.synchronize()
        shares = [farthest(cupy.asnumpy(a), x, w) for a in (y, turned)] + [farthest(mixed.cpu(), x, w)]
        assert max(shares) <= 1 and isinstance(mixed, self.torch.Tensor), shares
        return f"error {shares[0]:.3f} of what is allowed"

    def check_numba(self):
        from numba import cuda

        function, x, w, _, _ = self.layer()
        y = function(cuda.to_device(x), cuda.to_device(w))
        share = farthest(cuda.as_cuda_array(y).copy_to_host(), x, w)
        assert max(share, farthest(y.numpy(), x, w)) <= 1
        return f"error {share:.3f} of what is allowed, by __cuda_array_interface__"

    def check_torch_compile(self):
        torch = self.torch
        import mpc.torch  # noqa: F401

        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Dropout(0.1),
                                    torch.nn.LayerNorm(128), torch.nn.Linear(128, 10)).cuda()
        x = torch.randn(32, 64, device="cuda")
        compiled = torch.compile(model, backend="mpc", options={"policy": "float32"})
        torch.manual_seed(1)
        compiled(x).square().mean().backward()
        found = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        torch.manual_seed(1)
        model(x).square().mean().backward()
        worst = max(float((a - p.grad).abs().max() / p.grad.abs().max()) for a, p in zip(found, model.parameters()))
        assert worst < 1e-4 and found[0].device == self.gpu, worst
        return f"a training pass, gradients within {worst:.1e} of eager mode's largest"

    def check_trainer(self):
        torch = self.torch
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
        x, y = torch.randn(256, 64, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
        trainer = mpc.Trainer(model, x, policy="mixed_float16", lr=1e-2)
        losses = []
        for _ in range(50):
            trainer.step(x, y)
            losses.append(trainer.metrics()["loss"])
        assert losses[-1] < 0.5 * losses[0], losses[::10]
        assert trainer.sync()[0].weight.device == self.gpu
        return f"loss {losses[0]:.3f} -> {losses[-1]:.3f}"


NEEDED = {"check_jax": "jax", "check_cupy": "cupy", "check_numba": "numba"}
COMPILES = ("check_torch_compile", "check_trainer")


def has(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def check(folder):
    checks, failed = Checks(folder), 0
    print(f"{checks.torch.cuda.get_device_name(0)}, torch {checks.torch.__version__}, "
          f"Python {sys.version.split()[0]}")
    for name in [n for n in dir(Checks) if n.startswith("check_")]:
        told = name.removeprefix("check_").replace("_", " ")
        if name in NEEDED and not has(NEEDED[name]):
            print(f"  --   {told}: no {NEEDED[name]} here")
        elif name in COMPILES and not hasattr(mpc._mpc, "CompiledFunction"):
            print(f"  --   {told}: this package has no compiler")
        else:
            try:
                print(f"  ok   {told}: {getattr(checks, name)()}", flush=True)
            except Exception as error:  # noqa: BLE001
                failed += 1
                print(f"FAILED {told}: {type(error).__name__}: {error}", flush=True)
    return failed


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("make", "check"):
        sys.exit(__doc__)
    place = pathlib.Path(sys.argv[2]).resolve()
    if sys.argv[1] == "make":
        make(place, sys.argv[3] if len(sys.argv) > 3 else "cuda:sm_90a")
    elif check(place):
        sys.exit(1)
