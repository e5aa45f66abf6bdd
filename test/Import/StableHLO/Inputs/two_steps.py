# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a whole step with a loss scale that overflows, and with one that does not.
usage: two_steps.py MPC FOLDER, as export.py wrote the folder"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

mpc, folder = sys.argv[1], pathlib.Path(sys.argv[2])
for scale in (3.4e38, 1024):
    with tempfile.TemporaryDirectory() as work:
        given = dict(np.load(folder / "inputs.npz"))
        np.savez(f"{work}/in.npz", **given, **{"loss_scale.scale": np.array(scale, "f4")})
        subprocess.run([mpc, "run", folder / "module.mlir", "--policy", "mixed_float16", "--quiet", "--input",
                        f"{work}/in.npz", "--output", f"{work}/out.npz"], check=True, stdout=subprocess.DEVNULL)
        left = np.load(f"{work}/out.npz")
        held = all((left[f"out{i}"] == given[f"arg{i}"]).all() for i in range(13))
        renewed = all((left[f"out{i}"] != given[f"arg{i}"]).any() for i in range(13))
        state = "held" if held else "renewed" if renewed else "torn"
        print(f"scale {scale:g}: state {state}, new scale {left['loss_scale.scale']:.4g}, skipped "
              f"{left['loss_scale.skipped_steps']}")
