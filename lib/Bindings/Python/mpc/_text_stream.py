# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Incremental detokenization: text of tokens as they are generated, up to a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# Decoders replace the bytes of an incomplete character by this one.
_UNFINISHED = "\ufffd"
# Tokens before a new one that its text depends on: a leading space, the earlier bytes of a character.
_CONTEXT = 8
# Tokens without complete text after which incomplete characters are taken as they are. A character has at most four
# bytes, each at least a part of a token; longer runs are invalid bytes or special tokens.
_LONGEST_WAIT = 16


class TextStream:
    """Converts tokens to text in linear time: decodes each token together with a few earlier ones.

    `decode` converts consecutive tokens to text. `before` are the tokens of the text to continue; `stops` end the
    text, and neither they nor what follows is part of it. Not thread-safe.
    """

    def __init__(self, decode: Callable[[list[int]], str], before: Sequence[int] = (), stops: Sequence[str] = ()):
        self._decode, self._stops = decode, stops
        self._window = list(before[-_CONTEXT:])
        self._shown = decode(self._window) if self._window else ""
        if self._shown.endswith(_UNFINISHED):
            self._window, self._shown = [], ""
        # Number of last tokens in the window whose text is not yet returned.
        self._new = 0
        # Text that may be the start of a stop string.
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """Returns the text that `token` completes, often none. Sets `stopped` if it completes a stop string."""
        self._window.append(token)
        self._new += 1
        text = self._decode(self._window)
        is_complete = text.startswith(self._shown) and len(text) > len(self._shown) and text[-1] != _UNFINISHED
        if not is_complete and self._new < _LONGEST_WAIT:
            return ""
        if text.endswith(_UNFINISHED) and len(text) > len(self._shown):
            text = text[:-1]
        piece = text[len(self._shown):]
        # The new tokens are the context of the next one.
        self._window = self._window[-(min(self._new, _CONTEXT) if is_complete else _CONTEXT):]
        self._shown = self._decode(self._window)
        if not is_complete and self._shown.endswith(_UNFINISHED):
            self._shown = self._shown[:-1]
        self._new = 0
        return self._until_stop(piece)

    def finish(self) -> str:
        """Returns the remaining text: an incomplete character, and what a stop string might have started with."""
        if self.stopped:
            return ""
        text = self._decode(self._window) if self._window else ""
        piece = self._until_stop(text[len(self._shown):])
        rest, self._held = self._held, ""
        return piece + rest

    def _until_stop(self, piece: str) -> str:
        text, self._held = self._held + piece, ""
        # The stop string that is complete first, whatever the tokens are; of several the longest.
        found = [(text.find(stop) + len(stop), text.find(stop)) for stop in self._stops if stop in text]
        if found:
            self.stopped = True
            return text[:min(found)[1]]
        most = max((count for stop in self._stops for count in range(1, len(stop)) if text.endswith(stop[:count])),
                   default=0)
        self._held = text[len(text) - most:]
        return text[:len(text) - most]
