# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs models whose input and output have typical framework names, with arrays of these names.

usage: array_names.py FOLDER MPC
"""
import array
import json
import pathlib
import subprocess
import sys
import zipfile

folder, mpc = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))

from onnx_file import FLOAT, Graph, npy_bytes  # noqa: E402

NAMES = [("serving_default_x:0", "StatefulPartitionedCall:0"), ("a/b/c", "out/put"), ("with space", "and 'quote\""), ("läyer_ß", "出力"),
         ("x" * 300, "y" * 300), ("X", "x"), ("../up", "..\\down"), ("weights.0", "weights.0.1"), ("%1", "%2"), ("-x", "--y"), ("a,b=c", "d=e.npy")]
x = array.array("f", range(6))
folder.mkdir(parents=True)
for source, result in NAMES:
    graph = Graph()
    graph.input(source, FLOAT, (2, 3))
    graph.op("Neg", [source], result)
    graph.output(result, FLOAT, (2, 3))
    graph.write(folder / "m.onnx")
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        archive.writestr(f"{source}.npy", npy_bytes("<f4", (2, 3), x))
    words = [folder / "m.onnx", "--inputs", folder / "x.npz"]
    subprocess.run([mpc, "run", *words, "--output", folder / "y.npz", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(folder / "y.npz") as archive:
        assert archive.namelist() == [f"{result}.npy"], (result, archive.namelist())
        assert archive.read(f"{result}.npy")[-24:] == array.array("f", [-e for e in x]).tobytes(), result
    said = subprocess.run([mpc, "check", *words, "--policy", "mixed_bfloat16", "--json"], check=True, capture_output=True).stdout
    assert json.loads(said)["outputs"][0]["name"] == result, said
print(f"{len(NAMES)} models")
