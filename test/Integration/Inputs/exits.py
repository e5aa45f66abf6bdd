# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a command and checks its exit code, and that it had at most MIB of memory.

usage: exits.py CODE[:MIB] COMMAND...
"""
import resource
import subprocess
import sys

wanted, _, most = sys.argv[1].partition(":")
code = subprocess.run(sys.argv[2:], check=False).returncode
if code != int(wanted):
    sys.exit(f"exit code {code}, expected {wanted}: {' '.join(sys.argv[2:])}")
had = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
if most and had > int(most):
    sys.exit(f"{had} MiB, expected at most {most}: {' '.join(sys.argv[2:])}")
