#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the plugin execution provider in ONNX Runtime on models of PyPI packages.

  onnxruntime_ep.py [MODEL|FILE.onnx=INPUTS.npz...] [--package build/python] [--rounds N] [--markdown FILE]

The models are those of real_models.py. Without ONNX Runtime's graph optimizations the results must have the bits of mpc
alone; exit code 1 if they do not. Times are CPU times of the process, one thread each, in turns, the minimum of the
rounds: of a run in ONNX Runtime's CPU provider, in the execution provider, of mpc's own Python function, and, where
the package openvino is installed, of OpenVINO in float32; and of opening a session with a filled compile cache.
"""
import argparse
import pathlib
import sys
import time

import real_models

COLUMNS = ["ONNX Runtime", "provider", "mpc alone", "OpenVINO"]


class Subject:
    """A model with its inputs, and a function without arguments for each column that has one."""

    def __init__(self, path, feed):
        import mpc
        import onnxruntime
        import onnxruntime_ep_mpc
        self.ort, self.plugin, self.path = onnxruntime, onnxruntime_ep_mpc, str(path)
        host = self.open_session(own=False)
        feed = {value.name: feed[value.name] for value in host.get_inputs() if value.name in feed}
        session, alone = self.open_session(own=True), mpc.compile(self.path, threads=1)
        self.runs = {"ONNX Runtime": lambda: host.run(None, feed), "provider": lambda: session.run(None, feed),
                     "mpc alone": lambda: alone(**feed)}
        self.feed, self.alone = feed, alone
        self.add_openvino()

    def open_session(self, own, optimized=True):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not optimized:
            options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if own:
            name = self.plugin.get_ep_name()
            devices = [device for device in self.ort.get_ep_devices() if device.ep_name == name]
            options.add_provider_for_devices(devices, {"threads": "1"})
        return self.ort.InferenceSession(self.path, options, providers=None if own else ["CPUExecutionProvider"])

    def add_openvino(self):
        try:
            import openvino
        except ImportError:
            return
        try:
            compiled = openvino.Core().compile_model(self.path, "CPU", {
                "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
            request = compiled.create_infer_request()
            request.infer(self.feed)
        except RuntimeError:  # it lacks an operator
            return
        self.runs["OpenVINO"] = lambda: request.infer(self.feed)

    def has_equal_bits(self):
        import numpy
        results = self.open_session(own=True, optimized=False).run(None, self.feed)
        alone = self.alone(**self.feed)
        alone = [alone] if isinstance(alone, numpy.ndarray) else list(alone)
        return len(results) == len(alone) and all(
            one.shape == other.shape and one.tobytes() == other.tobytes()
            for one, other in zip(results, map(numpy.asarray, alone)))


def seconds(function, repetitions=1):
    """CPU seconds of one call."""
    start = time.process_time()
    for _ in range(repetitions):
        function()
    return (time.process_time() - start) / repetitions


def measure(name, subject, rounds):
    # The first calls compile.
    repetitions = {}
    for column, run in subject.runs.items():
        run()
        repetitions[column] = max(1, int(0.02 / max(1e-6, seconds(run, 2))))
    least = dict.fromkeys(subject.runs, float("inf"))
    for _ in range(rounds):
        for column, run in subject.runs.items():
            least[column] = min(least[column], seconds(run, repetitions[column]))
    opens = [min(seconds(lambda own=own: subject.open_session(own)) for _ in range(4)) for own in (False, True)]
    cells = [name, *(f"{1e3 * least[column]:.3g}" if column in least else "-" for column in COLUMNS),
             f"{least['provider'] / least['mpc alone']:.2f}", *(f"{1e3 * each:.0f}" for each in opens)]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--package", default=str(real_models.ROOT / "build" / "python"))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--markdown", metavar="FILE")
    options = parser.parse_args()
    real_models.enter_environment()
    sys.path.insert(0, options.package)
    import numpy
    import onnxruntime
    import onnxruntime_ep_mpc
    onnxruntime.set_default_logger_severity(3)
    onnxruntime.register_execution_provider_library("mpc", onnxruntime_ep_mpc.get_library_path())
    site = next(real_models.VENV.glob("lib/python*/site-packages"))
    titles = ["model", *(f"{column}, ms" for column in COLUMNS), "provider / mpc", "session of ONNX Runtime, ms",
              "session with the provider, ms"]
    lines, differs = ["| " + " | ".join(titles) + " |", "|---" + "|--:" * (len(titles) - 1) + "|"], []
    for name in options.models or real_models.MODELS:
        if "=" in name:
            path, arrays = name.split("=")
            name, feed = pathlib.Path(path).parent.name, dict(numpy.load(arrays))
        elif name in real_models.MODELS:
            path, inputs = real_models.MODELS[name]
            random = numpy.random.default_rng(7)
            path, feed = site / path, {key: draw(random) for key, draw in inputs.items()}
        else:
            parser.error(f"no model is called '{name}'")
        subject = Subject(path, feed)
        if not subject.has_equal_bits():
            differs.append(name)
            print(f"{name}: the bits differ from those of mpc alone", file=sys.stderr)
        lines.append(measure(name, subject, options.rounds))
        print(lines[-1], flush=True)
    if options.markdown:
        pathlib.Path(options.markdown).write_text("\n".join(lines) + "\n")
    return int(bool(differs))


if __name__ == "__main__":
    sys.exit(main())
