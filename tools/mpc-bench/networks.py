#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of current networks in idiomatic PyTorch, exported to ONNX.

  .venv/bench/bin/python tools/mpc-bench/networks.py FOLDER [NAME...]

writes FOLDER/NAME/model.onnx, inputs.npz and expected.npz (float64, computed by
PyTorch from the same weights). Needs torch and numpy, and onnx for the export.
Weights are normally distributed with deviation 1/sqrt(fan in), inputs standard normal.
"""

import argparse
import math
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turn_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class LlamaBlock(nn.Module):
    """Grouped-query attention, half-split rotary embedding, SwiGLU; the KV cache grows by the new tokens."""

    def __init__(self, width=512, heads=8, groups=2, inner=1408):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, positions, past_k, past_v):
        batch, tokens, _ = x.shape
        h = self.norm1(x)
        q = self.q(h).view(batch, tokens, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(batch, tokens, self.groups, self.size).transpose(1, 2)
        v = self.v(h).view(batch, tokens, self.groups, self.size).transpose(1, 2)
        rates = 1.0 / 10000 ** (torch.arange(0, self.size, 2, dtype=x.dtype) / self.size)
        angles = positions[:, :, None].to(x.dtype) * rates
        angles = torch.cat((angles, angles), -1)[:, None]
        cos, sin = angles.cos(), angles.sin()
        q = q * cos + turn_half(q) * sin
        k = k * cos + turn_half(k) * sin
        k = torch.cat((past_k, k), 2)
        v = torch.cat((past_v, v), 2)
        times = self.heads // self.groups
        total = k.shape[2]
        keys = k[:, :, None].expand(batch, self.groups, times, total, self.size).reshape(
            batch, self.heads, total, self.size)
        values = v[:, :, None].expand(batch, self.groups, times, total, self.size).reshape(
            batch, self.heads, total, self.size)
        scores = q @ keys.transpose(2, 3) / math.sqrt(self.size)
        allowed = torch.arange(total)[None, :] <= torch.arange(total - tokens, total)[:, None]
        scores = scores.masked_fill(~allowed, -1e9)
        y = F.softmax(scores, -1) @ values
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), k, v


class Gpt2Block(nn.Module):
    def __init__(self, width=512, heads=8):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(width, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        causal = torch.tril(torch.ones(tokens, tokens, dtype=torch.bool))
        scores = torch.where(causal, scores, torch.finfo(torch.float32).min)
        y = F.softmax(scores, -1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def buckets(tokens, count=32, furthest=128):
    """T5's bidirectional relative position buckets."""
    distance = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]
    half = count // 2
    side = (distance > 0).long() * half
    distance = distance.abs()
    exact = half // 2
    far = exact + (torch.log(distance.float().clamp(min=1) / exact) / math.log(furthest / exact) *
                   (half - exact)).long()
    return side + torch.where(distance < exact, distance, far.clamp(max=half - 1))


class T5Block(nn.Module):
    """A T5 encoder block: relative positions, unscaled scores, RMS norm, gated GELU."""

    def __init__(self, width=512, heads=8, inner=1024):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.bias = nn.Embedding(32, heads)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, mask):
        batch, tokens, width = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(batch, tokens, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        bias = self.bias(buckets(tokens)).permute(2, 0, 1)[None]
        scores = q @ k.transpose(2, 3) + bias + (1.0 - mask[:, None, None, :]) * -1e9
        y = F.softmax(scores, -1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
        h = self.norm2(x)
        return x + self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h))


class WhisperBlock(nn.Module):
    """A decoder block: causal self-attention, cross-attention, GELU."""

    def __init__(self, width=384, heads=6):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.25
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=i != 1) for i in range(4))
        self.cross_q, self.cross_o = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1)

    def attend(self, q, k, v, causal):
        q, k = self.split(q).permute(0, 2, 1, 3) * self.scale, self.split(k).permute(0, 2, 3, 1) * self.scale
        scores = q @ k
        if causal:
            tokens = q.shape[2]
            scores = scores + torch.full((tokens, tokens), -1e9, dtype=scores.dtype).triu(1)
        return (F.softmax(scores, -1) @ self.split(v).permute(0, 2, 1, 3)).permute(0, 2, 1, 3).flatten(2)

    def forward(self, x, cross_k, cross_v):
        h = self.norms[0](x)
        x = x + self.o(self.attend(self.q(h), self.k(h), self.v(h), True))
        x = x + self.cross_o(self.attend(self.cross_q(self.norms[1](x)), cross_k, cross_v, False))
        return x + self.down(F.gelu(self.up(self.norms[2](x))))


class Recurrent(nn.Module):
    def __init__(self, kind, width=128, hidden=256):
        super().__init__()
        self.layer = getattr(nn, kind)(width, hidden, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


class MbConv(nn.Module):
    """An MBConv block of EfficientNet: expand, depthwise, squeeze and excite, project."""

    def __init__(self, channels=24, times=6, kernel=5):
        super().__init__()
        wide = channels * times
        self.expand, self.norm1 = nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.depth = nn.Conv2d(wide, wide, kernel, padding=kernel // 2, groups=wide, bias=False)
        self.norm2 = nn.BatchNorm2d(wide)
        self.squeeze, self.excite = nn.Conv2d(wide, channels // 4, 1), nn.Conv2d(channels // 4, wide, 1)
        self.project, self.norm3 = nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        h = F.silu(self.norm1(self.expand(x)))
        h = F.silu(self.norm2(self.depth(h)))
        s = torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(h, 1)))))
        return x + self.norm3(self.project(h * s))


class DenseBlock(nn.Module):
    """DenseNet: each layer takes the outputs of all earlier ones."""

    def __init__(self, layers=6, channels=64, growth=32):
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(layers):
            width = channels + i * growth
            self.layers.append(nn.Sequential(
                nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 4 * growth, 1, bias=False),
                nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)))

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


class DiffusionResBlock(nn.Module):
    def __init__(self, channels=64, wide=128, time=256):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, channels), nn.GroupNorm(32, wide)
        self.conv1, self.conv2 = nn.Conv2d(channels, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding=1)
        self.time, self.skip = nn.Linear(time, wide), nn.Conv2d(channels, wide, 1)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class DiffusionAttention(nn.Module):
    def __init__(self, channels=128, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, channels)
        self.q, self.k, self.v, self.o = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x):
        batch, channels, height, width = x.shape
        h = self.norm(x).reshape(batch, channels, height * width).transpose(1, 2)
        q, k, v = (f(h).view(batch, -1, self.heads, channels // self.heads).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        y = F.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]), -1) @ v
        y = self.o(y.transpose(1, 2).reshape(batch, -1, channels))
        return x + y.transpose(1, 2).reshape(batch, channels, height, width)


class MoeBlock(nn.Module):
    """Two of eight experts for each token; all are computed and weighted, as exporters write it."""

    def __init__(self, width=256, inner=512, experts=8, chosen=2):
        super().__init__()
        self.chosen, self.experts = chosen, experts
        self.norm, self.router = RmsNorm(width), nn.Linear(width, experts, bias=False)
        self.gate = nn.Parameter(torch.empty(experts, width, inner))
        self.up = nn.Parameter(torch.empty(experts, width, inner))
        self.down = nn.Parameter(torch.empty(experts, inner, width))

    def forward(self, x):
        batch, tokens, width = x.shape
        h = self.norm(x).view(-1, width)
        weights, which = torch.topk(F.softmax(self.router(h), -1), self.chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        dense = torch.zeros(h.shape[0], self.experts, dtype=h.dtype).scatter(1, which, weights)
        each = h[None].expand(self.experts, -1, -1)
        y = (F.silu(each @ self.gate) * (each @ self.up)) @ self.down
        return x + (y * dense.t()[:, :, None]).sum(0).view(batch, tokens, width)


def drawn(*shape):
    return torch.randn(*shape)


# name: (module, named inputs)
NETWORKS = {
    "llama-prefill": lambda: (LlamaBlock(), {
        "x": drawn(1, 128, 512), "positions": torch.arange(128)[None],
        "past_k": drawn(1, 2, 0, 64), "past_v": drawn(1, 2, 0, 64)}),
    "llama-decode": lambda: (LlamaBlock(), {
        "x": drawn(1, 1, 512), "positions": torch.tensor([[512]]),
        "past_k": drawn(1, 2, 512, 64), "past_v": drawn(1, 2, 512, 64)}),
    "gpt2": lambda: (Gpt2Block(), {"x": drawn(2, 64, 512)}),
    "t5": lambda: (T5Block(), {
        "x": drawn(2, 64, 512), "mask": (torch.arange(64)[None] < torch.tensor([[64], [50]])).float()}),
    "whisper": lambda: (WhisperBlock(), {
        "x": drawn(1, 32, 384), "cross_k": drawn(1, 150, 384), "cross_v": drawn(1, 150, 384)}),
    "gru": lambda: (Recurrent("GRU"), {"x": drawn(4, 20, 128)}),
    "lstm": lambda: (Recurrent("LSTM"), {"x": drawn(4, 20, 128)}),
    "mbconv": lambda: (MbConv(), {"x": drawn(2, 24, 28, 28)}),
    "densenet": lambda: (DenseBlock(), {"x": drawn(2, 64, 14, 14)}),
    "diffusion-resblock": lambda: (DiffusionResBlock(), {"x": drawn(2, 64, 32, 32), "t": drawn(2, 256)}),
    "diffusion-attention": lambda: (DiffusionAttention(), {"x": drawn(2, 128, 16, 16)}),
    "moe": lambda: (MoeBlock(), {"x": drawn(2, 32, 256)}),
}


def build(name, seed=0):
    """(module in float32 and eval mode, its inputs by name)."""
    torch.manual_seed(seed)
    module, inputs = NETWORKS[name]()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if parameter.dim() > 1:
                fan = parameter[0].numel() if parameter.dim() != 3 else parameter.shape[1]
                parameter.normal_(0, fan ** -0.5)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for key, buffer in module.named_buffers():
            if key.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            elif key.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    return module.eval(), inputs


def export(name, folder):
    """Writes model.onnx, inputs.npz and expected.npz into `folder`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    module, inputs = build(name)
    names = ["y", "present_k", "present_v"] if isinstance(module, LlamaBlock) else ["y"]
    with torch.no_grad():
        torch.onnx.export(module, tuple(inputs.values()), str(folder / "model.onnx"), dynamo=False,
                          opset_version=18, input_names=list(inputs), output_names=names)
        wide = module.double()
        answers = wide(*(t.double() if t.is_floating_point() else t for t in inputs.values()))
    np.savez(folder / "inputs.npz", **{name: tensor.numpy() for name, tensor in inputs.items()})
    answers = answers if isinstance(answers, tuple) else (answers,)
    np.savez(folder / "expected.npz", **{name: answer.numpy() for name, answer in zip(names, answers)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", choices=[*NETWORKS, []])
    arguments = parser.parse_args()
    for name in arguments.names or NETWORKS:
        export(name, arguments.folder / name)
        print(name)


if __name__ == "__main__":
    sys.exit(main())
