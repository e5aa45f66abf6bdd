# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that `test_torch_backend.py` compiles: name -> (module, arguments, depth).

`depth` is the number of rounded layers or recurrence steps that a value passes.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Apply(nn.Module):
    """A function, with the given parameters, if any."""

    def __init__(self, function, **parameters):
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value))

    def forward(self, *arguments):
        return self.function(self, *arguments)


class Attention(nn.Module):
    def __init__(self, width=16, heads=4, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, cache=None):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal and cache is None)
        y = self.out(y.transpose(1, 2).reshape(b, t, c))
        return y if cache is None else (y, (k, v))


class Block(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.first, self.second, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache=None):
        y = self.attention(self.first(x), cache)
        y, kept = y if cache is not None else (y, None)
        x = x + y
        x = x + self.mlp(self.second(x))
        return x if cache is None else (x, kept)


class Gpt(nn.Module):
    def __init__(self, words=11, width=16, length=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks, self.norm = nn.ModuleList([Block(width), Block(width)]), nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens, caches=None):
        start = 0 if caches is None else caches[0][0].shape[2]
        x = self.words(tokens) + self.places(torch.arange(start, start + tokens.shape[1]))
        kept = []
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
            if caches is not None:
                x, cache = x
                kept.append(cache)
        y = self.head(self.norm(x))
        return y if caches is None else (y, kept)


class Residual(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.silu(x + self.norm2(self.second(F.silu(self.norm1(self.first(x))))))


class Counted(nn.Module):
    """A buffer that every call writes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("average", torch.zeros(6))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        y = self.layer(x)
        with torch.no_grad():
            self.average.mul_(0.9).add_(0.1 * y.mean(0))
            self.calls += 1
        return y - self.average


class Branches(nn.Module):
    """Control flow on data, where Dynamo cuts the graph."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        y = torch.tanh(self.first(x))
        if y.sum() > 1000:
            return y
        return self.second(y) * 2


class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        state, found = None, []
        for step in x.unbind(1):
            state = self.cell(step, state)
            found.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(found, 1)


def rotate(x):
    """Rotary positions."""
    half = x.shape[-1] // 2
    angle = torch.outer(torch.arange(x.shape[-2]), 1.0 / 100 ** (torch.arange(half) / half)).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def in_place(self, x):
    y = x * self.scale
    y[:, 1:3] += 1
    y[0] = y[1] * 2
    z = y.view(2, -1).t()
    z.mul_(0.5)
    return y.exp_(), z


def modules():
    """Fresh ones, the same at every call."""
    torch.manual_seed(0)
    r = torch.randn
    words = torch.randint(0, 11, (2, 6))
    return {
        "linear": (nn.Linear(12, 5), (r(4, 12),), 1),
        "mlp": (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), (r(5, 8),), 3),
        "mlp_tanh_gelu": (nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh"), nn.Linear(16, 4)), (r(5, 8),), 3),
        "activations": (Apply(lambda m, x: F.silu(x) + F.elu(x) * F.softplus(x) + F.mish(x) + F.selu(x) - F.hardswish(x)
                              + F.leaky_relu(x) * F.logsigmoid(x)), (r(4, 9),), 3),
        "gated": (nn.Sequential(nn.Linear(8, 12), nn.GLU(), nn.PReLU(), nn.Linear(6, 3)), (r(5, 8),), 4),
        "bilinear": (nn.Bilinear(4, 5, 3), (r(6, 4), r(6, 5)), 2),
        "layer_norm": (nn.Sequential(nn.Linear(8, 12), nn.LayerNorm(12)), (r(3, 5, 8),), 2),
        "rms_norm": (nn.Sequential(nn.Linear(8, 12), nn.RMSNorm(12)), (r(3, 5, 8),), 2),
        "group_norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)), (r(2, 3, 6, 6),), 2),
        "instance_norm": (nn.InstanceNorm2d(3, affine=True), (r(2, 3, 6, 6),), 1),
        "batch_norm1d": (nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Tanh()), (r(9, 8),), 3),
        "batch_norm_eval": (Residual().eval(), (r(2, 8, 6, 6),), 4),
        "residual": (Residual(), (r(4, 8, 6, 6),), 4),
        "cnn": (nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(),
                              nn.Linear(128, 10)), (r(4, 3, 8, 8),), 4),
        "max_pool": (nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Conv2d(3, 4, 3)), (r(2, 3, 9, 9),), 1),
        "conv1d": (nn.Conv1d(4, 6, 3, dilation=2, groups=2, padding=2), (r(2, 4, 11),), 1),
        "conv3d": (nn.Conv3d(2, 3, 2, stride=2), (r(1, 2, 5, 4, 6),), 1),
        "depthwise": (nn.Sequential(nn.Conv2d(6, 6, 3, groups=6), nn.Conv2d(6, 4, 1)), (r(2, 6, 6, 6),), 2),
        "conv_transpose": (nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), (r(2, 4, 5, 5),), 1),
        "adaptive_pool": (nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(3)), (r(2, 3, 7, 6),), 2),
        "upsample": (nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(3, 4, 3)), (r(2, 3, 4, 4),), 2),
        "pixel_shuffle": (nn.Sequential(nn.Conv2d(3, 8, 1), nn.PixelShuffle(2)), (r(2, 3, 4, 4),), 1),
        "reflected": (nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3)), (r(2, 3, 5, 5),), 1),
        "embedding": (nn.Sequential(nn.Embedding(11, 8, padding_idx=0), nn.Linear(8, 4)), (words,), 1),
        "embedding_sum": (Apply(lambda m, w: F.embedding(w, m.table).sum(1), table=r(11, 8)), (words,), 1),
        "lstm_cell": (Recurrent(nn.LSTMCell(4, 5)), (r(2, 4, 4),), 8),
        "gru_cell": (Recurrent(nn.GRUCell(4, 5)), (r(2, 4, 4),), 8),
        "rnn_cell": (Recurrent(nn.RNNCell(4, 5)), (r(2, 4, 4),), 4),
        "attention_causal": (Attention(), (r(2, 6, 16),), 3),
        "attention_plain": (Attention(causal=False), (r(2, 6, 16),), 3),
        "attention_mask": (Apply(lambda m, q, k: F.scaled_dot_product_attention(q @ m.w, k, k, attn_mask=torch.ones(
            4, 6, dtype=torch.bool).tril(2)), w=r(8, 8) / 3), (r(2, 2, 4, 8), r(2, 2, 6, 8)), 3),
        "attention_bias": (Apply(lambda m, q, k: F.scaled_dot_product_attention(q, k, k, attn_mask=m.bias), bias=r(4, 6)),
                           (r(2, 2, 4, 8), r(2, 2, 6, 8)), 3),
        "attention_causal_longer": (Apply(lambda m, q, k: F.scaled_dot_product_attention(q @ m.w, k, k, is_causal=True),
                                          w=r(8, 8) / 3), (r(2, 2, 4, 8), r(2, 2, 6, 8)), 3),
        "attention_causal_shorter": (Apply(lambda m, q, k: F.scaled_dot_product_attention(q @ m.w, k, k, is_causal=True),
                                           w=r(8, 8) / 3), (r(2, 2, 6, 8), r(2, 2, 4, 8)), 3),
        "attention_by_hand": (Apply(lambda m, q, k: torch.softmax(q @ m.w @ k.transpose(-1, -2) / math.sqrt(8), -1) @ k,
                                    w=r(8, 8) / 3), (r(2, 2, 4, 8), r(2, 2, 6, 8)), 4),
        "attention_shared_heads": (Apply(lambda m, q, k: F.scaled_dot_product_attention(q @ m.w, k, k, enable_gqa=True),
                                         w=r(8, 8) / 3), (r(2, 4, 4, 8), r(2, 2, 4, 8)), 3),
        "multihead": (nn.MultiheadAttention(16, 4, batch_first=True), (r(2, 5, 16), r(2, 7, 16), r(2, 7, 16)), 4),
        "encoder_layer": (nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, activation="gelu"),
                          (r(2, 5, 16),), 6),
        "rotary": (Apply(lambda m, q: rotate(q @ m.w), w=r(8, 8) / 3), (r(2, 4, 8),), 2),
        "block": (Block(), (r(2, 6, 16),), 8),
        "gpt": (Gpt(), (words,), 16),
        "dropout": (nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.3), nn.Linear(32, 4)), (r(5, 8),), 2),
        "control_flow": (Branches(), (r(5, 6),), 3),
        "in_place_and_views": (Apply(in_place, scale=r(4)), (r(4, 4),), 2),
        "buffers": (Counted(), (r(5, 6),), 2),
        "several_results": (Apply(lambda m, x: (x @ m.w, (x @ m.w).t(), x.sum(0)), w=r(4, 3)), (r(5, 4),), 1),
        "dictionary": (Apply(lambda m, d: {"y": d["x"] @ m.w, "z": d["x"] * d["s"]}, w=r(4, 3)),
                       ({"x": r(5, 4), "s": r(4)},), 1),
        "cross_entropy": (Apply(lambda m, x, t: F.cross_entropy(x @ m.w, t, label_smoothing=0.1), w=r(6, 7)),
                          (r(5, 6), torch.randint(0, 7, (5,))), 3),
        "losses": (Apply(lambda m, x, y: F.mse_loss(x * m.w, y) + F.smooth_l1_loss(x, y) + F.binary_cross_entropy_with_logits(
            x, y.sigmoid()) + F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), w=r(6)),
            (r(5, 6), r(5, 6)), 4),
        "indices": (Apply(lambda m, x, i: torch.zeros_like(x).scatter_add(1, i, x * m.w) + x.gather(1, i) + x[:, [2, 0, 1, 3]],
                          w=r(4)), (r(5, 4), torch.randint(0, 4, (5, 4))), 2),
        "einsum": (Apply(lambda m, x: torch.einsum("bij,jkl->bkil", x, m.w).cumsum(1), w=r(4, 3, 2)), (r(2, 5, 4),), 2),
        "similarity": (Apply(lambda m, x: F.cosine_similarity(x @ m.w, x, dim=-1) + F.normalize(x).var(-1), w=r(6, 6)), (r(5, 6),), 3),
        "weight_norm": (nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), (r(5, 6),), 2),
    }
