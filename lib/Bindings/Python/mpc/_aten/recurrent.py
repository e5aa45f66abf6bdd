# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrent layers that PyTorch does not decompose: an LSTM in inference."""

from __future__ import annotations

from .builder import Builder, Type, Unsupported, Value, lowers

_LSTM = 2


@lowers("mkldnn_rnn_layer")
def lstm(b: Builder, x: Value, weight: Value, recurrence: Value, bias: Value, recurrent_bias: Value, h: Value, c: Value,
         reverse: bool, batch_sizes: list[int], mode: int, hidden: int, layers: int, has_biases: bool,
         bidirectional: bool, batch_first: bool, train: bool) -> tuple[Value | None, ...]:
    if mode != _LSTM or layers != 1 or batch_sizes or bidirectional or batch_first or train or b.used[3]:
        raise Unsupported("this form of a recurrent layer")

    def reordered(value: Value) -> Value:
        """Reorders the rows of gates i, f, c, o to the dialect's order, for one direction."""
        rows = b.concat([b.slice_axis(value, 0, gate * hidden, hidden) for gate in (0, 3, 1, 2)], 0)
        return b.reshape(rows, (1,) + rows.shape)

    operands = [x, reordered(weight), reordered(recurrence)]
    names = []
    if has_biases:
        operands.append(b.concat([reordered(bias), reordered(recurrent_bias)], 1))
        names.append("bias")
    operands += [b.reshape(state, (1,) + state.shape[-2:]) for state in (h, c)]
    form = " ".join(f"{name}({{}})" for name in [*names, "initial_h", "initial_c"])
    steps, batch = x.shape[:2]
    result, last_h, last_c = b.emit("lstm {}, {}, {} " + form + (" direction(reverse)" if reverse else ""), operands,
                                    [Type((steps, 1, batch, hidden), x.element)] + [Type((1, batch, hidden), x.element)] * 2)
    states = [b.reshape(state, kind.shape) for state, kind in zip((last_h, last_c), b.results[1:3])]
    return b.reshape(result, (steps, batch, hidden)), *states, None
