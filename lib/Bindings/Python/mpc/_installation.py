# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses a folder that PyPI's package `mpc`, a control-theory library with the same import name, was installed
into too: each of the two replaced files of the other.
"""

import pathlib

_folder = pathlib.Path(__file__).parent
if (_folder / "lqr_step.py").exists():
    raise ImportError(f"{_folder} has files of two packages, mpc-compiler and the control-theory library mpc; "
                      "keep one of them in an environment: pip uninstall mpc mpc-compiler, then install it again")
