# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small random models of transformers as GGUF files, and the same models in float64 with the weights that the files
contain after dequantization."""

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize, quantize

Type = gguf.GGMLQuantizationType

# Forms whose blocks the package cannot write, and the offsets of f16 numbers in a block.
K_FORMATS = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}

VOCABULARY = 96
# Names of weights in transformers and in GGUF files; {} is the layer.
LLAMA = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "model.layers.{}.input_layernorm": "blk.{}.attn_norm",
         "model.layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
         "model.layers.{}.self_attn.q_proj": "blk.{}.attn_q", "model.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
         "model.layers.{}.self_attn.v_proj": "blk.{}.attn_v", "model.layers.{}.self_attn.o_proj": "blk.{}.attn_output",
         "model.layers.{}.mlp.gate_proj": "blk.{}.ffn_gate", "model.layers.{}.mlp.up_proj": "blk.{}.ffn_up",
         "model.layers.{}.mlp.down_proj": "blk.{}.ffn_down"}
QK_NORM = {"model.layers.{}.self_attn.q_norm": "blk.{}.attn_q_norm",
           "model.layers.{}.self_attn.k_norm": "blk.{}.attn_k_norm"}
GEMMA = {**LLAMA, "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
         "model.layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm",
         "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm"}
PHI3 = {**LLAMA, "model.layers.{}.self_attn.qkv_proj": "blk.{}.attn_qkv",
        "model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up"}
GPT2 = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
        "lm_head": "output", "transformer.h.{}.ln_1": "blk.{}.attn_norm", "transformer.h.{}.ln_2": "blk.{}.ffn_norm",
        "transformer.h.{}.attn.c_attn": "blk.{}.attn_qkv", "transformer.h.{}.attn.c_proj": "blk.{}.attn_output",
        "transformer.h.{}.mlp.c_fc": "blk.{}.ffn_up", "transformer.h.{}.mlp.c_proj": "blk.{}.ffn_down"}
NEOX = {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "lm_head": "output",
        "gpt_neox.layers.{}.input_layernorm": "blk.{}.attn_norm",
        "gpt_neox.layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
        "gpt_neox.layers.{}.attention.query_key_value": "blk.{}.attn_qkv",
        "gpt_neox.layers.{}.attention.dense": "blk.{}.attn_output",
        "gpt_neox.layers.{}.mlp.dense_h_to_4h": "blk.{}.ffn_up",
        "gpt_neox.layers.{}.mlp.dense_4h_to_h": "blk.{}.ffn_down"}

SIZES = {"bos_token_id": 1, "eos_token_id": 2, "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}


def rows_of_pairs(heads):
    """Rows of a projection whose rotated pairs are halves of a head, in GGUF's order of adjacent rows, and back."""
    def pair(w):
        return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

    def halves(w):
        return w.reshape(heads, -1, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
    return pair, halves


def stacked(heads):
    """Rows of query, key and value of each head as rows of all queries, keys and values, and back."""
    def stack(w):
        return w.reshape(heads, 3, -1, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)

    def split(w):
        return w.reshape(3, heads, -1, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)
    return stack, split


# Adding one to a norm's weight rounds, so the reference subtracts in float64.
PLUS_ONE = (lambda w: w + np.float32(1), lambda w: w.astype(np.float64) - 1)
TRANSPOSED = (lambda w: np.ascontiguousarray(w.T), lambda w: w.T)

# Class and sizes of a configuration, names, metadata, and changes of tensors by the end of their name.
FAMILIES = {
    "llama": (transformers.LlamaConfig, {**SIZES, "rope_theta": 500.0}, LLAMA, {"rope.freq_base": 500.0},
              {"attn_q.weight": rows_of_pairs(4), "attn_q.bias": rows_of_pairs(4),
               "attn_k.weight": rows_of_pairs(2), "attn_k.bias": rows_of_pairs(2)}),
    "qwen2": (transformers.Qwen2Config, {**SIZES, "tie_word_embeddings": True}, LLAMA, {}, {}),
    "qwen3": (transformers.Qwen3Config, {**SIZES, "head_dim": 32}, {**LLAMA, **QK_NORM},
              {"attention.key_length": 32, "attention.value_length": 32}, {}),
    "gemma2": (transformers.Gemma2Config,
               {**SIZES, "num_hidden_layers": 3, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8},
               GEMMA, {"attention.key_length": 16, "attention.value_length": 16, "attention.sliding_window": 8,
                       "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}, {"norm.weight": PLUS_ONE}),
    "gemma3": (transformers.Gemma3TextConfig,
               {**SIZES, "num_hidden_layers": 7, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8,
                "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
               {**GEMMA, **QK_NORM},
               {"attention.key_length": 16, "attention.value_length": 16, "attention.sliding_window": 8,
                "rope.freq_base": 1e6, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
               {"norm.weight": PLUS_ONE}),
    "phi3": (transformers.Phi3Config, {**SIZES, "pad_token_id": 0, "sliding_window": 8}, PHI3,
             {"attention.sliding_window": 8}, {}),
    "gpt2": (transformers.GPT2Config,
             {"bos_token_id": 1, "eos_token_id": 2, "vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}, GPT2,
             {"feed_forward_length": 256},
             {key: TRANSPOSED for key in ("attn_qkv.weight", "attn_output.weight", "ffn_up.weight",
                                          "ffn_down.weight")}),
    "gptneox": (transformers.GPTNeoXConfig, {**SIZES, "num_key_value_heads": 4, "rotary_pct": 0.5}, NEOX,
                {"rope.dimension_count": 8, "use_parallel_residual": True},
                {"attn_qkv.weight": stacked(4), "attn_qkv.bias": stacked(4)}),
}


def random_blocks(shape, kind, rng):
    """Random blocks of a format that the package cannot write, whose numbers are about 0.05 in size."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0], shape[1] // elements, size), dtype=np.uint8)
    for at in K_FORMATS[kind.name]:
        scales = (0.0001 + 0.0002 * rng.random(blocks.shape[:2])).astype(np.float16)
        blocks[:, :, at:at + 2] = scales.view(np.uint8).reshape(*blocks.shape[:2], 2)
    return blocks.reshape(shape[0], -1)


def stored(tensor, form, rng):
    """A tensor's bytes in the file, their type, and the numbers that they mean."""
    kind = Type[form] if tensor.ndim == 2 else Type.F32
    if kind == Type.F32:
        return tensor, kind, tensor
    raw = random_blocks(tensor.shape, kind, rng) if form in K_FORMATS else quantize(tensor, kind)
    return raw, kind, dequantize(raw, kind)


def make(path, family, form="F32", forms=None, metadata=None, vectors=None, seed=0, **sizes):
    """Writes a random model with matrices of type `form`, or `forms[name]`; returns it in float64.

    metadata: further values of the architecture; vectors: further tensors by name; sizes: of the configuration.
    """
    config_class, defaults, names, defined, changes = FAMILIES[family]
    metadata = {**defined, **(metadata or {})}
    config = config_class(**{**defaults, **sizes})
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Norms and biases other than ones and zeros.
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.mul_(3)
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    writer = gguf.GGUFWriter(str(path), family)
    writer.add_block_count(layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(heads)
    if hasattr(config, "intermediate_size"):
        writer.add_feed_forward_length(config.intermediate_size)
    if hasattr(config, "num_key_value_heads"):
        writer.add_head_count_kv(config.num_key_value_heads)
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        writer.add_layer_norm_eps(getattr(config, "layer_norm_eps", None) or config.layer_norm_epsilon)
    for key, value in metadata.items():
        kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        kinds[type(value)](f"{family}.{key}", value)
    writer.add_string("tokenizer.ggml.model", "none")
    writer.add_array("tokenizer.ggml.tokens", [f"t{i}" for i in range(config.vocab_size)])
    writer.add_eos_token_id(2)
    for name, numbers in (vectors or {}).items():
        writer.add_tensor(name, np.asarray(numbers, np.float32))

    rng = np.random.default_rng(seed)
    state = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        module, suffix = name.rsplit(".", 1)
        layer = next((part for part in module.split(".") if part.isdigit()), None)
        target = names[module.replace(f".{layer}.", ".{}.")].replace("{}", str(layer)) + "." + suffix
        change, undo = next((both for end, both in changes.items() if target.endswith(end)),
                            (lambda w: w, lambda w: w))
        wanted = (forms or {}).get(target.split(".", 2)[-1] if layer else target, form)
        raw, kind, numbers = stored(np.ascontiguousarray(change(tensor.numpy())), wanted, rng)
        writer.add_tensor(target, raw, raw_dtype=kind)
        state[name] = torch.from_numpy(np.array(undo(numbers), np.float64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = model.double()
    # A tied head is the embedding.
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"} and bool(missing) == config.tie_word_embeddings
    return model
