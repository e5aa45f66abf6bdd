#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs lit over test folders and closes with `N passed, N failed`.

usage: run_lit.py --lit LIT --results FILE.json [--filter REGEX] [--long] FOLDER...
Exit status: lit's. Skipped tests are listed with their number.
"""
import argparse
import json
import pathlib
import subprocess
import sys

GOOD = {"PASS", "XFAIL", "FLAKYPASS"}
SKIPPED = {"UNSUPPORTED", "SKIPPED", "EXCLUDED"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lit", required=True)
    parser.add_argument("--results", required=True, type=pathlib.Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--long", action="store_true", help="run the long tests and no others")
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    args.results.unlink(missing_ok=True)
    command = [sys.executable, args.lit, "-sv", "--output", str(args.results), *args.folders]
    if args.long:
        command += ["--param", "long=1"]
    if args.filter:
        command += ["--filter", args.filter]
    status = subprocess.run(command, check=False).returncode
    if not args.results.exists():
        print("0 passed, 1 failed (lit wrote no results)")
        return status or 1
    codes = [test["code"] for test in json.loads(args.results.read_text())["tests"]]
    passed = sum(code in GOOD for code in codes)
    skipped = sum(code in SKIPPED for code in codes)
    failed = len(codes) - passed - skipped
    if skipped:
        print(f"{skipped} skipped (needs a feature that this machine lacks)")
    print(f"{passed} passed, {failed} failed")
    return status or int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
