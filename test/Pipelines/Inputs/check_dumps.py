# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a folder that --dump-dir has filled.

usage: check_dumps.py MPC-OPT FOLDER
Every file must parse and verify; the command in a file's first line must give the next
file of the folder. Ends with the number of files and of commands.
"""
import pathlib
import re
import subprocess
import sys


def run(command, folder):
    done = subprocess.run(command, cwd=folder, shell=isinstance(command, str), capture_output=True, text=True,
                          check=False)
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    files = sorted(folder.glob("*.mlir"))
    commands = 0
    for file, following in zip(files, [*files[1:], None]):
        run([tool, file.name, "-o", "/dev/null"], folder)
        match = re.match(r"// next: mpc-opt (.*)\n", file.read_text())
        if not match or following is None:
            continue
        made = run(f"{tool} {match[1]}", folder)
        wanted = run([tool, following.name], folder)
        if made != wanted:
            sys.exit(f"{file.name}: its command does not give {following.name}")
        commands += 1
    print(f"{len(files)} files, {commands} commands")


if __name__ == "__main__":
    main()
