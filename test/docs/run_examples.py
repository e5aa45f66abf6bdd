#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Executes the examples of documentation pages.

usage: run_examples.py --bin build/bin [--llvm-bin DIR] PAGE.md...
       run_examples.py --coverage TESTFOLDER

Fenced blocks by their info string:
  console       Lines `$ command` run in bash, in a scratch folder that shows the
                project's tree, with --bin first on PATH; the lines after a command
                are its output (both streams). A line `...` stands for any lines,
                `...` inside a line for any text; white space counts as one blank.
                A command may fail only where `$ echo $?` comes next. Lines that end
                in a backslash go on. All blocks of a page share the scratch folder.
  console figures
                The same, but every number stands for any number: what the page shows
                was measured or depends on the instruction set.
  mlir          Must parse and verify as a module.
  mlir fragment A part of a printed module, shown for reading; not executed.
  LANG file=F   The text is also written to F in the scratch folder.
  LANG from=F   The text must stand in the project's file F; white space and line
                breaks count as one blank.
Other blocks are not looked at. Relative links must lead to files.

--coverage checks that every page has one test in TESTFOLDER that runs it.
"""
import argparse
import dataclasses
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^( *)(`{3,})(.*)$")
LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")
NUMBER = re.compile(r"(?<![\w.-])\d[\d.]*(?:e[+-]?\d+)?(?!\w)")
MARK = "-mpc-doc-example-end-"
TIMEOUT = 300


@dataclasses.dataclass
class Block:
    line: int
    info: list
    lines: list


def parse_blocks(text):
    """The fenced blocks of a page, and its lines outside of them."""
    blocks, prose, block, fence, indent = [], [], None, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if block is None and match:
            indent, fence = len(match[1]), match[2]
            block = Block(number, match[3].split(), [])
        elif block is not None and match and match[2] == fence and not match[3]:
            blocks.append(block)
            block = None
        elif block is not None:
            block.lines.append(line[indent:])
        else:
            prose.append((number, line))
    if block is not None:
        raise ValueError(f"line {block.line}: a fenced block has no end")
    return blocks, prose


def parse_console(lines):
    """Pairs of command and expected output."""
    pairs, goes_on = [], False
    for line in lines:
        if goes_on:
            pairs[-1][0] += "\n" + line
            goes_on = line.endswith("\\")
        elif line.startswith("$ "):
            pairs.append([line[2:], []])
            goes_on = line.endswith("\\")
        elif pairs:
            pairs[-1][1].append(line)
        else:
            raise ValueError("output before the first command")
    return pairs


def normalise(lines, any_number=False):
    lines = [" ".join(line.split()) for line in lines]
    if any_number:
        lines = [NUMBER.sub("#", line) for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def line_matches(pattern, line):
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("...")), line) is not None


def output_matches(expected, actual):
    """Whether `actual` fits; a set of the positions in `expected` that the lines
    seen so far may lead to stands for all ways of matching."""
    def closure(positions):
        work = list(positions)
        while work:
            at = work.pop()
            if at < len(expected) and expected[at] == "..." and at + 1 not in positions:
                positions.add(at + 1)
                work.append(at + 1)
        return positions

    positions = closure({0})
    for line in actual:
        following = set()
        for at in positions:
            if at < len(expected):
                if expected[at] == "...":
                    following.add(at)
                elif line_matches(expected[at], line):
                    following.add(at + 1)
        positions = closure(following)
    return len(expected) in positions


def run_console(pairs, folder, environment):
    """Runs the commands in one shell; (output lines, exit status) of each."""
    script = ""
    for command, _ in pairs:
        script += f"{{ {command}\n}} 2>&1\nmpc_status=$?; printf '\\n{MARK}%d\\n' $mpc_status; (exit $mpc_status)\n"
    done = subprocess.run(["bash"], input=script, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    parts = re.split(rf"\n?{MARK}(\d+)\n", done.stdout)
    return [(parts[i].splitlines(), int(parts[i + 1])) for i in range(0, len(parts) - 1, 2)]


def check_console(block, folder, environment):
    pairs = parse_console(block.lines)
    any_number = "figures" in block.info
    results = run_console(pairs, folder, environment)
    if len(results) != len(pairs):
        yield f"the shell ended after {len(results)} of {len(pairs)} commands"
    for i, ((command, expected), (output, status)) in enumerate(zip(pairs, results)):
        shown = i + 1 < len(pairs) and pairs[i + 1][0] == "echo $?"
        if status and not shown:
            yield f"$ {command}\nexits with {status}:\n" + "\n".join(output)
            continue
        expected, output = normalise(expected, any_number), normalise(output, any_number)
        if not output_matches(expected, output):
            difference = difflib.unified_diff(expected, output, "page", "run", lineterm="", n=1)
            yield f"$ {command}\nprints something else:\n" + "\n".join(difference)


def check_mlir(block, folder, environment):
    done = subprocess.run(["mpc-opt", "-", "-o", os.devnull], input="\n".join(block.lines) + "\n", cwd=folder,
                          env=environment, text=True, capture_output=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        yield f"mpc-opt refuses the block:\n{done.stderr}"


def check_from(block, name):
    def words(text):
        return " ".join(text.split())

    path = ROOT / name
    if not path.is_file():
        yield f"there is no file {name}"
    elif words("\n".join(block.lines)) not in words(path.read_text()):
        yield f"the block does not stand in {name}"


def check_block(block, folder, environment):
    keys = dict(word.split("=", 1) for word in block.info[1:] if "=" in word)
    if "file" in keys:
        path = folder / keys["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(block.lines) + "\n")
    if "from" in keys:
        yield from check_from(block, keys["from"])
    language = block.info[0] if block.info else ""
    if language == "console":
        yield from check_console(block, folder, environment)
    elif language == "mlir" and "fragment" not in block.info:
        yield from check_mlir(block, folder, environment)


def check_page(page, environment):
    """Messages about one page."""
    blocks, prose = parse_blocks(page.read_text())
    for number, line in prose:
        for link in LINK.findall(line):
            if "://" not in link and not (page.parent / link).exists():
                yield f"{page}:{number}: the link to {link} leads nowhere"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for entry in ROOT.iterdir():
            if entry.name != ".git":
                (folder / entry.name).symlink_to(entry)
        for block in blocks:
            try:
                for message in check_block(block, folder, environment):
                    yield f"{page}:{block.line}: {message}"
            except (ValueError, subprocess.TimeoutExpired) as error:
                yield f"{page}:{block.line}: {error}"


def check_coverage(folder):
    tests = [test.read_text() for test in sorted(folder.glob("*.test"))]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = f"%mpc_src/{page.relative_to(ROOT)}"
        count = sum(name in text.split() for text in tests)
        if count != 1:
            yield f"{page}: {count} tests in {folder} run the page, not one"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--llvm-bin", type=pathlib.Path)
    parser.add_argument("--coverage", type=pathlib.Path)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    if not args.pages and not args.coverage:
        parser.error("name a page, or --coverage")
    environment = dict(os.environ)
    folders = [str(folder.resolve()) for folder in (args.bin, args.llvm_bin) if folder]
    environment["PATH"] = os.pathsep.join([*folders, environment["PATH"]])
    # A page shows the first run of its reader: no compile is cached, kernels may be.
    if cache := environment.get("MPC_CACHE_DIR"):
        environment |= {"MPC_CACHE_DIR": os.path.join(cache, "docs"), "MPC_CACHE_SIZE": "0"}
    messages = list(check_coverage(args.coverage)) if args.coverage else []
    for page in args.pages:
        try:
            messages += check_page(page, environment)
        except ValueError as error:
            messages.append(f"{page}: {error}")
    for message in messages:
        print(message, file=sys.stderr)
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main())
