# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cheapest types of a BERT within an error budget. Needs torch, transformers and onnxscript.

usage: python tune_bert.py
"""
import pathlib
import subprocess

import mpc
import numpy as np
import torch
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=512, attn_implementation="eager")
model = BertModel(config, add_pooling_layer=False).eval()
ids = np.random.default_rng(0).integers(0, 1000, (6, 1, 64))
torch.onnx.export(model, (torch.from_numpy(ids[0]),), "bert.onnx", dynamo=True, verbose=False,
                  input_names=["input_ids"], output_names=["hidden"])

# One file per sample; the search holds some of them back to validate its result.
pathlib.Path("samples").mkdir(exist_ok=True)
for i, sample in enumerate(ids):
    np.savez(f"samples/{i}.npz", input_ids=sample)
subprocess.run(["mpc", "tune", "bert.onnx", "--inputs", "samples", "--budget", "rms 2e-3", "-o", "bert.json"],
               check=True)

tuned = mpc.compile("bert.onnx", ids[0], policy="bert.json")
verdict = tuned.check(ids[0])
assert verdict, verdict
for layer, kind in tuned.layers.items():
    print(f"{kind:5}{layer}")
print(f"rms error {verdict.outputs[0]['rms_relative_error']:.1e}")
