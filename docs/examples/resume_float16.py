# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training in float16 that is stopped and resumed bit for bit, loss scale included. Needs torch.

usage: python resume_float16.py
"""
import mpc
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(500, 16)
y = (x[:, :4].sum(1) > 0).long()
batches = DataLoader(TensorDataset(x, y), batch_size=64)  # The last batch has 52 examples.


def new_trainer():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
    return mpc.Trainer(module, x[:64], policy="mixed_float16", loss_scale="dynamic", optimizer="adamw", lr=1e-2)


first = new_trainer()
first.fit(batches, epochs=3, progress=False)
torch.save(first.state_dict(), "state.pt")
first.fit(batches, epochs=3, progress=False)

second = new_trainer()  # Usually in another process.
second.load_state_dict(torch.load("state.pt", weights_only=False))
second.fit(batches, epochs=3, progress=False)

weights, resumed = (trainer.state_dict()["model"] for trainer in (first, second))
assert all(torch.equal(weights[name], resumed[name]) for name in weights)
found = second.evaluate(x, y)
print(f"{second.updates} updates, loss scale {second.loss_scale['scale']:g}, accuracy {found['accuracy']:.1%}, "
      "bit for bit as without the stop")
