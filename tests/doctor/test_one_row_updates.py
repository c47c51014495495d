"""A batch that is gone through row by row, as in many a tutorial, is found."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hotloop.doctor.diagnoses import one_row_updates
from hotloop.doctor.script import examined

SCRIPT = """
import random
import numpy as np, torch
from torch import nn
class Line:
    def reset(self): self.x = 0; return np.array([0.0, 1.0], np.float32)
    def step(self, a):
        self.x += 1
        return np.array([self.x / 20, 1.0], np.float32), float(a), self.x >= 20, {}
net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
opt, memory, env = torch.optim.Adam(net.parameters()), [], Line()
def learn(rows):
    s, a, r, n, d = map(np.array, zip(*rows))
    goal = torch.tensor(r, dtype=torch.float32) + 0.9 * net(torch.tensor(n)).max(1).values.detach()
    loss = (net(torch.tensor(s)).gather(1, torch.tensor(a)[:, None])[:, 0] - goal).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
while True:
    state, done = env.reset(), False
    while not done:
        action = random.randrange(2)
        new, reward, done, _ = env.step(action)
        memory.append((state, action, reward, new, done)); state = new
        if len(memory) > 64:
            batch = random.sample(memory[-1000:], 16)
            for row in batch:
                learn([row])
"""


def test_rows_that_are_learnt_one_by_one_are_found(tmp_path):
    path = tmp_path / "tutorial.py"
    path.write_text(SCRIPT)
    report = examined(str(path), [], duration_s=15.0)
    finding = next(f for f in report["findings"] if f["name"] == "one_row_updates")
    assert report["does"]["batch"] == 1 and finding["learning"] == "changes"
    assert finding["title"].startswith("16 updates of one") and finding["share"] > 0.5
    assert SCRIPT.splitlines()[finding["line"] - 1].strip().startswith("loss.backward")


@pytest.mark.parametrize(("batch", "each"), [(16.0, 8.0), (1.0, 1.0), (None, 8.0), (1.0, None)])
def test_a_batch_in_one_update_is_no_finding(batch, each):
    case = SimpleNamespace(facts=SimpleNamespace(batch=batch, updates_per_step=each))
    assert one_row_updates.find(case) == []
