# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the command in the diagnostic for a file, with another Python. usage: run_advice.py FILE PYTHON"""

import pathlib
import subprocess
import sys

_, _, line = pathlib.Path(sys.argv[1]).read_text().partition(": python3 ")
sys.exit(subprocess.run(["sh", "-c", f"{sys.argv[2]} {line.splitlines()[0]}"], check=False).returncode)
