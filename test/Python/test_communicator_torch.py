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


def test_torchrun_says_a_failure_once(tmp_path):
    done = subprocess.run([*TORCHRUN, "-m", "mpc.train", str(MODEL), "--data", str(tmp_path / "nothing"), *ARGUMENTS],
                          capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and said[0].endswith("nothing: there is no such folder or file"), done.stderr


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
