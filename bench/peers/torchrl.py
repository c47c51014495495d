"""TorchRL's DQN on Gymnasium's CartPole-v1, as its own recipe puts it together: collector, replay of tensors, loss
module, the update compiled by torch.compile, one thread, no logger, no evaluation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import gymnasium
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictSequential
from torch import Tensor
from torchrl.collectors import Collector
from torchrl.data import Categorical, Composite, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, HardUpdate

from bench.counting import Window, counting_rows, counting_steps, until_first_update
from bench.measure import serve, versions

STORED = ("observation", "action", *(("next", k) for k in ("observation", "reward", "done", "terminated")))
VECTOR = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}  # TorchRL resets what is over by itself


class Agent:
    def __init__(self, work: Mapping[str, Any], compiled: bool) -> None:
        """work: the terms of the comparison, in the words of stages/_cartpole.py."""
        torch.manual_seed(work["seed"])
        spec = Composite(action=Categorical(2))
        mlp = MLP(in_features=4, out_features=2, num_cells=work["hidden"], activation_class=torch.nn.ReLU)
        self.actor = QValueActor(module=mlp, spec=spec, in_keys=["observation"], action_space="categorical")
        self.loss = DQNLoss(value_network=self.actor, loss_function="smooth_l1", delay_value=True)
        self.loss.make_value_estimator(gamma=work["gamma"])
        # It counts one call more than it is told.
        self.target = HardUpdate(self.loss, value_network_update_interval=work["target_every_updates"] - 1)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=work["learning_rate"], fused=True)
        self.max_grad_norm = work["max_grad_norm"]
        self.apply: Callable[[TensorDictBase], Tensor] = torch.compile(self._apply) if compiled else self._apply

    def begin(self, seed: int) -> None:
        """As it was made, but for what has been compiled."""
        torch.manual_seed(seed)
        for module in self.actor.modules():
            if isinstance(module, torch.nn.Linear):
                fresh = torch.nn.Linear(module.in_features, module.out_features)
                module.weight.data.copy_(fresh.weight.data)
                module.bias.data.copy_(fresh.bias.data)
        self.level()
        self.target.counter = 0
        for moments in self.optimizer.state.values():
            for tensor in moments.values():
                tensor.zero_()

    def level(self) -> None:
        """The target as the network is."""
        slow = self.loss.target_value_network_params.values(True, True)
        for own, other in zip(self.parameters, slow, strict=True):
            other.data.copy_(own.data)

    def _apply(self, batch: TensorDictBase) -> Tensor:
        loss = self.loss(batch)["loss"]
        self.optimizer.zero_grad()
        loss.backward()
        if self.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.loss.parameters(), self.max_grad_norm)
        self.optimizer.step()
        return loss.detach()

    def update(self, batch: TensorDictBase) -> Tensor:
        loss = self.apply(batch)
        self.target.step()
        return loss

    @property
    def parameters(self) -> list[Tensor]:
        return [p for p in self.loss.parameters() if p.requires_grad]


@cache
def compiled(terms: str) -> Agent:
    return Agent(json.loads(terms), compiled=True)


def train(work: dict[str, Any]) -> dict[str, Any]:
    """One run -> its learning phase."""
    agent, lanes = compiled(json.dumps(work, sort_keys=True)), work["lanes"]
    agent.begin(work["seed"])
    window = Window(work, lambda: torch.nn.utils.parameters_to_vector(agent.parameters).detach().numpy())
    # Its own num_envs would start a process per lane, and wait for all of them at each step.
    together = gymnasium.make_vec("CartPole-v1", lanes, "sync", vector_kwargs=VECTOR, disable_env_checker=True)
    together.step = counting_steps(together.step, window, lanes)
    env = GymWrapper(together, categorical_action_encoding=True)
    (start, end), decay = work["epsilon"], work["epsilon_decay"]
    explore = EGreedyModule(
        spec=agent.actor.spec, eps_init=start, eps_end=end, annealing_num_steps=decay, action_key="action"
    )
    at_once = work.get("updates_at_once", 1)
    collector = Collector(
        env,
        TensorDictSequential(agent.actor, explore),
        frames_per_batch=work["env_steps_per_update"] * at_once,
        total_frames=work["total_env_steps"],
        trust_policy=True,
    )
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(work["capacity"]), batch_size=work["batch"])
    replay.sample = counting_rows(replay.sample, window, len)
    for data in collector:
        replay.extend(data.reshape(-1).select(*STORED))
        explore.step(data.numel())
        if window.env_steps <= work["learning_starts"]:
            continue
        for _ in range(at_once):
            agent.update(replay.sample().select(*STORED))
            window.updated()
    collector.shutdown()
    return window.report()


def one_update(work: dict[str, Any], params: list[float], batch: Mapping[str, Any]) -> dict[str, Any]:
    """One update from `params`, which are the target's too -> its loss, and the parameters after it."""
    agent = Agent(work, compiled=True)
    torch.nn.utils.vector_to_parameters(torch.tensor(params), agent.parameters)
    agent.level()
    column = {k: torch.tensor(v, dtype=torch.float32) for k, v in batch.items()}
    ended = column["terminated"].bool()[:, None]
    following = {
        "observation": column["next_obs"], "reward": column["reward"][:, None], "done": ended, "terminated": ended
    }  # fmt: skip
    rows = TensorDict(
        {"observation": column["obs"], "action": column["action"].long(), "next": following},
        batch_size=len(ended),
    )
    loss = agent.update(rows)
    after = torch.nn.utils.parameters_to_vector(agent.parameters)
    return {"loss": float(loss), "params": after.tolist()}


def about() -> dict[str, Any]:
    return {
        "versions": versions("torchrl", "tensordict", "torch", "numpy", "gymnasium"),
        "torch_threads": torch.get_num_threads(),
        "settings": "update by torch.compile, one thread, fused Adam, no logger, environment checker off",
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    serve({"train": train, "first_update": until_first_update(train), "one_update": one_update, "about": about})
