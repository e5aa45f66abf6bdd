# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a command on several numbers of threads and compares the file that it writes.
usage: same_for_threads.py FILE COMMAND..."""
import pathlib
import subprocess
import sys

file, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
written = {}
for threads in ("1", "2", "3", "7"):
    file.unlink(missing_ok=True)
    subprocess.run([*command, "--threads", threads, "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    written[threads] = file.read_bytes()
for threads, found in written.items():
    if found != written["1"]:
        sys.exit(f"{threads} threads write another file than one")
print("1, 2, 3 and 7 threads write the same")
