# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mpc train` as a module, for Python launchers: torchrun --nproc-per-node 4 -m mpc.train MODEL ...

Arguments are those of `mpc train`. If RANK and WORLD_SIZE define this process as one of several ranks,
the program trains as that rank, and this process performs its communication by torch.distributed's gloo
at MASTER_ADDR and MASTER_PORT; otherwise the program runs alone, so that mpirun and srun can start it
too.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from . import _communicator

_PROGRAM = pathlib.Path(__file__).parent / "bin" / "mpc"
_ALL_GATHER, _ALL_TO_ALL, _BROADCAST, _ABORT = 1, 2, 3, 4
_BAD_USAGE, _FAILED = 2, 1


class _Problem(Exception):
    """An invalid environment of a launcher."""


def _number(variables: Mapping[str, str], name: str, least: int) -> int:
    text = variables.get(name, "")
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) < least:
        raise _Problem(f"{name} is '{text}', expected a number of at least {least}")
    return int(text)


def ranks(variables: Mapping[str, str]) -> tuple[int, int] | None:
    """Rank and number of ranks from the launcher; None without one."""
    if not {"RANK", "WORLD_SIZE"} & variables.keys():
        return None
    size = _number(variables, "WORLD_SIZE", 1)
    rank = _number(variables, "RANK", 0)
    if rank >= size:
        raise _Problem(f"RANK is {rank}, but WORLD_SIZE {size}")
    if size == 1:
        return None
    if not variables.get("MASTER_ADDR"):
        raise _Problem("MASTER_ADDR is not set; set it to the address of rank 0")
    if _number(variables, "MASTER_PORT", 1) > 65535:
        raise _Problem(f"MASTER_PORT is {variables['MASTER_PORT']}, not a port")
    if "LOCAL_WORLD_SIZE" in variables:
        _number(variables, "LOCAL_WORLD_SIZE", 1)
    return rank, size


def _patience(arguments: Sequence[str]) -> float:
    """The timeout of --rank-timeout in seconds, which this process needs before the program parses its
    flags."""
    text = "120"
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        name, separator, value = word.partition("=")
        if name == "--rank-timeout":
            text = value if separator else after
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise _Problem(f"--rank-timeout: '{text}' is not a positive number of seconds")
    # Longer timeouts overflow the transport's.
    return min(max(seconds, 1e-3), 1e8)


def _threads(arguments: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Divides the cores among the ranks of one machine."""
    if any(word == "--threads" or word.startswith("--threads=") for word in arguments):
        return []
    here = _number(variables, "LOCAL_WORLD_SIZE", 1) if "LOCAL_WORLD_SIZE" in variables else 1
    return ["--threads", str(max(1, len(os.sched_getaffinity(0)) // here))]


def _read(end: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        got = end.recv_into(view[done:])
        if not got:
            return None
        done += got
    return data


def serve(end: socket.socket, group: Any) -> bool:
    """Performs the program's communication until it ends; returns whether there was any."""
    asked = threading.Event()
    with contextlib.suppress(ConnectionError):
        _serve(end, group, asked)
    return asked.is_set()


def tell(group: Any, text: str) -> None:
    """Reports this rank's failure to the other ranks, whose programs start with this collective: all end."""
    own = text.encode()
    lengths = bytearray(8 * group.size)
    group.all_gather(memoryview(struct.pack("=Q", len(own))), memoryview(lengths))
    most = max(struct.unpack(f"={group.size}Q", lengths))
    group.all_gather(memoryview(own.ljust(most, b"\0")), memoryview(bytearray(most * group.size)))


def _serve(end: socket.socket, group: Any, asked: threading.Event) -> None:
    while True:
        head = _read(end, 32)
        if head is None:
            return
        asked.set()
        call, root, size, follows = struct.unpack("=4Q", head)
        sent = _read(end, follows)
        if sent is None or call == _ABORT:
            return
        received = bytearray()
        try:
            if call == _BROADCAST:
                data = sent if follows else bytearray(size)
                if size:
                    group.broadcast(memoryview(data), root)
                received = bytearray() if follows else data
            else:
                received = bytearray(size * group.size)
                if size:
                    work = group.all_gather if call == _ALL_GATHER else group.all_to_all
                    work(memoryview(sent), memoryview(received))
        except Exception as error:  # pylint: disable=broad-exception-caught
            text = _communicator.sentence(error).encode()
            end.sendall(struct.pack("=2Q", 1, len(text)) + text)
            continue
        end.sendall(struct.pack("=2Q", 0, len(received)))
        end.sendall(received)


def _train(arguments: Sequence[str], rank: int, size: int, group: Any, variables: Mapping[str, str]) -> int:
    here, there = socket.socketpair()
    command = [str(_PROGRAM), "train", *arguments, *_threads(arguments, variables), "--relay",
               f"{there.fileno()},{rank},{size}"]
    asked: list[bool] = []
    try:
        program = subprocess.Popen(command, pass_fds=[there.fileno()])
    except OSError as error:
        return _fail(group, rank, f"{_PROGRAM}: does not start: {error.strerror}")
    with program:
        there.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda got, _: program.send_signal(got))
        # Signals are delivered to the main thread, which therefore only waits for the program.
        done = threading.Thread(target=lambda: asked.append(serve(here, group)), daemon=True)
        done.start()
        code = program.wait()
    done.join(1)
    if code and asked == [False]:
        # It cannot have reported the failure itself.
        return _fail(group, rank, f"{_PROGRAM}: ended with status {code} before it met the other ranks")
    return code if code >= 0 else 128 - code


def _fail(group: Any, rank: int, text: str) -> int:
    print(f"error: rank {rank}: {text}", file=sys.stderr, flush=True)
    with contextlib.suppress(RuntimeError):
        tell(group, text)
    return _FAILED


def main(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Trains as the rank in `variables`; returns the exit code."""
    missing = "" if _PROGRAM.exists() else f"{_PROGRAM}: is not there: this package was made without the program mpc"
    try:
        found = ranks(variables)
    except _Problem as problem:
        print(f"error: launcher: {problem}", file=sys.stderr)
        return _BAD_USAGE
    if missing and (found is None or "--help" in arguments or "-h" in arguments):
        print(f"error: {missing}", file=sys.stderr)
        return _FAILED
    if found is None:
        os.execv(_PROGRAM, [str(_PROGRAM), "train", *arguments])
    rank, size = found
    if "-h" in arguments or "--help" in arguments:
        if rank == 0:
            os.execv(_PROGRAM, [str(_PROGRAM), "train", "--help"])
        return 0
    try:
        wait = _patience(arguments)
    except _Problem as problem:
        print(f"error: usage: {problem}", file=sys.stderr)
        return _BAD_USAGE
    # Failures are reported below, in one sentence.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    try:
        import torch.distributed as dist
    except ImportError:
        print(f"error: rank {rank}: RANK and WORLD_SIZE are torchrun's, whose messages need PyTorch; "
              "without it use mpirun", file=sys.stderr)
        return _FAILED
    try:
        dist.init_process_group("gloo", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=wait))
    except Exception as error:  # pylint: disable=broad-exception-caught
        print(f"error: rank {rank}: cannot meet the others at {variables['MASTER_ADDR']} port "
              f"{variables['MASTER_PORT']}: {_communicator.sentence(error)}", file=sys.stderr)
        return _FAILED
    group = _communicator.Communicator.torch()
    if missing:
        return _fail(group, rank, missing)
    return _train(arguments, rank, size, group, variables)


if __name__ == "__main__":
    sys.stdout.flush()
    end_code = main(sys.argv[1:], os.environ)
    sys.stderr.flush()
    # The group's threads would wait for ranks that have ended.
    os._exit(end_code)
