"""CartPole with a general DQN whose loss is said to be slow for want of vectorised tensors. It asks the target network
twice for the same values, on each of eight steps over one batch, and formats three tensors for a log that is off."""

import argparse
import json
import logging
import math
import random
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
logger = logging.getLogger("lab")
logger.setLevel(logging.INFO)
GRAVITY, POLE, FORCE, TAU = 9.8, 0.5, 10.0, 0.02


class CartPole:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def reset(self):
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        self.age = 0
        return np.array(self.state, np.float32)

    def step(self, action):
        x, v, theta, omega = self.state
        force = FORCE if action else -FORCE
        push = (force + 0.05 * omega**2 * math.sin(theta)) / 1.1
        turn = GRAVITY * math.sin(theta) - math.cos(theta) * push
        turn /= POLE * (4 / 3 - 0.1 * math.cos(theta) ** 2 / 1.1)
        acceleration = push - 0.05 * turn * math.cos(theta) / 1.1
        self.state = [x + TAU * v, v + TAU * acceleration, theta + TAU * omega, omega + TAU * turn]
        self.age += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095 or self.age >= 500
        return np.array(self.state, np.float32), 1.0, done, {}


class Replay:
    def __init__(self, size=10_000):
        self.states, self.next_states = np.zeros((2, size, 4), np.float32)
        self.actions = np.zeros(size, np.int64)
        self.rewards, self.dones = np.zeros((2, size), np.float32)
        self.size, self.stored = size, 0

    def add(self, state, action, reward, next_state, done):
        i = self.stored % self.size
        self.states[i], self.actions[i], self.rewards[i] = state, action, reward
        self.next_states[i], self.dones[i] = next_state, done
        self.stored += 1

    def sample(self, number=32):
        rows = np.random.randint(min(self.stored, self.size), size=number)
        names = ("states", "actions", "rewards", "next_states", "dones")
        return {name: torch.from_numpy(getattr(self, name)[rows]) for name in names}


class DQN:
    def __init__(self, args):
        self.fixed = args.fixed
        self.net, self.target_net = self.make_net(), self.make_net()
        self.target_net.load_state_dict(self.net.state_dict())
        self.online_net = self.eval_net = self.target_net
        self.optimizer = torch.optim.Adam(self.net.parameters(), 0.002, fused=True)
        self.memory, self.epsilon, self.updates, self.kept = Replay(), 1.0, 0, None

    @staticmethod
    def make_net():
        return nn.Sequential(nn.Linear(4, 64), nn.SELU(), nn.Linear(64, 2))

    def act(self, state):
        if random.random() < self.epsilon:
            return random.randrange(2)
        with torch.inference_mode():
            return int(self.net(torch.from_numpy(state)[None]).argmax())

    def next_values(self, batch):
        """The value of the next states; fixed: once per batch, since neither the batch nor the target changes."""
        if "target" in self.fixed and self.kept is not None and self.kept[0] is batch:
            return self.kept[1]
        with torch.no_grad():
            if "target" in self.fixed:
                values = self.eval_net(batch["next_states"]).max(1).values
            else:
                online = self.online_net(batch["next_states"])
                values = self.eval_net(batch["next_states"])  # <- B
                values = values.gather(1, online.argmax(1, keepdim=True))[:, 0]
        self.kept = batch, values
        return values

    def calc_q_loss(self, batch):
        q_preds = self.net(batch["states"])
        act_q_preds = q_preds.gather(1, batch["actions"][:, None])[:, 0]
        targets = batch["rewards"] + 0.99 * (1 - batch["dones"]) * self.next_values(batch)
        if "log" in self.fixed:
            logger.debug("act_q_preds: %s targets: %s", act_q_preds, targets)
        else:
            logger.debug(f"q_preds: {q_preds} act_q_preds: {act_q_preds}\ntargets: {targets}")  # <- A
        return nn.functional.mse_loss(act_q_preds, targets)

    def train(self):
        """Four batches, eight steps on each, every four frames."""
        for _ in range(4):
            batch = self.memory.sample()
            for _ in range(8):
                loss = self.calc_q_loss(batch)
                self.optimizer.zero_grad()
                loss.backward()  # <- C
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.optimizer.step()
                self.updates += 1
        for own, other in zip(self.target_net.parameters(), self.net.parameters(), strict=True):
            own.data.lerp_(other.data, 0.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", nargs="*", default=[], choices=["log", "target"])
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    agent, env = DQN(args), CartPole(args.seed)
    state, frame, began = env.reset(), 0, None
    while began is None or time.perf_counter() - began[0] < args.seconds:
        agent.epsilon = max(0.1, 1 - frame / 1000)
        action = agent.act(state)
        next_state, reward, done, _ = env.step(action)
        agent.memory.add(state, action, reward, next_state, done)
        state = env.reset() if done else next_state
        frame += 1
        if frame > 64 and frame % 4 == 0:
            agent.train()
            if began is None and frame > 100:
                began = time.perf_counter(), frame, agent.updates
    seconds, frames, updates = time.perf_counter() - began[0], frame - began[1], agent.updates - began[2]
    print(json.dumps({"env_steps": frames, "updates": updates, "batch": 32, "seconds": seconds}))


if __name__ == "__main__":
    main()
