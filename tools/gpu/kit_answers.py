# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every compiled model and training step of the pack on one device, in one process, and compares them
with stored float64 answers under the oracle's limits."""
import json
import pathlib
import select
import subprocess
import tempfile

import compare
from kit_state import tail


def cases(pack):
    """(name, file, inputs, expected, inputs of a step or None), small models first."""
    for file in sorted(pack.glob("steps/*/*.mpcx")):
        stem = file.with_suffix("")
        inputs = stem.with_name(f"{stem.name}.inputs.npz")
        yield f"{file.parent.name}/{stem.name}", file, inputs, stem.with_name(f"{stem.name}.expected.npz"), inputs
    models = sorted(pack.glob("models/*/*.mpcx"), key=lambda file: (file.stat().st_size, file))
    for file in models:
        yield f"{file.parent.name}/{file.stem}", file, file.with_name("inputs.npz"), file.with_name("expected.npz"), None


class Process:
    """The program `answers`, restarted after a crash."""

    def __init__(self, kit):
        self.kit, self.process = kit, None

    def ask(self, file, inputs, output, seconds):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([self.kit.program("answers"), self.kit.device], env=self.kit.env,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.kit.log, text=True)
        try:
            self.process.stdin.write(f"{file}\t{inputs}\t{output}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": "the process ended"}
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else None
        if not line:
            self.process.kill()
            self.process.wait()
            return {"error": f"ended with {self.process.returncode}"} if ready else {"error": "took too long", "late": True}
        return json.loads(line)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()


def programs(kit, clock):
    """Compares the preludes bit for bit, and the library's products with the reference."""
    for name, arguments in (("prelude-check", []), ("product-check", [kit.device])):
        if kit.state.has("answers", name) or not pathlib.Path(kit.program(name)).exists():
            continue
        try:
            done = subprocess.run([kit.program(name), *arguments], env=kit.env, capture_output=True, text=True,
                                  check=False, timeout=max(1.0, min(40.0, clock.left())))
        except subprocess.TimeoutExpired:
            kit.note("answers", name, ok=False, late=True, reason="took too long")
            continue
        text = tail(done.stdout + done.stderr)
        if done.returncode == 77:
            kit.skip("answers", name, text.splitlines()[-1] if text else "there is no GPU")
        else:
            # The line that reports the failure, if there is one, rather than the end of a long list.
            wrong = ("FAILED", "DIFFERENT", "differ", "error")
            failed = "\n".join(line for line in (done.stdout + done.stderr).splitlines()
                               if any(word in line for word in wrong))
            kit.note("answers", name, ok=done.returncode == 0, reason="" if done.returncode == 0 else tail(failed) or text)


def answers(kit, clock):
    process = Process(kit)
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out.npz"
        for name, file, inputs, expected, given in cases(kit.pack):
            if kit.state.has("answers", name):
                continue
            if clock.over():
                break
            output.unlink(missing_ok=True)
            answer = process.ask(file, inputs, output, max(1.0, min(30.0, clock.left())))
            if "error" in answer:
                kit.note("answers", name, ok=False, late=bool(answer.get("late")), reason=tail(answer["error"]))
                continue
            verdict = compare.judge(output, expected, file.with_suffix(".json"), given)
            worst = max((o["rms_relative_error"] / o["tolerance"] for o in verdict["outputs"]
                         if "rms_relative_error" in o and o.get("tolerance")), default=0)
            kit.note("answers", name, ok=verdict["ok"], of_limit=worst, milliseconds=answer["milliseconds"],
                     reason="" if verdict["ok"] else json.dumps(verdict["outputs"])[:1500])
    process.close()
    programs(kit, clock)
