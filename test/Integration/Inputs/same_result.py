# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the test figures of the last epoch in a text log with those of a JSON log.
usage: same_result.py TEXT JSON"""
import json
import pathlib
import re
import sys

text, lines = (pathlib.Path(name).read_text() for name in sys.argv[1:3])
loss, accuracy = re.findall(r"test loss ([0-9.]+), accuracy ([0-9.]+) %", text)[-1]
final = json.loads(lines.splitlines()[-1])
found = f"{100 * final['test_accuracy']:.2f}"
if accuracy != found:
    sys.exit(f"test accuracy {accuracy} was exported, but the export has {found}")
