# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data-parallel training of a module: each rank steps on its part of every batch. Needs torch.

usage: torchrun --standalone --nproc-per-node 2 two_ranks.py
"""
import mpc
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # The same module and data on all ranks.
module = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
x = torch.randn(512, 16)
y = x[:, :4].argmax(1)
batches = [(x[i:i + 64], y[i:i + 64]) for i in range(0, 512, 64)]
parts = [(a.chunk(ranks)[rank], b.chunk(ranks)[rank]) for a, b in batches]

# The gradients are summed over the group, and all ranks agree on the loss scale.
trainer = mpc.Trainer(module, parts[0][0], policy="mixed_float16", optimizer="adamw", lr=1e-2, threads=1,
                      communicator=dist.group.WORLD)
history = trainer.fit(parts, epochs=6, progress=False, log_every=8)

sums = [torch.zeros(1) for _ in range(ranks)]
dist.all_gather(sums, sum(value.double().sum() for value in trainer.sync().state_dict().values()).float().reshape(1))
assert all(torch.equal(sums[0], other) for other in sums), "the ranks have different weights"
if rank == 0:
    print(f"{ranks} ranks, {trainer.updates} updates, loss {history[0]['loss']:.3f} -> {history[-1]['loss']:.3f}, "
          f"loss scale {trainer.loss_scale['scale']:g}")
dist.destroy_process_group()
