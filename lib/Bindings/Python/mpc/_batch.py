# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Continuous batching with chunked prefill and prefix reuse: `mpc.Decoder.batch`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union, Unpack

from . import _mpc
from ._errors import Error, InvalidArgument, ResourceExhausted, Unavailable
from ._prompts import Prompt, PromptEncoder, is_text
from ._sampling import Options, Sampling
from ._text_stream import TextStream

Piece = Union[str, int]


class Request:
    """A prompt in a batch, and what is generated after it.

    `tokens` are the generated tokens so far, `prompt` those of the prompt, of which `reused` were not computed again.
    `finish_reason` is None while it runs, then "end" (an end token), "stop" (a stop string), "length" (the maximum
    number of tokens), "cancelled" or "error", with the exception in `error`.
    """

    def __init__(self, cancelling: threading.Condition, prompt: list[int], sampling: Sampling,
                 stream: TextStream | None, is_text: bool, limit: int | None,
                 receiver: Callable[[Piece | None], object] | None):
        self.prompt, self.tokens = prompt, list[int]()
        self.reused = 0
        self.finish_reason: str | None = None
        self.error: Exception | None = None
        self._cancelling = cancelling
        self._is_cancelled = False
        self._sampling, self._sampler = sampling, sampling.sampler(prompt)
        self._stream, self._is_text, self._limit, self._receiver = stream, is_text, limit, receiver
        self._pieces: list[str] = []
        self._sequence: _mpc.Sequence | None = None

    @property
    def text(self) -> str:
        """Generated text so far; empty for a prompt of tokens."""
        return "".join(self._pieces)

    @property
    def is_finished(self) -> bool:
        """True after the request's last token."""
        return self.finish_reason is not None

    def cancel(self) -> None:
        """Ends the request at the next step. Thread-safe."""
        with self._cancelling:
            self._is_cancelled = True
            self._cancelling.notify_all()

    def result(self) -> Any:
        """The generated text, or tokens after a prompt of tokens. Raises the error of a request that failed."""
        if self.error is not None:
            raise self.error
        return self.text if self._is_text else self.tokens

    def __repr__(self) -> str:
        return f"<mpc request: {len(self.prompt)} + {len(self.tokens)} tokens, {self.finish_reason or 'unfinished'}>"


class _Prefixes:
    """Sequences of finished requests whose KV caches later prompts start from: the last ones used, at most `count`."""

    def __init__(self, count: int, chunk: int):
        self._count, self._chunk = count, chunk
        # Tokens of whole prefill chunks and their sequence, the last used one at the end.
        self._kept: list[tuple[list[int], _mpc.Sequence]] = []

    def longest(self, prompt: list[int], running: Sequence[Request]) -> tuple[int, _mpc.Sequence | None]:
        """Returns the longest prefix of `prompt` that a sequence has, in tokens, and the sequence.

        Only whole chunks of prompts count: rows of the KV cache that other programs have computed, or the same one
        for another split, may differ in the last bit. The last token is computed, since its logits are needed.
        """
        length, found = 0, None
        running_prompts = [(request.prompt, request._sequence) for request in running]
        for tokens, sequence in [*self._kept, *running_prompts]:
            shared = self._shared(tokens, prompt, len(prompt) - 1)
            if shared > length:
                length, found = shared, sequence
        for place, (_, sequence) in enumerate(self._kept):
            if sequence is found:
                self._kept.append(self._kept.pop(place))
                break
        return length, found

    def keep(self, prompt: list[int], sequence: _mpc.Sequence) -> None:
        """Keeps the sequence in place of those whose tokens it starts with, and of the least recently used one."""
        tokens = prompt[:len(prompt) // self._chunk * self._chunk]
        if not tokens or not self._count:
            return
        if any(self._shared(kept, tokens, len(tokens)) == len(tokens) for kept, _ in self._kept):
            return
        self._kept = [(kept, other) for kept, other in self._kept
                      if self._shared(kept, tokens, len(kept)) < len(kept)]
        self._kept = [*self._kept, (tokens, sequence)][-self._count:]

    def clear(self) -> bool:
        """Frees all KV caches; returns false if there are none."""
        had_some, self._kept = bool(self._kept), []
        return had_some

    def _shared(self, a: list[int], b: list[int], most: int) -> int:
        """Length of the common prefix in whole chunks, at most `most` tokens."""
        most, length = min(most, len(a), len(b)), 0
        while length + self._chunk <= most and a[length:length + self._chunk] == b[length:length + self._chunk]:
            length += self._chunk
        return length


class Batch:
    """Requests that are decoded together, one pass over the weights per step (continuous batching).

    A step feeds at most one chunk of a waiting prompt (chunked prefill) and appends a token to each running sequence,
    so that a long prompt delays the others by a chunk per token. A prompt that starts with whole chunks of a running
    prompt, or of one of the last `prefixes` finished ones, starts with a copy of their rows of the KV cache. The
    generated tokens are bit-identical to those of the request alone. At most `slots` + `prefixes` KV caches exist.

    `submit`, `Request.cancel`, `wait` and `close` may be called from any thread; one thread steps at a time.
    """

    def __init__(self, decoder: _mpc.Decoder, encoder: PromptEncoder, defaults: Sampling, *, name: str, chunk: int,
                 slots: int, prefixes: int, endless: bool, fills_first: bool = False):
        # `fills_first`: prefill all free slots before a step, for results that nobody waits for.
        self._decoder, self._encoder, self._defaults = decoder, encoder, defaults
        self._name, self._chunk, self._slots = name, chunk, slots
        self._endless, self._fills_first = endless, fills_first
        self._prefixes = _Prefixes(prefixes, chunk)
        self._changed = threading.Condition()
        self._stepping = threading.Lock()
        self._waiting: deque[Request] = deque()
        self._filling: Request | None = None
        self._running: list[Request] = []
        self._is_closed = False
        # Pieces that no step has returned, and how many of them their receivers have been called with: more than those
        # of the current step after one that has raised an exception.
        self._found: list[tuple[Request, Piece | None]] = []
        self._delivered = 0
        # The thread in `step`.
        self._stepper: int | None = None

    @property
    def slots(self) -> int:
        """Maximum number of sequences per step."""
        return self._slots

    def submit(self, prompt: Prompt, *, receiver: Callable[[Piece | None], object] | None = None,
               **options: Unpack[Options]) -> Request:
        """Adds a prompt with the options of `Decoder.generate`. The thread that steps calls `receiver` with each piece
        and at last with None; an exception of the receiver ends the request. Raises `mpc.InvalidArgument`, and adds
        nothing, if an option is invalid or the sequence does not fit into the KV cache. Thread-safe."""
        given: dict[str, Any] = dict(options)
        variables = given.pop("variables", None)
        sampling = self._defaults.with_options(given)
        ids = self._encoder.encode(prompt, variables)
        limit = self._limit(ids, sampling.tokens, "tokens" in given)
        stream = self._encoder.stream(prompt, ids, sampling.stop)
        request = Request(self._changed, ids, sampling, stream, is_text(prompt), limit, receiver)
        with self._changed:
            if self._is_closed:
                raise InvalidArgument(self._name, "was given a prompt for a batch that is closed")
            self._waiting.append(request)
            self._changed.notify_all()
        return request

    def _limit(self, prompt: list[int], tokens: int | None, is_given: bool) -> int | None:
        """Checks the prompt, and returns the maximum number of tokens after it: what fits of a default."""
        if not prompt:
            raise InvalidArgument(self._name, "a sequence needs at least one token")
        for place, token in enumerate(prompt):
            if not 0 <= token < self._decoder.vocabulary:
                raise InvalidArgument(self._name, f"token {token} at position {place} is outside the vocabulary of "
                                      f"{self._decoder.vocabulary}")
        rows = [] if self._endless else [(self._decoder.capacity, "rows of the KV cache")]
        if self._decoder.positions is not None:
            rows.append((self._decoder.positions, "rows of the model's position table"))
        if not rows:
            return tokens
        most, what = min(rows)
        # The last token is sampled, but not fed.
        room = most - len(prompt) + 1
        least = tokens if is_given and tokens is not None else 1
        if least > room:
            remedy = f"generate at most {room} tokens" if room >= 1 else "give a shorter prompt"
            if what.endswith("cache") and most != self._decoder.positions:
                remedy += ", or open the decoder with a larger capacity"
            raise InvalidArgument(self._name, f"a prompt of {len(prompt)} tokens and {least} more need "
                                  f"{len(prompt) + least - 1} {what}, which has {most}; {remedy}")
        return min(tokens or room, room)

    @property
    def pending(self) -> int:
        """Number of unfinished requests. Thread-safe."""
        with self._changed:
            return len(self._waiting) + len(self._running) + (self._filling is not None)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until there are unfinished requests. Returns false if there are none after `timeout` seconds, or when
        the batch is closed and has ended all."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._active() or self._found, timeout)
            return bool(self._active() or self._found)

    def close(self) -> None:
        """Cancels all requests, takes no more, and ends `wait`. The next step returns the ends of the requests."""
        with self._changed:
            self._is_closed = True
            for request in self._active():
                request._is_cancelled = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[tuple[Request, Piece | None]]:
        """Steps until all requests are finished."""
        while self.pending or self._found:
            yield from self.step()

    def step(self) -> list[tuple[Request, Piece | None]]:
        """Generates a token for each running request. Returns pairs of a request and its next piece: text that is
        complete, or a token after a prompt of tokens; None is a request's last piece.

        After an exception, such as an interrupt, all requests that have begun have ended, unless a receiver raised it;
        the next step returns the pieces of this one too. Raises `mpc.InvalidArgument` if a receiver calls it."""
        if self._stepper == threading.get_ident():
            raise InvalidArgument(self._name, "was stepped by a receiver of the same batch; receivers may submit and "
                                  "cancel requests, but the caller of 'step' takes the next step")
        with self._stepping:
            self._stepper = threading.get_ident()
            try:
                self._advance()
                self._deliver()
                found, self._found, self._delivered = self._found, [], 0
                return found
            finally:
                self._stepper = None

    def _advance(self) -> None:
        """Feeds a chunk of a prompt and a token of each running sequence."""
        try:
            self._end_cancelled()
            while self._prefill() and self._fills_first:
                pass
            self._decode()
        except BaseException as error:
            # Sequences may have taken tokens that no request has.
            self._abandon(error)
            self._deliver()
            raise

    def _deliver(self) -> None:
        """Calls the receivers, each once with a piece, also if one is interrupted."""
        while self._delivered < len(self._found):
            request, piece = self._found[self._delivered]
            self._delivered += 1
            if request._receiver is None:
                continue
            try:
                request._receiver(piece)
            except Exception as error:  # noqa: BLE001 - the caller's code
                request.error, request._receiver = request.error or error, None
                request.cancel()

    def _active(self) -> list[Request]:
        return [*([self._filling] if self._filling else []), *self._running, *self._waiting]

    def _end_cancelled(self) -> None:
        with self._changed:
            cancelled = [request for request in self._active() if request._is_cancelled]
        for request in cancelled:
            self._finish(request, "cancelled")

    def _next(self) -> Request | None:
        """The request whose prompt is fed: the current one, or a waiting one if a slot is free."""
        with self._changed:
            if self._filling is None and self._waiting and len(self._running) < self._slots:
                self._filling = self._waiting.popleft()
            return self._filling

    def _prefill(self) -> bool:
        """Feeds a chunk of a prompt. Returns false if no prompt can be fed."""
        request = self._next()
        if request is None:
            return False
        try:
            if request._sequence is None:
                request._sequence = self._open(request)
            fed = request._sequence.length
            logits = request._sequence.feed(request.prompt[fed:fed + self._chunk])
        except Error as error:
            self._fail(request, error)
            return True
        if fed + self._chunk >= len(request.prompt):
            with self._changed:
                self._filling = None
                self._running.append(request)
            self._append(request, logits)
        return True

    def _open(self, request: Request) -> _mpc.Sequence:
        """Returns a sequence with the longest prefix of the prompt that another one has."""
        length, source = self._prefixes.longest(request.prompt, self._running)
        while True:
            try:
                # The first rows of an endless sequence leave its cache.
                if source is not None and source.length <= self._decoder.capacity:
                    made = source.fork(length)
                    request.reused = length
                    return made
                return self._decoder.start()
            except ResourceExhausted:
                if not self._prefixes.clear():
                    raise

    def _decode(self) -> None:
        """Appends a token to each running sequence."""
        running = list(self._running)
        if not running:
            return
        try:
            rows = self._decoder.advance([request._sequence for request in running if request._sequence is not None],
                                         [request.tokens[-1] for request in running])
        except Error as error:
            for request in running:
                self._fail(request, error)
            return
        for request, logits in zip(running, rows):
            self._append(request, logits)

    def _append(self, request: Request, logits: Any) -> None:
        try:
            token = request._sampler.draw(logits)
        except Error as error:
            self._fail(request, error)
            return
        request.tokens.append(token)
        is_end = token in request._sampling.end
        if not request._is_text:
            self._found.append((request, token))
        stream = request._stream
        if stream is not None and not is_end:
            try:
                self._show(request, stream.push(token))
            except Exception as error:  # noqa: BLE001 - the caller's tokenizer
                self._fail(request, error)
                return
        if is_end:
            self._finish(request, "end")
        elif stream is not None and stream.stopped:
            self._finish(request, "stop")
        elif len(request.tokens) == request._limit:
            self._finish(request, "length")

    def _show(self, request: Request, piece: str) -> None:
        if piece and request._is_text:
            request._pieces.append(piece)
            self._found.append((request, piece))

    def _finish(self, request: Request, reason: str) -> None:
        if request._stream is not None:
            try:
                self._show(request, request._stream.finish())
            except Exception as error:  # noqa: BLE001 - the caller's tokenizer
                self._fail(request, error)
                return
        if request._sequence is not None and request._sequence.length >= len(request.prompt):
            self._prefixes.keep(request.prompt, request._sequence)
        self._remove(request, reason)
        self._found.append((request, None))

    def _fail(self, request: Request, error: Exception) -> None:
        request.error = request.error or error
        self._remove(request, "error")
        self._found.append((request, None))

    def _remove(self, request: Request, reason: str) -> None:
        request._sequence = None
        with self._changed:
            if request is self._filling:
                self._filling = None
            elif request in self._running:
                self._running.remove(request)
            else:
                self._waiting.remove(request)
            # Others may read it without the lock: it is the last change of a request.
            request.finish_reason = reason

    def _abandon(self, error: BaseException) -> None:
        """Ends all requests that have begun."""
        failure = error if isinstance(error, Exception) else Unavailable(self._name, "was interrupted")
        for request in [*([self._filling] if self._filling else []), *self._running]:
            self._fail(request, failure)
