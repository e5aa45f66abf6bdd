#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decodes and prefills one decoder with random weights (decoder.py) in mpc and in other systems:
llama.cpp reads the same weights from GGUF in F16, Q8_0 and Q4_0, torch runs the module in
bfloat16, ONNX Runtime the ONNX file. Needs torch, onnxruntime, gguf and llama-cpp-python.

  decoder_peers.py FOLDER --prepare     exports the model, writes GGUF files and policies
  decoder_peers.py FOLDER --prepare --large   the same with 1.03 billion parameters
  decoder_peers.py FOLDER               times every system once, one after the other, and prints
                                        the table of all times that FOLDER has
  decoder_peers.py FOLDER --systems mpc-int4,llama-Q4_0 --threads 2
  decoder_peers.py FOLDER --batches 1,4,16 --policies float32,int8
                                        times continuous batching (mpc.Decoder.batch), and prints its table;
                                        with --cpu-time the CPU time of one thread, for a shared machine

mpc compiles in the first run, which takes minutes. Each system runs in a separate process, pinned
to as many cores as it has threads. Times the prefill of 511 tokens up to the logits, then decoding
up to 512 rows of the cache.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

EXTENTS = {"layers": 12, "width": 768, "heads": 12, "groups": 12, "inner": 2048,
           "vocabulary": 32768, "window": 0, "seed": 0}
LARGE = {**EXTENTS, "layers": 22, "width": 2048, "heads": 32, "groups": 4, "inner": 5632,
         "vocabulary": 32000}
ROWS, STEPS = 512, 64
POLICIES = {
    "float32": {"extends": "float32"},
    "bfloat16": {"extends": "mixed_bfloat16"},
    "float16": {"extends": "float32", "weights": "float16", "cache": "float16"},
    "int8": {"extends": "mixed_bfloat16", "weights": "int8"},
    "int4": {"extends": "mixed_bfloat16", "weights": "int4"},
    "int8-c8": {"extends": "mixed_bfloat16", "weights": "int8", "cache": "int8"},
    "int4-c8": {"extends": "mixed_bfloat16", "weights": "int4", "cache": "int8"},
    "int8-f32": {"extends": "float32", "weights": "int8"},
    "int8-f32-c16": {"extends": "float32", "weights": "int8", "cache": "bfloat16"},
    "int8-f32-c8": {"extends": "float32", "weights": "int8", "cache": "int8"},
    "f8-f32-cf8": {"extends": "float32", "weights": "float8_e4m3fn", "cache": "float8_e4m3fn"},
    "int4-f32": {"extends": "float32", "weights": "int4"},
    "int4-f32-c16": {"extends": "float32", "weights": "int4", "cache": "bfloat16"},
    "int4-f32-c8": {"extends": "float32", "weights": "int4", "cache": "int8"},
}
KINDS = ("F16", "Q8_0", "Q4_0")
# The peer that each of mpc's systems is compared with.
PEERS = {"mpc-gguf-Q8_0": "llama-Q8_0", "mpc-gguf-Q4_0": "llama-Q4_0",
         "mpc-float16": "llama-F16", "mpc-bfloat16": "llama-F16", "mpc-int8": "llama-Q8_0",
         "mpc-int4": "llama-Q4_0", "mpc-int8-c8": "llama-Q8_0", "mpc-int4-c8": "llama-Q4_0",
         "mpc-float32": "onnxruntime"}
SYSTEMS = [*(f"mpc-{name}" for name in POLICIES), "mpc-gguf-Q8_0", "mpc-gguf-Q4_0",
           *(f"llama-{kind}" for kind in KINDS),
           "torch-bfloat16", "onnxruntime"]


def prompt(count):
    import random
    rng = random.Random(1)
    return [rng.randrange(EXTENTS["vocabulary"]) for _ in range(count)]


def build():
    import decoder
    return decoder.build(**EXTENTS)


# ---------------------------------------------------------------- files

def write_gguf(model, path, kind):
    """llama.cpp rotates adjacent pairs where the module rotates halves."""
    import gguf
    e = EXTENTS
    writer = gguf.GGUFWriter(str(path), "llama")
    size = e["width"] // e["heads"]
    writer.add_vocab_size(e["vocabulary"])
    writer.add_context_length(4096)
    writer.add_embedding_length(e["width"])
    writer.add_block_count(e["layers"])
    writer.add_feed_forward_length(e["inner"])
    writer.add_head_count(e["heads"])
    writer.add_head_count_kv(e["groups"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(size)
    writer.add_tokenizer_model("no_vocab")
    stored = gguf.GGMLQuantizationType[kind]

    def add(name, tensor):
        array = tensor.detach().float().numpy()
        if array.ndim == 1:
            writer.add_tensor(name, array)
        else:
            writer.add_tensor(name, gguf.quants.quantize(array, stored), raw_dtype=stored)

    def paired(weight, heads):
        return weight.reshape(heads, 2, size // 2, -1).transpose(1, 2).reshape(weight.shape)

    add("token_embd.weight", model.embedding)
    add("output_norm.weight", model.norm.weight)
    for i, block in enumerate(model.blocks):
        for name, tensor in {
                "attn_norm": block.norm1.weight, "ffn_norm": block.norm2.weight,
                "attn_q": paired(block.q.weight, e["heads"]),
                "attn_k": paired(block.k.weight, e["groups"]), "attn_v": block.v.weight,
                "attn_output": block.o.weight, "ffn_gate": block.gate.weight,
                "ffn_up": block.up.weight, "ffn_down": block.down.weight}.items():
            add(f"blk.{i}.{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def expect(model, folder):
    """The module's tokens in float32, and the logits after a prompt."""
    import numpy
    import torch
    tokens, written, past = prompt(ROWS - STEPS), [], None
    past = [tuple(torch.zeros(1, EXTENTS["groups"], 0, EXTENTS["width"] // EXTENTS["heads"])
                  for _ in range(2)) for _ in model.blocks]
    given, length = tokens, 0
    with torch.no_grad():
        for _ in range(STEPS):
            total = length + len(given)
            logits, *present = model(torch.tensor([given]), torch.ones(1, total, dtype=torch.int64),
                                     torch.arange(length, total)[None], past)
            if not written:
                numpy.save(folder / "logits.npy", logits[0, -1].numpy())
            past, length = list(zip(present[::2], present[1::2])), total
            given = [int(logits[0, -1].argmax())]
            written += given
    (folder / "tokens.json").write_text(json.dumps(written))


def prepare(folder, large):
    folder.mkdir(parents=True, exist_ok=True)
    EXTENTS.update(LARGE if large else {})
    (folder / "extents.json").write_text(json.dumps(EXTENTS))
    here = pathlib.Path(__file__).parent
    subprocess.run([sys.executable, here / "decoder.py", folder / "decoder.onnx",
                    *(text for name, value in EXTENTS.items() for text in (f"--{name}", str(value)))],
                   check=True)
    model = build()
    for kind in KINDS:
        write_gguf(model, folder / f"{kind}.gguf", kind)
    expect(model, folder)
    for name, policy in POLICIES.items():
        (folder / f"{name}.json").write_text(json.dumps({"name": f"decode-{name}", **policy}))


# ---------------------------------------------------------------- systems

def mpc_generate(mpc, folder, model, policy, threads, tokens, count):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(" ".join(map(str, tokens)))
        file.flush()
        result = subprocess.run(
            [mpc, "generate", folder / model, "--policy", folder / f"{policy}.json",
             "--prompt-ids", file.name, "--tokens", str(count), "--cache", str(ROWS), "--chunk",
             str(ROWS), "--threads", str(threads), "--json", "--quiet"],
            capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(result.stdout + result.stderr)
    return json.loads(result.stdout)


def time_mpc(folder, policy, threads, mpc):
    model = "decoder.onnx"
    if policy.startswith("gguf-"):
        model, policy = policy.removeprefix("gguf-") + ".gguf", "bfloat16"
    first = mpc_generate(mpc, folder, model, policy, threads, prompt(ROWS - 1), 1)
    then = mpc_generate(mpc, folder, model, policy, threads, prompt(ROWS - STEPS), STEPS)
    return {"prefill": (ROWS - 1) / first["first_token_ms"] * 1e3,
            "decode": then["tokens_per_second"], "bytes": then["bytes_per_token"],
            "ceiling": then["memory_bytes_per_second"], "tokens": then["tokens"]}


def time_steps(feed):
    """`feed(tokens, length)` appends tokens at position `length` and returns the logits of the last one."""
    feed(prompt(64), 0)
    start = time.perf_counter()
    feed(prompt(ROWS - 1), 0)
    prefill = (ROWS - 1) / (time.perf_counter() - start)
    logits = feed(prompt(ROWS - STEPS), 0)
    kept = logits.copy()
    written = [int(logits.argmax())]
    start = time.perf_counter()
    for length in range(ROWS - STEPS, ROWS - 1):
        written.append(int(feed(written[-1:], length).argmax()))
    return {"prefill": prefill, "decode": (STEPS - 1) / (time.perf_counter() - start),
            "tokens": written, "logits": kept}


def time_llama(folder, kind, threads, _):
    import numpy
    import llama_cpp as llama
    say_nothing = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(say_nothing, ctypes.c_void_p(0))
    llama.llama_backend_init()
    path = folder / f"{kind}.gguf"
    settings = llama.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = ROWS
    settings.n_threads = settings.n_threads_batch = threads
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    context = llama.llama_init_from_model(model, settings)

    def feed(tokens, length):
        if length == 0:
            llama.llama_memory_clear(llama.llama_get_memory(context), True)
        array = (llama.llama_token * len(tokens))(*tokens)
        if llama.llama_decode(context, llama.llama_batch_get_one(array, len(tokens))):
            sys.exit(f"llama_decode fails behind {length} tokens")
        logits = llama.llama_get_logits_ith(context, -1)
        return numpy.ctypeslib.as_array(logits, (EXTENTS["vocabulary"],))

    # The KV cache is F16.
    size = EXTENTS["width"] // EXTENTS["heads"]
    cache = 2 * 2 * EXTENTS["layers"] * ROWS * EXTENTS["groups"] * size
    return {**time_steps(feed), "bytes": path.stat().st_size + cache}


def time_torch(_folder, _type, threads, _):
    import torch
    torch.set_num_threads(threads)
    model = build().bfloat16()
    torch.set_default_dtype(torch.bfloat16)
    size, state = EXTENTS["width"] // EXTENTS["heads"], {}

    def feed(tokens, length):
        if length == 0:
            state["past"] = [tuple(torch.zeros(1, EXTENTS["groups"], 0, size) for _ in range(2))
                             for _ in model.blocks]
        total = length + len(tokens)
        with torch.no_grad():
            logits, *present = model(torch.tensor([tokens]),
                                     torch.ones(1, total, dtype=torch.int64),
                                     torch.arange(length, total)[None], state["past"])
        state["past"] = list(zip(present[::2], present[1::2]))
        return logits[0, -1].float().numpy()

    return time_steps(feed)


def time_onnxruntime(folder, _type, threads, _):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(folder / "decoder.onnx"), options,
                                           providers=["CPUExecutionProvider"])
    pasts = [value.name for value in session.get_inputs() if value.name.startswith("past")]
    size, state = EXTENTS["width"] // EXTENTS["heads"], {}

    def feed(tokens, length):
        if length == 0:
            empty = numpy.zeros((1, EXTENTS["groups"], 0, size), numpy.float32)
            state["past"] = [onnxruntime.OrtValue.ortvalue_from_numpy(empty) for _ in pasts]
        total = length + len(tokens)
        give = onnxruntime.OrtValue.ortvalue_from_numpy
        results = session.run_with_ort_values(
            [value.name for value in session.get_outputs()],
            {"input_ids": give(numpy.array([tokens])),
             "attention_mask": give(numpy.ones((1, total), numpy.int64)),
             "position_ids": give(numpy.arange(length, total)[None]),
             **dict(zip(pasts, state["past"]))})
        state["past"] = results[1:]
        return results[0].numpy()[0, -1]

    return time_steps(feed)


# ---------------------------------------------------------------- batches

def time_batch(folder, policy, slots, threads, clock):
    """Requests of a prompt of 64 and 64 new tokens in all slots, and how long a prompt of 256 tokens delays them."""
    import mpc
    decoder = mpc.Decoder(folder / "decoder.onnx", policy=folder / f"{policy}.json", threads=threads, capacity=ROWS,
                          slots=slots)
    prompts = [prompt(64 + i)[i:] for i in range(slots)]

    def times(batch, is_done):
        found = []
        while not is_done():
            start = clock()
            batch.step()
            found.append(clock() - start)
        return found

    batch = decoder.batch(prefixes=0)
    requests = [batch.submit(each, tokens=STEPS) for each in prompts]
    times(batch, lambda: all(request.tokens for request in requests))
    step = statistics.median(times(batch, lambda: any(request.is_finished for request in requests)))
    for _ in batch:
        pass
    result = {"rate": slots / step, "step": step}
    if slots > 1:
        requests = [batch.submit(each, tokens=None) for each in prompts[1:]]
        times(batch, lambda: all(request.tokens for request in requests))
        late = batch.submit(prompt(256), tokens=1)
        result["delayed"] = max(times(batch, lambda: late.is_finished))
    return result


def print_batches(folder, policies, counts, threads, mpc, clock):
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    print("| policy | requests | tokens/s | x one request | step, ms | longest step with a new prompt, ms |")
    print("|---|--:|--:|--:|--:|--:|")
    for policy in policies:
        one = None
        for slots in counts:
            done = subprocess.run(
                ["taskset", "-c", cores, sys.executable, __file__, folder, "--mpc", mpc, "--threads", str(threads),
                 "--serve", f"batch-{policy}", "--batches", str(slots), *clock], capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stdout + done.stderr)
            found = json.loads(done.stdout.splitlines()[-1])
            one = one or found["rate"]
            delayed = f"{found['delayed'] * 1e3:.1f}" if "delayed" in found else ""
            print(f"| {policy} | {slots} | {found['rate']:.1f} | {found['rate'] / one:.2f} | {found['step'] * 1e3:.1f} | "
                  f"{delayed} |", flush=True)


TIMERS = {"mpc": time_mpc, "llama": time_llama, "torch": time_torch,
          "onnxruntime": time_onnxruntime}


def serve(folder, system, threads, mpc, slots, cpu):
    """Times `system` in this process and prints the results as JSON."""
    import numpy
    kind, _, form = system.partition("-")
    if kind == "batch":
        print(json.dumps(time_batch(folder, form, slots, threads, time.process_time if cpu else time.perf_counter)))
        return
    result = TIMERS[kind](folder, form, threads, mpc)
    wanted = json.loads((folder / "tokens.json").read_text())
    same = [a == b for a, b in zip(wanted, result.pop("tokens"))]
    result["same"] = same.index(False) if False in same else len(same)
    logits = result.pop("logits", None)
    if logits is not None:
        exact = numpy.load(folder / "logits.npy").astype(numpy.float64)
        result["error"] = float(numpy.linalg.norm(logits - exact) / numpy.linalg.norm(exact))
    print(json.dumps(result))


# ---------------------------------------------------------------- table

def print_table(times, threads):
    mine = {system: runs for system, runs in times.items() if system in SYSTEMS}
    middle = lambda system, key: statistics.median(
        [run[key] for run in mine[system] if key in run] or [float("nan")])
    ceiling = statistics.median([run["ceiling"] for runs in mine.values() for run in runs
                                 if "ceiling" in run] or [float("nan")])
    print(f"{threads} threads, memory gives {ceiling / 1e9:.1f} GB/s (median)\n")
    print("| | tokens/s | MB | share | x float32 | peer | x peer | prefill tokens/s | "
          "logits' error | tokens as in float32 |")
    print("|---|--:|--:|--:|--:|---|--:|--:|--:|--:|")
    for system in SYSTEMS:
        if system not in mine:
            continue
        rate, peer = middle(system, "decode"), PEERS.get(system, "")
        against = lambda other: f"{rate / middle(other, 'decode'):.2f}" if other in mine else ""
        print(f"| {system} | {rate:.1f} | {middle(system, 'bytes') / 1e6:.0f} | "
              f"{rate * middle(system, 'bytes') / ceiling * 100:.0f} % | {against('mpc-float32')} | "
              f"{peer} | {against(peer)} | {middle(system, 'prefill'):.0f} | "
              f"{middle(system, 'error'):.2g} | {middle(system, 'same'):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mpc", default="build/bin/mpc")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--large", action="store_true", help="prepare 1.03 billion parameters")
    parser.add_argument("--batches", metavar="N,N", help="numbers of requests that are decoded together")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--policies", default="float32,bfloat16,int8")
    parser.add_argument("--serve", metavar="SYSTEM", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.prepare:
        return prepare(a.folder, a.large)
    EXTENTS.update(json.loads((a.folder / "extents.json").read_text()))
    if a.serve:
        return serve(a.folder, a.serve, a.threads, a.mpc, int(a.batches or 1), a.cpu_time)
    if a.batches:
        return print_batches(a.folder, a.policies.split(","), list(map(int, a.batches.split(","))), a.threads, a.mpc,
                             ["--cpu-time"] if a.cpu_time else [])
    file = a.folder / f"times-{a.threads}.json"
    times = json.loads(file.read_text()) if file.exists() else {}
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:a.threads]))
    for system in a.systems.split(","):
        result = subprocess.run(
            ["taskset", "-c", cores, sys.executable, __file__, a.folder, "--mpc", a.mpc,
             "--threads", str(a.threads), "--serve", system], capture_output=True, text=True,
            check=False)
        if result.returncode:
            sys.exit(f"{system}: {result.stdout}{result.stderr}")
        times.setdefault(system, []).append(json.loads(result.stdout.splitlines()[-1]))
        file.write_text(json.dumps(times))
    print_table(times, a.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
