#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes BUILD/tidy/compile_commands.json: as BUILD's, with one command for each source of a unit.

usage: unity_commands.py BUILD
"""

import json
import pathlib
import re
import sys

build = pathlib.Path(sys.argv[1])
commands = []
for entry in json.loads((build / "compile_commands.json").read_text()):
    unit = pathlib.Path(entry["file"])
    sources = [entry["file"]]
    if unit.parent.name == "Unity":
        sources = re.findall(r'^#include "(.+)"', unit.read_text(), re.MULTILINE)
    for source in sources:
        commands.append({**entry, "file": source, "command": entry["command"].replace(entry["file"], source)})
(build / "tidy").mkdir(exist_ok=True)
(build / "tidy" / "compile_commands.json").write_text(json.dumps(commands, indent=1))
