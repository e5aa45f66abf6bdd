# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every workload of the bench with generated and library products, with the planner's predictions; then the
peers."""
import json
import pathlib
import subprocess
import sys
import tempfile

import bench
from kit_state import tail

# The planner's launch overhead per kernel of a graph (lib/Target/TargetInfo.cpp).
LAUNCH_SECONDS = 1.25e-6
# Second and third call.
PEERS = {2: (["torch-eager", "torch-graph", "jax"], ["g1", "g2", "g3", "g4", "g9", "g12"]),
         3: (["torch-compile"], None)}
# Peers that may prepare concurrently; those that autotune meanwhile run alone.
SIDE_BY_SIDE, MEASURING = 6, "torch-compile"


def tasks(kit):
    """(task, gemm, file) of the packed files."""
    for task in bench.tasks(kit.pack):
        for gemm, file in task.files.items():
            if file.exists() and task.name.startswith(kit.workloads):
                yield task, gemm, file


def predicted_ms(kernels):
    """Roofline time: the larger of arithmetic and memory time per kernel, at the planner's rates."""
    seconds = 0
    for kernel in kernels:
        least = max(kernel["flops"] / bench.MATRIX_FLOPS, kernel["bytes"] / bench.COPY_BYTES)
        seconds += kernel["count"] * LAUNCH_SECONDS + least
    return 1e3 * seconds


def run_json(command, env, seconds, log):
    """A program's output as JSON, or {"error": ..., "late": ...}."""
    try:
        done = subprocess.run([str(word) for word in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"error": "took too long", "late": True}
    log.write(done.stderr)
    log.flush()
    if done.returncode:
        return {"error": tail(done.stderr or done.stdout) or f"ended with {done.returncode}"}
    return json.loads(done.stdout)


def data_of(task, folder, env):
    """The file with the inputs of a training step; None if mpc generates them."""
    if not task.data:
        return None
    file = pathlib.Path(folder) / f"{task.data}.npz"
    if not file.exists():
        script = pathlib.Path(__file__).with_name("training.py")
        done = subprocess.run([sys.executable, script, "data", task.data, file], env=env, check=False,
                              capture_output=True)
        if done.returncode:
            return None
    return file


def own_times(kit, clock):
    with tempfile.TemporaryDirectory() as folder:
        for task, gemm, file in tasks(kit):
            name = f"{task.name}/{gemm}"
            if kit.state.has("workloads", name):
                continue
            if clock.over():
                break
            data = data_of(task, folder, kit.env)
            command = [kit.program("mpc"), "bench", file, "--device", kit.device, "--json"]
            command += ["--inputs", data] if data else []
            # Emulation takes seconds where a GPU takes microseconds.
            command += ["--runs", "1"] if kit.device == "cuda-host" else []
            answer = run_json(command, kit.env, max(1.0, min(40.0, clock.left())), kit.log)
            if "error" in answer:
                kit.note("workloads", name, ok=False, late=bool(answer.get("late")), reason=answer["error"])
                continue
            kernels = [{key: kernel[key] for key in ("name", "kind", "count", "median_ms", "flops", "bytes")}
                       for kernel in answer["kernels"]]
            kit.note("workloads", name, ok=True, title=task.title, median_ms=answer["median_ms"],
                     min_ms=answer["min_ms"], buffer_sets=answer.get("buffer_sets", 1), floor_ms=task.floor_ms(),
                     predicted_ms=predicted_ms(kernels), kernels=kernels)


def peer_batches(kit, call):
    """(task, system) of the peers not yet timed, in groups that prepare concurrently."""
    systems, prefixes = PEERS[call]
    batch = []
    for task in bench.tasks(kit.pack):
        if prefixes and task.name.partition("-")[0] not in prefixes or not any(f.exists() for f in task.files.values()):
            continue
        for system in task.peers:
            if system not in systems or not task.name.startswith(kit.workloads) or kit.state.has("peers", f"{task.name}/{system}"):
                continue
            batch.append((task, system))
            if system == MEASURING or len(batch) == SIDE_BY_SIDE:
                yield batch
                batch = []
    if batch:
        yield batch


def peer_times(kit, clock, call):
    for batch in peer_batches(kit, call):
        if clock.over():
            return
        peers = [bench.Peer(system, task.name, kit.pack, kit.log, kit.env) for task, system in batch]
        limit = bench.time.monotonic() + max(1.0, min(150.0, clock.left()))
        for peer in peers:
            peer.version = peer.answer(limit).get("version")
        for peer in peers:
            for _ in range(3):
                peer.time(limit)
            peer.close()
            medians = sorted(peer.medians)
            kit.note("peers", f"{peer.name}/{peer.system}", ok=bool(medians), late=peer.error == "took too long",
                     reason=peer.error or "", version=peer.version,
                     median_ms=medians[len(medians) // 2] if medians else None)
