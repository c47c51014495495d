"""64 poles at once in NumPy, replay in arrays, one forward to act for all, an update of 512 whose arithmetic fills its
time. Nothing much can be had here."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
LANES, BATCH, CAPACITY = 64, 512, 100_000


class Poles:
    """CartPole, all lanes in one operation each."""

    def __init__(self, lanes, seed):
        self.rng = np.random.default_rng(seed)
        self.state, self.age = np.zeros((lanes, 4)), np.zeros(lanes, np.int64)

    def reset(self):
        self.restart(np.ones(len(self.state), bool))
        return self.state.astype(np.float32)

    def restart(self, which):
        self.state[which] = self.rng.uniform(-0.05, 0.05, (int(which.sum()), 4))
        self.age[which] = 0

    def step(self, actions):
        x, v, theta, omega = self.state.T
        push = (np.where(actions == 1, 10.0, -10.0) + 0.05 * omega**2 * np.sin(theta)) / 1.1
        turn = (9.8 * np.sin(theta) - np.cos(theta) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(theta) ** 2 / 1.1))
        acceleration = push - 0.05 * turn * np.cos(theta) / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * acceleration, theta + 0.02 * omega, omega + 0.02 * turn], 1)
        self.age += 1
        terminated = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.2095)
        truncated = self.age >= 500
        final = self.state.astype(np.float32)
        if (ended := terminated | truncated).any():
            self.restart(ended)
        return self.state.astype(np.float32), np.ones(len(x), np.float32), terminated, truncated, {"final": final}


def mlp():
    return nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env = Poles(LANES, args.seed)
    online, target = mlp(), mlp()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), 3e-4, fused=True)
    states, next_states = np.zeros((2, CAPACITY, 4), np.float32)
    actions, rewards, discounts = np.zeros(CAPACITY, np.int64), *np.zeros((2, CAPACITY), np.float32)
    obs, steps, updates, began = env.reset(), 0, 0, None
    while began is None or time.perf_counter() - began[0] < args.seconds:
        epsilon = max(0.05, 1 - steps / 20_000)
        with torch.inference_mode():
            chosen = online(torch.from_numpy(obs)).argmax(1).numpy()
        chosen = np.where(rng.random(LANES) < epsilon, rng.integers(2, size=LANES), chosen)
        after, reward, terminated, _, info = env.step(chosen)
        rows = np.arange(steps, steps + LANES) % CAPACITY
        states[rows], actions[rows], rewards[rows] = obs, chosen, reward
        next_states[rows], discounts[rows] = info["final"], 0.99 * ~terminated
        obs = after
        steps += LANES
        if steps < 2048:
            continue
        batch = rng.integers(min(steps, CAPACITY), size=BATCH)
        with torch.no_grad():
            best = target(torch.from_numpy(next_states[batch])).max(1).values
            goal = torch.from_numpy(rewards[batch]) + torch.from_numpy(discounts[batch]) * best
        values = online(torch.from_numpy(states[batch]))
        loss = nn.functional.smooth_l1_loss(values.gather(1, torch.from_numpy(actions[batch])[:, None])[:, 0], goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        if updates % 100 == 0:
            target.load_state_dict(online.state_dict())
        if began is None:
            began = time.perf_counter(), steps, updates
    seconds, steps, updates = time.perf_counter() - began[0], steps - began[1], updates - began[2]
    print(json.dumps({"env_steps": steps, "updates": updates, "batch": BATCH, "seconds": seconds}))


if __name__ == "__main__":
    main()
