#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports a decoder with random weights to FILE.onnx, with the inputs and outputs of Optimum's
exports: inputs input_ids, attention_mask, position_ids and past_key_values.N.key/.value,
outputs logits and present.N.key/.value. Batch, sequence and past are symbolic.

The network is Llama's: RMS norms, half-split rotary embedding, grouped-query attention, SwiGLU;
embedding and head are tied. The default has 110 M parameters; --layers 22 --width 2048 --heads 32
--groups 4 --inner 5632 --vocabulary 32000 has 1.03 billion. Weights above 1 GiB are written to
FILE.onnx.data.

With --outliers F, each matrix of the blocks has F times larger weights for 1 % of its input
channels with a probability of 1/4: uniform quantization then costs more accuracy in some layers.

With --window N, sliding-window attention over N tokens including the current one, as in Mistral.

usage: decoder.py FILE [--layers 12] [--width 768] [--heads 12] [--groups 12] [--inner 2048]
       [--vocabulary 32768] [--window 0] [--seed 0] [--outliers 1]
"""

import argparse
import math
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional as F

from networks import LlamaBlock, turn_half

warnings.filterwarnings("ignore")


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Block(LlamaBlock):
    """Angles and mask are computed once for all blocks."""

    def __init__(self, width, heads, groups, inner):
        super().__init__(width, heads, groups, inner)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)

    def forward(self, x, cos, sin, mask, past_k, past_v):
        batch, tokens, width = x.shape
        h = self.norm1(x)
        q = self.q(h).view(batch, tokens, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(batch, tokens, self.groups, self.size).transpose(1, 2)
        v = self.v(h).view(batch, tokens, self.groups, self.size).transpose(1, 2)
        q = q * cos + turn_half(q) * sin
        k = k * cos + turn_half(k) * sin
        k = torch.cat((past_k, k), 2)
        v = torch.cat((past_v, v), 2)
        times = self.heads // self.groups
        keys, values = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scores = q @ keys.transpose(2, 3) / math.sqrt(self.size) + mask
        y = F.softmax(scores, -1) @ values
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), k, v


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, groups, inner, vocabulary, window):
        super().__init__()
        self.size, self.window = width // heads, window
        self.embedding = nn.Parameter(torch.zeros(vocabulary, width))
        self.blocks = nn.ModuleList(Block(width, heads, groups, inner) for _ in range(layers))
        self.norm = RmsNorm(width)

    def forward(self, input_ids, attention_mask, position_ids, past):
        x = F.embedding(input_ids, self.embedding)
        rates = 1.0 / 10000 ** (torch.arange(0, self.size, 2, dtype=x.dtype) / self.size)
        angles = position_ids[:, :, None].to(x.dtype) * rates
        angles = torch.cat((angles, angles), -1)[:, None]
        cos, sin = angles.cos(), angles.sin()
        tokens, total = input_ids.shape[1], attention_mask.shape[1]
        places = torch.arange(total)
        own = places[total - tokens:, None]
        allowed = places[None, :] <= own
        if self.window:
            allowed = allowed & (places[None, :] > own - self.window)
        allowed = allowed[None, None] & (attention_mask[:, None, None, :] > 0)
        mask = torch.where(allowed, 0.0, -1e9)
        present = []
        for block, (k, v) in zip(self.blocks, past):
            x, k, v = block(x, cos, sin, mask, k, v)
            present += [k, v]
        return (self.norm(x) @ self.embedding.t(), *present)


def build(layers, width, heads, groups, inner, vocabulary, window, seed, outliers=1):
    torch.manual_seed(seed)
    model = Decoder(layers, width, heads, groups, inner, vocabulary, window)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter.shape[1] ** -0.5)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for matrix in model.blocks.parameters():
            if outliers != 1 and matrix.dim() > 1 and torch.rand(()) < 0.25:
                matrix[:, torch.rand(matrix.shape[1]) < 0.01] *= outliers
    return model.eval()


def names(layers, stem):
    return [f"{stem}.{i}.{kind}" for i in range(layers) for kind in ("key", "value")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file")
    for name, value in (("layers", 12), ("width", 768), ("heads", 12), ("groups", 12),
                        ("inner", 2048), ("vocabulary", 32768), ("window", 0), ("seed", 0),
                        ("outliers", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    a = parser.parse_args()
    model = build(a.layers, a.width, a.heads, a.groups, a.inner, a.vocabulary, a.window,
                  a.seed, a.outliers)
    batch, tokens, past, size = 2, 3, 5, a.width // a.heads
    is_large = sum(p.numel() for p in model.parameters()) > 2 ** 28
    cache = [tuple(torch.zeros(batch, a.groups, past, size) for _ in range(2))
             for _ in range(a.layers)]
    sequence, before = torch.export.Dim("sequence_length"), torch.export.Dim("past_length")
    many, total = torch.export.Dim("batch_size"), torch.export.Dim.AUTO
    torch.onnx.export(
        model,
        (torch.zeros(batch, tokens, dtype=torch.int64),
         torch.ones(batch, past + tokens, dtype=torch.int64),
         torch.arange(past, past + tokens)[None].repeat(batch, 1), cache),
        a.file, dynamo=True, optimize=True, external_data=is_large, verbose=False,
        input_names=["input_ids", "attention_mask", "position_ids", *names(a.layers, "past_key_values")],
        output_names=["logits", *names(a.layers, "present")],
        dynamic_shapes=({0: many, 1: sequence}, {0: many, 1: total}, {0: many, 1: sequence},
                        [({0: many, 2: before}, {0: many, 2: before})] * a.layers))
    # The exporter's node metadata and intermediate shapes are larger than a small model.
    file = onnx.load(a.file, load_external_data=False)
    del file.graph.value_info[:]
    for part in (file, file.graph, *file.graph.node, *file.graph.input, *file.graph.output,
                 *file.graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]
    onnx.save(file, a.file)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{a.file}: {count:,} parameters")


if __name__ == "__main__":
    main()
