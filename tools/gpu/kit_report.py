# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kit's results as tables."""
import bench


def micro(milliseconds):
    return "-" if milliseconds is None else f"{1e3 * milliseconds:.1f}"


def report(state):
    lines = [f"- device {state.device}"]
    for line in state.of("facts"):
        lines.append(f"- {line['name']}: " + ", ".join(f"{key} {value}" for key, value in line.items()
                                                       if key not in ("part", "name", "device") and value))
    lines += ["", counts(state, "answers"), counts(state, "sanitizers"), counts(state, "profile")]
    rows = {}
    for line in state.of("workloads"):
        name, _, gemm = line["name"].rpartition("/")
        rows.setdefault(name, {})[gemm] = line
    systems = sorted({line["name"].rpartition("/")[2] for line in state.of("peers")})
    peers = {line["name"]: line for line in state.of("peers")}
    head = ["workload", "library, us", "own, us", "predicted, us", "floor, us", *[f"{system}, us" for system in systems]]
    lines += ["", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    names = [*rows, *[name for name in dict.fromkeys(peer.rpartition("/")[0] for peer in peers) if name not in rows]]
    for name in names:
        found = rows.get(name, {})
        own, library = found.get("own", {}), found.get("library", {})
        some = own if own.get("ok") else library
        cells = [some.get("title", name), micro(library.get("median_ms")), micro(own.get("median_ms")),
                 micro(some.get("predicted_ms")), micro(some.get("floor_ms") or None)]
        cells += [micro(peers.get(f"{name}/{system}", {}).get("median_ms")) for system in systems]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| workload, products | kernel | kind | launches | us | of ceiling |", "|---" * 6 + "|"]
    for line in state.of("workloads"):
        for kernel in line.get("kernels", []):
            lines.append(f"| {line['name']} | {kernel['name']} | {kernel['kind']} | {kernel['count']} | "
                         f"{micro(kernel['median_ms'])} | {of_ceiling(kernel)} |")
    return "\n".join(lines) + "\n"


def of_ceiling(kernel):
    least = max(kernel["flops"] / bench.MATRIX_FLOPS, kernel["bytes"] / bench.COPY_BYTES) * 1e3
    return f"{100 * least / kernel['median_ms']:.0f} %" if kernel["median_ms"] else "-"


def counts(state, part):
    lines = state.of(part)
    done = [line for line in lines if not line.get("skipped")]
    wrong = [line["name"] for line in done if line.get("ok") is False]
    text = f"{part}: {len(done) - len(wrong)} of {len(done)} hold"
    text += "".join(f"; {name} does not" for name in wrong)
    return text + "".join(f"; skipped: {line['reason']}" for line in lines if line.get("skipped"))
