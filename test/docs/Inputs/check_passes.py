# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the generated page of passes against the stages and the tests.

usage: check_passes.py STAGES.json Passes.md SOURCE
Every pass of a stage has a heading on the page; every test that a description names
as its example exists.
"""
import json
import pathlib
import re
import sys

stages = json.loads(pathlib.Path(sys.argv[1]).read_text())["stages"]
page = pathlib.Path(sys.argv[2]).read_text()
source = pathlib.Path(sys.argv[3])
passes = {name for stage in stages for name in re.findall(r"\bmpc-[a-z0-9-]+", stage["passes"])}
unwritten = sorted(name for name in passes if f"### `-{name}`" not in page)
examples = set(re.findall(r"\btest/[\w/-]+\.mlir", page))
missing = sorted(name for name in examples if not (source / name).is_file())
if not passes or not examples or unwritten or missing:
    sys.exit(f"{len(passes)} passes, {len(examples)} examples; not on the page: {', '.join(unwritten)}; "
             f"no such test: {', '.join(missing)}")
