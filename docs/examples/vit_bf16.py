# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A vision transformer in bfloat16: its time, and its error against float64. Needs torch.

usage: python vit_bf16.py
"""
import mpc
import torch
from torch import nn


class ViT(nn.Module):
    def __init__(self, width=96, layers=2, patch=4, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (32 // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 3, 4 * width, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).mT + self.positions
        return self.head(self.encoder(x).mean(1))


torch.manual_seed(0)
model, images = ViT().eval(), torch.randn(4, 3, 32, 32)
for policy in ("float32", "mixed_bfloat16"):
    function = mpc.compile(model, images, policy=policy)
    verdict = function.check(images)  # Runs the model in float64 and compares.
    assert verdict, verdict
    error, allowed = (verdict.outputs[0][field] for field in ("rms_relative_error", "tolerance"))
    time = function.bench(images, seconds=0.5)["median_ms"]
    print(f"{policy:15}{time:7.2f} ms, rms error {error:.1e} of {allowed:.1e} allowed")
print(function(images[:3]).shape, "another batch compiles once more")
