#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs ONNX's node tests through the plugin execution provider in ONNX Runtime.

  onnxruntime_node_tests.py [TEST...] [--package build/python] [--verbose]

Needs the packages onnx, which contains the tests, and onnxruntime. A test is right if the outputs have the expected
values within the tolerance of ONNX's own runner. Each is first run without ONNX Runtime's CPU provider ("right by
mpc"), then, if that fails, with it ("right together"): of such a test mpc runs some of the nodes or none. Outputs that
differ for a reason in the lists of test/Import/ONNX are "undecided". Exit code 1 if another is wrong or a test crashes.
"""
import argparse
import collections
import pathlib
import subprocess
import sys

# Bits of an element by TensorProto.DataType, where several are in a byte.
PACKED = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Runner:
    def __init__(self):
        import onnxruntime
        import onnxruntime_ep_mpc
        self.ort, self.plugin = onnxruntime, onnxruntime_ep_mpc
        onnxruntime.set_default_logger_severity(4)
        onnxruntime.register_execution_provider_library("mpc", onnxruntime_ep_mpc.get_library_path())

    def open_session(self, model, alone):
        options = self.ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_cpu_ep_fallback", str(int(alone)))
        name = self.plugin.get_ep_name()
        devices = [device for device in self.ort.get_ep_devices() if device.ep_name == name]
        options.add_provider_for_devices(devices, {"cache": "0"})
        return self.ort.InferenceSession(model.SerializeToString(), options, enable_fallback=False)

    def given(self, value):
        """An input for ONNX Runtime; floats of 8 and 16 bits that NumPy lacks pass as bits."""
        import numpy
        import onnx
        if value.dtype.isbuiltin == 1:
            return self.ort.OrtValue.ortvalue_from_numpy(value)
        bits = numpy.array(value, order="C").view(f"u{value.dtype.itemsize}")
        element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element)

    def received(self, value):
        """An output as a NumPy array."""
        import ctypes
        import numpy
        import onnx
        if not value.is_tensor():
            raise TypeError("the output is no tensor")
        element = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
        if element.isbuiltin == 1:
            return value.numpy()
        shape = value.shape()
        count = int(numpy.prod(shape))
        bits = PACKED.get(onnx.TensorProto.DataType.Name(value.element_type()), 8 * element.itemsize)
        data = (ctypes.c_uint8 * ((count * bits + 7) // 8)).from_address(value.data_ptr())
        if bits >= 8:
            return numpy.frombuffer(data, element).reshape(shape).copy()
        codes = numpy.frombuffer(data, numpy.uint8)[:, None] >> numpy.arange(0, 8, bits, dtype=numpy.uint8)
        codes = (codes & (2**bits - 1)).ravel()[:count].reshape(shape).view(numpy.int8)
        if "float" in element.name:
            return codes.view(element)
        sign = 2**(bits - 1) if element.name.startswith("int") else 0
        return ((codes ^ sign) - sign).astype(element)

    def run(self, folder, alone):
        """Returns what differs, empty if nothing does; raises if the model is refused."""
        import numpy
        import onnx
        for data in sorted(folder.glob("test_data_set_*")):
            model, feed = onnx.load(folder / "model.onnx"), {}
            # Another format than a tensor's fails to parse, or has no type.
            inputs, outputs = ([onnx.load_tensor(data / f"{kind}_{index}.pb") for index in range(len(values))]
                               for kind, values in (("input", model.graph.input), ("output", model.graph.output)))
            for value, tensor in zip(list(model.graph.input), inputs):
                # ONNX Runtime's Python package makes no values of these types.
                if onnx.TensorProto.DataType.Name(tensor.data_type) in {"STRING", *PACKED}:
                    model.graph.input.remove(value)
                    tensor.name = value.name
                    model.graph.initializer.append(tensor)
                else:
                    feed[value.name] = self.given(onnx.numpy_helper.to_array(tensor))
            session = self.open_session(model, alone)
            results = session.run_with_ort_values(None, feed)
            for tensor, result in zip(outputs, results):
                name, expected, result = tensor.name, onnx.numpy_helper.to_array(tensor), self.received(result)
                if result.shape != expected.shape or result.dtype != expected.dtype:
                    return f"{name}: {result.dtype}{result.shape}, not {expected.dtype}{expected.shape}"
                if expected.dtype.kind in "OSU":
                    fits = numpy.array_equal(result, expected)
                else:
                    fits = numpy.allclose(result.astype(complex), expected.astype(complex), 1e-3, 1e-7, equal_nan=True)
                if not fits:
                    return f"{name}: other values"
        return ""

    def judge(self, folder):
        reasons = []
        for alone in (True, False):
            try:
                difference = self.run(folder, alone)
            except Exception as failure:
                reasons.append(str(failure).replace("\n", " "))
                continue
            if difference:
                return "wrong", difference
            return ("right by mpc", "") if alone else ("right together", reasons[0])
        return "refused", reasons[-1]


def undecided_tests():
    """Tests whose data are wrong, or for which ONNX leaves the random numbers open."""
    lists = ROOT / "test" / "Import" / "ONNX"
    faulty, refused = ((lists / f"node-tests-1.22-{name}.txt").read_text().splitlines()
                       for name in ("faulty", "refused"))
    return {line.split(":")[0] for line in faulty + [line for line in refused if "a random mask" in line]}


def work(data):
    """Writes a line for each test whose name is read."""
    runner = Runner()
    for name in sys.stdin:
        print("\t".join(runner.judge(data / name.strip())), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", metavar="TEST")
    parser.add_argument("--package", default=str(ROOT / "build" / "python"))
    parser.add_argument("--verbose", action="store_true", help="also name what is right together or refused")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, options.package)
    import onnx
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    if options.worker:
        return work(data)
    worker, verdicts, undecided = None, collections.Counter(), undecided_tests()
    for name in options.tests or sorted(path.name for path in data.iterdir()):
        if not worker:
            worker = subprocess.Popen([sys.executable, __file__, "--worker", "--package", options.package], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        worker.stdin.write(name + "\n")
        worker.stdin.flush()
        verdict, _, reason = worker.stdout.readline().strip("\n").partition("\t")
        if not verdict:
            verdict, reason, worker = "crash", f"exit code {worker.wait()}", None
        if verdict == "wrong" and name in undecided:
            verdict = "undecided"
        verdicts[verdict] += 1
        if verdict in ("wrong", "crash") or (options.verbose and verdict != "right by mpc"):
            print(f"{name}: {verdict}: {reason}", flush=True)
    counts = [f"{count} {verdict}" for verdict, count in verdicts.most_common()]
    print(f"{sum(verdicts.values())} tests:", ", ".join(counts))
    return int(bool(verdicts["wrong"] or verdicts["crash"]))


if __name__ == "__main__":
    sys.exit(main())
