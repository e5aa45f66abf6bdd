# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of narrow weights whose rows are hard to write as integers: one number far above
all others, numbers of every exponent, huge ones, subnormal ones, zeros, infinities and NaN.

Usage: digit_rows.py make FOLDER ROWS
       digit_rows.py judge FOLDER MPC [FLAG ...]

make writes FOLDER/m.mlir, of ROWS rows, and FOLDER/NUMBER.npz for so many cases each. judge
runs them by MPC with the flags, and holds the results to the bound of f32 sums of any order, |error| <= n u sum |x w|
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), and infinities and NaN to
those of such sums. Where large numbers cancel and units multiply bytes, the sums of 32 positions
count as exact. With --policy mixed_bfloat16 or mixed_float16 rows are those that it rounds.
"""
import pathlib
import subprocess
import sys

import numpy as np

DEPTH = 512
FORMS = {"bytes": (DEPTH, 256), "nibbles": (64, 16), "short": (32, 16), "long": (128, 16)}
COLUMNS = 72
CANCELLING = 3  # cases at the end, twice
folder = pathlib.Path(sys.argv[2])
rng = np.random.default_rng(11)


def weights(form):
    """On a grid whose step is a power of two, so that products by integers are exact; whole
    stretches of zeros."""
    group, levels = form
    integers = rng.integers(-levels // 2, levels // 2, (DEPTH, COLUMNS))
    # The grid is as fine as it looks.
    integers[::group] = -levels // 2
    integers[1::group] = levels // 2 - 1
    integers[2::16, ::3] = 0
    # What cancelling() needs.
    for first in range(0, DEPTH, 32):
        integers[first + 16:first + 32] = integers[first:first + 16]
    scales = np.exp2(rng.integers(-9, -4, (DEPTH // group, COLUMNS)))
    return np.float32(integers * np.repeat(scales, group, axis=0))


def cancelling(below, many):
    """Numbers of 8 bits that cancel those 16 positions on, and instead in words of four one that is
    smaller by `below`: in up to eight of each 32 positions, or in one of 128."""
    row = np.zeros(DEPTH)
    for block in range(DEPTH // 32):
        mine = row[32 * block:32 * block + 32]
        mine[:16] = rng.integers(128, 256, 16) * rng.choice([-1, 1], 16)
        mine[16:] = -mine[:16]
        for number in range(block % 9 if many else block % 4 == 1):
            k = 4 * (number // 2) + block % 4
            mine[k + number % 2 * 16] = rng.integers(128, 256) * below
            if number % 2 == 0:
                mine[k + 16] = 0
    return np.float32(row)


def cases():
    normal = lambda: np.float32(rng.normal(size=DEPTH))
    yield normal()
    yield np.float32(rng.normal(size=DEPTH) * np.exp2(rng.integers(-40, 40, DEPTH)))
    for outlier in (1e3, -1e7, 1e20, 1e34):
        row = normal()
        row[2] = outlier  # meets weights of 0
        yield row
    for scale in (1e-30, 1e-37, 1e-41):
        yield np.float32(rng.normal(size=DEPTH) * scale)
    # Sums of 1e36 are infinite before the weights' scales make them small.
    for scale in (1e30, 1e36):
        yield np.float32(rng.normal(size=DEPTH) * scale)
    row = np.zeros(DEPTH, np.float32)
    yield row
    row = row.copy()
    row[300] = 1e-45
    yield row
    yield np.float32(rng.integers(-8388607, 8388608, DEPTH))
    yield np.float32(rng.choice([2.0**22, -(2.0**22), 2.0**22 - 0.5, 0.5, -127.5], DEPTH))
    for special in (np.inf, -np.inf, np.nan):
        row = normal()
        row[2] = special
        yield row
    row = normal()
    row[5], row[400] = np.inf, -np.inf
    yield row
    # Of one byte to three, and with numbers above that take them further down.
    for bits in (7, 15, 23):
        yield np.float32(rng.integers(-(2**bits) + 1, 2**bits, DEPTH))
    for above in (8, 14, 16):
        row = np.float32(rng.integers(-(2**23) + 1, 2**23, DEPTH))
        row[::32] = np.exp2(22 + above)
        yield row
    # Of rows of 16 bits these have a last digit, then of f32 rows.
    for below in (2.0**-10, 2.0**-29):
        for number in range(CANCELLING):
            yield cancelling(below, many=number == 0)


def as_policy(x):
    """x as it is multiplied under the flags' policy."""
    if "mixed_float16" in sys.argv:
        with np.errstate(over="ignore"):
            return np.float16(x)
    if "mixed_bfloat16" not in sys.argv:
        return x
    bits = x.view(np.uint32)
    rounded = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return np.where(np.isfinite(x), rounded.view(np.float32), x)


if sys.argv[1] == "make":
    rows = int(sys.argv[3])
    matrices = {name: weights(form) for name, form in FORMS.items()}
    np.savez(folder / "weights.npz", **matrices)
    role = lambda kind, name: f'{{mpc.role = #mpc.role<{kind}>, mpc.name = "{name}"}}'
    result = f"tensor<{rows}x{COLUMNS}xf32>"
    outputs = ", ".join(f"{result} {role('output', name)}" for name in FORMS)
    lines = [f"func.func @main(%x: tensor<{rows}x{DEPTH}xf32> {role('input', 'x')})",
             f"    -> ({outputs}) {{"]
    for name in FORMS:
        lines += [f"  %w_{name} = mpc.constant dense_resource<{name}> : "
                  f"tensor<{DEPTH}x{COLUMNS}xf32>",
                  f"  %{name} = mpc.matmul %x, %w_{name} : (tensor<{rows}x{DEPTH}xf32>, "
                  f"tensor<{DEPTH}x{COLUMNS}xf32>) -> {result}"]
    lines += [f"  return {', '.join('%' + name for name in FORMS)} : "
              f"{', '.join([result] * len(FORMS))}", "}", "{-#", "  dialect_resources: {",
              "    builtin: {"]
    lines += [",\n".join(f'      {name}: "0x04000000{matrix.tobytes().hex().upper()}"'
                         for name, matrix in matrices.items()), "    }", "  }", "#-}"]
    (folder / "m.mlir").write_text("\n".join(lines) + "\n")
    drawn = list(cases())
    drawn = [drawn[0]] * (-len(drawn) % rows) + drawn
    for first in range(0, len(drawn), rows):
        np.savez(folder / f"{first // rows}.npz", x=np.stack(drawn[first:first + rows]))
else:
    def run(inputs):
        subprocess.run([sys.argv[3], "run", folder / "m.mlir", "--quiet", "--input", inputs, "--output",
                        folder / "out.npz", *sys.argv[4:]], check=True, stdout=subprocess.DEVNULL)
        return dict(np.load(folder / "out.npz"))

    # Units that multiply bytes: those of the level that --isa names, or else the machine's.
    has_units = ("avx2" not in sys.argv if "--isa" in sys.argv
                 else any(flag in pathlib.Path("/proc/cpuinfo").read_text() for flag in ("avx512_vnni", "avx_vnni")))
    matrices = np.load(folder / "weights.npz")
    count = len(list(folder.glob("[0-9]*.npz")))
    number = 0
    while (folder / f"{number}.npz").exists():
        x = np.float64(as_policy(np.load(folder / f"{number}.npz")["x"]))
        out = run(folder / f"{number}.npz")
        # What a row gives does not hang on the rows beside it.
        np.savez(folder / "alone.npz", x=np.repeat(np.load(folder / f"{number}.npz")["x"][:1], len(x), axis=0))
        alone = run(folder / "alone.npz") if len(x) > 1 else out
        for name in FORMS:
            if out[name][0].tobytes() != alone[name][0].tobytes():
                print(f"file {number}, {name}: the first row changes with those beside it")
            w = np.float64(matrices[name])
            with np.errstate(invalid="ignore", over="ignore"):
                expected = np.array([(row[:, None] * w).sum(axis=0) for row in x])
                bound = DEPTH * 2.0**-24 * (np.abs(x) @ np.abs(w)) + DEPTH * 2.0**-149
                for i in range(len(x) if has_units else 0):
                    last = (count - number) * len(x) - i
                    is16 = any(word.startswith("mixed_") for word in sys.argv)
                    if (CANCELLING if is16 else 0) < last <= 2 * CANCELLING:
                        blocks = (x[i][:, None] * w).reshape(-1, 32, COLUMNS).sum(axis=1)
                        bound[i] = (len(blocks) + 4) * 2.0**-24 * np.abs(blocks).sum(axis=0)
                error = np.abs(np.float64(out[name]) - expected)
            finite = np.isfinite(expected)
            if not (error[finite] <= bound[finite]).all():
                worst = np.nanmax(np.where(finite, error / bound, 0))
                print(f"file {number}, {name}: {worst:.3g} times the bound")
            got, wanted = np.float64(out[name])[~finite], expected[~finite]
            if not np.array_equal(got, wanted, equal_nan=True):
                print(f"file {number}, {name}: infinities or NaN differ")
        number += 1
    print(f"{number} files judged")
