#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the attention of a Llama-style decoder block, as exporters spell it: RMS norm,
fewer heads of keys and values than of queries, rotary positions, a cache to which the new keys
and values are appended, heads repeated up to the number of the query's. Weights are random.

usage: make_decoder.py FILE [tokens=1] [past=16] [heads=4] [groups=2] [width=64] [seed=1]
       [rotary=halves|pairs|none] [repeat=broadcast|tile|concat]
"""

import sys

from graph_text import Writer, tensor


def main(path, *settings):
    sizes = {"tokens": 1, "past": 16, "heads": 4, "groups": 2, "width": 64, "seed": 1}
    sizes |= {"rotary": "halves", "repeat": "broadcast"}
    for key, value in (setting.split("=") for setting in settings):
        sizes[key] = type(sizes[key])(value)
    t, past, heads, groups, d = (sizes[key] for key in ("tokens", "past", "heads", "groups", "width"))
    k, times, every = d // heads, heads // groups, past + t
    w = Writer(sizes["seed"])
    stream = tensor(1, t, d)

    def dense(x, columns):
        weight = w.normal(d**-0.5, d, columns)
        return w.op(f"matmul {x}, {weight} : ({stream}, {tensor(d, columns)}) -> {tensor(1, t, columns)}")

    def split(x, count):
        parts = w.op(f"reshape {x} : {tensor(1, t, count * k)} to {tensor(1, t, count, k)}")
        return w.op(f"transpose {parts} [0, 2, 1, 3] : {tensor(1, t, count, k)} to {tensor(1, count, t, k)}")

    def angles():
        rates = w.data([10000 ** (-2 * i / k) for i in range(k // 2)], (k // 2,))
        place = w.op(f"cast %positions : {tensor(1, t, 1, element='i64')} to {tensor(1, t, 1)}")
        angle = w.op(f"mul {place}, {rates} : ({tensor(1, t, 1)}, {tensor(k // 2)}) -> {tensor(1, t, k // 2)}")
        if sizes["rotary"] == "pairs":
            return w.op(f"reshape {angle} : {tensor(1, t, k // 2)} to {tensor(1, 1, t, k // 2)}"), k // 2
        both = f"{tensor(1, t, k // 2)}, {tensor(1, t, k // 2)}"
        angle = w.op(f"concat {angle}, {angle} axis(2) : ({both}) -> {tensor(1, t, k)}")
        return w.op(f"reshape {angle} : {tensor(1, t, k)} to {tensor(1, 1, t, k)}"), k

    def halves(x, count):
        """x * cos + concat(-second half, first half) * sin"""
        whole, half, table = tensor(1, count, t, k), tensor(1, count, t, k // 2), tensor(1, 1, t, k)
        low = w.op(f"slice {x} [0, 0, 0, 0] [1, {count}, {t}, {k // 2}] : {whole} to {half}")
        high = w.op(f"slice {x} [0, 0, 0, {k // 2}] [1, {count}, {t}, {k // 2}] : {whole} to {half}")
        high = w.op(f"neg {high} : {half}")
        turned = w.op(f"concat {high}, {low} axis(3) : ({half}, {half}) -> {whole}")
        turned = w.op(f"mul {turned}, {sine} : ({whole}, {table}) -> {whole}")
        straight = w.op(f"mul {x}, {cosine} : ({whole}, {table}) -> {whole}")
        return w.op(f"add {straight}, {turned} : ({whole}, {whole}) -> {whole}")

    def pairs(x, count):
        """Neighbours (a, b) become (a cos - b sin, a sin + b cos)."""
        whole, half, table = tensor(1, count, t, k), tensor(1, count, t, k // 2), tensor(1, 1, t, k // 2)
        one = tensor(1, count, t, k // 2, 1)
        parts = [w.op(f"slice {x} [0, 0, 0, {i}] [1, {count}, {t}, {k // 2}] strides [1, 1, 1, 2] : {whole} to {half}") for i in (0, 1)]
        results = []
        for first, second, join in ((cosine, sine, "sub"), (sine, cosine, "add")):
            a = w.op(f"mul {parts[0]}, {first} : ({half}, {table}) -> {half}")
            b = w.op(f"mul {parts[1]}, {second} : ({half}, {table}) -> {half}")
            y = w.op(f"{join} {a}, {b} : ({half}, {half}) -> {half}")
            results.append(w.op(f"reshape {y} : {half} to {one}"))
        both = w.op(f"concat {', '.join(results)} axis(4) : ({one}, {one}) -> {tensor(1, count, t, k // 2, 2)}")
        return w.op(f"reshape {both} : {tensor(1, count, t, k // 2, 2)} to {whole}")

    def repeated(x):
        one, many = tensor(1, groups, 1, every, k), tensor(1, groups, times, every, k)
        x = w.op(f"reshape {x} : {tensor(1, groups, every, k)} to {one}")
        if sizes["repeat"] == "concat":
            x = w.op(f"concat {', '.join([x] * times)} axis(2) : ({', '.join([one] * times)}) -> {many}")
        elif sizes["repeat"] == "tile":
            x = w.op(f"reshape {x} : {one} to {tensor(1, 1, 1, groups, 1, 1, 1, every, 1, k)}")
            x = w.op(f"broadcast {x} : {tensor(1, 1, 1, groups, 1, 1, 1, every, 1, k)} to {tensor(1, 1, 1, groups, times, 1, 1, every, 1, k)}")
            x = w.op(f"reshape {x} : {tensor(1, 1, 1, groups, times, 1, 1, every, 1, k)} to {many}")
        else:
            x = w.op(f"broadcast {x} : {one} to {many}")
        return w.op(f"reshape {x} : {many} to {tensor(1, heads, every, k)}")

    scale = w.op(f"constant dense<1.0> : {tensor(d)}")
    h = w.op(f"rms_norm %x, {scale} axis(2) epsilon(1.0e-6) : ({stream}, {tensor(d)}) -> {stream}")
    q, key, value = split(dense(h, d), heads), split(dense(h, groups * k), groups), split(dense(h, groups * k), groups)
    if sizes["rotary"] != "none":
        angle, extent = angles()
        cosine, sine = (w.op(f"{f} {angle} : {tensor(1, 1, t, extent)}") for f in ("cos", "sin"))
        turn = halves if sizes["rotary"] == "halves" else pairs
        q, key = turn(q, heads), turn(key, groups)
    cache = tensor(1, groups, past, k)
    key, value = (
        w.op(f"concat {old}, {new} axis(2) : ({cache}, {tensor(1, groups, t, k)}) -> {tensor(1, groups, every, k)}")
        for old, new in (("%past_k", key), ("%past_v", value))
    )
    per_head = tensor(1, heads, every, k)
    keys, values = repeated(key), repeated(value)
    s = w.op(f"matmul {q}, {keys} transpose_rhs : ({tensor(1, heads, t, k)}, {per_head}) -> {tensor(1, heads, t, every)}")
    root = w.op(f"constant dense<{k ** 0.5}> : {tensor()}")
    s = w.op(f"div {s}, {root} : ({tensor(1, heads, t, every)}, {tensor()}) -> {tensor(1, heads, t, every)}")
    if t > 1:
        kept = "[" + ", ".join("[" + ", ".join("true" if j <= i + past else "false" for j in range(every)) + "]" for i in range(t)) + "]"
        kept = w.op(f"constant dense<{kept}> : {tensor(t, every, element='i1')}")
        fill = w.op(f"constant dense<-3.40282347E+38> : {tensor()}")
        types = f"{tensor(t, every, element='i1')}, {tensor(1, heads, t, every)}, {tensor()}"
        s = w.op(f"select {kept}, {s}, {fill} : ({types}) -> {tensor(1, heads, t, every)}")
    p = w.op(f"softmax {s} axis(3) : {tensor(1, heads, t, every)}")
    o = w.op(f"matmul {p}, {values} : ({tensor(1, heads, t, every)}, {per_head}) -> {tensor(1, heads, t, k)}")
    o = w.op(f"transpose {o} [0, 2, 1, 3] : {tensor(1, heads, t, k)} to {tensor(1, t, heads, k)}")
    o = w.op(f"reshape {o} : {tensor(1, t, heads, k)} to {stream}")
    o = dense(o, d)
    y = w.op(f"add %x, {o} : ({stream}, {stream}) -> {stream}")
    arguments = {"x": stream, "positions": tensor(1, t, 1, element="i64"), "past_k": cache, "past_v": cache}
    results = {"y": stream, "present_k": tensor(1, groups, every, k), "present_v": tensor(1, groups, every, k)}

    def named(role, name, kind):
        return f'{kind} {{mpc.role = #mpc.role<{role}>, mpc.name = "{name}"}}'

    with open(path, "w") as out:
        out.write("func.func @main(" + ", ".join(f"%{name}: {named('input', name, kind)}" for name, kind in arguments.items()) + ")\n")
        out.write("    -> (" + ", ".join(named("output", name, kind) for name, kind in results.items()) + ") {\n")
        out.write("\n".join(w.lines) + f"\n  return {y}, {key}, {value} : {', '.join(results.values())}\n}}\n")


main(*sys.argv[1:])
