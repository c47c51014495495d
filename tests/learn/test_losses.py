"""Each variant's loss, priority and value on two transitions, worked out by hand. Row 0 goes on with discount 0.9, and
its third action is illegal both before and after; row 1 is terminal."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hotloop.learn.variants._base import LossOutput, Transitions, chosen

LEGAL = torch.tensor([[True, True, False], [True, True, True]])


def batch(draws: list[list[float]] | None = None) -> Transitions:
    obs, next_obs = torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [3.0]])
    return Transitions(
        {"obs": obs}, torch.tensor([1, 0]), torch.tensor([1.0, -0.5]), torch.tensor([0.9, 0.0]), {"obs": next_obs},
        LEGAL, torch.ones(2), LEGAL, None if draws is None else torch.tensor(draws),
    )  # fmt: skip


class Table:
    """A network: states 0 to 3 as rows, and for fractions a function of row and fraction."""

    def __init__(self, rows: list, at=None) -> None:
        self.rows, self.at = torch.tensor(rows, requires_grad=True), at

    def __call__(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        found = self.rows[obs["obs"][:, 0].to(torch.int64)]
        return found if fractions is None or self.at is None else self.at(found, fractions)

    def bootstrap(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        return self(obs, fractions).detach()


def run(name: str, options: dict, online: Table, target: Table, given: Transitions | None = None) -> LossOutput:
    made, given = chosen(name, options), given or batch()
    frozen = made.module.frozen(lambda *a: target(*a).detach(), given, made.options)
    return made.module.loss(online, given, frozen, made.options)


ONLINE = Table([[0.5, 1.5, 7.0], [0.25, 2.0, 1.0], [3.0, 1.0, 8.0], [0.0, 0.0, 0.0]])
TARGET = Table([[1.0, 1.1, 9.0], [0.0, 0.0, 0.0], [1.0, 2.0, 9.0], [5.0, 5.0, 5.0]])


def test_dqn():
    """Mnih et al. 2015, doi 10.1038/nature14236, algorithm 1: y = r + γ max_a' Q⁻(s', a')."""
    out = run("dqn", {"loss": "mse"}, ONLINE, TARGET)
    # y = 1 + 0.9·2 = 2.8 and −0.5; Q(s, a) = 1.5 and 0.25
    assert out.loss.tolist() == pytest.approx([1.3**2, 0.75**2]) and out.priority.tolist() == pytest.approx([1.3, 0.75])
    assert out.q.tolist() == [1.5, 0.25]
    # Huber: |1.3| > 1 gives 1.3 − 0.5
    assert run("dqn", {}, ONLINE, TARGET).loss.tolist() == pytest.approx([0.8, 0.5 * 0.75**2])


def test_double_dqn():
    """van Hasselt et al. 2016, arXiv 1509.06461, eq. 4: the online network chooses, the target network judges."""
    # of the legal actions of state 2 the online network likes the first (3 > 1), which is worth 1: y = 1.9
    out = run("dqn", {"double": True, "loss": "mse"}, ONLINE, TARGET)
    assert out.loss.tolist() == pytest.approx([0.4**2, 0.75**2])


def test_munchausen():
    """Vieillard et al. 2020, arXiv 2007.14430, eq. 2: r + α[τ ln π(a|s)]_{l₀}^0 + γ Σ π(a'|s')(q⁻ − τ ln π(a'|s'))."""
    tau, alpha = 0.5, 0.9
    # π at state 0 over the legal actions 1.0 and 1.1; at state 2 over 1.0 and 2.0
    log_pi = 1.1 / tau - math.log(math.exp(1.0 / tau) + math.exp(1.1 / tau))
    p = [math.exp(1.0 / tau), math.exp(2.0 / tau)]
    p = [x / sum(p) for x in p]
    following = sum(x * (q - tau * math.log(x)) for x, q in zip(p, (1.0, 2.0), strict=True))
    y = [1.0 + alpha * tau * log_pi + 0.9 * following, -0.5 + alpha * tau * math.log(1 / 3)]
    out = run("munchausen", {"temperature": tau, "loss": "mse"}, ONLINE, TARGET)
    assert out.loss.tolist() == pytest.approx([(y[0] - 1.5) ** 2, (y[1] - 0.25) ** 2], rel=1e-5)
    # τ ln ⅓ = −0.549 is clipped at −0.1
    out = run("munchausen", {"temperature": tau, "loss": "mse", "lowest": -0.1}, ONLINE, TARGET)
    assert out.priority[1].item() == pytest.approx(abs(-0.5 - 0.09 - 0.25), rel=1e-5)
    # without entropy and without what is added it is DQN
    out = run("munchausen", {"temperature": 1e-4, "alpha": 0.0, "loss": "mse"}, ONLINE, TARGET)
    assert out.loss.tolist() == pytest.approx([1.3**2, 0.75**2], rel=1e-3)


def logits(*rows: list[list[float]]) -> list:
    return [[[math.log(p) for p in action] for action in row] for row in rows]


# Atoms 0, 1, 2: expected returns are p₁ + 2 p₂.
EVEN = [[1 / 3] * 3] * 3
C51_TARGET = Table(logits(EVEN, EVEN, [[0.8, 0.1, 0.1], [0.2, 0.4, 0.4], [0.05, 0.05, 0.9]], EVEN))
C51_ONLINE = Table(
    logits([[0.5, 0.25, 0.25]] * 3, [[0.25, 0.25, 0.5]] * 3, [[0.1, 0.1, 0.8], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], EVEN)
)
C51 = {"atoms": 3, "v_min": 0.0, "v_max": 2.0}


@pytest.mark.parametrize("double", [False, True])
def test_c51(double):
    """Bellemare et al. 2017, arXiv 1707.06887, algorithm 1: −Σᵢ mᵢ ln pᵢ(s, a)."""
    out = run("c51", {**C51, "double": double}, C51_ONLINE, C51_TARGET)
    # Action 1 is best of the legal ones (1.2 against 0.3); the online network would take action 0. Atoms 0, 1, 2 move
    # to 1, 1.9, and 2.8 which is cut to 2. The terminal row has all of it at −0.5, cut to 0.
    p = (0.8, 0.1, 0.1) if double else (0.2, 0.4, 0.4)
    m = [0.0, p[0] + 0.1 * p[1], 0.9 * p[1] + p[2]]
    cross = -(m[1] * math.log(0.25) + m[2] * math.log(0.25))
    assert out.loss.tolist() == pytest.approx([cross, -math.log(0.25)], rel=1e-5)
    divergence = cross + sum(x * math.log(x) for x in m if x)
    assert out.priority.tolist() == pytest.approx([divergence, -math.log(0.25)], rel=1e-5)
    assert out.q.tolist() == pytest.approx([0.75, 1.25])


QR_TARGET = Table([[[0.0, 0.0]] * 3, [[0.0, 0.0]] * 3, [[0.0, 1.0], [1.0, 3.0], [9.0, 9.0]], [[5.0, 5.0]] * 3])
QR_ONLINE = Table([[[1.0, 2.0]] * 3, [[-0.5, 1.5]] * 3, [[4.0, 4.0], [0.0, 0.0], [9.0, 9.0]], [[0.0, 0.0]] * 3])


@pytest.mark.parametrize("double", [False, True])
def test_qr_dqn(double):
    """Dabney et al. 2018, arXiv 1710.10044, algorithm 1 and eq. 10, τ̂ = ¼ and ¾: Σᵢ E_j |τ̂ᵢ − 1{u < 0}| L₁(u)."""
    out = run("qr_dqn", {"quantiles": 2, "double": double}, QR_ONLINE, QR_TARGET)
    # T θ = 1 + 0.9·(1, 3) = (1.9, 3.7), for Double 1 + 0.9·(0, 1) = (1, 1.9); θ = (1, 2)
    if double:
        row = 0.5 * (0.0 + 0.25 * 0.405) + 0.5 * (0.25 * 0.5 + 0.25 * 0.005)
    else:
        row = 0.5 * (0.25 * 0.405 + 0.25 * 2.2) + 0.5 * (0.25 * 0.005 + 0.75 * 1.2)
    # terminal: T θ = (−0.5, −0.5), θ = (−0.5, 1.5)
    assert out.loss.tolist() == pytest.approx([row, 0.25 * 1.5], rel=1e-5)
    assert out.priority.tolist() == pytest.approx([0.05 if double else 1.3, 1.0], rel=1e-5)
    assert out.q.tolist() == [1.5, 0.5]


@pytest.mark.parametrize("double", [False, True])
def test_iqn(double):
    """Dabney et al. 2018, arXiv 1806.06923, eqs. 2 and 3: δ = r + γ Z_τ'(s', π(s')) − Z_τ(s, a), and Σᵢ (1/N') Σⱼ
    ρ_τᵢ(δⱼᵢ)."""

    def at(values: Tensor, fractions: Tensor) -> Tensor:
        return values[..., None] * fractions[:, None] * 2

    online, target = (Table(t.rows.tolist(), at) for t in (ONLINE, TARGET))
    draws = [[0.5, 0.25, 1.0], [0.0, 0.5, 0.5]]  # N = 1 and N' = 2
    out = run("iqn", {"fractions": 1, "target_fractions": 2, "double": double}, online, target, batch(draws))
    # Z_τ(s, a) = 1.5; π takes action 1 (worth 2), for Double action 0 (worth 1): Z_τ' = ½ and 2 times that
    following = [1 + 0.9 * x * (1.0 if double else 2.0) for x in (0.5, 2.0)]
    u = [y - 1.5 for y in following]
    huber = [0.5 * x * x if abs(x) <= 1 else abs(x) - 0.5 for x in u]
    row = sum(abs(0.5 - (x < 0)) * h for x, h in zip(u, huber, strict=True)) / 2
    # terminal: δ = −0.5 − 0 for both τ', and τ = 0
    assert out.loss.tolist() == pytest.approx([row, 0.125], rel=1e-5)
    assert out.priority.tolist() == pytest.approx([abs(sum(following) / 2 - 1.5), 0.5], rel=1e-5)


def test_munchausen_iqn():
    """Vieillard et al. 2020, arXiv 2007.14430, section 4, on two transitions and two fractions each way."""
    tau, alpha, n = 0.5, 0.9, 2

    def at(values: Tensor, fractions: Tensor) -> Tensor:
        return values[..., None] * (0.5 + fractions[:, None])

    online, target = (Table(t.rows.tolist(), at) for t in (ONLINE, TARGET))
    draws = [[0.2, 0.7, 0.1, 0.9], [0.4, 0.5, 0.3, 0.6]]  # N = 2 and N' = 2
    options = {"temperature": tau, "alpha": alpha, "lowest": -0.3, "fractions": n, "target_fractions": 2}
    out = run("munchausen_iqn", options, online, target, batch(draws))

    def policy(values: list[float]) -> list[float]:
        weights = [math.exp(v / tau) for v in values]
        return [w / sum(weights) for w in weights]

    for row, (action, reward, discount) in enumerate([(1, 1.0, 0.9), (0, -0.5, 0.0)]):
        legal = [i for i in range(3) if LEGAL[row, i]]
        values, after = ([TARGET.rows[s, i].item() for i in legal] for s in (row, row + 2))
        log_pi = math.log(policy(values)[legal.index(action)])
        bonus = alpha * min(max(tau * log_pi, -0.3), 0.0)
        pi = policy(after)
        q = [ONLINE.rows[row, action].item() * (0.5 + draws[row][i]) for i in range(n)]
        loss, goals = 0.0, []
        for j in range(2):
            z = [v * (0.5 + draws[row][n + j]) for v in after]
            following = sum(p * (v - tau * math.log(p)) for p, v in zip(pi, z, strict=True))
            goals.append(reward + bonus + discount * following)
        for i in range(n):
            for goal in goals:
                u = goal - q[i]
                huber = 0.5 * u * u if abs(u) <= 1 else abs(u) - 0.5
                loss += abs(draws[row][i] - (u < 0)) * huber / len(goals)
        assert out.loss[row].item() == pytest.approx(loss, rel=1e-5)
        assert out.priority[row].item() == pytest.approx(abs(sum(goals) / 2 - sum(q) / n), rel=1e-5)
        assert out.q[row].item() == pytest.approx(sum(q) / n, rel=1e-5)
