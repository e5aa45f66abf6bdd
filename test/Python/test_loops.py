# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/mpc-bench/loops.py on a GPT of one layer and the text of the licence."""

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMS = ["eager float32", "mpc float32", "mpc mixed_float16"]


def loops(command, out, *flags):
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "mpc-bench" / "loops.py"), command, "--out", str(out),
                           "--models", "gpt-tiny", "--systems", ",".join(SYSTEMS), *flags], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_runs_are_kept_and_compared(tmp_path):
    flags = ["--seeds", "1", "--steps", "3", "--text", str(ROOT / "LICENSE")]
    loops("train", tmp_path, *flags)
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [run["system"] for run in runs] == SYSTEMS
    wide = runs[0]["losses"]
    assert len(wide) == 3
    # With the same weights and batches, one step differs only by rounding.
    for run, unit in zip(runs[1:], (2.0 ** -22, 2.0 ** -9)):
        assert abs(run["losses"][0] - wide[0]) <= 2 * unit * wide[0] + 1e-5
        assert all(abs(a - b) < 0.02 * b for a, b in zip(run["losses"], wide))
    assert runs[2]["scale"] > 1
    # A second call finds nothing to do.
    assert "seed 1" not in loops("train", tmp_path, *flags).stderr
    # One seed has no spread.
    done = loops("report", tmp_path, "--svg", str(tmp_path))
    assert "| mpc mixed_float16 |" in done.stdout and "fewer than two seeds" in done.stdout
    drawn = (tmp_path / "loops-gpt-tiny.svg").read_text()
    assert drawn.count('<path d="M') - drawn.count("H") - drawn.count("h22") == 5 and len(drawn) < 40000
