# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of a process group; rank 0 prints the sums of the parameters of a file and of a module. For
test_communicator_torch.py."""

import mpc
import test_communicator
import torch
import torch.distributed as dist


def module_sum(communicator=None, ranks=1, rank=0):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    x, y = (torch.from_numpy(array).reshape(ranks, -1, *array.shape[1:])[rank] for array in test_communicator.batch())
    trainer = mpc.Trainer(module, x, policy="float32", optimizer="sgd", lr=0.1, threads=1, communicator=communicator)
    for _ in range(3):
        trainer.step(x, y)
    trainer.sync()
    return float(sum(p.detach().abs().sum() for p in module.parameters()))


def main():
    dist.init_process_group("gloo")
    group, ranks, rank = dist.group.WORLD, dist.get_world_size(), dist.get_rank()
    state = test_communicator.trained(group, ranks, rank)
    total = module_sum(mpc.Communicator.torch(), ranks, rank)
    if rank == 0:
        print(float(sum(abs(value).sum() for value in state.values())), total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
