# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Creates, uses and drops functions, loaded files and trainers repeatedly, and prints by how much
the process has grown. usage: python_cycles.py MODEL.onnx CYCLES"""

import ctypes
import gc
import pathlib
import resource
import sys
import tempfile

import mpc
import numpy as np

# An engine caches 64 programs.
WARM = 100
BOUND = 8 << 20


def resident():
    gc.collect()
    # Free memory in between belongs to no object.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main():
    path, count = sys.argv[1], int(sys.argv[2])
    numbers = np.random.default_rng(0)
    x, y = numbers.standard_normal((2, 1, 8, 8), np.float32), numbers.integers(0, 10, 2)
    with tempfile.TemporaryDirectory() as folder:
        stored = str(pathlib.Path(folder, "m.mpcx"))
        mpc.compile(path, policy="mixed_bfloat16").save(stored)

        def function():
            mpc.compile(path, policy="mixed_bfloat16", cache=False)(x)

        def file():
            mpc.load(stored)(x)

        def trainer():
            made = mpc.Trainer(path, policy="mixed_float16", cache=False)
            made.step(x, y)
            made.load_state_dict(made.state_dict())

        def policy():
            mpc.Policy("mixed_float16", overrides={"op:softmax": "float32"}).for_compiler()

        held = True
        for cycle in (function, file, trainer, policy):
            for _ in range(WARM):
                cycle()
            before = resident()
            for _ in range(count - WARM):
                cycle()
            grown = resident() - before
            held &= grown < BOUND
            print(f"{cycle.__name__}: {count} cycles, grown by {grown / 1e6:.1f} MB in the last {count - WARM}",
                  flush=True)
    print("hold" if held else f"exit: more than {BOUND / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
