# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a model each of whose names holds every control character, invisible characters, what the
languages of emitters and reports read, and characters of every part of Unicode; feeds it to every
command and checks that the names stay text.

usage: hostile_names.py FOLDER MPC
"""
import array
import json
import pathlib
import shutil
import subprocess
import sys
import unicodedata
import zipfile

folder, mpc = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))

from onnx_file import FLOAT, Message, _attribute, _tensor, npy_bytes  # noqa: E402

HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs"}
every = [chr(code) for code in range(1, 0x110000) if unicodedata.category(chr(code)) in HIDDEN - {"Cs"}]
every += [chr(code) for code in range(0x80, 0x30000, 64)
          if unicodedata.category(chr(code)) not in HIDDEN | {"Cn", "Co"}]
# Wherever a character ends a comment, a string or a line, the text after it is interpreted.
THEN = {"cuda": "#error owned", "shell": "touch owned", "html": "<script>owned()</script>", "log": "error: owned"}
MARKS = ("\"'\\`$(touch owned)${IFS};|&<>{}[]#!~* '; touch owned; ' \"; touch owned; \" </script><script>owned()</script>"
         "<!-- --> ]]> */ {{data}} %s %n ??/ __proto__ ../../owned /owned \x1b[201~touch owned\r")


def shown(of):
    """`of` and the printable characters: the name of an input or an output."""
    return of + "".join(c for c in MARKS + "".join(every) + "??/\\" if unicodedata.category(c) not in HIDDEN)


def name(of, nul=False):
    """`of` and everything else; a zero byte only where no argument of a command would hold it."""
    lines = "".join(end + then for then in THEN.values() for end in ("\n", "\r", "\v", "\f", "\u2028", "\u2029", "\x85"))
    return of + ("\0" if nul else "") + MARKS + lines + "".join(every) + "??/\\"


def entry(key, value):
    return Message().text(1, key).text(2, value)


def value(label, extents):
    shape = Message()
    for extent in extents:
        shape.nested(1, Message().text(2, extent) if isinstance(extent, str) else Message().integer(1, extent))
    return Message().text(1, label).nested(2, Message().nested(1, Message().integer(1, FLOAT).nested(2, shape)))


def node(kind, inputs, output, label, scope, **attributes):
    made = Message()
    for read in inputs:
        made.text(1, read)
    made.text(2, output).text(3, label).text(4, kind).text(6, name("doc"))
    for key, given in attributes.items():
        made.nested(5, _attribute(key, given))
    scopes = f'["", "{scope}", "op"]'
    return made.nested(9, entry("pkg.torch.onnx.name_scopes", scopes)).nested(9, entry(name("key"), name("value")))


NODE, INPUT, OUTPUT, DIM = name("/layer.0/product", nul=True), shown("input"), shown("output"), name("dim")
weights = array.array("f", [(i % 7 - 3) / 8 for i in range(32)])


def write(file, read, result):
    graph = Message()
    graph.nested(1, node("MatMul", [read, name("weight")], name("hidden"), NODE, "layer\u2028one"))
    graph.nested(1, node("Add", [name("hidden"), name("bias")], name("sum"), name("add"), "layer\nboth"))
    graph.nested(1, node("Relu", [name("sum")], result, name("/layer.1/relu"), "a'b</script>"))
    graph.text(2, name("graph")).text(10, name("doc"))
    graph.nested(5, _tensor(name("weight"), (8, 4), weights)).nested(5, _tensor(name("bias"), (4,), weights[:4]))
    graph.nested(11, value(read, [DIM, 8])).nested(12, value(result, [DIM, 4])).nested(13, value(name("hidden"), [DIM, 4]))
    model = Message().integer(1, 10).text(2, name("producer")).text(4, name("domain")).text(6, name("doc"))
    model.nested(7, graph).nested(8, Message().text(1, "").integer(2, 20)).nested(14, entry(name("key"), name("value")))
    file.write_bytes(b"".join(model.parts))


folder.mkdir(parents=True)
work, path, samples = folder / "work", folder / "model.onnx", folder / "samples"
work.mkdir()
samples.mkdir()
write(path, INPUT, OUTPUT)
data = folder / "x.npy"
data.write_bytes(npy_bytes("<f4", (2, 8), array.array("f", [i / 8 - 1 for i in range(16)])))
for i in range(2):
    with zipfile.ZipFile(samples / f"{i}.npz", "w") as archive:
        archive.write(data, "arg0.npy")
count = 0


def check_text(text, where):
    """Checks for characters that move, hide or end the text on a terminal."""
    for line in text.decode().split("\n"):
        bad = [c for c in line if unicodedata.category(c) in HIDDEN]
        assert not bad, f"{where}: {bad[:3]} in {line[:200]!r}"


def run(*words, code=0):
    global count
    count += 1
    done = subprocess.run([mpc, *map(str, words)], cwd=work, capture_output=True, check=False)
    assert done.returncode == code, f"{words[:3]}: exit {done.returncode}: {done.stderr[-600:]!r}"
    check_text(done.stderr, f"messages of {words[:3]}")
    for line in done.stderr.decode().splitlines():
        assert line.startswith(("error: ", "warning: ", "note: ")), f"{words[:3]}: a line of its own: {line[:200]!r}"
    check_text(done.stdout, f"output of {words[:3]}")
    left = [found for found in (*folder.rglob("owned"), pathlib.Path("/owned")) if found.exists()]
    assert not left, left
    return done.stdout


def document(*words, code=0):
    said = run(*words, "--json", code=code).decode()
    assert said.isascii()
    return [json.loads(line) for line in said.splitlines()][-1]


shape = ["--batch", "2"]
common = [path, *shape, "--policy", "mixed_bfloat16"]
# Text and JSON of every report. Names in JSON are unchanged.
explained = document("explain", *common)
assert NODE in [op["name"] for op in explained["ops"]]
assert {edge["from"] for edge in explained["edges"]} >= {INPUT}
assert {op["layer"] for op in explained["ops"]} >= {"layer\u2028one", "layer\nboth"}
run("explain", *common)
run("explain", *common, "--why", name("/layer.1/relu"))
document("explain", *common, "--why", name("add"))
run("lint", path, *shape, "--policy", "float16")
document("lint", path, *shape, "--policy", "float16")
# Every character of the name after the end of a comment would be a line of code.
run("check", *common, "--device", "cuda-host", "--per-op")
checked = document("check", *common, "--device", "cpu", "--per-op")
assert checked["outputs"][0]["name"] == OUTPUT
run("bench", *common, "--runs", "2")
document("bench", *common, "--runs", "2")
run("run", *common, "--input", f"arg0={data}", "--output", folder / "y.npz")
# Stored files are read again.
policy, tuned = folder / "calibrated.json", folder / "tuned.json"
run("calibrate", path, *shape, "--inputs", samples, "--policy", "mixed_float16", "-o", policy)
assert set(json.loads(policy.read_bytes().decode("ascii"))["ranges"]) >= {NODE}
run("explain", path, *shape, "--policy", policy)
run("tune", path, *shape, "--inputs", samples, "--budget", "rms 1e-2", "--objective", "bytes", "--isa", "avx2", "-o", tuned)
json.loads(tuned.read_bytes().decode("ascii"))
run("explain", path, *shape, "--policy", tuned)
if shutil.which("dot"):
    page = folder / "page.html"
    run("explain", *common, "--html", page)
    explained_file = folder / "explained.json"
    explained_file.write_text(json.dumps(explained))
    subprocess.run([sys.executable, pathlib.Path(__file__).with_name("check_report.py"), page, explained_file], check=True,
                   stdout=subprocess.DEVNULL)
for target in ("cpu:avx2", "cuda:sm_80"):
    dumps = folder / target.replace(":", "-")
    for words in (["compile", "--target", target, "-o", folder / "model.mpcx"] if target.startswith("cpu") else
                  ["check", "--device", "cuda-host"],):
        run(words[0], *common, *words[1:], "--dump-dir", dumps)
    for file in dumps.rglob("*"):
        assert file.parent == dumps, file
        text = file.read_bytes().decode()
        assert text.isascii() and not any(c in text for c in map(chr, {*range(32)} - {9, 10})), file
        assert "\nowned" not in text and "\n#error" not in text and "\ntouch" not in text, file
# Files that were compiled carry the names along.
run("run", folder / "model.mpcx", "--input", f"arg0={data}")
run("bench", folder / "model.mpcx", "--runs", "2")
assert any(name("/layer.1/relu") in launch["ops"] for launch in document("bench", folder / "model.mpcx", "--runs", "2")["launches"])
for after in ("import", "plan", "codegen"):
    run("dump", *common, "--after", after)
# Diagnostics contain text from the file.
hidden = folder / "hidden.onnx"
for read, result in ((name("input"), OUTPUT), (INPUT, name("output"))):
    write(hidden, read, result)
    run("explain", hidden, *shape, code=1)
    document("check", hidden, *shape, code=1)
for wrong in (["--dim", "nothing=3"], ["--set", f"name:{name('nobody')}=float16"]):
    run("check", path, *wrong, code=1)
    document("check", path, *wrong, code=1)
run("run", *common, "--input", f"{name('nobody').replace('=', '')}={data}", code=1)
print(f"{count} commands")
