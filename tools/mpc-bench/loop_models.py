# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models and data of loops.py: each model is a module that takes a batch and returns its loss.

The text is the King James Bible of Debian's packages bible-kjv and bible-kjv-text, or a file; the
images are those of Debian's dataset-fashion-mnist.
"""
import dataclasses
import gzip
import math
import pathlib
import struct
import subprocess
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# ===----------------------------------------------------------------------=== #
# Data
# ===----------------------------------------------------------------------=== #


def read_text(path=None):
    """Text as character indices, and the vocabulary size. Verses start with their number."""
    if path:
        text = pathlib.Path(path).read_text(errors="replace")
    else:
        try:
            text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
        except OSError:
            sys.exit("no text: install Debian's bible-kjv and bible-kjv-text, or give a file by --text")
    letters = sorted(set(text))
    number = {c: i for i, c in enumerate(letters)}
    return np.array([number[c] for c in text], np.int64), len(letters)


def read_images(folder, part="train"):
    """Raw images (bytes) and their classes."""
    def read(kind, axes):
        data = gzip.open(pathlib.Path(folder, f"{part}-{kind}-idx{axes}-ubyte.gz")).read()
        shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
        return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)

    return read("images", 3), read("labels", 1).astype(np.int64)


def text_batches(text, batch, tokens, seed):
    """An endless sequence of random excerpts and their next characters."""
    numbers = np.random.default_rng(seed)
    while True:
        starts = numbers.integers(0, len(text) - tokens - 1, batch)
        pieces = np.stack([text[s:s + tokens + 1] for s in starts])
        yield np.ascontiguousarray(pieces[:, :-1]), np.ascontiguousarray(pieces[:, 1:])


def image_batches(images, labels, batch, times, seed):
    """Images of mean 0 and deviation 1, enlarged by `times`, in the seed's order."""
    numbers = np.random.default_rng(seed)
    while True:
        order = numbers.permutation(len(images))
        for pick in order[:len(order) // batch * batch].reshape(-1, batch):
            x = (images[pick, None].astype(np.float32) / 255 - 0.286) / 0.353
            yield np.ascontiguousarray(x.repeat(times, 2).repeat(times, 3)), labels[pick]


# ===----------------------------------------------------------------------=== #
# Models
# ===----------------------------------------------------------------------=== #


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """nanoGPT's model: no biases, the embedding is the last product's matrix."""

    def __init__(self, letters, tokens, layers, heads, width):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * layers) if last else 0.02)

    def forward(self, x, y):
        h = self.letter(x) + self.place(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(F.linear(self.norm(h), self.letter.weight).flatten(0, 1), y.flatten())


class Basic(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.short = None
        if before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + (x if self.short is None else self.short(x)))


class ResNet18(nn.Module):
    """torchvision's resnet18 for images of one channel and ten classes."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        widths = [64, 64, 128, 256, 512]
        self.blocks = nn.Sequential(*[Basic(a if i == 0 else b, b, 2 if a != b and i == 0 else 1)
                                      for a, b in zip(widths, widths[1:]) for i in range(2)])
        self.head = nn.Linear(512, 10)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x, y):
        h = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return F.cross_entropy(self.head(self.blocks(h).mean((2, 3))), y)


class Cnn(nn.Module):
    """The network of test/Inputs/mnist-cnn, with the dropout layers of the original tutorial."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)
        self.drop1, self.drop2 = nn.Dropout(0.25), nn.Dropout(0.5)

    def forward(self, x, y):
        h = self.drop1(F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2))
        return F.cross_entropy(self.fc2(self.drop2(F.relu(self.fc1(h.flatten(1))))), y)


# ===----------------------------------------------------------------------=== #
# Tasks
# ===----------------------------------------------------------------------=== #


@dataclasses.dataclass
class Task:
    """A training task: sizes, module by seed, batches, optimizer and learning rate."""
    name: str
    batch: int
    rate: float
    clip: float | None = None
    warmup: int = 30
    gpt: dict | None = None  # tokens, layers, heads, width

    def data(self, options):
        if self.gpt:
            return read_text(options.text)
        return read_images(options.images)

    def module(self, data, seed):
        torch.manual_seed(seed)
        if self.gpt:
            return Gpt(data[1], **self.gpt)
        return ResNet18() if self.name == "resnet18" else Cnn()

    def batches(self, data, seed):
        if self.gpt:
            return text_batches(data[0], self.batch, self.gpt["tokens"], seed)
        return image_batches(*data, self.batch, 2 if self.name == "resnet18" else 1, seed)

    def optimizer(self, module):
        if self.name == "resnet18":
            return torch.optim.SGD(module.parameters(), self.rate, momentum=0.9, weight_decay=5e-4, fused=True)
        if self.name == "cnn":
            return torch.optim.Adam(module.parameters(), self.rate, fused=True)
        # Matrices have weight decay, norm scales do not.
        groups = [{"params": [p for p in module.parameters() if p.dim() == 2], "weight_decay": 0.1},
                  {"params": [p for p in module.parameters() if p.dim() == 1], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, self.rate, betas=(0.9, 0.99), fused=True)

    def rate_at(self, step, steps):
        """Linear warm-up, then cosine decay to a tenth."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        part = (step - self.warmup) / max(1, steps - self.warmup)
        return self.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * part)))


TASKS = {task.name: task for task in [
    Task("gpt", batch=2, rate=1e-3, clip=1.0, gpt={"tokens": 64, "layers": 6, "heads": 6, "width": 384}),
    Task("resnet18", batch=8, rate=0.01),
    Task("cnn", batch=32, rate=1e-3),
    Task("gpt-tiny", batch=2, rate=1e-3, clip=1.0, gpt={"tokens": 16, "layers": 1, "heads": 2, "width": 32}),
]}
