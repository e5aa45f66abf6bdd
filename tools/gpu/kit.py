#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All tests and measurements on a machine with a GPU, in calls of at most eight minutes.

usage: kit.py [CALL=1] [--pack build-gpu/pack.tar.xz] [--out $OUT or build-gpu-run/out]
              [--keep build-gpu-run] [--device cuda|cuda-host] [--seconds 480]
              [--parts NAME,...] [--workloads PREFIX,...]

CALL 1: the machine's properties and peak rates, answers of all models and steps, every workload
with generated and library products and the planner's predictions, a profile of ten kernels, the
sanitizers. CALL 2: PyTorch, eager and in graphs, and JAX. CALL 3: PyTorch's max-autotune. Each
call resumes from the results of earlier ones in OUT or KEEP, and writes only to OUT:
kit.jsonl (a line per result, immediately), report.md, profile.csv, log.txt. Without a GPU
everything runs on cuda-host. Exit code 0 if complete, 75 on timeout (call again), 1 if a check
fails.
"""
import argparse
import os
import pathlib
import sys
import tarfile

import kit_answers
import kit_inspect
import kit_machine
import kit_report
import kit_workloads
from kit_state import Clock, State, folder_of

LEFT = 75
# Name, function, seconds.
PARTS = {
    1: [("facts", kit_machine.facts, 30), ("answers", kit_answers.answers, 90),
        ("workloads", kit_workloads.own_times, 120), ("profile", kit_inspect.profile, 120),
        ("sanitizers", kit_inspect.sanitizers, 60)],
    2: [("facts", kit_machine.facts, 30),
        ("peers", lambda kit, clock: kit_workloads.peer_times(kit, clock, 2), 430)],
    3: [("facts", kit_machine.facts, 30),
        ("peers", lambda kit, clock: kit_workloads.peer_times(kit, clock, 3), 430)],
}


class Kit:
    """Shared by all parts."""

    def __init__(self, pack, out, state, env, device, log, workloads=("",)):
        self.workloads = workloads
        self.pack, self.out, self.state, self.env, self.device, self.log = pack, out, state, env, device, log
        self.late = False

    def program(self, name):
        """A program of the pack; MPC_KIT_PROGRAMS overrides its directory."""
        folder = os.environ.get("MPC_KIT_PROGRAMS")
        return str((pathlib.Path(folder) if folder else self.pack / "bin") / name)

    def note(self, part, name, **facts):
        self.state.add(part, name, **facts)
        self.late |= bool(facts.get("late"))
        verdict = "late" if facts.get("late") else "ok" if facts.get("ok", True) else "FAILED"
        reason = facts.get("reason", "")
        print(f"{part} {name}: {verdict}{': ' + reason.splitlines()[-1][:160] if reason else ''}", flush=True)

    def skip(self, part, name, reason):
        """A missing capability is not a failure; it is retried on another machine."""
        self.state.add(part, name, skipped=True, reason=reason)
        print(f"{part} {name}: skipped: {reason}", flush=True)


def unpack(archive, folder):
    """The pack as a directory; unpacked again if the archive is newer."""
    if archive.is_dir():
        return archive
    pack = folder / "pack"
    if not pack.exists() or pack.stat().st_mtime < archive.stat().st_mtime:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else file.extractall(folder)
        os.utime(pack)
    return pack


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("call", nargs="?", type=int, default=1, choices=sorted(PARTS))
    parser.add_argument("--pack", type=pathlib.Path, default="build-gpu/pack.tar.xz")
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT", "build-gpu-run/out"))
    parser.add_argument("--keep", type=pathlib.Path, default="build-gpu-run")
    parser.add_argument("--device", choices=["cuda", "cuda-host"])
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--parts", type=lambda text: text.split(","), help="these alone: facts,answers,workloads,...")
    parser.add_argument("--workloads", type=lambda text: tuple(text.split(",")), default=("",),
                        help="what is timed begins with one of these")
    arguments = parser.parse_args()
    # Reserve time to write the report.
    clock = Clock(arguments.seconds - 10)
    if not arguments.pack.exists():
        print(f"there is no {arguments.pack}; make it with tools/gpu/pack.sh", file=sys.stderr)
        return 2
    out, keep = folder_of(arguments.out), folder_of(arguments.keep)
    state = State([out, keep])
    with open(out / "log.txt", "a", encoding="utf-8") as log:
        pack = unpack(folder_of(arguments.pack), keep)
        env = kit_machine.environment(pack) | {"MPC_CACHE_DIR": str(keep / "cache")}
        device = arguments.device or kit_machine.find_device(env)
        state.device = device
        print(f"call {arguments.call} on {device}", flush=True)
        kit = Kit(pack, out, state, env, device, log, arguments.workloads)
        for name, work, seconds in PARTS[arguments.call]:
            if arguments.parts and name not in arguments.parts:
                continue
            part = Clock(seconds, within=clock)
            try:
                work(kit, part)
            except Exception as error:  # pylint: disable=broad-except
                # A failing part must not prevent the others from running.
                kit.note(name, "the part itself", ok=False, reason=f"{type(error).__name__}: {error}")
            kit.late |= part.over()
            (out / "report.md").write_text(kit_report.report(state), encoding="utf-8")
    print(kit_report.report(state))
    return 1 if state.failed() else LEFT if kit.late else 0


if __name__ == "__main__":
    sys.exit(main())
