# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text generation from the command line: python -m mpc.generate MODEL [--prompt TEXT]

Prints the text as it is generated, and statistics to stderr. Without --prompt reads the prompt from stdin, or holds a
conversation if stdin is a terminal.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from . import _pretrained
from ._batch import Batch, Request
from ._decoder import Decoder
from ._errors import Error, InvalidArgument, ModelWarning
from ._prompts import Message, Prompt, PromptEncoder, read_tokenizer
from ._sampling import Sampling

_FAILED, _INTERRUPTED = 1, 130
# Maximum number of tokens after a prompt.
_TOKENS = 256
# The KV cache is rounded up, so that prompts of similar lengths share a cached compile.
_CAPACITY_STEP = 64
# Largest number of rows of the KV cache.
_MOST_ROWS = 1 << 30
_OPTIONS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mpc.generate", description=(__doc__ or "").split("\n\n")[1],
                                     allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face folder, or an .onnx or .gguf file")
    parser.add_argument("--prompt", metavar="TEXT", help="the text to continue, or the message to answer")
    parser.add_argument("--chat", action="store_true", help="format the prompt by the model's chat template")
    parser.add_argument("--system", metavar="TEXT", help="first message of a conversation; implies --chat")
    parser.add_argument("--tokens", type=int, metavar="N", help=f"maximum number of tokens to generate (default: "
                        f"{_TOKENS}; in a conversation as many as the KV cache has rows for)")
    parser.add_argument("--temperature", type=float, metavar="T",
                        help="divides the logits; 0 takes the most likely token")
    parser.add_argument("--top-k", type=int, metavar="K", help="sample only from the K most likely tokens (0: all)")
    parser.add_argument("--top-p", type=float, metavar="P",
                        help="sample only from the most likely tokens of this total probability")
    parser.add_argument("--min-p", type=float, metavar="P",
                        help="sample only from tokens with this share of the largest probability")
    parser.add_argument("--repetition-penalty", type=float, metavar="R",
                        help="divides positive logits of tokens in the text, and multiplies negative ones (1: no effect)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the sampling (default 0)")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text; repeatable")
    parser.add_argument("--policy", metavar="POLICY", help="precision policy: a name, a .json file, or auto")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=TYPE", help="override types; repeatable")
    parser.add_argument("--device", metavar="DEVICE", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads of a run (default: all)")
    parser.add_argument("--cache", type=int, metavar="N", help="rows of the KV cache (default: what the prompt needs; "
                        "in a conversation the model's maximum, at most 2048)")
    parser.add_argument("--chunk", type=int, default=64, metavar="N", help="tokens of the prompt per run (default 64)")
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json (default: that of the folder)")
    parser.add_argument("--quiet", action="store_true", help="print no statistics")
    return parser


def _messages(arguments: argparse.Namespace, text: str) -> list[Message]:
    system = [] if arguments.system is None else [{"role": "system", "content": arguments.system}]
    return [*system, {"role": "user", "content": text}]


def _prompt(arguments: argparse.Namespace) -> Prompt | None:
    """The prompt; None for a conversation."""
    text = arguments.prompt
    if text is None:
        if sys.stdin.isatty():
            return None
        text = sys.stdin.read()
    return _messages(arguments, text) if arguments.chat or arguments.system is not None else text


def _open(arguments: argparse.Namespace, prompt: Prompt | None) -> Decoder:
    """Opens the decoder with rows for the prompt, which is checked before the compile."""
    found = _pretrained.read(arguments.model)
    options = found.options()
    if prompt is None and found.chat_template is None:
        raise InvalidArgument(arguments.model, "has no chat template for a conversation; give a text by --prompt")
    options["defaults"]["tokens"] = _TOKENS
    if arguments.tokenizer is not None:
        options["tokenizer"] = read_tokenizer(arguments.tokenizer)
    overrides = []
    for override in arguments.set:
        name, equals, kind = override.rpartition("=")
        if not equals:
            raise InvalidArgument("--set", f"is '{override}', expected NAME=TYPE")
        overrides.append((name, kind))
    capacity = found.capacity if arguments.cache is None else arguments.cache
    if arguments.cache is not None and not 2 <= capacity <= _MOST_ROWS:
        raise InvalidArgument("--cache", f"is {capacity}, but must be from 2 to {_MOST_ROWS}")
    if prompt is not None:
        encoder = PromptEncoder(found.model, options["tokenizer"], found.chat_template, "give it by --tokenizer")
        given = len(encoder.encode(prompt))
        if arguments.cache is None:
            needed = max(given + (arguments.tokens or _TOKENS), arguments.chunk)
            capacity = -(-needed // _CAPACITY_STEP) * _CAPACITY_STEP
            if capacity > _MOST_ROWS:
                raise InvalidArgument("--tokens and --chunk", f"need {capacity} rows of the KV cache, but at most "
                                      f"{_MOST_ROWS} are possible; give smaller numbers")
        if found.longest is not None and given + (arguments.tokens or 1) > found.longest:
            warnings.warn(ModelWarning(f"{arguments.model}: a prompt of {given} tokens and {arguments.tokens or 1} "
                                       f"more exceed the model's maximum length of {found.longest} tokens"), stacklevel=2)
    return Decoder(found.model, policy=arguments.policy, overrides=overrides, device=arguments.device,
                   threads=arguments.threads, capacity=capacity, chunk=arguments.chunk, **options)


class _Terminal:
    """Writes text; on a terminal without control characters, which generated text may have."""

    def __init__(self) -> None:
        self._escapes = sys.stdout.isatty()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> None:
        """Writes text at once. Raises `OSError` with the file name "stdout"."""
        if self._escapes:
            text = "".join(c if c in "\n\t" or ord(c) >= 0xA0 or " " <= c <= "~" else f"\\x{ord(c):02x}" for c in text)
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            error.filename = "stdout"
            raise


@contextlib.contextmanager
def _cancelled_by_interrupt(request: Request) -> Iterator[None]:
    """Ctrl-C ends the request, so that its text stays whole."""
    before = signal.signal(signal.SIGINT, lambda *_: request.cancel())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _write(batch: Batch, request: Request, terminal: _Terminal, quiet: bool) -> None:
    """Generates and prints the text of a request."""
    start, first = time.perf_counter(), 0.0
    with _cancelled_by_interrupt(request):
        for _, piece in batch:
            first = first or (time.perf_counter() - start if request.tokens else 0.0)
            if piece is not None:
                terminal.write(str(piece))
    if not request.text.endswith("\n"):
        terminal.write("\n")
    request.result()
    count, seconds = len(request.tokens), time.perf_counter() - start
    if not quiet and count:
        line = f"prompt of {len(request.prompt)} tokens"
        line += f" ({request.reused} reused)" if request.reused else ""
        line += f": first token after {first * 1e3:.3g} ms"
        if count > 1 and seconds > first:
            line += f"; then {(count - 1) / (seconds - first):.3g} tokens/s, {count} tokens"
        print(f"{line}; {_REASONS[request.finish_reason or '']}", file=sys.stderr)


_REASONS = {"end": "ended by the model", "stop": "ended by --stop", "length": "ended by --tokens or the KV cache",
            "cancelled": "interrupted"}


def _converse(arguments: argparse.Namespace, decoder: Decoder, terminal: _Terminal, options: dict[str, Any]) -> None:
    """Reads messages and answers each, until the input ends."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - line editing of input()
    batch, messages = decoder.batch(prefixes=1), list[Message]()
    if not arguments.quiet:
        print("Ctrl-D ends the conversation, Ctrl-C an answer, /new begins another conversation", file=sys.stderr)
    while True:
        try:
            text = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if text.strip() == "/new":
            messages.clear()
            continue
        if not text.strip():
            continue
        said = [*messages, {"role": "user", "content": text}] if messages else _messages(arguments, text)
        try:
            request = batch.submit(said, **options)
            _write(batch, request, terminal, arguments.quiet)
        except Error as error:
            print(f"error: {error}", file=sys.stderr)
            continue
        messages = [*said, {"role": "assistant", "content": request.text}]


def _run(arguments: argparse.Namespace) -> int:
    options = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
    options.update({"stop": arguments.stop} if arguments.stop else {})
    terminal = _Terminal()
    warnings.showwarning = _warn
    prompt = _prompt(arguments)
    if arguments.tokens is not None or prompt is None:
        options["tokens"] = arguments.tokens
    Sampling().with_options(options).sampler(())
    decoder = _open(arguments, prompt)
    if prompt is None:
        _converse(arguments, decoder, terminal, options)
        return 0
    batch = decoder.batch(prefixes=0)
    request = batch.submit(prompt, **options)
    _write(batch, request, terminal, arguments.quiet)
    return _INTERRUPTED if request.finish_reason == "cancelled" else 0


def main(given: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    try:
        return _run(_parser().parse_args(given))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return _INTERRUPTED
    except (Error, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILED
    except OSError as error:
        # Python flushes stdout once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # The reader of a pipe ends when it has what it needs.
        if not isinstance(error, BrokenPipeError):
            print(f"error: {error.filename or 'stdin'}: {error.strerror}", file=sys.stderr)
        return _FAILED


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, ModelWarning):
        print(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
