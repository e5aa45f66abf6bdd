#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the files that implement an op.

  tools/ci/op_files.py NAME... [--at-most N]

NAME is a mnemonic, such as softplus. A file counts if it names the op's class or
definition, or is one of mpc's own policies and lists it: the files to change for another
op of its kind. Policies that imitate another system, and patterns that recognize the op
in a model, do not count. Exit code 1 if an op has more than N.
"""

import argparse
import pathlib
import re
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMITATIONS = ("tf_amp_", "torch_autocast_", "keras_")


def needs(path, text, mnemonic):
    if path.suffix == ".json":
        return not path.name.startswith(IMITATIONS) and f'"{mnemonic}"' in text
    if path.name.startswith("Recognize"):
        return False
    name = "".join(part.capitalize() for part in re.split(r"[._]", mnemonic)) + "Op"
    return re.search(rf"\b(Mpc_)?{name}\b", text) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--at-most", type=int)
    options = parser.parse_args()
    files = [(path, path.read_text())
             for folder in ("include", "lib")
             for path in sorted((ROOT / folder).rglob("*"))
             if path.suffix in (".td", ".h", ".cpp", ".json")]
    failed = False
    for name in options.names:
        found = [path.relative_to(ROOT) for path, text in files if needs(path, text, name)]
        print(f"{name}: {len(found)} files")
        for path in found:
            print(f"  {path}")
        if not any(path.suffix == ".td" for path in found):
            sys.exit(f"no op is called {name}")
        failed |= options.at_most is not None and len(found) > options.at_most
    if failed:
        sys.exit(f"more than {options.at_most}")


# Exit silently if the reader closes the pipe.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
main()
