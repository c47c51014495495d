"""Fuel breaks against wildfire on four environments over two shared landscapes. It gets faster and faster, says so with
a figure of its own, prints at every step and keeps what it saw in arrays that grow."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
SIZE, TICKS, STEPS, LANES = 40, 60, 10, 4
NON_BURNABLE, KEPT = 91, 1200


class Landscape:
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.fuel = rng.integers(1, 14, (SIZE, SIZE))
        self.slope = rng.random((SIZE, SIZE)).astype(np.float32)


class FireEnv:
    """One cell becomes a fuel break per step; the reward is what a random fire leaves."""

    def __init__(self, landscape, restores, seed):
        self.landscape, self.restores = landscape, restores
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.fuel = self.landscape.fuel.copy() if self.restores else self.landscape.fuel
        self.breaks = np.zeros((SIZE, SIZE), bool)
        self.burned = np.zeros((SIZE, SIZE), bool)
        self.count = 0
        return self.observation()

    def observation(self):
        return np.stack([self.fuel / 100, self.landscape.slope, self.breaks, self.burned]).astype(np.float32)

    def simulate(self):
        """A fire from a random cell, tick by tick, until it is out."""
        burnable = self.fuel != NON_BURNABLE
        burning = np.zeros((SIZE + 2, SIZE + 2), bool)
        x, y = self.rng.integers(SIZE, size=2)
        burning[x + 1, y + 1] = burnable[x, y]
        burned = burning[1:-1, 1:-1].copy()
        for _ in range(TICKS):
            near = burning[:-2, 1:-1] | burning[2:, 1:-1] | burning[1:-1, :-2] | burning[1:-1, 2:]
            catches = near & burnable & ~burned & (self.rng.random((SIZE, SIZE)) < 0.8)
            if not catches.any():
                break
            burned |= catches
            burning[1:-1, 1:-1] = catches
        return burned

    def step(self, action):
        cell = divmod(action, SIZE)
        self.breaks[cell] = True
        self.fuel[self.breaks] = NON_BURNABLE  # <- A
        self.burned = self.simulate()
        self.count += 1
        return self.observation(), -self.burned.mean(), self.count >= STEPS, {}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1)
        )

    def forward(self, x):
        return self.layers(x).flatten(1)


class Trainer:
    def __init__(self, args):
        self.rng = np.random.default_rng(args.seed)
        self.fixed = args.fixed
        self.online, self.target = Network(), Network()
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), 1e-4, fused=True)
        self.obs, self.next_obs = np.zeros((2, 2000, 4, SIZE, SIZE), np.float32)
        self.actions, self.rewards = np.zeros(2000, np.int64), np.zeros(2000, np.float32)
        self.seen = np.zeros((0, SIZE, SIZE), np.float32)
        self.stored = self.updates = 0

    def act(self, states, taken, epsilon):
        with torch.inference_mode():
            values = self.online(torch.from_numpy(states)).numpy()
        values = np.where(self.rng.random((LANES, 1)) < epsilon, self.rng.random(values.shape), values)
        return np.where(taken.reshape(LANES, -1), -np.inf, values).argmax(1)

    def keep(self, state, action, reward, next_state):
        i = self.stored % 2000
        self.obs[i], self.actions[i], self.rewards[i], self.next_obs[i] = state, action, reward, next_state
        self.stored += 1

    def remember(self, burned):
        """The latest maps of fires, for later."""
        if "seen" in self.fixed:
            if not len(self.seen):
                self.seen = np.zeros((KEPT, SIZE, SIZE), np.float32)
            self.seen[self.stored % len(self.seen)] = burned
        else:
            self.seen = np.concatenate([self.seen, burned[None].astype(np.float32)])[-KEPT:]  # <- B

    def train(self):
        rows = self.rng.integers(min(self.stored, 2000), size=8)
        with torch.no_grad():
            goal = (
                torch.from_numpy(self.rewards[rows])
                + 0.95 * self.target(torch.from_numpy(self.next_obs[rows])).max(1).values
            )
        values = self.online(torch.from_numpy(self.obs[rows]))
        loss = nn.functional.mse_loss(values.gather(1, torch.from_numpy(self.actions[rows])[:, None])[:, 0], goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 100 == 0:
            self.target.load_state_dict(self.online.state_dict())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", nargs="*", default=[], choices=["fuel", "seen", "prints", "speed"])
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    trainer = Trainer(args)
    tiles = [Landscape(args.seed + i) for i in range(2)]
    envs = [FireEnv(tiles[i % 2], "fuel" in args.fixed, args.seed + i) for i in range(LANES)]
    states = np.stack([env.reset() for env in envs])
    times, total, steps, began, episode_began = [], 0, 0, None, time.perf_counter()
    while began is None or time.perf_counter() - began[0] < args.seconds:
        taken = np.stack([env.breaks for env in envs])
        actions = trainer.act(states, taken, max(0.1, 1 - steps / 2000))
        for i, env in enumerate(envs):
            state, reward, done, _ = env.step(int(actions[i]))
            trainer.keep(states[i], actions[i], reward, state)
            trainer.remember(env.burned)
            states[i] = state
            if "prints" not in args.fixed:
                print("step", steps, "lane", i, "cell", actions[i], "reward", reward, "fire", env.burned[:12])  # <- C
        steps += LANES
        total += LANES
        if done:
            times.append(time.perf_counter() - episode_began)
            episode_began = time.perf_counter()
            states = np.stack([env.reset() for env in envs])
            if "speed" in args.fixed:
                print(f"episode {steps // STEPS // LANES}: {STEPS * LANES / times[-1]:.1f} experiences/sec")
            else:
                times = times[-5:]
                print(f"episode {steps // STEPS // LANES}: {total / sum(times):.1f} experiences/sec")  # <- D
        if trainer.stored > 64 and steps % 8 == 0:
            trainer.train()
            if began is None:
                began = time.perf_counter(), steps, trainer.updates
    seconds, steps, updates = time.perf_counter() - began[0], steps - began[1], trainer.updates - began[2]
    print(json.dumps({"env_steps": steps, "updates": updates, "batch": 8, "seconds": seconds}))


if __name__ == "__main__":
    main()
