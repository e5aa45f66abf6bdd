#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutation fuzzing of `mpc`: a corrupt file is rejected with exit code 1, or computed correctly.

  tools/ci/mutants.py [KIND...] [--seeds 0..1999] [--mpc build/bin/mpc] [--jobs 2] [--failures FOLDER]

Kinds: onnx, text, stablehlo, arrays, idx, safetensors, executable, policy. A mutant is
determined by its kind and seed: it changes bytes, or an element of the format (a protobuf
field, a JSON key, a token of text, a number of a header) with lengths and digests corrected.
Each may take 2 s of CPU time and 1 GiB. Exit code 1 if one failed.
"""

import argparse
import collections
import concurrent.futures
import gzip
import io
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import mutations  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
INPUTS = ROOT / "test" / "Inputs"
SECONDS, BYTES = 2, 1 << 30
# For a process that hangs without using CPU time, on a loaded machine.
WALL_SECONDS = 120
CHECK = ["check", "--device", "cpu", "--threads", "1", "--quiet", "--json"]


def array(shape, data, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    header += b" " * (-(11 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + data


def make_sources(folder, mpc):
    """The files to mutate, by kind: (contents, suffix)."""
    onnx = [path.read_bytes() for path in sorted((INPUTS / "onnx").glob("*.onnx"))]
    nodes = pathlib.Path("/usr/share/libonnx-testdata/data/node")
    onnx += [path.read_bytes() for path in sorted(nodes.glob("*/model.onnx"))[::9] if path.stat().st_size < 4096]
    text = [*(ROOT / "test" / "Smith" / "Inputs").glob("*.mlir"), *(ROOT / "test" / "Integration" / "CPU").glob("*.mlir"),
            ROOT / "test" / "Pipelines" / "dense-layer.mlir", ROOT / "test" / "Pipelines" / "two-layers.mlir"]
    with tarfile.open(ROOT / "test" / "Import" / "StableHLO" / "jax.tar.xz") as archive:
        modules = sorted((member.name, archive.extractfile(member).read()) for member in archive
                         if member.name.endswith(".mlir") and member.size < 6000)
    # Inputs and outputs of a small CNN.
    model, data = INPUTS / "onnx" / "small-cnn.onnx", folder / "data"
    subprocess.run([sys.executable, ROOT / "test" / "Integration" / "Inputs" / "make_training_data.py", data], check=True)
    values = array((2, 1, 8, 8), bytes(512))
    (folder / "image.npy").write_bytes(values)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", values)
    run = [str(mpc), "train", str(model), "--data", str(data), "--batch", "16", "--steps", "2", "--quiet",
           "--checkpoint", str(folder / "checkpoints")]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    checkpoint = sorted((folder / "checkpoints").glob("*.safetensors"))[-1]
    compiled = folder / "model.mpcx"
    subprocess.run([str(mpc), "compile", str(model), "--target", "cpu:native", "--quiet", "-o", str(compiled)],
                   check=True, stdout=subprocess.DEVNULL)
    images = gzip.decompress((data / "train-images-idx3-ubyte.gz").read_bytes())
    return {
        "onnx": [(bytes_, ".onnx") for bytes_ in onnx],
        "text": [(path.read_bytes(), ".mlir") for path in sorted(text)],
        "stablehlo": [(bytes_, ".mlir") for _, bytes_ in modules],
        "arrays": [(values, ".npy"), (packed.getvalue(), ".npz")],
        "idx": [(images, ""), (gzip.compress(images, mtime=0), ".gz")],
        "safetensors": [(checkpoint.read_bytes(), "")],
        "executable": [(compiled.read_bytes(), ".mpcx")],
        # Renamed, because the names of built-in policies are reserved.
        "policy": [(re.sub(rb'"name": "', b'"name": "my_', path.read_bytes(), count=1), ".json")
                   for path in sorted((ROOT / "lib" / "Policy" / "data").glob("*.json"))],
    }


def command_for(kind, path, folder, state):
    """The command that reads the mutant at `path`."""
    model = str(INPUTS / "onnx" / "small-cnn.onnx")
    train = ["train", model, "--batch", "16", "--quiet", "--device", "cpu", "--threads", "1"]
    if kind in ("onnx", "text", "stablehlo"):
        return [*CHECK, str(path)]
    if kind == "policy":
        return [*CHECK, model, "--policy", str(path)]
    if kind == "arrays":
        name = f"image={path}" if path.suffix == ".npy" else str(path)
        return [*CHECK, model, "--input", name]
    if kind == "executable":
        return ["run", str(path), "--input", f"image={state / 'image.npy'}", "--quiet", "--device", "cpu", "--threads", "1"]
    if kind == "idx":
        data = folder / "data"
        shutil.copytree(state / "data", data)
        old = data / "train-images-idx3-ubyte.gz"
        old.unlink()
        path.rename(data / f"train-images-idx3-ubyte{path.suffix}")
        return [*train, "--data", str(data), "--steps", "1"]
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    path.rename(checkpoints / "step-000000000002.safetensors")
    return [*train, "--data", str(state / "data"), "--steps", "3", "--checkpoint", str(checkpoints), "--resume"]


def run_limited(command, output, environment, cwd=None, seconds=SECONDS):
    """(exit code, CPU seconds, bytes of memory) of a process; one that far exceeds its limits, or 8 GiB, is
    killed."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (4 * seconds, 4 * seconds + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with open(output, "wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, preexec_fn=limit,
                                   env=environment, cwd=cwd)
    end = time.monotonic() + WALL_SECONDS
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
        if time.monotonic() > end:
            process.send_signal(signal.SIGKILL)
            end = float("inf")
        time.sleep(0.002)


def judge(code, seconds, memory, output):
    """What is wrong with an outcome; empty if nothing is."""
    said = output.decode(errors="replace")
    if code not in (0, 1):
        return f"exit {code}"
    if seconds > SECONDS:
        return f"{seconds:.1f} s"
    if memory > BYTES:
        return f"{memory >> 20} MiB"
    if code == 1 and not re.search(r"error|\"message\"", said):
        return "refused in silence"
    return ""


def run_mutant(task):
    """Runs mutant `seed` of a file, or the original if there is no seed."""
    kind, seed, (content, suffix), mpc, state, failures = task
    mutant = content if seed is None else mutations.mutate(kind, content, random.Random(f"{kind} {seed}"))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path, output = folder / f"mutant{suffix}", folder / "output"
        path.write_bytes(mutant)
        command = [str(mpc), *command_for(kind, path, folder, state)]
        # Nothing cached by an earlier mutant may be used.
        environment = {**os.environ, "MPC_CACHE_DIR": str(state / "cache" if kind in ("idx", "safetensors", "arrays")
                                                          else folder / "cache")}
        code, seconds, memory = run_limited(command, output, environment)
        if code == -signal.SIGKILL and seconds < SECONDS:
            # Timed out while idle; retry once, as the machine may have been suspended.
            code, seconds, memory = run_limited(command, output, environment)
        said = output.read_bytes()
        wrong = judge(code, seconds, memory, said)
        if wrong and failures:
            failures.mkdir(parents=True, exist_ok=True)
            (failures / f"{kind}-{seed}{suffix}").write_bytes(mutant)
            (failures / f"{kind}-{seed}.txt").write_bytes(f"{wrong}: {' '.join(command)}\n".encode() + said[-4000:])
    return kind, seed, code, seconds, memory, wrong, said[-300:].decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(mutations.KINDS))
    parser.add_argument("--seeds", default="0..1999", help="A..B, both included")
    parser.add_argument("--mpc", type=pathlib.Path, default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--failures", type=pathlib.Path, help="folder that receives the mutants that failed")
    arguments = parser.parse_args()
    unknown = set(arguments.kinds) - set(mutations.KINDS)
    match = re.fullmatch(r"(\d+)\.\.(\d+)", arguments.seeds)
    if unknown or not match:
        sys.exit(f"no such kind: {', '.join(sorted(unknown))}" if unknown else f"--seeds: \"{arguments.seeds}\" is not A..B")
    failed = 0
    with tempfile.TemporaryDirectory() as state, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        state = pathlib.Path(state)
        sources = make_sources(state, arguments.mpc)
        for kind in arguments.kinds or mutations.KINDS:
            tasks = [(kind, seed, sources[kind][seed % len(sources[kind])], arguments.mpc, state, arguments.failures)
                     for seed in range(int(match[1]), int(match[2]) + 1)]
            whole = [run_mutant((kind, None, source, arguments.mpc, state, None)) for source in sources[kind]]
            if not any(outcome[2] == 0 for outcome in whole):
                sys.exit(f"{kind}: no file is read as it is: {whole[0][6]}")
            codes, longest, largest = collections.Counter(), 0.0, 0
            for _, seed, code, seconds, memory, wrong, said in pool.map(run_mutant, tasks):
                codes[code] += 1
                longest, largest = max(longest, seconds), max(largest, memory)
                failed += bool(wrong)
                if wrong:
                    print(f"{kind} {seed}: {wrong}: {said.strip().splitlines()[-1:]}", flush=True)
            print(f"{kind}: {len(tasks)} mutants, {codes[1]} refused, {codes[0]} computed, at most {longest:.1f} s "
                  f"and {largest >> 20} MiB", flush=True)
    print(f"{failed} failures")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
