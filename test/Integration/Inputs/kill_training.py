# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a training once through, and once with SIGKILL at random moments and --resume after
each; compares what both leave. usage: kill_training.py FOLDER POLICY mpc train ..."""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import time

folder = pathlib.Path(sys.argv[1]) / sys.argv[2]
command = [*sys.argv[3:], "--policy", sys.argv[2], "--quiet", "--json", "--log-every", "5"]
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)


def arguments(name):
    return [*command, "--checkpoint", str(folder / name), "--checkpoint-every", "2",
            "--export", str(folder / (name + ".onnx"))]


def finish(*more, name):
    return json.loads(subprocess.run([*arguments(name), *more], check=True, capture_output=True,
                                     text=True).stdout.splitlines()[-1])


def checkpoints(name):
    return sorted((folder / name).glob("step-*.safetensors"))


straight = finish(name="straight")
source = random.Random(sys.argv[2])
kills = 0
while kills < 4:
    resume = ["--resume"] if checkpoints("killed") else []
    process = subprocess.Popen([*arguments("killed"), *resume], stdout=subprocess.DEVNULL)
    # The moment is random among those at which it is at work.
    before = checkpoints("killed")
    while process.poll() is None and checkpoints("killed") == before:
        time.sleep(0.001)
    time.sleep(source.random() * 0.02)
    if process.poll() is not None:
        break
    process.kill()
    process.wait()
    kills += 1
    # A complete checkpoint exists at all times, under its name.
    if not checkpoints("killed"):
        sys.exit("no checkpoint is left")
print("killed", kills, "times")
resumed = finish("--resume", name="killed")
for field in ("steps", "train_loss", "test_loss", "test_accuracy", "loss_scale", "skipped_steps"):
    if straight[field] != resumed[field]:
        sys.exit(f"{field}: {straight[field]} straight, {resumed[field]} resumed")
same = (folder / "straight.onnx").read_bytes() == (folder / "killed.onnx").read_bytes()
print("exports are", "equal" if same else "different")
last = [checkpoints(name)[-1] for name in ("straight", "killed")]
same = last[0].name == last[1].name and last[0].read_bytes() == last[1].read_bytes()
print("checkpoints are", "equal" if same else "different")
