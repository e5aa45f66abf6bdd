# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses subinterpreters: the extension's types are global to a process and destroyed with any interpreter.
"""

import importlib
import sys

try:
    _interpreters = importlib.import_module("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
except ImportError:
    _interpreters = None
if _interpreters is not None and _interpreters.get_current() != _interpreters.get_main():
    raise ImportError("mpc supports the main interpreter only, and this is a subinterpreter")
