# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Precision policies for users of keras.mixed_precision. Needs torch.

usage: python keras_policies.py
"""
import mpc
import torch
from torch import nn

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(-1)).eval()
x = torch.randn(8, 32)

# As keras.mixed_precision.set_global_policy; `with mpc.policy(...)` sets it for a block or a thread.
mpc.set_global_policy("mixed_float16")
function = mpc.compile(model, x)
print(function.policy, "computes in", function.policy.compute_dtype, "with variables in",
      function.policy.variable_dtype)
assert function(x).dtype == torch.float32  # Outputs and softmax stay float32, without a layer that says so.

# A layer's own policy, as `Dense(10, dtype="float32")`; layers are named by their paths.
mixed = mpc.Policy("mixed_float16", layers={"2": "float32"})
function = mpc.compile(model, x, policy=mixed)
print(function.layers)
assert (function.layers["0"], function.layers["2"]) == ("f16", "f32")

# Rounds every op as Keras does, to reproduce its results.
keras = mpc.compile(model, x, policy="keras_mixed_float16")
print("largest difference to Keras' rounding", (keras(x) - function(x)).abs().max().item())

# LossScaleOptimizer: a trainer under a float16 policy has a dynamic loss scale; "keras3" is Keras' schedule.
trainer = mpc.Trainer(model[:3].train(), x, optimizer="adam", loss_scale="keras3")
trainer.step(x, torch.randint(0, 10, (8,)))
print("loss scale", trainer.loss_scale["scale"])
