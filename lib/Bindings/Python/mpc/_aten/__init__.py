# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowering of PyTorch's ATen ops to the mpc dialect: a table from ops to functions that emit text."""

from . import contractions, creation, elementwise, indexing, movement, norms, recurrent, reductions, windows
from .builder import ELEMENT, EMPTY, TABLE, Builder, Memory, Type, Unsupported, Value, dense_order

__all__ = ["ELEMENT", "EMPTY", "TABLE", "Builder", "Memory", "Type", "Unsupported", "Value", "contractions",
           "creation", "dense_order", "elementwise", "indexing", "movement", "norms", "recurrent", "reductions",
           "windows"]
