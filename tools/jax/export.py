#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a JAX function as StableHLO text, with inputs and answers.

usage: export.py FILE.py[:NAME...] --output FOLDER [--donate N...] [--no-answers]

Each NAME (by default all functions with the prefix `model_`) is called without
arguments and returns (function, arguments). For each, FOLDER/NAME/ holds
  module.mlir    jax.jit(function).lower(*arguments).as_text()
  inputs.npz     the leaves of the arguments as arg0, arg1, ...
  expected.npz   the leaves of the result, computed in float64, as out0, out1, ...
  expected_jax.npz  the same as JAX computes them in the module's own types
  meta.json      the position of each leaf, the error of JAX in the module's own types
so that `mpc check module.mlir --input inputs.npz --expected expected.npz` gives the
error of the compiled module. Needs jax; `export()` does the same from Python.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# pylint: disable=wrong-import-position
import jax
import numpy as np


def plain(array):
    """The array as stored in npz: bfloat16 as NumPy writes it, two untyped bytes."""
    array = np.asarray(array)
    return array.view("V2") if array.dtype.name == "bfloat16" else array


def widened(leaf):
    """A leaf in float64, if it is a float."""
    array = np.asarray(leaf)
    return array.astype(np.float64) if jax.numpy.issubdtype(array.dtype, jax.numpy.floating) else array


def relative_error(actual, expected):
    """Relative rms error."""
    actual, expected = (np.asarray(x).astype(np.float64) for x in (actual, expected))
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    actual, expected = np.where(same, 0.0, actual), np.where(np.isfinite(expected), expected, 0.0)
    size = np.sqrt(np.mean(expected**2)) if expected.size else 0.0
    error = np.sqrt(np.mean(np.where(same, 0.0, actual - expected) ** 2)) if expected.size else 0.0
    return float(error / size) if size else float(error)


def export(function, arguments, folder, donate=(), answers=True):
    """Writes `function` on `arguments` to `folder`; returns the text."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Unused arguments are kept, so that positions match the leaves.
    jitted = jax.jit(function, keep_unused=True, donate_argnums=tuple(donate))
    text = jitted.lower(*arguments).as_text()
    (folder / "module.mlir").write_text(text)
    leaves, tree = jax.tree_util.tree_flatten_with_path(tuple(arguments))
    values = [np.asarray(leaf) for _, leaf in leaves]
    np.savez(folder / "inputs.npz", **{f"arg{i}": plain(v) for i, v in enumerate(values)})
    meta = {
        "name": folder.name,
        "jax": jax.__version__,
        "inputs": [
            {"name": f"arg{i}", "path": jax.tree_util.keystr(path), "shape": list(v.shape), "dtype": v.dtype.name}
            for i, ((path, _), v) in enumerate(zip(leaves, values))
        ],
    }
    if answers:
        run = jax.jit(function, keep_unused=True)
        narrow = jax.tree_util.tree_leaves_with_path(run(*arguments))
        with jax.enable_x64(True):
            wide_arguments = jax.tree_util.tree_unflatten(tree, [widened(v) for v in values])
            wide = [np.asarray(v) for v in jax.tree_util.tree_leaves(run(*wide_arguments))]
        np.savez(folder / "expected.npz", **{f"out{i}": v for i, v in enumerate(wide)})
        np.savez(folder / "expected_jax.npz", **{f"out{i}": plain(v) for i, (_, v) in enumerate(narrow)})
        meta["outputs"] = [
            {
                "name": f"out{i}",
                "path": jax.tree_util.keystr(path),
                "shape": list(v.shape),
                "dtype": v.dtype.name,
                "rms_relative_error": relative_error(v, w),
            }
            for i, ((path, v), w) in enumerate(zip(narrow, wide))
        ]
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    return text


def load(path):
    """The Python file at `path` as a module."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", help="FILE.py, or FILE.py:NAME,NAME")
    parser.add_argument("--output", required=True, help="folder to write to")
    parser.add_argument("--donate", type=int, nargs="*", default=[], help="arguments that results replace in place")
    parser.add_argument("--no-answers", action="store_true", help="write text and inputs only")
    args = parser.parse_args()
    path, _, names = args.models.partition(":")
    module = load(path)
    chosen = names.split(",") if names else [n for n in dir(module) if n.startswith("model_")]
    if not chosen:
        sys.exit(f"{path}: no function begins with model_")
    for name in chosen:
        function, arguments = getattr(module, name)()
        folder = pathlib.Path(args.output) / name.removeprefix("model_")
        text = export(function, arguments, folder, args.donate, not args.no_answers)
        print(f"{folder}/module.mlir: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
