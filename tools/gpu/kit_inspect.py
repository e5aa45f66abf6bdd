# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernel inspection: profiles of ten kernels, and the sanitizers on one file per kind of thread
synchronization."""
import shutil
import subprocess

from kit_state import tail

# Per kernel: duration, and utilization of compute and memory.
METRICS = ["gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
           "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
           "dram__throughput.avg.pct_of_peak_sustained_elapsed", "launch__registers_per_thread",
           "sm__warps_active.avg.pct_of_peak_sustained_active",
           "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"]
# Pipelined products, row reductions by shuffles, attention, and steps: inter-block counters and in-place
# updates.
PROFILED = ["bench/g12-linear-gelu.own", "bench/g9-layer-norm.own", "bench/g9-softmax.own", "bench/g3-bert-layer.own",
            "training/g2-mnist-cnn.mixed_bfloat16.own", "training/g4-bert-layer.mixed_bfloat16.own",
            "training/g1-mlp.mixed_bfloat16.own", "training/g11-update.mixed_float16.own"]
KERNELS = 10
PROTOCOLS = {"products": "models/mlp/mixed_bfloat16", "convolutions": "models/mnist-cnn/mixed_bfloat16",
             "attention": "models/bert-tiny/mixed_bfloat16",
             "hand-over": "steps/g4-bert-layer.adam/mixed_bfloat16", "counters": "steps/g1-mlp.adam/mixed_float16",
             "filters": "steps/g2-mnist-cnn.sgd/mixed_bfloat16"}
TOOLS = ["memcheck", "racecheck", "synccheck", "initcheck"]
# Messages of a tool that is installed but does not work on this machine.
UNSUPPORTED = ["Device not supported", "LibraryNotLoaded", "Failed to initialize the profiler",
               "ERR_NVGPUCTRPERM", "not supported on this"]


def unusable(text):
    """Why the tool could not run at all, or None."""
    return next((reason for reason in UNSUPPORTED if reason.lower() in text.lower()), None)


def profile(kit, clock):
    tool = shutil.which("ncu")
    if kit.device != "cuda" or not tool:
        return kit.skip("profile", "ncu", "there is no " + ("ncu" if kit.device == "cuda" else "GPU"))
    taken = sum(line.get("kernels", 0) for line in kit.state.of("profile"))
    for stem in PROFILED:
        file = kit.pack / f"{stem}.mpcx"
        if taken >= KERNELS or clock.over():
            break
        if not file.exists() or kit.state.has("profile", stem):
            continue
        wanted = min(KERNELS - taken, 3)
        command = [tool, "--csv", "--clock-control", "none", "--metrics", ",".join(METRICS), "--launch-count",
                   str(wanted), kit.program("mpc"), "bench", str(file), "--device", "cuda", "--runs", "1"]
        text, code = run(command, kit.env, max(1.0, min(60.0, clock.left())))
        reason = unusable(text)
        if reason:
            return kit.skip("profile", "ncu", reason)
        rows = [line for line in text.splitlines() if line.startswith('"')]
        with open(kit.out / "profile.csv", "a", encoding="utf-8") as stream:
            stream.write(f"# {stem}\n" + "\n".join(rows) + "\n")
        ok = len(rows) > 1
        taken += wanted if ok else 0
        kit.note("profile", stem, ok=ok, late=code is None, kernels=wanted if ok else 0, reason="" if ok else tail(text))


def sanitizers(kit, clock):
    tool = shutil.which("compute-sanitizer")
    if kit.device != "cuda" or not tool:
        return kit.skip("sanitizers", "compute-sanitizer",
                        "there is no " + ("compute-sanitizer" if kit.device == "cuda" else "GPU"))
    for check in TOOLS:
        for protocol, stem in PROTOCOLS.items():
            name = f"{protocol}/{check}"
            file = kit.pack / f"{stem}.mpcx"
            if not file.exists() or kit.state.has("sanitizers", name):
                continue
            if clock.over():
                return
            inputs = file.with_suffix(".inputs.npz")
            if not inputs.exists():
                inputs = file.with_name("inputs.npz")
            command = [tool, "--tool", check, "--error-exitcode", "9", kit.program("mpc"), "run", str(file), "--device",
                       "cuda", "--inputs", str(inputs), "--quiet"]
            text, code = run(command, kit.env, max(1.0, min(30.0, clock.left())))
            if reason := unusable(text):
                return kit.skip("sanitizers", "compute-sanitizer", reason)
            kit.note("sanitizers", name, ok=code == 0, late=code is None, reason="" if code == 0 else tail(text))


def run(command, env, seconds):
    """(output of a program, its exit status or None on timeout)."""
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=seconds)
        return done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace"), None
