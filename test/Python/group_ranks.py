# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of a process group; rank 0 prints what the parameters sum to. For test_communicator_torch.py."""

import test_communicator
import torch.distributed as dist

dist.init_process_group("gloo")
state = test_communicator.trained(dist.group.WORLD, dist.get_world_size(), dist.get_rank())
if dist.get_rank() == 0:
    print(float(sum(abs(value).sum() for value in state.values())))
dist.destroy_process_group()
