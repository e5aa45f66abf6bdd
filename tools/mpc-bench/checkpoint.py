#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a Hugging Face folder of a Llama with random bfloat16 weights, in safetensors shards with an index.

The default has 3.1 billion parameters in 6.2 GB: 26 layers of 3072, 24 heads on 8 key/value heads, inner 8192,
vocabulary 32000. Needs torch and safetensors.

usage: checkpoint.py FOLDER [--layers 26] [--width 3072] [--heads 24] [--groups 8] [--inner 8192]
       [--vocabulary 32000] [--seed 0]
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file

DEFAULTS = {"layers": 26, "width": 3072, "heads": 24, "groups": 8, "inner": 8192, "vocabulary": 32000, "seed": 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    for name, value in DEFAULTS.items():
        parser.add_argument("--" + name, type=int, default=value)
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(a.seed)
    size, places, total = a.width // a.heads, {}, 0

    def matrix(rows, columns):
        return (torch.randn(rows, columns, generator=generator) * columns ** -0.5).bfloat16()

    def norm():
        return torch.ones(a.width, dtype=torch.bfloat16)

    count = a.layers + 1
    for i in range(count):
        if i == a.layers:
            tensors = {"model.embed_tokens.weight": matrix(a.vocabulary, a.width), "model.norm.weight": norm(),
                       "lm_head.weight": matrix(a.vocabulary, a.width)}
        else:
            tensors = {f"model.layers.{i}.{name}.weight": tensor for name, tensor in {
                "self_attn.q_proj": matrix(a.width, a.width), "self_attn.k_proj": matrix(a.groups * size, a.width),
                "self_attn.v_proj": matrix(a.groups * size, a.width), "self_attn.o_proj": matrix(a.width, a.width),
                "mlp.gate_proj": matrix(a.inner, a.width), "mlp.up_proj": matrix(a.inner, a.width),
                "mlp.down_proj": matrix(a.width, a.inner), "input_layernorm": norm(),
                "post_attention_layernorm": norm()}.items()}
        name = f"model-{i + 1:05}-of-{count:05}.safetensors"
        save_file(tensors, a.folder / name, metadata={"format": "pt"})
        places.update(dict.fromkeys(tensors, name))
        total += sum(tensor.nbytes for tensor in tensors.values())
    (a.folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
    (a.folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": a.width,
        "intermediate_size": a.inner, "num_hidden_layers": a.layers, "num_attention_heads": a.heads,
        "num_key_value_heads": a.groups, "vocab_size": a.vocabulary, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}))
    print(f"{a.folder}: {total / 2e9:.2f} billion parameters, {total / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
