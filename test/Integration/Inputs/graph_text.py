# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helpers of scripts that write graphs with random weights."""

import math
import random
import struct


def tensor(*shape, element="f32"):
    """A tensor's type."""
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element}>"


class Writer:
    """Ops of a function's body, one a line, and the names of their results."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.count = 0

    def op(self, text):
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = mpc.{text}")
        return name

    def data(self, values, shape, code="f", element="f32"):
        """A constant; `code` is the struct format of its elements."""
        blob = struct.pack(f"<{len(values)}{code}", *values).hex().upper()
        return self.op(f'constant dense<"0x{blob}"> : {tensor(*shape, element=element)}')

    def normal(self, deviation, *shape):
        return self.data([self.random.gauss(0, deviation) for _ in range(math.prod(shape))], shape)
