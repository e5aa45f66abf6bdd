#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the error of a model's first output under a policy as a multiple of that under
another; fails where a check does not hold.

usage: compare_errors.py MPC MODEL POLICY OTHER
"""

import json
import subprocess
import sys


def error(mpc, model, policy):
    command = [mpc, "check", model, "--policy", policy, "--json", "--quiet"]
    document = json.loads(subprocess.run(command, stdout=subprocess.PIPE).stdout)
    if not document.get("ok"):
        sys.exit(f"{policy}: {document}")
    return document["outputs"][0]["rms_relative_error"]


def main(mpc, model, policy, other):
    ratio = error(mpc, model, policy) / error(mpc, model, other)
    print(f"{policy} is within {'twice' if ratio <= 2 else f'{ratio:.2f} times'} the error of {other}")


main(*sys.argv[1:])
