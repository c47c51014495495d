"""Catch in pixels on 16 lanes: bytes stay bytes until they are in the network, the batch is gathered from one array,
and the convolutions take the time that convolutions take."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
LANES, BATCH, CAPACITY, SIZE = 16, 128, 8192, 32


class Catch:
    """A ball falls through SIZE rows; a paddle below moves left, stays, or moves right."""

    def __init__(self, lanes, seed):
        self.rng = np.random.default_rng(seed)
        self.lane = np.arange(lanes)
        self.ball, self.paddle, self.row = np.zeros((3, lanes), np.int64)
        self.pixels = np.zeros((lanes, 2, SIZE, SIZE), np.uint8)

    def reset(self):
        self.start(np.ones(len(self.lane), bool))
        return self.draw()

    def start(self, which):
        self.ball[which] = self.rng.integers(SIZE, size=int(which.sum()))
        self.paddle[which], self.row[which] = SIZE // 2, 0

    def draw(self):
        self.pixels[:, 1] = self.pixels[:, 0]
        self.pixels[:, 0] = 0
        self.pixels[self.lane, 0, self.row, self.ball] = 255
        self.pixels[self.lane, 0, SIZE - 1, self.paddle] = 128
        return self.pixels.copy()

    def step(self, actions):
        self.paddle = np.clip(self.paddle + actions - 1, 0, SIZE - 1)
        self.row = self.row + 1
        ended = self.row >= SIZE - 1
        reward = np.where(ended, np.where(np.abs(self.ball - self.paddle) < 2, 1.0, -1.0), 0.0).astype(np.float32)
        if ended.any():
            self.start(ended)
        return self.draw(), reward, ended, np.zeros_like(ended), {}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(2, 32, 4, 2), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 3),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x.float().mul_(1 / 255))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env, online, target = Catch(LANES, args.seed), Network(), Network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), 3e-4, fused=True)
    states, next_states = np.zeros((2, CAPACITY, 2, SIZE, SIZE), np.uint8)
    actions, rewards, discounts = np.zeros(CAPACITY, np.int64), *np.zeros((2, CAPACITY), np.float32)
    obs, steps, updates, began = env.reset(), 0, 0, None
    while began is None or time.perf_counter() - began[0] < args.seconds:
        epsilon = max(0.05, 1 - steps / 10_000)
        with torch.inference_mode():
            chosen = online(torch.from_numpy(obs)).argmax(1).numpy()
        chosen = np.where(rng.random(LANES) < epsilon, rng.integers(3, size=LANES), chosen)
        after, reward, ended, _, _ = env.step(chosen)
        rows = np.arange(steps, steps + LANES) % CAPACITY
        states[rows], actions[rows], rewards[rows] = obs, chosen, reward
        next_states[rows], discounts[rows] = after, 0.99 * ~ended
        obs = after
        steps += LANES
        if steps < 512:
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
