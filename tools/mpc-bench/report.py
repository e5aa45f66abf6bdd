# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of bench.py as Markdown and as a chart."""
import json
import statistics
import subprocess
import sys

REPRODUCIBLE = "mpc-reproducible"
NARROW = ("mixed", "bfloat16")
SYSTEM = {"torch-eager": "eager", "torch-compile": "compile", "onnxruntime": "ORT"}


def rows_of(found, mine, precisions):
    """The measured rows of mpc, or of its peers."""
    return [row for row in found["rows"] if "median_ms" in row and row["precision"] in precisions and
            (row["system"] == "mpc" if mine else row["system"] in SYSTEM)]


def fastest(found, mine, precisions):
    """The fastest row of mpc, or of its peers."""
    return min(rows_of(found, mine, precisions), key=lambda row: row["median_ms"], default=None)


def floor_ms(found, document, row):
    """The roofline time of a row, or None if unknown."""
    if row is None:
        return None
    ceilings = document["machine"]["gflops"]
    peak = row["precision"] in NARROW and ceilings.get("bf16") or ceilings["f32"]
    least = found["flops"] / peak * 1e-6
    # In a 16-bit model all memory traffic is halved.
    size = found["bytes"] / (2 if row["precision"] == "bfloat16" else 1)
    rates = [rate for room, rate in document["machine"]["bandwidths"] if size <= room]
    rates = rates or [document["machine"]["bandwidths"][-1][1]]
    return max(least, size / rates[0] * 1e-6) or None


def number(value):
    return "-" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def cell(row):
    """Milliseconds and the system; a tilde marks the minimum of disturbed turns."""
    if row is None:
        return "-"
    words = ["" if row["calm"] else "~", number(row["median_ms"])]
    if row["system"] in SYSTEM:
        words.append(f" {SYSTEM[row['system']]}")
    return "".join(words) + (" amp" if row["precision"] == "mixed" else "")


def ratio(a, b):
    return f"{a['median_ms'] / b['median_ms']:.2f}" if a and b else "-"


def share(found, document, row):
    """Percentage of the peak."""
    least = floor_ms(found, document, row)
    return 100 * least / row["median_ms"] if least else None


def lines_of(found):
    """A progress line per system."""
    lines = []
    for row in sorted(found["rows"], key=lambda row: row.get("median_ms", 1e30)):
        name = f"  {row['system']:16} {row['precision']:9}"
        if "error" in row:
            lines.append(f"{name} failed: {row['error']}")
            continue
        tilde = "" if row["calm"] else "~"
        lines.append(f"{name} {tilde + number(row['median_ms']):>9} ms, least {number(row['min_ms'])}, "
                     f"{row['disturbed_runs']} of {row['runs']} runs disturbed")
    return "\n".join(lines)


def table(head, rows, right="--:|"):
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + right * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def times(document):
    for found in document["workloads"]:
        wide, narrow = (fastest(found, False, p) for p in (["float32"], NARROW))
        own, own_narrow = (fastest(found, True, p) for p in (["float32"], NARROW))
        shares = [share(found, document, row) for row in (own, own_narrow)]
        shares = ["-" if value is None else f"{value:.0f}" for value in shares]
        yield [found["workload"], cell(wide), cell(own), ratio(own, wide), shares[0],
               cell(narrow), cell(own_narrow), ratio(own_narrow, narrow), shares[1],
               ratio(own, own_narrow)]


def errors(document):
    for found in document["workloads"]:
        cells = [found["workload"]]
        for mine, precisions in ((False, ["float32"]), (True, ["float32"]), (False, NARROW),
                                 (True, NARROW)):
            row = fastest(found, mine, precisions)
            error = row and row.get("rms_relative_error")
            cells.append(f"{error:.1e}" if error is not None else "-")
        if any(text != "-" for text in cells[1:]):
            yield cells


def memory(document):
    def least(found, mine, precisions):
        sizes = [row["peak_rss_bytes"] for row in rows_of(found, mine, precisions)
                 if "peak_rss_bytes" in row]
        return number(min(sizes) / 1e6) if sizes else "-"
    for found in document["workloads"]:
        if found["trains"]:
            yield [found["workload"]] + [least(found, mine, precisions)
                                         for precisions in (["float32"], ["mixed"])
                                         for mine in (False, True)]


def costs(document):
    """Times of reproducible programs and of free ones."""
    ratios = []
    for found in document["workloads"]:
        rows = {(row["system"], row["precision"]): row for row in found["rows"] if "median_ms" in row}
        for (system, precision), row in rows.items():
            free = rows.get(("mpc", precision))
            if system == REPRODUCIBLE and free:
                ratios.append(row["median_ms"] / free["median_ms"])
                yield [found["workload"], precision, number(free["median_ms"]),
                       number(row["median_ms"]), f"{ratios[-1]:.2f}"]
    if ratios:
        yield ["geometric mean", "", "", "", f"{statistics.geometric_mean(ratios):.2f}"]


def kernels(document):
    for found in document["workloads"]:
        for precisions in (["float32"], NARROW):
            row = fastest(found, True, precisions)
            if row and "kernels" in row:
                texts = [f"{kernel['name']} ({kernel['kind']}) {100 * kernel['share']:.0f} %, at "
                         f"{100 * (kernel['fraction_of_ceiling'] or 0):.0f} %"
                         for kernel in row["kernels"]]
                yield [found["workload"], row["precision"], "; ".join(texts)]


def setup(document):
    """What differs from one thread on an idle core."""
    threads, busy = document.get("threads", 1), document.get("busy", 0)
    texts = [f"{threads} threads"] * (threads > 1) + [f"{busy} busy loops"] * (busy > 0)
    return f"{' beside '.join(texts)}. " if texts else ""


def markdown(document):
    machine = document["machine"]
    rates = ", ".join(f"{rate:.0f} GFLOP/s in {key}" for key, rate in machine["gflops"].items())
    versions = sorted({f"{SYSTEM[row['system']]} {row['version']}" for found in
                       document["workloads"] for row in found["rows"]
                       if row["system"] in SYSTEM and "version" in row})
    lines = [f"{machine['processor']} ({', '.join(machine['features'])}), one core: {rates}. {setup(document)}"
             f"{', '.join(versions)}. {document['time']}.", ""]
    lines += table(["ms", "best peer, f32", "mpc f32", "ratio", "% of ceiling", "best peer, bf16",
                    "mpc bf16", "ratio", "% of ceiling", "gain of bf16"], times(document))
    for title, head, rows, *right in (
            ("Error against float64 (rms, relative):",
             ["", "peer f32", "mpc f32", "peer bf16", "mpc bf16"], errors(document)),
            ("Peak memory of the process, MB, least of the peers:",
             ["", "peer f32", "mpc f32", "peer bf16", "mpc bf16"], memory(document)),
            ("Cost of reproducible bits, ms:",
             ["", "precision", "free", "reproducible", "ratio"], costs(document)),
            ("Slowest kernels of mpc, with their part of the time and of the ceiling:",
             ["", "", "kernels"], kernels(document), "---|")):
        rows = list(rows)
        if rows:
            lines += [title, "", *table(head, rows, *right)]
    failed = [f"- {found['workload']}, {row['system']} {row['precision']}: {row['error']}"
              for found in document["workloads"] for row in found["rows"] if "error" in row]
    if failed:
        lines += ["Failed:", "", *failed, ""]
    return "\n".join(lines)


def bars(document):
    """(workload, fraction of the peak for peer and mpc in f32, then in bf16)."""
    for found in document["workloads"]:
        yield [found["workload"]] + [share(found, document, fastest(found, mine, precisions)) or 0
                                     for precisions in (["float32"], NARROW)
                                     for mine in (False, True)]


DRAW = """
import json, sys
import matplotlib
matplotlib.use("svg")
from matplotlib import pyplot
rows = json.load(sys.stdin)
figure, axes = pyplot.subplots(figsize=(9, 0.55 * len(rows) + 1.2))
for i, (label, color) in enumerate([("best peer, f32", "#b9c4d0"), ("mpc, f32", "#5b8bb5"),
                                    ("best peer, bf16", "#e0c3a0"), ("mpc, bf16", "#d07a2d")]):
    axes.barh([y + 0.2 * (i - 1.5) for y in range(len(rows))], [row[i + 1] for row in rows],
              0.2, label=label, color=color)
axes.set_yticks(range(len(rows)), [row[0] for row in rows])
axes.invert_yaxis()
axes.set_xlabel("per cent of the ceiling that one core allows")
axes.legend(loc="lower right")
figure.tight_layout()
figure.savefig(sys.argv[1], metadata={"Date": None})
"""


def draw(document, path, python):
    """Writes an SVG by the matplotlib of `python`."""
    done = subprocess.run([str(python), "-c", DRAW, str(path)], check=False, text=True,
                          input=json.dumps(list(bars(document))), capture_output=True)
    if done.returncode:
        sys.exit(f"error: no picture: {done.stderr.strip().splitlines()[-1]}")
