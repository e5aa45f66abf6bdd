# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a model on one rank and on several, and compares the outputs of the exported models.
usage: train_ranks.py MPC FOLDER RANKS... -- TRAIN-ARGUMENTS

Prints "N ranks: ok" if the outputs differ only by roundings due to the order of summation,
accumulated over the steps: in float32 8 ulps for each step, under a 16-bit policy
8 ulps of the type in which gradients are stored, which each step rounds once."""
import array
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import zipfile

STEPS, UNITS = 40, 8
EPSILON = {"float32": 2.0**-24, "mixed_bfloat16": 2.0**-9, "mixed_float16": 2.0**-12}


def run(command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def train(mpc, folder, ranks, arguments):
    exported = folder / f"ranks{ranks}.onnx"
    start = ["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    news = run([*start, mpc, "train", *arguments, "--steps", str(STEPS), "--threads", "1", "--json", "--quiet",
                "--export", exported])
    final = json.loads(news.splitlines()[-1])
    write(folder / "image.npy")
    run([mpc, "run", exported, "--batch", "16", "--input", f"image={folder / 'image.npy'}", "--output",
         folder / "given.npz", "--quiet"])
    return final, read(folder / "given.npz")


def write(path):
    """Sixteen images of noise."""
    source = random.Random(1)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 1, 8, 8), }"
    header = header.ljust(117) + "\n"
    values = array.array("f", (source.random() for _ in range(16 * 64)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values.tobytes())


def read(path):
    """All floats of an .npz of float32."""
    values = array.array("f")
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            data = archive.read(name)
            start = 10 + int.from_bytes(data[8:10], "little")
            assert b"<f4" in data[:start], name
            values.frombytes(data[start:])
    return values


def main():
    mpc, folder, rest = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    at = rest.index("--")
    ranks, arguments = [int(text) for text in rest[:at]], rest[at + 1:]
    policy = arguments[arguments.index("--policy") + 1] if "--policy" in arguments else "float32"
    bound = STEPS * UNITS * EPSILON[policy]
    alone, wanted = train(mpc, folder, 1, arguments)
    scale = max(map(abs, wanted))
    for count in ranks:
        together, given = train(mpc, folder, count, arguments)
        assert (together["steps"], together["skipped_steps"], together["loss_scale"]) == \
            (alone["steps"], alone["skipped_steps"], alone["loss_scale"]), (together, alone)
        error = max(abs(a - b) for a, b in zip(wanted, given, strict=True)) / scale
        print(f"{count} ranks: {'ok' if error < bound else f'differ by {error:.1e}, at most {bound:.1e}'}")


main()
