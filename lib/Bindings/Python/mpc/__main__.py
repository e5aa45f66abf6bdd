# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program mpc: python -m mpc COMMAND ..."""

import mpc_compiler

from . import _installation  # Refuses a folder of two packages.

mpc_compiler.main()
