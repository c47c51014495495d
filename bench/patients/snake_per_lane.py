"""256 games of snake at once, with an environment that calls itself vectorised. Transitions are pushed lane by lane,
number by number; collisions and the flood fill are Python loops; 64 updates follow every batched step."""

import argparse
import collections
import json
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
GRID, LONGEST, LIMIT = 10, 64, 500
MOVES = torch.tensor([[0, -1], [1, 0], [0, 1], [-1, 0]])
TURN = torch.tensor([0, -1, 1])


class VectorSnake:
    """Actions straight, left, right; 10 features of sight and, with flood, 3 of room."""

    def __init__(self, lanes, flood, fixed, seed):
        self.lanes, self.flood, self.fixed = lanes, flood, fixed
        self.generator = torch.Generator().manual_seed(seed)
        self.body = torch.zeros(lanes, LONGEST, 2, dtype=torch.int64)
        self.length = torch.zeros(lanes, dtype=torch.int64)
        self.heading = torch.zeros(lanes, dtype=torch.int64)
        self.food = torch.zeros(lanes, 2, dtype=torch.int64)
        self.age = torch.zeros(lanes, dtype=torch.int64)

    def reset(self):
        self.start(torch.ones(self.lanes, dtype=torch.bool))
        return self.features()

    def start(self, which):
        number = int(which.sum())
        self.body[which] = -1
        self.body[which, :3] = torch.tensor([[5, 5], [4, 5], [3, 5]])
        self.length[which], self.heading[which], self.age[which] = 3, 1, 0
        self.food[which] = torch.randint(0, GRID, (number, 2), generator=self.generator)

    def collides(self, cell):
        """Whether each lane's cell is a wall or its own body."""
        wall = ((cell < 0) | (cell >= GRID)).any(1)
        if "collisions" in self.fixed:
            return wall | (self.body == cell[:, None]).all(2).any(1)
        hit = torch.zeros(self.lanes, dtype=torch.bool)
        for lane in range(self.lanes):  # <- B
            hit[lane] = (self.body[lane, : self.length[lane]] == cell[lane]).all(1).any()
        return wall | hit

    def room(self, cell):
        """The share of free cells that can be reached from a cell, by breadth-first search."""
        if "flood" in self.fixed:
            return self.room_of_all(cell)
        out = torch.zeros(self.lanes)
        for lane in range(self.lanes):  # <- C
            start, body = tuple(cell[lane].tolist()), {tuple(c) for c in self.body[lane].tolist()}
            if start in body or not (0 <= start[0] < GRID and 0 <= start[1] < GRID):
                continue
            seen, queue = {start}, collections.deque([start])
            while queue:
                x, y = queue.popleft()
                for near in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                    if 0 <= near[0] < GRID and 0 <= near[1] < GRID and near not in seen and near not in body:
                        seen.add(near)
                        queue.append(near)
            out[lane] = min(1.0, len(seen) / (GRID * GRID - int(self.length[lane])))
        return out

    def room_of_all(self, cell):
        """The same for all lanes at once: the reached set grows by one ring per operation."""
        free = np.zeros((self.lanes, GRID + 2, GRID + 2), bool)
        free[:, 1:-1, 1:-1] = True
        body, lane = self.body.numpy(), np.arange(self.lanes)
        rows, parts = np.nonzero(body[:, :, 0] >= 0)
        free[rows, body[rows, parts, 0] + 1, body[rows, parts, 1] + 1] = False
        seen = np.zeros_like(free)
        at = np.clip(cell.numpy(), -1, GRID) + 1
        seen[lane, at[:, 0], at[:, 1]] = free[lane, at[:, 0], at[:, 1]]
        before = -1
        while (count := int(seen.sum())) != before:
            before = count
            grown = seen.copy()
            grown[:, 1:] |= seen[:, :-1]
            grown[:, :-1] |= seen[:, 1:]
            grown[:, :, 1:] |= seen[:, :, :-1]
            grown[:, :, :-1] |= seen[:, :, 1:]
            seen = grown & free
        share = seen.sum((1, 2)) / (GRID * GRID - self.length.numpy())
        return torch.from_numpy(np.minimum(1.0, share).astype(np.float32))

    def features(self):
        head = self.body[:, 0]
        cells = [head + MOVES[(self.heading + turn) % 4] for turn in (0, -1, 1)]
        parts = [self.collides(cell)[:, None].float() for cell in cells]
        parts += [(head + MOVES[(self.heading + 2) % 4] == self.food).all(1, keepdim=True).float()]
        gap = self.food - head
        parts += [
            (gap[:, 1:] < 0).float(),
            (gap[:, :1] > 0).float(),
            (gap[:, 1:] > 0).float(),
            (gap[:, :1] < 0).float(),
        ]
        parts += [(self.heading == k)[:, None].float() for k in (1, 2)]
        if self.flood:
            parts += [self.room(cell)[:, None] for cell in cells]
        return torch.cat(parts, 1)

    def step(self, actions):
        self.heading = (self.heading + TURN[actions]) % 4
        head = self.body[:, 0] + MOVES[self.heading]
        dead = self.collides(head)
        ate = (head == self.food).all(1) & ~dead
        near = (self.body[:, 0] - self.food).abs().sum(1) - (head - self.food).abs().sum(1)
        self.body = torch.cat([head[:, None], self.body[:, :-1]], 1)
        self.length = (self.length + ate).clamp(max=LONGEST)
        self.body[torch.arange(LONGEST)[None] >= self.length[:, None]] = -1
        self.food[ate] = torch.randint(0, GRID, (int(ate.sum()), 2), generator=self.generator)
        self.age += 1
        reward = -0.01 + 0.05 * near + 10.0 * ate - 10.0 * dead
        done = dead | (self.age >= LIMIT)
        if done.any():
            self.start(done)
        return self.features(), reward, done, {}


class Replay:
    def __init__(self, width, size=100_000):
        self.obs, self.next_obs = np.zeros((2, size, width), np.float32)
        self.actions = np.zeros(size, np.int64)
        self.rewards, self.ends = np.zeros((2, size), np.float32)
        self.size, self.stored = size, 0

    def push(self, obs, action, reward, next_obs, done):
        i = self.stored % self.size
        self.obs[i], self.actions[i], self.rewards[i] = obs, action, reward
        self.next_obs[i], self.ends[i] = next_obs, done
        self.stored += 1

    def push_batch(self, *fields):
        rows = np.arange(self.stored, self.stored + len(fields[0])) % self.size
        for array, values in zip((self.obs, self.actions, self.rewards, self.next_obs, self.ends), fields, strict=True):
            array[rows] = values.numpy()
        self.stored += len(rows)

    def sample(self, rng):
        rows = rng.integers(min(self.stored, self.size), size=64)
        arrays = (self.obs, self.actions, self.rewards, self.next_obs, self.ends)
        return [torch.from_numpy(array[rows]) for array in arrays]


def mlp(inputs):
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))


def train_step(online, target, optimizer, replay, rng):
    obs, actions, rewards, next_obs, ends = replay.sample(rng)
    with torch.no_grad():
        goal = rewards + 0.99 * (1 - ends) * target(next_obs).max(1).values
    loss = nn.functional.smooth_l1_loss(online(obs).gather(1, actions[:, None])[:, 0], goal)
    optimizer.zero_grad()
    loss.backward()  # <- D
    optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=256)
    parser.add_argument("--no-flood", action="store_true")
    parser.add_argument("--fixed", nargs="*", default=[], choices=["push", "collisions", "flood", "updates"])
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env = VectorSnake(args.lanes, not args.no_flood, args.fixed, args.seed)
    states = env.reset()
    replay = Replay(states.shape[1])
    online, target = mlp(states.shape[1]), mlp(states.shape[1])
    optimizer = torch.optim.Adam(online.parameters(), 1e-3, fused=True)
    number = args.lanes // (8 if "updates" in args.fixed else 4)
    vector_steps, began, updates = 0, None, 0
    while began is None or time.perf_counter() - began[0] < args.seconds:
        epsilon = max(0.05, 1 - vector_steps / 40)
        with torch.no_grad():
            actions = online(states).argmax(1)
        random = torch.rand(args.lanes) < epsilon
        actions[random] = torch.randint(0, 3, (int(random.sum()),))
        next_states, rewards, dones, _ = env.step(actions)
        if "push" in args.fixed:
            replay.push_batch(states, actions, rewards, next_states, dones)
        else:
            for i in range(args.lanes):
                replay.push(
                    states[i].cpu().numpy(),  # <- A
                    actions[i].item(), rewards[i].item(), next_states[i].cpu().numpy(), dones[i].item(),
                )  # fmt: skip
        states = next_states
        if replay.stored > 1000:
            for _ in range(number):
                train_step(online, target, optimizer, replay, rng)
                updates += 1
            if began is None:
                began = time.perf_counter(), vector_steps, updates
        vector_steps += 1
        if vector_steps % 1000 == 0:  # counts batched steps, so 64,000 updates lie between two copies
            target.load_state_dict(online.state_dict())
    seconds, steps = time.perf_counter() - began[0], (vector_steps - 1 - began[1]) * args.lanes
    print(json.dumps({"env_steps": steps, "updates": updates - began[2], "batch": 64, "seconds": seconds}))


if __name__ == "__main__":
    main()
