# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparison for char-gpt: losses under three policies and of torch.compile with the same initial
weights and order of sequences, and their speeds, measured in turns.

PyTorch runs in subprocesses of this script, which communicate by lines.
"""
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys
import types

# Training loop and precision of each system.
SYSTEMS = {
    "mpc float32": ("mpc", "float32"),
    "mpc mixed_bfloat16": ("mpc", "mixed_bfloat16"),
    "mpc mixed_float16": ("mpc", "mixed_float16"),
    "torch.compile float32": ("torch", "float32"),
    "torch.compile autocast bfloat16": ("torch", "bfloat16"),
}
# Number of final losses to average for the result, and steps per logged loss.
LAST, EVERY = 50, 5
# Steps per turn of the speed measurement; the first interval is discarded.
TURN = 20

# ===----------------------------------------------------------------------=== #
# PyTorch's loop
# ===----------------------------------------------------------------------=== #


def epoch_order(count, seed, epoch):
    """mpc's order of examples (mpc/Training/Dataset.h)."""
    import numpy as np

    def mix(v):
        v = (v ^ (v >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return v ^ (v >> np.uint64(31))
    step = 0x9e3779b97f4a7c15
    start = mix(np.array([(seed + epoch * step) % 2**64], np.uint64))
    return np.argsort(mix(start + np.arange(count, dtype=np.uint64) * np.uint64(step)), kind="stable")


def batches(path, tokens, batch, seed):
    import numpy as np
    text = np.fromfile(path, np.uint16).astype(np.int64)
    count = (len(text) - 1) // tokens
    for epoch in itertools.count():
        order = epoch_order(count, seed, epoch)
        for pick in order[:count // batch * batch].reshape(-1, batch):
            yield tuple(np.stack([text[first:first + tokens] for first in pick * tokens + further])
                        for further in (0, 1))


def torchao_product(torch, recipe):
    """x @ w with operands quantized by torchao (0.18), emulated, in the forward and the backward pass.

    The operands are rounded to bfloat16 before, as under its autocast.
    """
    if recipe == "float8":
        from torchao.float8.config import Float8LinearConfig
        from torchao.float8.float8_linear import matmul_with_hp_or_float8_args
        from torchao.float8.float8_training_tensor import LinearMMConfig, ScaledMMConfig
        each = ScaledMMConfig(emulate=True, use_fast_accum=False, fp8_output=False, pad_inner_dim=False)
        settings = LinearMMConfig(each, each, each), Float8LinearConfig(emulate=True)
        return lambda x, w: matmul_with_hp_or_float8_args.apply(x.bfloat16(), w.bfloat16(), *settings)
    from torchao.prototype.moe_training import mxfp8_linear as mx
    e4m3, emulated = torch.float8_e4m3fn, mx.KernelPreference.EMULATED
    kernels = mx.MXFP8Dim0CastKernelChoice.TORCH, mx.MXFP8Dim1CastKernelChoice.TORCH
    return lambda x, w: mx.mx_mm.apply(x.bfloat16(), w.bfloat16().t().contiguous(), e4m3, e4m3, e4m3, 32, emulated,
                                       *kernels, mx.ScaleCalculationMode.RCEIL, False)


def torch_loss(torch, options):
    import torch.nn.functional as F

    recipe = options.precision.removeprefix("torchao_")
    is_torchao = recipe != options.precision
    multiply = torchao_product(torch, recipe) if is_torchao else torch.matmul

    def normed(x, scale):
        return F.layer_norm(x, scale.shape, scale, None, 1e-5)

    def loss(weights, x, y):
        h = F.embedding(x, weights["letter"]) + weights["place"]
        b, t, width = h.shape
        for i in range(options.layers):
            w = {name: weights[f"blocks.{i}.{name}"] for name in ("norm1", "qkv", "out", "norm2", "up", "down")}
            q, k, v = (part.view(b, t, options.heads, -1).transpose(1, 2)
                       for part in multiply(normed(h, w["norm1"]), w["qkv"]).split(width, dim=2))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + multiply(a.transpose(1, 2).reshape(b, t, width), w["out"])
            h = h + multiply(F.gelu(multiply(normed(h, w["norm2"]), w["up"])), w["down"])
        logits = normed(h, weights["norm"]) @ weights["letter"].t()
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())
    return loss if is_torchao else torch.compile(loss)  # torchao's emulation runs eagerly


def work(settings):
    """Reads step counts from stdin and answers each with the losses and seconds of that many steps."""
    import time

    import torch
    from onnx_file import read_weights
    options = types.SimpleNamespace(**json.loads(settings))
    torch.set_num_threads(options.threads)
    weights = {name: torch.tensor(values).reshape(shape).requires_grad_()
               for name, (shape, values) in read_weights(options.model).items() if shape}
    loss = torch_loss(torch, options)
    optimizer = torch.optim.AdamW(weights.values(), options.rate, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    data = batches(options.data, options.tokens, options.batch, options.seed)
    done, warmup = 0, options.steps // 10
    for line in sys.stdin:
        losses, seconds = [], []
        for _ in range(int(line)):
            start = time.perf_counter()
            part = min(1, max(0, (done - warmup) / (options.steps - warmup)))
            rate = (done + 1) / warmup if done < warmup else 0.1 + 0.45 * (1 + math.cos(math.pi * part))
            optimizer.param_groups[0]["lr"] = options.rate * rate
            x, y = map(torch.from_numpy, next(data))
            with torch.autocast("cpu", torch.bfloat16, enabled=options.precision != "float32"):
                value = loss(weights, x, y)
            value.backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            losses.append(value.item())
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"losses": losses, "seconds": seconds}), flush=True)


class Torch:
    """A process that runs PyTorch's loop."""

    def __init__(self, options, precision, seed, model, data):
        settings = {name: getattr(options, name) for name in
                    ("tokens", "batch", "layers", "heads", "rate", "steps", "threads")}
        settings |= {"precision": precision, "seed": seed, "model": str(model), "data": str(data / "train.bin")}
        self.process = subprocess.Popen([sys.executable, __file__, json.dumps(settings)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def step(self, count):
        print(count, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"PyTorch's loop ended with {self.process.wait()}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# ===----------------------------------------------------------------------=== #
# mpc's
# ===----------------------------------------------------------------------=== #


def mpc_lines(options, policy, seed, model, data, steps, flags):
    """The progress lines of `mpc train`, without the final one."""
    command = [options.mpc, "train", model, "--data", data / "train.bin", "--policy", policy, *flags, "--steps", steps,
               "--seed", seed, "--log-every", EVERY, "--json", "--quiet"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}")
    return [line for line in map(json.loads, done.stdout.splitlines()) if "final" not in line]


def losses_of(options, system, seed, model, data, flags):
    """Mean loss of each interval of a run."""
    kind, precision = SYSTEMS[system]
    if kind == "mpc":
        lines = mpc_lines(options, precision, seed, model, data, options.steps, flags)
        return [line["loss"] for line in lines], lines[-1]["skipped_steps"]
    worker = Torch(options, precision, seed, model, data)
    losses = [statistics.mean(worker.step(EVERY)["losses"]) for _ in range(options.steps // EVERY)]
    worker.end()
    return losses, 0


def speeds_of(options, systems, model, data, flags):
    """Sequences per second of each system: the median over its turns."""
    workers = {s: Torch(options, SYSTEMS[s][1], 1, model, data) for s in systems if SYSTEMS[s][0] == "torch"}
    for worker in workers.values():
        worker.step(3)  # compiles
    found = {system: [] for system in systems}
    for _ in range(options.turns):
        for system in systems:
            if system in workers:
                times = workers[system].step(TURN)["seconds"][EVERY:]
                found[system] += [EVERY * options.batch / sum(times[i:i + EVERY]) for i in range(0, len(times), EVERY)]
            else:
                lines = mpc_lines(options, SYSTEMS[system][1], 1, model, data, TURN, flags)
                found[system] += [line["samples_per_second"] for line in lines[1:]]
    for worker in workers.values():
        worker.end()
    return {system: statistics.median(values) for system, values in found.items()}


# ===----------------------------------------------------------------------=== #
# The table
# ===----------------------------------------------------------------------=== #


def compare(options, gpt, data, flags):
    probe = [sys.executable, "-c", "import torch, numpy"]
    has_torch = not options.without_torch and \
        subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if options.policies:
        SYSTEMS.clear()
        for name in options.policies.split(","):
            kind = "torch" if name.startswith("torchao_") else "mpc"
            SYSTEMS[name if kind == "torch" else f"mpc {name}"] = kind, name
    systems = [s for s, (kind, _) in SYSTEMS.items() if kind == "mpc" or has_torch]
    if not has_torch and not options.without_torch:
        print("torch.compile is left out: this Python has no torch and numpy", file=sys.stderr)
    kept = options.out / "compare.json"
    state = json.loads(kept.read_text()) if kept.exists() else {}
    size = f"{options.steps} steps of {options.batch} x {options.tokens}"
    runs, speeds = state.setdefault(size, {}), state.setdefault("speeds", {})
    for seed in range(1, options.seeds + 1):
        model = options.out / f"compare-{seed}.onnx"
        gpt.write_trained(model, gpt.draw(seed), options.batch)
        for system in systems:
            key = f"{system}, seed {seed}"
            if key not in runs:
                losses, skipped = losses_of(options, system, seed, model, data, flags)
                runs[key] = {"system": system, "seed": seed, "loss": statistics.mean(losses[-LAST // EVERY:]),
                             "skipped": skipped, "losses": losses}
                kept.write_text(json.dumps(state))
                print(f"{key}: {runs[key]['loss']:.4f}", file=sys.stderr, flush=True)
    if options.turns:
        model = options.out / "compare-1.onnx"
        gpt.write_trained(model, gpt.draw(1), options.batch)
        speeds |= speeds_of(options, systems, model, data, flags)
        kept.write_text(json.dumps(state))
    return report(systems, runs, speeds)


def interval(differences, losses):
    """The 95 % interval of the mean of paired differences, in per cent of the mean loss."""
    # Quantiles of Student's t for 1, 2, ... degrees of freedom.
    quantiles = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
    count = len(differences)
    if not 2 <= count <= len(quantiles) + 1:
        return "-"
    middle, loss = statistics.mean(differences), statistics.mean(losses)
    half = quantiles[count - 2] * statistics.stdev(differences) / math.sqrt(count)
    return f"{100 * (middle - half) / loss:+.2f} to {100 * (middle + half) / loss:+.2f}"


def report(systems, runs, speeds):
    """Prints the table; returns 4 if a mean loss differs significantly."""
    ends = {system: {run["seed"]: run["loss"] for run in runs.values() if run["system"] == system}
            for system in systems}
    base = systems[0]
    noise = statistics.stdev(ends[base].values()) if len(ends[base]) > 1 else math.nan
    print(f"| system | loss | spread | from {base} | 95 % interval, % | samples/s |\n|---|--:|--:|--:|--:|--:|")
    apart = []
    for system in systems:
        values = list(ends[system].values())
        spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else "-"
        both = [ends[system][seed] - ends[base][seed] for seed in ends[system] if seed in ends[base]]
        away = statistics.mean(both) if both and system != base else None
        print(f"| {system} | {f'{statistics.mean(values):.4f}' if values else '-'} | {spread} | "
              f"{'-' if away is None else f'{away:+.4f}'} | {interval(both, values) if away is not None else '-'} | "
              + (f"{speeds[system]:.1f} |" if system in speeds else "- |"))
        if away is not None and abs(away) > noise:
            apart.append(f"{system} is {away:+.4f} from {base}, whose seeds spread by {noise:.4f}")
    judged = "no loss is outside the noise" if noise >= 0 else f"not judged: {base} has fewer than two seeds"
    print("\n".join(["", *(apart or [judged])]))
    return 4 if apart else 0


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    work(sys.argv[1])
