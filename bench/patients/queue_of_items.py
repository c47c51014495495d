"""Pixels from two collector processes through one queue behind a lock: transitions are pickled one by one, thrown away
when the queue is full, and made floats on the host before they reach the network."""

import argparse
import json
import multiprocessing
import queue
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
FRAMES, SIZE, ACTIONS, COLLECTORS, CAPACITY = 4, 64, 7, 2, 4000


class Scroller:
    """A strip that scrolls: bytes like an emulator's, 64 × 64, four frames deep."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.strip = self.rng.integers(0, 255, (SIZE, 1024), dtype=np.uint8)

    def reset(self):
        self.x, self.age = 0, 0
        self.stack = np.zeros((FRAMES, SIZE, SIZE), np.uint8)
        return self.stack.copy()

    def step(self, action):
        self.x += (1, 2, 2, 3, 3, 0, -1)[action] if self.x or action < 6 else 0
        self.age += 1
        at = self.x % (1024 - SIZE)
        self.stack = np.concatenate([self.stack[1:], self.strip[None, :, at : at + SIZE]])
        return self.stack.copy(), 0.1 * self.x / self.age, self.age >= 400, {}


def collect(number, channel, lock, blocks, seed):
    """A collector: acts at random here, since what it shows is transport."""
    env, rng = Scroller(seed + number), np.random.default_rng(seed + number)
    state, held = env.reset(), []
    while True:
        action = int(rng.integers(ACTIONS))
        next_state, reward, done, _ = env.step(action)
        item = (state, action, reward, next_state, done)
        state = env.reset() if done else next_state
        if blocks:
            held.append(item)
            if len(held) == 64:
                channel.put([np.stack(field) for field in zip(*held, strict=True)])  # waits where it is full
                held = []
            continue
        with lock:
            try:
                channel.put_nowait(item)  # <- B
            except queue.Full:
                continue  # it is only one transition


class Network(nn.Module):
    def __init__(self, scaled):
        super().__init__()
        self.scaled = scaled
        self.layers = nn.Sequential(
            nn.Conv2d(FRAMES, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(),
            nn.Linear(1152, 128), nn.ReLU(), nn.Linear(128, ACTIONS),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x if self.scaled else x.float().mul_(1 / 255))


class Learner:
    def __init__(self, args):
        self.rng = np.random.default_rng(args.seed)
        self.fixed = args.fixed
        self.online, self.target = (Network("float" not in args.fixed) for _ in range(2))
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), 5e-4, fused=True)
        self.states, self.next_states = np.zeros((2, CAPACITY, FRAMES, SIZE, SIZE), np.uint8)
        self.actions = np.zeros(CAPACITY, np.int64)
        self.rewards, self.ends = np.zeros((2, CAPACITY), np.float32)
        self.stored = self.updates = 0

    def store(self, rows, fields):
        arrays = (self.states, self.actions, self.rewards, self.next_states, self.ends)
        for array, values in zip(arrays, fields, strict=True):
            array[rows] = values
        self.stored += np.size(rows)

    def receive(self, channel, number):
        """So many transitions."""
        if "blocks" in self.fixed:
            for _ in range(number // 64):
                self.store(np.arange(self.stored, self.stored + 64) % CAPACITY, channel.get())
            return
        for _ in range(number):
            item = channel.get()  # <- A
            self.store(self.stored % CAPACITY, item)

    def pixels(self, frames):
        if "float" in self.fixed:
            return torch.from_numpy(frames)
        return torch.from_numpy(frames.astype(np.float64) / 255).float()  # <- C

    def train(self):
        rows = self.rng.integers(min(self.stored, CAPACITY), size=32)
        states, next_states = self.pixels(self.states[rows]), self.pixels(self.next_states[rows])
        with torch.no_grad():
            goal = (
                torch.from_numpy(self.rewards[rows])
                + 0.95 * (1 - torch.from_numpy(self.ends[rows])) * self.target(next_states).max(1).values
            )
        values = self.online(states).gather(1, torch.from_numpy(self.actions[rows])[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(values, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 200 == 0:
            self.target.load_state_dict(self.online.state_dict())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", nargs="*", default=[], choices=["blocks", "float"])
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    context = multiprocessing.get_context("fork")
    blocks = "blocks" in args.fixed
    channel, lock = context.Queue(8 if blocks else 256), context.Lock()
    for number in range(COLLECTORS):
        context.Process(target=collect, args=(number, channel, lock, blocks, args.seed), daemon=True).start()
    learner = Learner(args)
    learner.receive(channel, 256)
    began = None
    while began is None or time.perf_counter() - began[0] < args.seconds:
        learner.receive(channel, 64)
        for _ in range(4):
            learner.train()
        if began is None:
            began = time.perf_counter(), learner.stored, learner.updates
    seconds, steps, updates = time.perf_counter() - began[0], learner.stored - began[1], learner.updates - began[2]
    print(json.dumps({"env_steps": steps, "updates": updates, "batch": 32, "seconds": seconds}))


if __name__ == "__main__":
    main()
