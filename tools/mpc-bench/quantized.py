#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes quantized models for bench.py as directories with model.onnx and inputs.npz.

usage: quantized.py FOLDER      needs PyTorch, onnx and onnxruntime

An MLP, a small CNN, inverted residuals as in MobileNetV2 and an encoder as in BERT, with random
weights, quantized to QDQ form by ONNX Runtime's quantize_static:
ui8 activations and i8 weights, with one scale per tensor or (channel) per output channel; and
beside them the models in float32.
"""

import pathlib
import shutil
import sys
import tempfile

import numpy
import onnx
import torch
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 10)), (128, 784)


def cnn():
    def conv(before, after):
        return [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]

    return nn.Sequential(*conv(3, 32), *conv(32, 64), nn.MaxPool2d(2), *conv(64, 64),
                         *conv(64, 128), nn.MaxPool2d(2), *conv(128, 128), nn.Flatten(),
                         nn.Linear(128 * 64, 10)), (16, 3, 32, 32)


class Inverted(nn.Module):
    """An inverted residual: expand, depthwise, project; added to the input if the shapes match."""

    def __init__(self, before, after, stride):
        super().__init__()
        wide = 6 * before
        self.skips = stride == 1 and before == after
        self.body = nn.Sequential(
            nn.Conv2d(before, wide, 1), nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide), nn.ReLU6(),
            nn.Conv2d(wide, after, 1))

    def forward(self, x):
        return x + self.body(x) if self.skips else self.body(x)


def mobilenet():
    widths = [(16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1),
              (64, 96, 1), (96, 96, 1), (96, 160, 2), (160, 160, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU6(), *(Inverted(*each) for each in widths),
        nn.Conv2d(160, 640, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(640, 1000)), (1, 3, 224, 224)


class Layer(nn.Module):
    """A pre-norm transformer block with separate ops."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.parts = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (
            part(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.parts[:3])
        scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        x = self.norms[0](x + self.parts[3](mixed))
        return self.norms[1](x + self.down(nn.functional.gelu(self.up(x))))


def bert():
    return nn.Sequential(*(Layer(256, 4) for _ in range(4))), (1, 128, 256)


class Samples(quantization.CalibrationDataReader):
    """A few normal inputs, for calibration."""

    def __init__(self, shape):
        draw = numpy.random.default_rng(1)
        self.rest = [{"x": draw.standard_normal(shape).astype(numpy.float32)} for _ in range(4)]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def write(folder, module, shape, per_channel):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        plain, prepared = f"{scratch}/plain.onnx", f"{scratch}/prepared.onnx"
        torch.onnx.export(module.eval(), (torch.randn(*shape),), plain, dynamo=False,
                          input_names=["x"], output_names=["y"], opset_version=17)
        float32 = folder.with_name(folder.name.split("_int8")[0])
        float32.mkdir(exist_ok=True)
        shutil.copy(plain, float32 / "model.onnx")
        numpy.savez(float32 / "inputs.npz", **Samples(shape).get_next())
        quant_pre_process(plain, prepared)
        quantization.quantize_static(
            prepared, folder / "model.onnx", Samples(shape), per_channel=per_channel,
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8)
    onnx.checker.check_model(str(folder / "model.onnx"))
    numpy.savez(folder / "inputs.npz", **Samples(shape).get_next())


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    for make in (mlp, cnn, mobilenet, bert):
        for per_channel in (False, True):
            torch.manual_seed(0)
            module, shape = make()
            suffix = "_channel" if per_channel else ""
            write(root / f"{make.__name__}_int8{suffix}", module, shape, per_channel)


if __name__ == "__main__":
    main()
