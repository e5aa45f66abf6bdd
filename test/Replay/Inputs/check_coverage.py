# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that mpc-replay covers enough of each kind of recording and that all of it agrees.

usage: check_coverage.py MPC_REPLAY FOLDER
"""
import re
import subprocess
import sys

# Least covered share of the entries of a folder's files whose paths fit.
SHARES = [(r"torch-.*/ops\.json", 0.55), (r"torch-.*/programs\.json", 0.9), (r"tf-.*/lists\.json", 1.0),
          (r"tf-.*/(graph_.*|programs)\.json", 0.9)]


def main():
    replay, folder = sys.argv[1:]
    text = subprocess.run([replay, folder], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^(\S+): (\d+) of (\d+) agree \((\d+) covered\)$", text, re.MULTILINE)
    if not found:
        sys.exit("mpc-replay printed no result")
    sums = {}
    for path, agree, total, covered in found:
        agree, total, covered = int(agree), int(total), int(covered)
        if agree != covered:
            sys.exit(f"{path}: {covered - agree} entries differ")
        for pattern, share in SHARES:
            if re.search(pattern, path):
                key = (path.rpartition("/")[0], pattern, share)
                before = sums.get(key, (0, 0))
                sums[key] = (before[0] + covered, before[1] + total)
    for (folder, pattern, share), (covered, total) in sums.items():
        if covered < share * total:
            sys.exit(f"{folder}/{pattern}: {covered} of {total} entries are covered, which is less than {share:.0%}")


main()
