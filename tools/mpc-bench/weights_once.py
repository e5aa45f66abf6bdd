#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are rounded and packed once: further batch sizes, and torch.compile against ONNX.

  PYTHONPATH=build/python .venv/bench/bin/python tools/mpc-bench/weights_once.py [shapes] [torch]
      [--policy mixed_bfloat16] [--rounds 15] [--models resnet50,...]

`shapes` prints, for a ResNet-50 and a BERT-base of mpc.compile, the CPU and wall-clock seconds of compiling
further batch sizes, the time of a run against a compile for that size alone, and the compiles of a fourth
size with buckets. `torch` prints the time of a call of torch.compile(backend="mpc") in inference against
mpc.compile of the exported ONNX file, for a ResNet-50, a ViT and four layers of BERT-base, and the seconds
of the first call after the weights changed. Runs have one thread; the least CPU time over
rounds in turns, which other programs on the machine disturb less than wall-clock time. Needs torch,
torchvision, transformers, onnx and onnxscript.
"""

import argparse
import copy
import os
import resource
import tempfile
import time

import mpc
import mpc.torch
import torch


class Encoder(torch.nn.Module):
    """A BERT of random weights, from token ids to hidden states."""

    def __init__(self, layers):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(num_hidden_layers=layers, attn_implementation="sdpa")
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, ids):
        return self.bert(ids, attention_mask=torch.ones_like(ids)).last_hidden_state


def images(batch):
    return torch.randn(batch, 3, 224, 224)


def tokens(batch):
    return torch.randint(0, 30000, (batch, 128))


def resnet50():
    from torchvision.models import resnet50 as make

    return make(weights=None), images


def vit():
    from torchvision.models import vit_b_16 as make

    model = make(weights=None)
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)  # Zero by default.
    return model, images


MODELS = {"resnet50": resnet50, "vit": vit, "bert_base": lambda: (Encoder(12), tokens),
          "bert_base4": lambda: (Encoder(4), tokens)}
SHAPES, TORCH = ("resnet50", "bert_base"), ("resnet50", "vit", "bert_base4")


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def seconds(call):
    """CPU and wall-clock seconds of a call."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    call()
    return cpu_seconds() - cpu, time.perf_counter() - wall


def fastest(calls, rounds):
    """Least CPU milliseconds of each call, in turns."""
    least = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begin = time.process_time()
            call()
            least[i] = min(least[i], 1e3 * (time.process_time() - begin))
    return least


def shapes(names, policy, rounds):
    print("| model | batch | compile, CPU s | wall s | run, ms | compiled for it alone, ms | ratio |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in names:
        model, example = MODELS[name]()
        model.eval()
        function = mpc.compile(model, example(2), policy=policy, threads=1, cache=False)
        for batch in (3, 4, 5):
            x = example(batch)
            cpu, wall = seconds(lambda x=x: function.compile(x))
            alone = mpc.compile(model, x, policy=policy, threads=1, cache=False)
            mine, static = fastest([lambda x=x: function(x), lambda x=x, alone=alone: alone(x)], rounds)
            print(f"| {name} | {batch} | {cpu:.2f} | {wall:.2f} | {mine:.1f} | {static:.1f} | {mine / static:.3f} |",
                  flush=True)
        padded = mpc.compile(model, example(2), policy=policy, threads=1, cache=False, buckets={"batch": [2, 4, 8]})
        for batch in (3, 7, 2):
            padded(example(batch))
        before = padded.counts.compiles
        padded(example(5))
        print(f"\n{name} with buckets: {padded.counts.compiles - before} compiles for a fourth size\n", flush=True)


def exported(model, x, folder):
    path = os.path.join(folder, "model.onnx")
    torch.onnx.export(model, (x,), path, dynamo=True, verbose=False)
    return path


def backend(names, policy, rounds):
    print("| model | ONNX, ms | torch.compile, ms | ratio | first call after new weights, s |")
    print("|---|--:|--:|--:|--:|")
    for name in names:
        torch._dynamo.reset()
        model, example = MODELS[name]()
        model.eval()
        x = example(1)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            onnx = mpc.compile(exported(copy.deepcopy(model), x, folder), x, policy=policy, threads=1)
            compiled = torch.compile(model, backend="mpc", options={"policy": policy, "threads": 1})
            error = (compiled(x) - onnx(x)).norm() / onnx(x).norm()
            ours, theirs = fastest([lambda: compiled(x), lambda: onnx(x)], rounds)
            model.load_state_dict(model.state_dict())
            _, refresh = seconds(lambda: compiled(x))
        assert error < 0.05, f"the results differ by {error}"
        print(f"| {name} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.3f} | {refresh:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], "shapes", "torch"], metavar="PART")
    parser.add_argument("--policy", default="mixed_bfloat16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", type=lambda text: text.split(","))
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    parts = options.parts or ["shapes", "torch"]
    if "shapes" in parts:
        shapes(options.models or SHAPES, options.policy, options.rounds)
    if "torch" in parts:
        backend(options.models or TORCH, options.policy, options.rounds)


if __name__ == "__main__":
    main()
