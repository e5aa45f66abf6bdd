# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of single nodes, compared with ONNX Runtime or with given answers."""
import pathlib
import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper


class Held:
    """Checks models with `mpc`, in files in `folder`, under `policy` if that is given."""

    def __init__(self, mpc, folder, opset=17, device="cpu", policy=None):
        self.mpc, self.folder, self.opset, self.device, self.failures = mpc, pathlib.Path(folder), opset, device, 0
        self.options = ["--device", device] + (["--policy", policy] if policy else [])
        self.folder.mkdir(parents=True, exist_ok=True)

    def model(self, nodes, feeds, fixed, outputs):
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                  for name, array in feeds.items()]
        results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
        graph = helper.make_graph(nodes, "g", inputs, results,
                                  [numpy_helper.from_array(array, name) for name, array in fixed.items()])
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def run(self, model, feeds, outputs):
        """Results of ONNX Runtime for a file, or for bytes."""
        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return dict(zip(outputs, session.run(list(outputs), feeds)))

    def hold(self, name, nodes, feeds, outputs, fixed=None, expected=None, tolerance=None):
        """Checks a model whose inputs are `feeds` and initializers `fixed`. `outputs` are names with types;
        `expected` their values, those of ONNX Runtime where it is None. `tolerance` is relative to the largest
        element, for answers with an error that `mpc check` cannot derive; else that of `mpc check`."""
        path, inputs, answers = (str(self.folder / (name + end)) for end in (".onnx", "-inputs.npz", "-answers.npz"))
        onnx.save(self.model(nodes, feeds, fixed or {}, outputs), path)
        np.savez(inputs, **feeds)
        expected = self.run(path, feeds, outputs) if expected is None else expected
        if tolerance is None:
            np.savez(answers, **expected)
            self.call(name, "check", path, *self.options, "--inputs", inputs, "--expected", answers)
        elif self.call(name, "check", path, *self.options, "--inputs", inputs) and self.call(
                name, "run", path, *self.options, "--inputs", inputs, "--output", answers):
            found = np.load(answers)
            for key, value in expected.items():
                wide, close = np.float64(value), np.float64(found[key])
                size = max(np.max(np.abs(wide), initial=0), 1)
                if wide.shape != close.shape or not np.allclose(close, wide, 0, tolerance * size, equal_nan=True):
                    self.fail(name, f"{key}: {close.ravel()[:8]}, expected {wide.ravel()[:8]}")

    def refuse(self, name, nodes, feeds, outputs, fixed, text):
        """Checks that the command ends with exit code 1 and one sentence with `text`."""
        path, inputs = (str(self.folder / (name + end)) for end in (".onnx", "-inputs.npz"))
        onnx.save(self.model(nodes, feeds, fixed, outputs), path)
        np.savez(inputs, **feeds)
        done = subprocess.run([self.mpc, "check", path, *self.options, "--inputs", inputs, "--quiet"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 1 or text not in done.stderr or done.stderr.count("error: ") != 1:
            self.fail(name, f"exit {done.returncode}, expected 1 and '{text}': {done.stderr[-500:]}")

    def call(self, name, *arguments):
        done = subprocess.run([self.mpc, *arguments, "--quiet"], capture_output=True, text=True, check=False)
        if done.returncode:
            self.fail(name, f"exit {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}")
        return not done.returncode

    def fail(self, name, text):
        self.failures += 1
        print(f"{name}: {text}")

    def end(self):
        print(f"{self.failures} failures")
        return bool(self.failures)
