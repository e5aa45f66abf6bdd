# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training on several ranks: threads, MPI, and transports written in Python."""

import concurrent.futures
import copy
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading

import mpc
import mpc.train
import numpy as np
import pytest
from conftest import INPUTS

MODEL = INPUTS / "onnx" / "small-cnn.onnx"
STEPS = 3


def batch():
    numbers = np.random.default_rng(0)
    return numbers.standard_normal((8, 1, 8, 8)).astype(np.float32), numbers.integers(0, 10, 8)


def trained(communicator=None, ranks=1, rank=0):
    """Parameters after some steps; each rank trains on its part of the batch."""
    trainer = mpc.Trainer(MODEL, policy="float32", optimizer="sgd,momentum=0.9", lr=0.01, batch=8, init=1, threads=1,
                          communicator=communicator, sync_batch_norm=True)
    x, y = (array.reshape(ranks, -1, *array.shape[1:])[rank] for array in batch())
    for _ in range(STEPS):
        trainer.step(x, y)
    return trainer.state_dict()["model"]


def together(ends):
    with concurrent.futures.ThreadPoolExecutor(len(ends)) as pool:
        return list(pool.map(lambda pair: trained(pair[1], len(ends), pair[0]), enumerate(ends)))


def check_alike(states):
    """All ranks have equal bits, and approximately those of one rank with the whole batch."""
    one = trained()
    for state in states:
        assert state.keys() == one.keys()
        for name, value in state.items():
            assert np.array_equal(value, states[0][name])
            np.testing.assert_allclose(value, one[name], rtol=1e-4, atol=1e-5)


class Shelf(mpc.Communicator):
    """Ranks that are threads, which exchange data through a shared dictionary."""

    def __init__(self, rank, size, barrier, shelf):
        self.rank, self.size, self.barrier, self.shelf, self.calls = rank, size, barrier, shelf, []

    def exchange(self, name, data):
        self.calls.append(name)
        self.shelf[self.rank] = bytes(data)
        self.barrier.wait()
        found = list(self.shelf)
        self.barrier.wait()
        return found

    def all_gather(self, send, receive):
        receive[:] = b"".join(self.exchange("all_gather", send))

    def all_to_all(self, send, receive):
        piece = len(send) // self.size
        own = slice(self.rank * piece, (self.rank + 1) * piece)
        receive[:] = b"".join(sent[own] for sent in self.exchange("all_to_all", send))

    def broadcast(self, data, root):
        data[:] = self.exchange("broadcast", data)[root]


def shelves(ranks):
    barrier, shelf = threading.Barrier(ranks, timeout=60), [b""] * ranks
    return [Shelf(rank, ranks, barrier, shelf) for rank in range(ranks)]


def test_threads_train_as_one_rank():
    ends = mpc.Communicator.threads(2)
    assert [(end.rank, end.size) for end in ends] == [(0, 2), (1, 2)]
    check_alike(together(ends))


def test_a_transport_in_python():
    ends = shelves(2)
    check_alike(together(ends))
    assert ends[0].calls == ends[1].calls and set(ends[0].calls) == {"all_gather", "all_to_all", "broadcast"}


def test_what_a_transport_raises_ends_the_training():
    class Broken(mpc.Communicator):
        rank, size = 0, 2

        def all_gather(self, send, receive):
            raise OSError("the cable is out")

    with pytest.raises(mpc.Unavailable, match="the cable is out"):
        trained(Broken(), 2)


def test_what_is_no_communicator():
    with pytest.raises(mpc.InvalidArgument, match="is a int, not an mpc.Communicator"):
        trained(3)
    with pytest.raises(mpc.InvalidArgument, match="of 0 threads; the number must be from 1 to 65536"):
        mpc.Communicator.threads(0)
    wrong = mpc.Communicator()
    wrong.rank, wrong.size = 2, 2
    with pytest.raises(mpc.InvalidArgument, match="has rank 2 of 2"):
        trained(wrong)
    wrong.rank, wrong.size = "a", 2
    with pytest.raises(mpc.InvalidArgument, match="has the rank 'a', not a number"):
        trained(wrong)
    wrong.rank, wrong.size = 0, 2**31 - 1
    with pytest.raises(mpc.InvalidArgument, match="is of 2147483647 ranks; there are at most 65536"):
        trained(wrong)
    for timeout in (float("nan"), -1, "x"):
        with pytest.raises(mpc.InvalidArgument, match="with the timeout"):
            mpc.Communicator.threads(2, timeout)
    with pytest.raises(mpc.InvalidArgument, match="of 2.5 threads"):
        mpc.Communicator.threads(2.5)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("cannot be said")


@pytest.mark.parametrize("raised, said", [(Mute(), "Mute"), (ValueError("\udc80"), r"\\udc80"),
                                          (ValueError("first\nsecond"), "first$"), (ValueError("a\0b"), "a$")])
def test_exceptions_of_a_transport_are_reported(raised, said):
    class Broken(mpc.Communicator):
        rank, size = 0, 2

        def all_gather(self, send, receive):
            # A raised exception refers to its frames, and the parameter lives as long as the process.
            raise copy.copy(raised)

    with pytest.raises(mpc.Unavailable, match=f"rank 0 of 2: {said}"):
        trained(Broken(), 2)


@pytest.mark.parametrize("answer", [None, b"\0", b"\xff", b"\x07"])
def test_a_transport_that_gives_other_things(answer):
    class Wrong(mpc.Communicator):
        rank, size = 0, 2

        def all_gather(self, send, receive):
            if answer:
                receive[:] = answer * len(receive)

    failed = mpc.Unavailable if answer != b"\0" else mpc.Error
    with pytest.raises(failed, match="rank 0 of 2"):
        trained(Wrong(), 2)


def test_an_end_of_two_threads():
    """One call at a time: the second one is a failure, not the other rank's."""
    end = mpc.Communicator.threads(2, 60)[0]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(trained, end, 2) for _ in range(2)]
        failures = [str(run.exception()) for run in runs]
    assert all("rank 0 of 2 is called by two threads at once" in said or "rank 1 of 2 has left" in said
               for said in failures), failures


def test_ranks_report_what_differs():
    ends = mpc.Communicator.threads(2)

    def make(end):
        with pytest.raises(mpc.InvalidArgument, match="rank 1.*has the batch 4, but rank 0 has 8"):
            mpc.Trainer(MODEL, batch=8 if end.rank == 0 else 4, communicator=end)
        return True

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert all(pool.map(make, ends))


# ===----------------------------------------------------------------------=== #
# mpc.train
# ===----------------------------------------------------------------------=== #


def data_file(folder):
    x, y = batch()
    path = pathlib.Path(folder) / "data.npz"
    np.savez(path, x_train=np.tile(x, (4, 1, 1, 1)), y_train=np.tile(y, 4).astype(np.int32))
    return path


ARGUMENTS = ("--batch", "8", "--init", "1", "--optimizer", "sgd,momentum=0.9", "--lr", "0.01", "--steps", "3",
             "--log-every", "1", "--sync-batch-norm", "--normalize", "none", "--in-order", "--threads", "1", "--json",
             "--quiet")


def losses(text):
    import json

    return [d["loss"] for d in map(json.loads, text.splitlines()) if "loss" in d and "step" in d]


def plain(path, environment=None):
    command = [sys.executable, "-m", "mpc.train", str(MODEL), "--data", str(path), *ARGUMENTS]
    variables = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**variables, **(environment or {})})


def test_the_module_trains_alone(tmp_path):
    done = plain(data_file(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(losses(done.stdout)) == 3


def test_the_program_asks_who_does_its_messages(tmp_path):
    """Two programs whose messages are done by threads of this process, over sockets."""
    path = data_file(tmp_path)
    ends, programs, servers = shelves(2), [], []
    for end in ends:
        here, there = socket.socketpair()
        command = [str(pathlib.Path(mpc.__file__).parent / "bin" / "mpc"), "train", str(MODEL), "--data", str(path),
                   *ARGUMENTS, "--relay", f"{there.fileno()},{end.rank},2"]
        programs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         pass_fds=[there.fileno()]))
        there.close()
        servers.append(threading.Thread(target=mpc.train.serve, args=(here, end)))
        servers[-1].start()
    said = [program.communicate(timeout=120) for program in programs]
    for server in servers:
        server.join()
    assert [program.returncode for program in programs] == [0, 0], said
    np.testing.assert_allclose(losses(said[0][0]), losses(plain(path).stdout), rtol=1e-4)
    assert said[1][0] == ""


def test_a_relay_that_is_none(tmp_path):
    program, path = str(pathlib.Path(mpc.__file__).parent / "bin" / "mpc"), str(data_file(tmp_path))
    for relay, said in (("0,0,2147483647", "relay: has no rank 0 of 2147483647"),
                        ("0,0,2", "relay: descriptor 0 is not a stream socket"),
                        ("3", "--relay 3: is not DESCRIPTOR,RANK,RANKS"),
                        ("0,2,2", "relay: has no rank 2 of 2"), ("0,0,2,1", "is not DESCRIPTOR,RANK,RANKS")):
        done = subprocess.run([program, "train", str(MODEL), "--data", path, "--relay", relay], capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 1 and said in done.stderr, done.stderr


def test_a_relay_that_ends(tmp_path):
    """A relay that exits, or answers with a wrong size, causes a located error."""
    program, path = str(pathlib.Path(mpc.__file__).parent / "bin" / "mpc"), str(data_file(tmp_path))
    for answer, said in ((b"", "the process that communicates for it has exited"),
                         (struct.pack("=2Q", 0, 1), "received 1 bytes instead of"),
                         (struct.pack("=2Q", 1, 4) + b"oops", "oops")):
        here, there = socket.socketpair()
        with subprocess.Popen([program, "train", str(MODEL), "--data", path, *ARGUMENTS, "--relay",
                               f"{there.fileno()},0,2"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              pass_fds=[there.fileno()]) as run:
            there.close()
            follows = struct.unpack("=4Q", here.recv(32, socket.MSG_WAITALL))[3]
            here.recv(follows, socket.MSG_WAITALL)
            here.sendall(answer)
            here.close()
            out, err = run.communicate(timeout=60)
        assert run.returncode == 1 and said in out + err, out + err


@pytest.mark.parametrize("variables, said", [
    ({"RANK": "0"}, "WORLD_SIZE is '', expected a number of at least 1"),
    ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE is 'two', expected a number of at least 1"),
    ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK is '-1', expected a number of at least 0"),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2, but WORLD_SIZE 2"),
    ({"RANK": "0", "WORLD_SIZE": "99999999999"}, "WORLD_SIZE is '99999999999', expected a number of at least 1"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is not set"),
    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "x"}, "MASTER_PORT is 'x'"),
    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "70000"}, "70000, not a port"),
    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1", "LOCAL_WORLD_SIZE": "x"},
     "LOCAL_WORLD_SIZE is 'x', expected a number of at least 1"),
])
def test_malformed_variables_are_reported(variables, said):
    with pytest.raises(Exception, match=said):
        mpc.train.ranks(variables)


def test_one_rank_is_alone():
    assert mpc.train.ranks({}) is None
    assert mpc.train.ranks({"RANK": "0", "WORLD_SIZE": "1"}) is None


def test_malformed_variables_end_the_module():
    done = plain("nowhere", {"RANK": "1", "WORLD_SIZE": "x"})
    assert done.returncode == 2 and done.stderr == "error: launcher: WORLD_SIZE is 'x', expected a number of at least 1\n"


@pytest.mark.parametrize("timeout", ["nan", "inf", "-3", "0", "abc", ""])
def test_a_timeout_that_is_none(timeout, capsys):
    variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    assert mpc.train.main(["model.onnx", f"--rank-timeout={timeout}"], variables) == 2
    assert capsys.readouterr().err == f"error: usage: --rank-timeout: '{timeout}' is not a positive number of seconds\n"


def test_help_waits_for_nobody():
    variables = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    assert mpc.train.main(["--help"], variables) == 0


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun")
def test_mpi():
    program = ("import sys, numpy, mpc, test_communicator as t; end = mpc.Communicator.mpi(); "
               "state = t.trained(end, 2, end.rank); "
               "end.rank == 0 and print(float(sum(abs(v).sum() for v in state.values())))")
    variables = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     PYTHONPATH=os.pathsep.join([str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-c", program], capture_output=True,
                          text=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    wanted = float(sum(abs(v).sum() for v in trained().values()))
    assert abs(float(done.stdout) - wanted) < 1e-3 * wanted
