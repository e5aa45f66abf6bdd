# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints how many parameters a step updated to within 0.1 % of the update in float64.
usage: moves.py FOLDER OUTPUTS..., FOLDER as export.py wrote it"""

import pathlib
import sys

import numpy as np

folder, count = pathlib.Path(sys.argv[1]), 4
given, wanted = np.load(folder / "inputs.npz"), np.load(folder / "expected.npz")
for name in sys.argv[2:]:
    left, good = np.load(name), 0
    for i in range(count):
        move = wanted[f"out{i}"] - given[f"arg{i}"]
        error = left[f"out{i}"] - wanted[f"out{i}"]
        good += np.linalg.norm(error) < 1e-3 * np.linalg.norm(move)
    said = "all parameters" if good == count else f"{good} of {count} parameters"
    print(f"{pathlib.Path(name).name}: moves {said} as float64 does")
