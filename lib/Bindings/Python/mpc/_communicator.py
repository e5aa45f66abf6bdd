# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Communication among data-parallel ranks: `mpc.Communicator`."""

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
    """One rank's endpoint of a group, for `mpc.Trainer(..., communicator=...)`.

    `Communicator.mpi()` joins the ranks that mpirun or srun started, `Communicator.threads(n)` creates
    `n` endpoints for threads of this process, `Communicator.torch(group)` uses torch.distributed (gloo,
    under torchrun). For another transport derive a class with `rank`, `size` and the methods below. All
    ranks make the same calls in the same order, from any thread, one at a time; memory is passed as
    memoryviews of bytes that are valid during the call. An exception in a method ends training.
    """

    rank = 0
    size = 1

    def all_gather(self, send: memoryview, receive: memoryview) -> None:
        """Gathers what every rank sends in `receive`, in rank order."""
        raise NotImplementedError

    def all_to_all(self, send: memoryview, receive: memoryview) -> None:
        """Sends an equal part of `send` to every rank; `receive` gets one from each."""
        raise NotImplementedError

    def broadcast(self, data: memoryview, root: int) -> None:
        """Replaces `data` by that of rank `root`."""
        raise NotImplementedError

    def abort(self, why: str) -> None:
        """Cancels the other ranks' calls, as far as the transport can."""

    @staticmethod
    def mpi(timeout: float = 120) -> _mpc.Communicator:
        """The ranks of MPI. A call times out after `timeout` seconds, 0: never. Once per process."""
        return _mpc.join_mpi(_patience(timeout))

    @staticmethod
    def threads(ranks: int, timeout: float = 120) -> list[_mpc.Communicator]:
        """Endpoints of a group inside this process, one per thread."""
        if not hasattr(ranks, "__index__") or not 1 <= ranks <= 65536:
            raise InvalidArgument("communicator", f"of {ranks!r} threads; the number must be from 1 to 65536")
        return list(_mpc.connect_threads(ranks, _patience(timeout)))

    @staticmethod
    def torch(group: Any = None, timeout: float = 120) -> Communicator:
        """The ranks of a torch.distributed process group, by default of all after `init_process_group()`."""
        return _Torch(group, timeout)


def _patience(timeout: float) -> float:
    if not isinstance(timeout, (int, float)) or not 0 <= timeout < math.inf:
        raise InvalidArgument("communicator", f"with the timeout {timeout!r}; it must be at least 0 seconds")
    # Longer timeouts overflow clocks.
    return min(float(timeout), 1e8)


class _Torch(Communicator):
    """Transports bytes by torch.distributed's gloo."""

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
        # Host memory needs the gloo backend.
        if dist.get_backend(group) != "gloo":
            ranks = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
            group = dist.new_group(ranks, timeout=datetime.timedelta(seconds=timeout), backend="gloo")
        self._group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise InvalidArgument("communicator", "belongs to a process group without this rank")

    def _bytes(self, view: memoryview) -> Any:
        import warnings

        with warnings.catch_warnings():
            # The buffer is only read, so it need not be writable.
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
    """Formats an `error` of torch.distributed as one sentence: its meaning if known, then its first line
    without source locations of gloo and PyTorch."""
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
    """Converts a communicator to the extension's type."""
    if given is None or isinstance(given, _mpc.Communicator):
        return given
    if type(given).__name__ == "ProcessGroup" or type(given).__module__.startswith("torch"):
        given = _Torch(given, 120)
    if not all(hasattr(given, name) for name in ("rank", "size", "all_gather", "all_to_all", "broadcast")):
        raise InvalidArgument("communicator", f"is a {type(given).__name__}, not an mpc.Communicator")
    return _mpc.communicator_of(given)


@contextlib.contextmanager
def shared(group: _mpc.Communicator | None) -> Iterator[None]:
    """Makes an exception in the body on one rank raise on all ranks."""
    if group is None or group.size == 1:
        yield
        return
    try:
        yield
    except Exception as error:
        # The original failure counts, even if it cannot be sent.
        with contextlib.suppress(Exception):
            _mpc.share_failure(group, (str(error).strip().splitlines() or [type(error).__name__])[0])
        raise
    _mpc.share_failure(group, "")
