# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Summarizes the trace of a step of several ranks. usage: read_trace.py FILE"""
import json
import sys

events = json.load(open(sys.argv[1], encoding="utf-8"))["traceEvents"]
spans = [event for event in events if event["ph"] == "X"]
assert all(span["ts"] >= 0 and span["dur"] >= 0 for span in spans)
for rank in sorted({event["pid"] for event in events}):
    own = [span for span in spans if span["pid"] == rank]
    launches = [span for span in own if span["tid"] == 0]
    messages = sorted({span["name"] for span in own if span["tid"] == 1})
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(launches, launches[1:])), "launches overlap"
    print(f"rank {rank}: launches {len(launches)}, messages {' '.join(messages)}")
