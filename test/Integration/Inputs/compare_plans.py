# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints how plans with gradient accumulation and with a sharded optimizer differ from a plain plan.
usage: compare_plans.py WHOLE.json WINDOW.json SHARD.json, each of 1 and 4 ranks"""
import json
import pathlib
import sys

whole, window, shard = (json.loads(pathlib.Path(name).read_text())["plans"] for name in sys.argv[1:])
longer = window[1]["launches_ms"] / whole[1]["launches_ms"]
print(f"window: {window[1]['batches']} batches in {longer:.1f} times the launches, "
      f"{window[1]['wire_bytes'] / whole[1]['wire_bytes']:.3g} times the bytes")
less = whole[1]["memory_bytes"] - shard[1]["memory_bytes"]
print(f"shard: {shard[1]['wire_bytes'] / whole[1]['wire_bytes']:.2g} times the bytes, "
      f"{'less' if less > 0 else 'more'} memory on 4 ranks, "
      f"{'the same' if whole[0]['memory_bytes'] == shard[0]['memory_bytes'] else 'other'} on 1")
