# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""32 processes at a time compile and run a few models with one cache, and a third of them is
killed by SIGKILL at a random moment; whoever ends has the right results, and the cache serves
later ones. usage: kill_compiles.py FOLDER MPC {MODEL NAME:DESCR:EXTENTS}..."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

PROCESSES, ROUNDS = 32, 3
folder, mpc = pathlib.Path(sys.argv[1]), sys.argv[2]
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)


def write_input(text, path):
    """An array of f2 or f4 with bytes that are small numbers in both. Returns the flag's value."""
    name, descr, extents = text.split(":")
    shape = tuple(map(int, extents.split(",")))
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = int(descr[-1])
    for extent in shape:
        size *= extent
    path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(60 for _ in range(size)))
    return f"{name}={path}"


def start(model, inputs, output, cache):
    return subprocess.Popen([mpc, "run", model, "--input", inputs, "--device", "cpu", "--threads", "1", "--quiet", "--json",
                             "--output", str(output)], env={**os.environ, "MPC_CACHE_DIR": str(cache)},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def expect(holds, what):
    if not holds:
        sys.exit(what)


models = [(model, write_input(text, folder / f"input-{number}.npy"))
          for number, (model, text) in enumerate(zip(sys.argv[3::2], sys.argv[4::2]))]
right = []
for number, (model, inputs) in enumerate(models):
    output = folder / f"right-{number}.npz"
    process = start(model, inputs, output, folder / f"cache-{number}")
    said = process.communicate()[0]
    expect(process.returncode == 0, said)
    right.append(output.read_bytes())

cache, source, killed, ended = folder / "cache", random.Random(1), 0, 0
for turn in range(ROUNDS):
    running = []
    for number in range(PROCESSES):
        which = number % len(models)
        output = folder / f"out-{turn}-{number}.npz"
        running.append((which, output, start(*models[which], output, cache)))
    # Times within the duration of a compile on a machine with few cores.
    for _, _, process in source.sample(running, PROCESSES // 3):
        time.sleep(source.random() * 0.2)
        if process.poll() is None:
            process.kill()
    for which, output, process in running:
        said = process.communicate()[0]
        if process.returncode == -9:
            killed += 1
            continue
        expect(process.returncode == 0, f"exit {process.returncode}: {said}")
        expect(output.read_bytes() == right[which], f"other results for {models[which][0]}")
        ended += 1
expect(killed > 0, "nobody was killed")
print(f"{killed} killed, {ended} ended with the right results")

# An entry that breaks off, and litter of the killed, harm nobody: they are no entries.
entries = [path for path in sorted((cache / "compiles").iterdir()) if path.is_file()]
for path in entries[::2]:
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
for path in entries:
    (path.parent / (path.name + ".tmp-1")).write_bytes(b"half of an entry")
for turn in ("rebuilt", "found"):
    for number, (model, inputs) in enumerate(models):
        output = folder / f"{turn}-{number}.npz"
        process = start(model, inputs, output, cache)
        said = process.communicate()[0]
        expect(process.returncode == 0 and output.read_bytes() == right[number], said)
        if turn == "found":
            expect('"cached":true' in said, f"not kept: {said}")
print("rebuilt and found")
