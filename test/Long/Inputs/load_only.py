# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a compiled file by a package without a compiler. usage: load_only.py MODEL.mpcx INPUTS.npz WANTED.npz"""

import sys

import mpc
import numpy as np

path, inputs, wanted = sys.argv[1:]
function = mpc.load(path)
arrays, results = np.load(inputs), np.load(wanted)
found = function(**{i.name: arrays[i.name] for i in function.inputs})
np.testing.assert_array_equal(found, results[function.outputs[0]])
print("the same")
for wrong in (lambda: mpc.compile("model.onnx"), lambda: function.save("other.mpcx")):
    try:
        wrong()
    except mpc.Error as error:
        print(f"{type(error).__name__}: {error}")
