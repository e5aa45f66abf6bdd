#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors of a model in each low-precision form of inference, beside bfloat16: measured, and as
predicted to first order.

usage: inference_errors.py [--mpc PATH] [--samples N] [--forms A,B] MODEL...
                                 folders with model.onnx, inputs.npz and perhaps samples/*.npz

`measured` is the RMS relative error of the compiled model for inputs.npz against the unquantized
model in float64, by `mpc check`, as a norm over all outputs. `predicted` is the estimate of
`mpc explain` for the same inputs. Only a decoder has KV caches.
Calibration reads the samples, else N inputs resampled from the elements of inputs.npz.
For a decoder of decoder.py without inputs.npz, writes 8 tokens after 16 cached ones, by onnxruntime.
Exits with 1 if a prediction is off by more than a factor of 2.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from narrow_weights import draw

BF16 = {"extends": "mixed_bfloat16"}
FORMS = {
    "bfloat16": BF16,
    "weights float8_e4m3fn": {**BF16, "weights": "float8_e4m3fn"},
    "weights int8": {**BF16, "weights": "int8"},
    "W8A8 int8, per token": {**BF16, "operands": {"scaling": "row", "forward": "int8"}},
    "W8A8 int8, calibrated": {**BF16, "operands": {"scaling": "calibrated", "forward": "int8"}},
    "W8A8 float8_e4m3fn, per token": {**BF16, "operands": "row"},
    "cache int8": {**BF16, "cache": "int8"},
    "cache float8_e4m3fn": {**BF16, "cache": "float8_e4m3fn"},
    "float8_current": {"extends": "float8_current"},
    "float8_block": {"extends": "float8_block"},
    "mxfp8": {"extends": "mxfp8"},
    "nvfp4": {"extends": "nvfp4"},
}


def document(command, allowed=(0,)):
    result = subprocess.run([*command, "--json", "--quiet"], capture_output=True, text=True,
                            check=False)
    if result.returncode not in allowed:
        sys.exit(result.stderr or result.stdout)
    return json.loads(result.stdout)


def write_decoder_inputs(model, cached=16, tokens=8, samples=2):
    import numpy as np
    import onnxruntime
    session = onnxruntime.InferenceSession(str(model / "model.onnx"))
    pasts = [value for value in session.get_inputs() if value.name.startswith("past")]
    (model / "samples").mkdir(exist_ok=True)
    for sample in range(samples + 1):
        ids = np.random.default_rng(sample).integers(0, 32768, (1, cached + tokens))
        empty = {value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
                 for value in pasts}
        names = [value.name for value in session.get_outputs()]
        found = dict(zip(names, session.run(None, {
            "input_ids": ids[:, :cached], "attention_mask": np.ones((1, cached), np.int64),
            "position_ids": np.arange(cached)[None], **empty})))
        file = f"samples/{sample}.npz" if sample < samples else "inputs.npz"
        np.savez(model / file, input_ids=ids[:, cached:],
                 attention_mask=np.ones((1, cached + tokens), np.int64),
                 position_ids=np.arange(cached, cached + tokens)[None],
                 **{name: found[name.replace("past_key_values", "present")] for name in empty})


def errors(mpc, model, samples, policy, calibrated):
    """The measured and the predicted error under the policy file."""
    file = str(model / "model.onnx")
    if calibrated:
        document([mpc, "calibrate", file, "--inputs", str(samples), "--policy", str(policy), "-o",
                  str(policy)])
    inputs = ["--inputs", str(model / "inputs.npz")]
    checked = document([mpc, "check", file, *inputs, "--policy", str(policy)], (0, 4))
    # Quantization, roundings and outputs count as independent.
    measured = sum((each.get(name) or 0) ** 2 for each in checked["outputs"]
                   for name in ("rms_relative_error", "weights_error", "cache_error")) ** 0.5
    explained = document([mpc, "explain", file, *inputs, "--policy", str(policy)])
    return measured, explained["error"]["predicted"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpc", default="build/bin/mpc")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--forms", default=",".join(FORMS), help="some of the rows; a prefix each")
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    arguments = parser.parse_args()
    names = [name for name in FORMS
             if any(name.startswith(part.strip()) for part in arguments.forms.split(","))]
    print("| form | " + " | ".join(f"{model.name}, measured | predicted"
                                   for model in arguments.models) + " |")
    print("|---|" + "--:|--:|" * len(arguments.models))
    held = True
    with tempfile.TemporaryDirectory() as folder:
        samples = {model: model / "samples" for model in arguments.models}
        for model in arguments.models:
            if not (model / "inputs.npz").exists():
                write_decoder_inputs(model)
            if not samples[model].is_dir():
                samples[model] = pathlib.Path(folder) / model.name
                draw(model, samples[model], arguments.samples)
        policy = pathlib.Path(folder) / "policy.json"
        for name in names:
            cells = []
            for model in arguments.models:
                policy.write_text(json.dumps({"name": "form", **FORMS[name]}))
                measured, predicted = errors(arguments.mpc, model, samples[model], policy,
                                             "calibrated" in name)
                held &= measured / 2 <= predicted <= 2 * measured
                cells.append(f"{measured:.1e} | {predicted:.1e}")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
