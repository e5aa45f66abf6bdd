#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuzzes `mpc check` with random JAX functions as StableHLO text.

  tools/mpc-smith/jax_graphs.py --seeds 0..999 [--jobs 2] [--minutes 60] [--failures FOLDER]

Each function is checked under float32, mixed_bfloat16 and mixed_float16: importer,
float64 interpreter and compiled code; under float32 also against JAX in float64.
Every fourth function is a sum with its gradients (under float32 only: rounding may
move an element across a kink, where the slope jumps). Prints a line per failure and
stores its module and arrays in FOLDER. Exit code 1 on any failure.
"""

import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Answers are computed once: optimizing their computation costs more than it saves.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "jax_ops"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "jax"))
sys.dont_write_bytecode = True

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import campaign  # noqa: E402
import elementwise  # noqa: E402
import layers  # noqa: E402
import movement  # noqa: E402
from export import export  # noqa: E402
from pool import Pool, Skip, Value  # noqa: E402

MAX_OUTPUTS = 8
MAX_ERROR = 1e-3


class Drawn:
    """The function of a seed, and arguments for it."""

    def __init__(self, seed):
        self.seed = seed
        self.gradients = seed % 4 == 3
        p = Pool(seed, self.gradients)
        self.leaves = []
        for _ in range(p.random.randint(1, 4)):
            kind = p.random.choice("fffffib")
            shape = p.extents(p.random.choice([0, 1, 2, 2, 3, 3, 4]))
            self.leaves.append((*p.drawn(kind, shape), kind))
        if not any(kind == "f" for _, _, kind in self.leaves):
            self.leaves.append((*p.drawn("f", p.extents(2)), "f"))
        self.ops = []

    def arguments(self):
        return [array for array, _, _ in self.leaves]

    def __call__(self, *arrays):
        p = Pool(self.seed + 1000003, self.gradients)
        for array, (_, exact, kind) in zip(arrays, self.leaves):
            p.values.append(Value(array, -3.0, 3.0, exact))
        families = [elementwise.OPS, movement.OPS, layers.OPS]
        weights = [p.random.choice([1, 2, 4]) for _ in families]
        self.ops = []
        for _ in range(p.random.choice([3, 6, 10, 16, 24])):
            op = p.random.choice(p.random.choices(families, weights)[0])
            count, used = len(p.values), [v.used for v in p.values]
            try:
                op(p)
                self.ops.append(op.__name__)
            except Skip:
                del p.values[count:]
                for value, was in zip(p.values, used):
                    value.used = was
        results = [v for v in p.values[len(arrays):] if not v.used]
        return [v.array for v in (results or p.values[-1:])[-MAX_OUTPUTS:]]

    def function(self):
        floats = [i for i, (_, _, kind) in enumerate(self.leaves) if kind == "f"]
        if not self.gradients:
            return self

        def loss(*arrays):
            parts = [jnp.mean(jnp.sin(a)) for a in self(*arrays) if jnp.issubdtype(a.dtype, jnp.floating)]
            return sum(parts) if parts else jnp.float32(0)

        return jax.value_and_grad(loss, floats)


def run_seed(task):
    seed, mpc, failures = task
    try:
        drawn = Drawn(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            export(drawn.function(), drawn.arguments(), folder)
            answers = np.load(folder / "expected.npz")
            if not all(np.isfinite(answers[name]).all() for name in answers.files):
                return seed, [], [], "not finite"
            # A large error of JAX in float32 itself means that a slope has jumped at a kink.
            errors = [output["rms_relative_error"] for output in json.loads((folder / "meta.json").read_text())["outputs"]]
            findings = campaign.check(mpc, folder, "module.mlir", True, max(errors) < MAX_ERROR,
                                      campaign.POLICIES[:1] if drawn.gradients else campaign.POLICIES)
            if findings and failures:
                campaign.keep(folder, failures, seed, findings)
    except Exception as error:
        return seed, [("drawer", "", repr(error)[:300])], [], ""
    return seed, findings, drawn.ops, ""


if __name__ == "__main__":
    sys.exit(campaign.main(__doc__.splitlines()[0], run_seed, "JAX"))
