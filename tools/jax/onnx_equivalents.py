#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JAX equivalents of ONNX models, in idiomatic form: mlp, bert-tiny, resnet.

usage: export.py onnx_equivalents.py --output FOLDER

Shapes and structure are those of the ONNX models, so that launches can be compared; weights
are random constants of the function, as in a model. Needs jax and flax.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
# pylint: disable=wrong-import-position
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from models import flax_model, normal


def closed(module, *inputs):
    """The function of the inputs only."""
    function, (variables, *inputs) = flax_model(module, *inputs)
    return (lambda *inputs: function(variables, *inputs)), inputs


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.relu(nn.Dense(512)(nn.relu(nn.Dense(512)(x)))))


def model_mlp():
    return closed(Mlp(), normal(32, 784))


class BertLayer(nn.Module):
    """Attention with a padding mask and a feed-forward network, post-norm."""

    heads: int = 2

    @nn.compact
    def __call__(self, x, mask):
        width = x.shape[-1]
        split = lambda y: y.reshape(*y.shape[:2], self.heads, -1)
        q, k, v = (split(nn.Dense(width, name=name)(x)) for name in ("query", "key", "value"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width / self.heads)
        weights = nn.softmax(jnp.where(mask, scores, jnp.finfo(scores.dtype).min))
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
        x = nn.LayerNorm(epsilon=1e-12)(x + nn.Dense(width)(y))
        y = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(x), approximate=False))
        return nn.LayerNorm(epsilon=1e-12)(x + y)


class Bert(nn.Module):
    @nn.compact
    def __call__(self, words, mask, segments):
        positions = jnp.arange(words.shape[1])[None]
        x = nn.Embed(2000, 128)(words) + nn.Embed(64, 128)(positions) + nn.Embed(2, 128)(segments)
        x = nn.LayerNorm(epsilon=1e-12)(x)
        for _ in range(2):
            x = BertLayer()(x, mask[:, None, None, :] != 0)
        return x, jnp.tanh(nn.Dense(128)(x[:, 0]))


def model_bert():
    random = np.random.RandomState(1)
    words = random.randint(0, 2000, (4, 32)).astype("i4")
    mask = np.ones((4, 32), "i4")
    segments = np.zeros((4, 32), "i4")
    for row in range(4):
        mask[row, 32 - 4 * row :] = 0
        segments[row, 16:] = 1
    return closed(Bert(), words, mask, segments)


class BasicBlock(nn.Module):
    width: int
    strides: int

    @nn.compact
    def __call__(self, x):
        norm = lambda: nn.BatchNorm(use_running_average=True)
        y = nn.Conv(self.width, (3, 3), (self.strides,) * 2, padding=1, use_bias=False)(x)
        y = nn.Conv(self.width, (3, 3), padding=1, use_bias=False)(nn.relu(norm()(y)))
        y = norm()(y)
        if self.strides > 1:
            x = norm()(nn.Conv(self.width, (1, 1), (self.strides,) * 2, use_bias=False)(x))
        return nn.relu(x + y)


class ResNet18(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(16, (3, 3), padding=1, use_bias=False)(x)))
        for stage in range(4):
            x = BasicBlock(16 << stage, 2 if stage else 1)(x)
            x = BasicBlock(16 << stage, 1)(x)
        return nn.Dense(10)(x.mean((1, 2)))


def model_resnet():
    return closed(ResNet18(), normal(4, 32, 32, 3))
