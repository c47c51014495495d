"""A correct DQN that places service chains, and is slow: it asks the network about one state per action through a
general `predict`, and makes an update of 32 after every single action. Says it wants a better training frequency."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
VNFS, CHAINS, ACTIONS = 6, 6, 13
CPU = np.array([1, 9, 5, 13, 5, 11], np.float32)
STORE = np.array([7, 1, 13, 7, 5, 2], np.float32)
LIMIT_MS = np.array([80, 10, 100, 100, 5, 8], np.float32)
LENGTHS = np.array([5, 5, 5, 5, 3, 2])


class ServiceChains:
    """One data centre: 0 waits, 1-6 uninstall, 7-12 allocate; a request dies when its time is up."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.installed = np.zeros(VNFS, np.float32)
        self.cpu, self.storage = 120.0, 2048.0
        self.waiting = self.rng.integers(1, 6, (CHAINS, VNFS)).astype(np.float32)
        self.left_ms = LIMIT_MS.copy()
        self.step_count = 0
        return self.observation()

    def observation(self):
        own = np.concatenate([self.installed, self.installed > 0, [self.storage / 2048, self.cpu / 120]])
        chains = np.concatenate([np.ones((CHAINS, 1)), self.waiting / 6, self.waiting > 0], axis=1)
        requests = np.stack([self.waiting.sum(1) / 36, self.left_ms / 100, LIMIT_MS / 100, LENGTHS / 5], axis=1)
        everywhere = np.concatenate([requests, self.waiting / 6], axis=1)
        return np.concatenate([own, chains.ravel(), everywhere.ravel()]).astype(np.float32)

    def step(self, action):
        reward = 0.0
        kind, vnf = (action - 1) // VNFS, (action - 1) % VNFS
        if action and kind == 0:
            reward = -0.5 if self.installed[vnf] else -1.0
            if self.installed[vnf]:
                self.installed[vnf] -= 1
                self.cpu += CPU[vnf]
                self.storage += STORE[vnf]
        elif action:
            chain = int(np.argmin(np.where(self.waiting[:, vnf] > 0, self.left_ms, np.inf)))
            if self.waiting[chain, vnf] <= 0 or self.cpu < CPU[vnf]:
                reward = -1.0
            else:
                self.waiting[chain, vnf] -= 1
                self.installed[vnf] += 1
                self.cpu -= CPU[vnf]
                self.storage -= STORE[vnf]
                reward = 2.0 if not self.waiting[chain].any() else 0.0
        self.left_ms -= 0.05
        late = self.left_ms < 0
        reward -= 1.5 * float(late.sum())
        self.left_ms[late] = LIMIT_MS[late]
        self.step_count += 1
        return self.observation(), reward, self.step_count >= 50, {}


class Network(nn.Module):
    """Three branches, additive attention over their features, 13 values."""

    def __init__(self):
        super().__init__()
        self.own = nn.Sequential(nn.Linear(14, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.chain, self.chains = nn.Linear(13, 64), nn.Linear(384, 64)
        self.request, self.requests = nn.Linear(10, 64), nn.Linear(384, 64)
        self.score, self.weight = nn.Linear(64, 128), nn.Linear(128, 1)
        self.head = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
            nn.Linear(64, ACTIONS),
        )  # fmt: skip

    def forward(self, x):
        own = self.own(x[:, :14])
        chains = torch.relu(self.chain(x[:, 14:92].reshape(-1, 6, 13))).flatten(1)
        requests = torch.relu(self.request(x[:, 92:].reshape(-1, 6, 10))).flatten(1)
        tokens = torch.stack([own, torch.relu(self.chains(chains)), torch.relu(self.requests(requests))], 1)
        attention = torch.softmax(self.weight(torch.tanh(self.score(tokens))), 1)
        return self.head(torch.cat([tokens.flatten(1), (attention * tokens).sum(1)], 1))


class Agent:
    def __init__(self, args):
        self.rng = np.random.default_rng(args.seed)
        self.online, self.target = Network(), Network()
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), 1e-4, fused=True)
        self.obs, self.next_obs = np.zeros((2, 10_000, 152), np.float32)
        self.actions = np.zeros(10_000, np.int64)
        self.rewards, self.ends = np.zeros((2, 10_000), np.float32)
        self.stored = self.updates = 0
        self.epsilon = 1.0

    def predict(self, states):
        """Of any number of states: in batches of 32, as a library would."""
        self.online.eval()
        rows = []
        with torch.no_grad():
            for (batch,) in DataLoader(TensorDataset(torch.as_tensor(states)), batch_size=32):
                rows.append(self.online(batch).numpy())  # <- A
        return np.concatenate(rows)

    def select_action(self, state):
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(ACTIONS))
        return int(self.predict(state[None])[0].argmax())

    def select_actions(self, states):
        """For several environments at once, which is the cure."""
        with torch.inference_mode():
            best = self.online(torch.from_numpy(states)).argmax(1).numpy()
        explore = self.rng.random(len(states)) < self.epsilon
        return np.where(explore, self.rng.integers(ACTIONS, size=len(states)), best)

    def store(self, state, action, reward, next_state, done):
        i = self.stored % len(self.actions)
        self.obs[i], self.actions[i], self.rewards[i], self.next_obs[i], self.ends[i] = (
            state, action, reward, next_state, done,
        )  # fmt: skip
        self.stored += 1

    def train(self):
        self.online.train()
        rows = self.rng.integers(min(self.stored, len(self.actions)), size=32)
        with torch.no_grad():
            best = self.target(torch.from_numpy(self.next_obs[rows])).max(1).values
            goal = torch.from_numpy(self.rewards[rows]) + 0.99 * (1 - torch.from_numpy(self.ends[rows])) * best
        values = self.online(torch.from_numpy(self.obs[rows]))
        loss = nn.functional.mse_loss(values.gather(1, torch.from_numpy(self.actions[rows])[:, None])[:, 0], goal)
        self.optimizer.zero_grad()
        loss.backward()  # <- B
        self.optimizer.step()
        self.updates += 1
        if self.updates % 50 == 0:
            self.target.load_state_dict(self.online.state_dict())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", nargs="*", default=[], choices=["acting", "updates"])
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    agent = Agent(args)
    lanes = 8 if "acting" in args.fixed else 1
    every = 4 if "updates" in args.fixed else 1
    envs = [ServiceChains(args.seed + i) for i in range(lanes)]
    states = np.stack([env.reset() for env in envs])
    steps, began = 0, None
    while began is None or time.perf_counter() - began[0] < args.seconds:
        actions = [agent.select_action(states[0])] if lanes == 1 else agent.select_actions(states)
        for i, env in enumerate(envs):
            state, reward, done, _ = env.step(int(actions[i]))
            agent.store(states[i], actions[i], reward, state, done)
            states[i] = env.reset() if done else state
        for _ in range(lanes):
            steps += 1
            agent.epsilon = max(0.05, 1 - steps / 400)
            if agent.stored > 500 and steps % every == 0:
                agent.train()
        if began is None and agent.updates >= 50:
            began = time.perf_counter(), steps, agent.updates
    seconds, steps, updates = time.perf_counter() - began[0], steps - began[1], agent.updates - began[2]
    print(json.dumps({"env_steps": steps, "updates": updates, "batch": 32, "seconds": seconds}))


if __name__ == "__main__":
    main()
