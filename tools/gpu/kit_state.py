# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""State shared by the kit's calls: one line of JSON per completed item."""
import json
import pathlib
import time

FILE = "kit.jsonl"


class State:
    """Appends lines immediately to every directory in `folders`, so that nothing is lost if the machine goes
    away; items completed by an earlier call on the same device are skipped."""

    def __init__(self, folders):
        self.files, self.lines, self.device = [], [], None
        seen = set()
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / FILE
            if file.exists():
                for text in file.read_text(encoding="utf-8").splitlines():
                    if text not in seen and (line := parse(text)) is not None:
                        seen.add(text)
                        self.lines.append(line)
            self.files.append(file)
        for file in self.files:
            file.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")

    def add(self, part, name, **facts):
        """One result; the last one of a name counts."""
        line = {"device": self.device, "part": part, "name": name, **facts}
        self.lines.append(line)
        for file in self.files:
            with open(file, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")

    def has(self, part, name):
        """Whether it was completed on this device; timeouts are retried."""
        line = self.find(part, name)
        return line is not None and not line.get("late")

    def find(self, part, name):
        return next((line for line in self.of(part) if line["name"] == name), None)

    def of(self, part):
        """The last line of each name, in order."""
        return list({line["name"]: line for line in self.lines
                     if line["part"] == part and line["device"] == self.device}.values())

    def failed(self):
        return [line for part in dict.fromkeys(line["part"] for line in self.lines) for line in self.of(part)
                if line.get("ok") is False and not line.get("late")]


def parse(text):
    """None for a partial line, from an interrupted write."""
    try:
        return json.loads(text)
    except ValueError:
        return None


class Clock:
    """Ends a part after its seconds, and no later than the call."""

    def __init__(self, seconds, within=None):
        self.deadline = time.monotonic() + seconds
        if within is not None:
            self.deadline = min(self.deadline, within.deadline)

    def left(self):
        return max(0.0, self.deadline - time.monotonic())

    def over(self):
        return self.left() <= 0


def tail(text, characters=1500):
    return text.strip()[-characters:]


def folder_of(path):
    return pathlib.Path(path).resolve()
