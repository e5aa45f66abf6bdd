# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text from a decoder with a KV cache: trains a model of letters on a rhyme, exports it "with past", and lets it
recite. Needs torch and onnxscript.

usage: python decode_text.py
"""
import mpc
import torch
from torch import nn
from torch.nn import functional as F

RHYME = "one two buckle my shoe three four knock at the door five six pick up sticks "


class Letters:
    """A tokenizer; the path of a tokenizer.json works too."""

    def encode(self, text):
        self.ids = [ord(letter) - 32 for letter in text]
        return self

    def decode(self, ids):
        return "".join(chr(i + 32) for i in ids)


class Writer(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.letter, self.place = nn.Embedding(96, width), nn.Embedding(256, width)
        self.qkv, self.head = nn.Linear(width, 3 * width), nn.Linear(width, 96)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, input_ids, attention_mask, position_ids, past_key, past_value):
        x = self.letter(input_ids) + self.place(position_ids)
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        k, v = torch.cat((past_key, k), 2), torch.cat((past_value, v), 2)
        rows = torch.arange(k.shape[2])
        seen = (rows <= rows[k.shape[2] - q.shape[2]:, None]) & (attention_mask[:, None, None] > 0)
        x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=seen)[:, 0]
        return self.head(x + self.mlp(x)), k, v


torch.manual_seed(0)
model, ids = Writer(), torch.tensor([Letters().encode(2 * RHYME).ids])
inputs = ids[:, :-1], torch.ones_like(ids[:, 1:]), torch.arange(ids.shape[1] - 1)[None], *torch.zeros(2, 1, 1, 0, 64)
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(300):
    loss = F.cross_entropy(model(*inputs)[0][0], ids[0, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

tokens, past, auto = torch.export.Dim("tokens"), torch.export.Dim("past"), torch.export.Dim.AUTO
example = ids[:, :3], torch.ones(1, 8, dtype=torch.int64), torch.arange(5, 8)[None], *torch.zeros(2, 1, 1, 5, 64)
torch.onnx.export(model.eval(), example, "writer.onnx", dynamo=True, verbose=False,
                  output_names=["logits", "present_key", "present_value"],
                  dynamic_shapes=({1: tokens}, {1: auto}, {1: auto}, {2: past}, {2: auto}))
decoder = mpc.Decoder("writer.onnx", tokenizer=Letters(), policy="mixed_bfloat16", capacity=128)
text = "".join(decoder.generate("one two ", tokens=60))
print("one two " + text)
assert RHYME.startswith("one two " + text[:40])
