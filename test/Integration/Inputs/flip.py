# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Verifies `mpc explain --why NAME`: applies the suggested change and
checks that the value's type becomes the predicted one.

usage: flip.py MODEL POLICY FLIPS NAME... [-- FLAG...]
FLIPS is the number of names that must have such a change. Prints a line per name.
"""
import json
import subprocess
import sys


def explain(model, policy, flags):
    command = ["mpc", "explain", model, "--policy", policy, "--quiet", "--json", *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def set_flags(sets):
    return [word for text in sets for word in ("--set", text)]


def main():
    words = sys.argv[1:]
    sets = []
    if "--" in words:
        at = words.index("--")
        words, sets = words[:at], words[at + 1:]
    model, policy, flips, names = words[0], words[1], int(words[2]), words[3:]
    report = explain(model, policy, set_flags(sets))
    found = 0
    for name in names:
        why = explain(model, policy, set_flags(sets) + ["--why", name])["why"]
        stored = [op["storage"][0] for op in report["ops"] if op["name"] == name]
        if stored and why["type"] != stored[-1]:
            sys.exit(f"{name}: --why says {why['type']}, the report {stored[-1]}")
        if not why["steps"]:
            sys.exit(f"{name}: no step")
        flip = why["flip"]
        if not flip:
            print(f"{name}: {why['type']}, kept by {why['keeps']}")
            continue
        if flip["becomes"] == why["type"]:
            sys.exit(f"{name}: the change changes nothing")
        changed = [text for text in sets if text != flip["drop"]] + flip["sets"]
        if changed == sets:
            sys.exit(f"{name}: no change is named")
        after = explain(model, policy, set_flags(changed))
        now = [op["storage"][0] for op in after["ops"] if op["name"] == name]
        if not now:  # an input, an output or a constant
            now = [explain(model, policy, set_flags(changed) + ["--why", name])["why"]["type"]]
        if now[-1] != flip["becomes"]:
            sys.exit(f"{name}: with {changed} it is {now[-1]}, not {flip['becomes']}")
        found += 1
        print(f"{name}: {why['type']}, {flip['becomes']} with {' '.join(changed) or 'none'}")
    if found < flips:
        sys.exit(f"{found} of {len(names)} names have a change, expected {flips}")


main()
