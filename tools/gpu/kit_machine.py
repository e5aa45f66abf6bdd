# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The machine: library paths, whether it has a GPU, its properties and peak rates."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from kit_state import tail

CEILINGS = """
import json, time, torch
def seconds(once, count):
    for _ in range(3): once()
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(); a.record()
    for _ in range(count): once()
    b.record(); b.synchronize()
    return a.elapsed_time(b) / count * 1e-3
x = torch.empty(1 << 30, dtype=torch.float32, device="cuda").normal_()
y = torch.empty_like(x)
copy = seconds(lambda: y.copy_(x), 20)
print(json.dumps({"copy_bytes_per_second": 2 * x.numel() * 4 / copy}), flush=True)
del x, y
for kind in (torch.bfloat16, torch.float16, torch.float32):
    torch.backends.cuda.matmul.allow_tf32 = True
    a, b = (torch.randn(8192, 8192, device="cuda").to(kind) for _ in range(2))
    time_each = seconds(lambda: a @ b, 20)
    name = "tf32" if kind == torch.float32 else str(kind).removeprefix("torch.")
    print(json.dumps({name + "_flops_per_second": 2 * 8192 ** 3 / time_each}), flush=True)
"""


def library_folders():
    """Directories with NVIDIA libraries outside the loader's search path."""
    folders = [pathlib.Path(f) for f in ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/local/cuda/lib64")]
    sites = {pathlib.Path(p) for p in sys.path if p.endswith("site-packages")}
    for site in sorted(sites):
        folders += sorted(site.glob("nvidia/*/lib"))
    return [str(folder) for folder in folders if folder.is_dir()]


def environment(pack):
    """For every program of the kit. The loader's own paths take precedence, except over the pack's."""
    known = os.environ.get("LD_LIBRARY_PATH", "")
    paths = [str(pack / "lib"), *([known] if known else []), *library_folders()]
    return os.environ | {"LD_LIBRARY_PATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def find_device(env):
    """"cuda" if the driver finds a GPU, otherwise "cuda-host"."""
    probe = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); " \
            "assert c.cuInit(0) == 0 and c.cuDeviceGetCount(ctypes.byref(n)) == 0 and n.value > 0"
    done = subprocess.run([sys.executable, "-c", probe], env=env, capture_output=True, check=False)
    return "cuda" if done.returncode == 0 else "cuda-host"


def first_lines(command, env, count=3):
    if not shutil.which(command[0]):
        return None
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=20)
    return [line for line in (done.stdout or done.stderr).splitlines() if line.strip()][:count]


def facts(kit, clock):
    """The machine's properties; the peak rates are measured by PyTorch if installed."""
    state, env = kit.state, kit.env
    if not state.has("facts", "machine"):
        versions = {}
        for name in ("torch", "jax", "triton", "numpy"):
            code = f"import {name}; print({name}.__version__)"
            try:
                done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                                      check=False, timeout=max(1, min(20, clock.left())))
                versions[name] = done.stdout.strip() if done.returncode == 0 else None
            except subprocess.TimeoutExpired:
                versions[name] = "slow to import"
        gpu = first_lines(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem",
                           "--format=csv,noheader"], env)
        tools = {name: shutil.which(name) for name in ("ncu", "nsys", "compute-sanitizer", "nvcc", "g++", "clang++")}
        state.add("facts", "machine", gpu=gpu, libc=os.confstr("CS_GNU_LIBC_VERSION"),
                  cores=os.cpu_count(), versions=versions, tools=tools, libraries=library_folders())
    if kit.device == "cuda" and not state.has("facts", "ceilings"):
        try:
            done = subprocess.run([sys.executable, "-c", CEILINGS], env=env, capture_output=True, text=True,
                                  check=False, timeout=max(1, clock.left()))
            text, late = done.stdout, False
            reason = "" if done.returncode == 0 else (tail(done.stderr).splitlines() or ["it failed"])[-1]
        except subprocess.TimeoutExpired as error:
            text, reason, late = (error.stdout or b"").decode(), "took too long", True
        measured = {}
        for line in text.splitlines():
            if line.startswith("{"):
                measured |= json.loads(line)
        state.add("facts", "ceilings", late=late and not measured, reason=reason, **measured)
