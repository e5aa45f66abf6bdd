# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that train together: `mpc.Communicator`."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from collections.abc import Iterator
from typing import Any

from . import _mpc
from ._errors import InvalidArgument, Unavailable


class Communicator:
    """One rank's end of a group, for `mpc.Trainer(..., communicator=...)`.

    `Communicator.mpi()` joins the ranks that mpirun or srun started, `Communicator.threads(n)` are `n` ends
    for threads of this process, `Communicator.torch(group)` stands on torch.distributed (gloo, under
    torchrun). For another transport derive a class with `rank`, `size` and the methods below. All ranks make
    the same calls in the same order, from any thread, one at a time; memory comes as memoryviews of bytes
    that are good until the call returns. What a method raises ends the training.
    """

    rank = 0
    size = 1

    def all_gather(self, send: memoryview, receive: memoryview) -> None:
        """`receive` gets what every rank sends, in their order."""
        raise NotImplementedError

    def all_to_all(self, send: memoryview, receive: memoryview) -> None:
        """`send` holds an equal piece for every rank, `receive` gets one from each."""
        raise NotImplementedError

    def broadcast(self, data: memoryview, root: int) -> None:
        """`data` becomes that of rank `root`."""
        raise NotImplementedError

    def abort(self, why: str) -> None:
        """Ends the other ranks' calls, as far as the transport can."""

    @staticmethod
    def mpi(timeout: float = 120) -> _mpc.Communicator:
        """The ranks of MPI. A call waits `timeout` seconds for the others, 0 for ever. Once per process."""
        return _mpc.join_mpi(_patience(timeout))

    @staticmethod
    def threads(ranks: int, timeout: float = 120) -> list[_mpc.Communicator]:
        """Ends of a group inside this process, one for a thread each."""
        if not hasattr(ranks, "__index__") or not 1 <= ranks <= 65536:
            raise InvalidArgument("communicator", f"of {ranks!r} threads; takes 1 to 65536")
        return list(_mpc.connect_threads(ranks, _patience(timeout)))

    @staticmethod
    def torch(group: Any = None, timeout: float = 120) -> Communicator:
        """The ranks of a process group of torch.distributed, or of all, which `init_process_group()` joined."""
        return _Torch(group, timeout)


def _patience(timeout: float) -> float:
    if not isinstance(timeout, (int, float)) or not 0 <= timeout < math.inf:
        raise InvalidArgument("communicator", f"with the timeout {timeout!r}; takes seconds from 0")
    # More are no time of a clock's.
    return min(float(timeout), 1e8)


class _Torch(Communicator):
    """Bytes by torch.distributed's gloo."""

    def __init__(self, group: Any, timeout: float):
        try:
            import torch
            import torch.distributed as dist
        except ImportError as error:
            raise Unavailable("communicator", "of torch.distributed needs PyTorch") from error
        if not dist.is_available() or not dist.is_initialized():
            raise Unavailable("communicator", "of torch.distributed: call init_process_group() first")
        timeout = _patience(timeout) or 1e8
        self._torch, self._dist = torch, dist
        # Memory of the host is gloo's.
        if dist.get_backend(group) != "gloo":
            ranks = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
            group = dist.new_group(ranks, timeout=datetime.timedelta(seconds=timeout), backend="gloo")
        self._group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise InvalidArgument("communicator", "is of a process group that has not this rank")

    def _bytes(self, view: memoryview) -> Any:
        import warnings

        with warnings.catch_warnings():
            # What is sent cannot be written, and is not.
            warnings.filterwarnings("ignore", "The given buffer is not writable")
            return self._torch.frombuffer(view, dtype=self._torch.uint8)

    def all_gather(self, send: memoryview, receive: memoryview) -> None:
        with _told():
            self._dist.all_gather(list(self._bytes(receive).chunk(self.size)), self._bytes(send), group=self._group)

    def all_to_all(self, send: memoryview, receive: memoryview) -> None:
        with _told():
            self._dist.all_to_all_single(self._bytes(receive), self._bytes(send), group=self._group)

    def broadcast(self, data: memoryview, root: int) -> None:
        source = self._dist.get_global_rank(self._group, root) if self._group is not None else root
        with _told():
            self._dist.broadcast(self._bytes(data), source, group=self._group)


def sentence(error: BaseException) -> str:
    """What `error` of torch.distributed says, in one sentence: its first line without the places in gloo's and
    PyTorch's own sources, and in front of it what that means where it is known."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    said = re.sub(r"\s*\(?[\w./-]*\.(?:cc|cpp|h|hpp):\d+\)?|\[\S*\.(?:cc|cpp|h|hpp):\d+\]\s*", "", said).strip()
    said = re.sub(r"^(?:Exception raised from|RuntimeError:)\s*", "", said) or type(error).__name__
    for pattern, meaning in ((r"(?i)connection (?:closed|reset)|broken pipe|connection refused|read error|write error",
                              "another rank has ended"),
                             (r"(?i)timed? ?out", "another rank does not answer")):
        if re.search(pattern, said):
            return f"{meaning} ({said})"
    return said


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(sentence(error)) from error


def native(given: Any) -> _mpc.Communicator | None:
    """What the extension takes."""
    if given is None or isinstance(given, _mpc.Communicator):
        return given
    if type(given).__name__ == "ProcessGroup" or type(given).__module__.startswith("torch"):
        given = _Torch(given, 120)
    if not all(hasattr(given, name) for name in ("rank", "size", "all_gather", "all_to_all", "broadcast")):
        raise InvalidArgument("communicator", f"is a {type(given).__name__}, no mpc.Communicator")
    return _mpc.communicator_of(given)


@contextlib.contextmanager
def shared(group: _mpc.Communicator | None) -> Iterator[None]:
    """What is raised inside on one rank raises on all: those that wait for it are told."""
    if group is None or group.size == 1:
        yield
        return
    try:
        yield
    except Exception as error:
        # The failure is what counts, whatever becomes of the message.
        with contextlib.suppress(Exception):
            _mpc.share_failure(group, (str(error).strip().splitlines() or [type(error).__name__])[0])
        raise
    _mpc.share_failure(group, "")
