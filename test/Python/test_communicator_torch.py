# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training on several ranks by torch.distributed, and under torchrun."""

import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest
from test_communicator import ARGUMENTS, MODEL, data_file, losses, plain, trained

torch = pytest.importorskip("torch")
group_ranks = pytest.importorskip("group_ranks")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def test_a_process_group():
    program = pathlib.Path(__file__).with_name("group_ranks.py")
    done = subprocess.run([*TORCHRUN, str(program)], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    given = [float(word) for word in done.stdout.split()]
    wanted = [float(sum(abs(v).sum() for v in trained().values())), group_ranks.module_sum()]
    np.testing.assert_allclose(given, wanted, rtol=1e-5)


def test_torchrun(tmp_path):
    path = data_file(tmp_path)
    done = subprocess.run([*TORCHRUN, "-m", "mpc.train", str(MODEL), "--data", str(path), *ARGUMENTS],
                          capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(losses(done.stdout), losses(plain(path).stdout), rtol=1e-4)


def test_torchrun_reports_a_failure_once(tmp_path):
    done = subprocess.run([*TORCHRUN, "-m", "mpc.train", str(MODEL), "--data", str(tmp_path / "nothing"), *ARGUMENTS],
                          capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and said[0].endswith("nothing: there is no such folder or file"), done.stderr


def start_ranks(*commands):
    """Ranks without a launcher: each exits by itself. Returns the exit codes and the stderr of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(ENVIRONMENT, RANK=str(rank), WORLD_SIZE=str(len(commands)),
                                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
            for rank, command in enumerate(commands)]
    said = [run.communicate(timeout=100)[1] for run in runs]
    return [run.returncode for run in runs], said


def test_a_rank_that_cannot_begin_ends_all(tmp_path):
    good = [sys.executable, "-m", "mpc.train", str(MODEL), "--data", str(data_file(tmp_path)), *ARGUMENTS]
    for bad, said in (([*good, "--learning"], "usage: unknown flag '--learning'"),
                      ([*good[:3], "missing.onnx", *good[4:]], "missing.onnx: ")):
        codes, errors = start_ranks(good, bad)
        assert 0 not in codes
        lines = [line for text in errors for line in text.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1 and lines[0].startswith(f"error: rank 1: {said}"), errors


def test_a_program_that_does_not_start_ends_all(tmp_path):
    good = [sys.executable, "-m", "mpc.train", str(MODEL), "--data", str(data_file(tmp_path)), *ARGUMENTS]
    patched = ("import os, pathlib, sys; import mpc.train as t; t._PROGRAM = pathlib.Path('/bin/false'); "
               "code = t.main(sys.argv[1:], os.environ); sys.stderr.flush(); os._exit(code)")
    codes, errors = start_ranks(good, [sys.executable, "-c", patched, *good[3:]])
    assert 0 not in codes
    assert errors == ["", "error: rank 1: /bin/false: ended with status 1 before it met the other ranks\n"], errors


def test_a_trainer_that_cannot_be_made_raises_on_all_ranks():
    program = """
import os, torch.distributed as dist, mpc, sys
dist.init_process_group("gloo")
try:
    kind = "sgd" if dist.get_rank() == 0 else "slow"
    mpc.Trainer(sys.argv[1], batch=8, optimizer=kind, communicator=dist.group.WORLD)
except mpc.Error as error:
    print(error, file=sys.stderr, flush=True)
os._exit(0)  # gloo's threads would wait for ranks that have ended
"""
    codes, said = start_ranks(*[[sys.executable, "-c", program, str(MODEL)]] * 2)
    assert codes == [0, 0], said
    # A note on the policy of this machine may come first.
    found = said[0].splitlines()[-1]
    assert found.startswith("rank 1: failed: ") and found.removeprefix("rank 1: failed: ") in said[1], said


def test_a_rank_that_dies_is_reported_in_one_sentence():
    program = """
import os, torch.distributed as dist, mpc, sys
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    os._exit(3)
try:
    mpc.Trainer(sys.argv[1], batch=8, communicator=dist.group.WORLD)
except mpc.Error as error:
    print(error, file=sys.stderr, flush=True)
os._exit(0)
"""
    codes, said = start_ranks(*[[sys.executable, "-c", program, str(MODEL)]] * 2)
    assert codes == [0, 3], said
    line = [line for line in said[0].splitlines() if line.startswith("rank 0 of 2")]
    assert len(line) == 1 and ".cc:" not in line[0] and "another rank has ended (" in line[0], said


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run([sys.executable, "-m", "mpc.train", str(MODEL), "--data", str(tmp_path), *ARGUMENTS,
                               "--rank-timeout", "5"], capture_output=True, text=True, check=False, timeout=100,
                              env=dict(ENVIRONMENT, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                       MASTER_PORT=str(taken.getsockname()[1])))
    assert done.returncode == 1
    assert done.stderr.startswith("error: rank 0: cannot meet the others at 127.0.0.1 port"), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_ranks_that_do_not_come(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = subprocess.run([sys.executable, "-m", "mpc.train", str(MODEL), "--data", str(tmp_path), *ARGUMENTS,
                           "--rank-timeout", "3"], capture_output=True, text=True, check=False, timeout=100,
                          env=dict(ENVIRONMENT, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                   MASTER_PORT=str(port)))
    assert done.returncode == 1 and "error: rank 0: cannot meet the others" in done.stderr
