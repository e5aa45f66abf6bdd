# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of the distribution mpc-compiler: mpc (also mpcc), mpc-opt and mpc-translate.

Not part of the package mpc, so that the programs start even if another module hides it.
"""

import os
import pathlib
import sys


def main() -> None:
    """Replaces this process by the program of the name in sys.argv[0]; by mpc for other names."""
    program = pathlib.Path(__file__).parent / "mpc" / "bin" / "mpc"
    try:
        os.execv(program, sys.argv)
    except OSError as error:
        sys.exit(f"error: {program}: cannot be started: {error.strerror}; this package was made without it, or parts "
                 "of it were removed: pip install --force-reinstall mpc-compiler")
