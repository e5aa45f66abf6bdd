# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""same_rows.py FOLDER OP ELEMENT: runs `mpc.OP` over eight rows, which go in fours where they are
short and have 16 bits, over the first six, which go in pairs, and over the first three, which go
one by one, and wants the same bits."""
import pathlib
import random
import struct
import subprocess
import sys

COLUMNS = 192
BYTES = {"f32": 4, "bf16": 2, "f16": 2}
MODEL = """
func.func @main(%x: tensor<{rows}x{columns}xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}})
    -> (tensor<{rows}x{columns}x{element}> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %s = mpc.constant dense<1.5> : tensor<{columns}x{element}>
  %n = mpc.cast %x : tensor<{rows}x{columns}xf32> to tensor<{rows}x{columns}x{element}>
  %a = mpc.add %n, %n : (tensor<{rows}x{columns}x{element}>, tensor<{rows}x{columns}x{element}>) -> tensor<{rows}x{columns}x{element}>
  %o = {text}
  return %o : tensor<{rows}x{columns}x{element}>
}}
"""
OPS = {
    "softmax": "mpc.softmax %a axis(1) : {own}",
    "log_softmax": "mpc.log_softmax %a axis(1) : {own}",
    "layer_norm": "mpc.layer_norm %a, %s, %s axis(1) epsilon(1.0e-5) : ({own}, {row}, {row}) -> {own}",
    "rms_norm": "mpc.rms_norm %a, %s axis(1) epsilon(1.0e-5) : ({own}, {row}) -> {own}",
}


def save(path, rows, values):
    head = repr({"descr": "<f4", "fortran_order": False, "shape": (rows, COLUMNS)}).ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                     struct.pack(f"<{len(values)}f", *values))


def run(folder, op, element, rows, values):
    own = f"tensor<{rows}x{COLUMNS}x{element}>"
    text = OPS[op].format(own=own, row=f"tensor<{COLUMNS}x{element}>")
    model, given, answer = (folder / f"{op}-{element}-{rows}{end}"
                            for end in (".mlir", "-x.npy", "-y.npy"))
    model.write_text(MODEL.format(rows=rows, columns=COLUMNS, element=element, text=text))
    save(given, rows, values[:rows * COLUMNS])
    subprocess.run(["mpc", "run", model, "--input", f"x={given}", "--output", answer, "--device",
                    "cpu", "--threads", "1"], check=True, stdout=subprocess.DEVNULL)
    return answer.read_bytes()[-rows * COLUMNS * BYTES[element]:]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(5)
    values = [draw.gauss(0, 2) for _ in range(8 * COLUMNS)]
    for op in sys.argv[2].split(","):
        for element in sys.argv[3].split(","):
            fours, pairs, single = (run(folder, op, element, rows, values) for rows in (8, 6, 3))
            same = (len(single) == 3 * COLUMNS * BYTES[element] and pairs.startswith(single) and any(single) and
                    fours.startswith(pairs))
            print(op, element, "the same" if same else "DIFFERENT")


main()
