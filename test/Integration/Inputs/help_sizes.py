# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the help of every command of a program: at most 40 lines of 80 columns, two examples,
and a description of each flag in the full help.

usage: help_sizes.py MPC
"""
import re
import subprocess
import sys


def run(*words):
    return subprocess.run([sys.argv[1], *words], check=True, capture_output=True, text=True).stdout


listed = run("--help").split("\nexamples\n")[0]
commands = re.findall(r"^  ([a-z-]+) +[a-z]", listed, re.MULTILINE)
for command in ["", *commands]:
    text = run(*command.split(), "--help")
    lines = text.splitlines()
    if len(lines) > 40:
        print(f"{command}: {len(lines)} lines")
    for line in lines:
        if len(line) > 80:
            print(f"{command}: {len(line)} columns: {line}")
    examples = text[text.index("\nexamples\n"):].count("\n  mpc ")
    if examples + text[text.index("\nexamples\n"):].count("\n  source ") != 2:
        print(f"{command}: {examples} examples")
    # Flags that help lists by name only.
    if more := re.search(r"^more((?:.*\n)(?:      .*\n)*)", text, re.MULTILINE):
        full = run(command, "--help-all")
        for flag in more[1].split():
            if not re.search(rf"^  (-\w, )?(--[\w-]+, )*{flag}\b", full, re.MULTILINE):
                print(f"{command}: {flag} is not in the full help")
print(len(commands), "commands")
