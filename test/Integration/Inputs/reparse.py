# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dumps every stage of every model case and parses and verifies each dump again.

usage: reparse.py MPC MPC_OPT MODELS WORK
"""
import json
import pathlib
import subprocess
import sys

mpc, mpc_opt, models, work = sys.argv[1:]
count = 0
for meta in sorted(pathlib.Path(models).glob("*/meta.json")):
    model = meta.parent / "model.onnx"
    if not model.exists():
        continue
    folder = pathlib.Path(work) / meta.parent.name
    dims = [f"--dim={name}={extent}" for name, extent in (("batch", 2), ("time", 16))
            if name in json.dumps(json.loads(meta.read_text())["graph_inputs"])]
    subprocess.run([mpc, "explain", model, "--policy", "mixed_bfloat16", "--quiet", "--dump-dir", folder, *dims],
                   check=True, stdout=subprocess.DEVNULL)
    stages = sorted(folder.glob("*.mlir"))
    for stage in stages:
        subprocess.run([mpc_opt, stage, "-o", "/dev/null"], check=True)
    text = (folder / "03-precision.mlir").read_text()
    typed_narrow = "float16" in meta.parent.name or "fp16" in meta.parent.name
    if "mpc.decision" not in text or ("xbf16>" not in text and not typed_narrow):
        sys.exit(f"{model}: no decision or no narrow type after precision")
    count += len(stages) == 8
print(f"{count} models, every stage parses again")
