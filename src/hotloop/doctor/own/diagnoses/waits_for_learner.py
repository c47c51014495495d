"""waits_for_learner: collecting stands still until the updates of the cycle are made."""

from __future__ import annotations

from hotloop.doctor.own.examined import Advice, Examined, of_result

LEAST = 0.2


def find(seen: Examined) -> list[Advice]:
    costs = seen.baseline.costs
    share = (costs.wait if costs.overlap else costs.update) / costs.cycle
    less = seen.best("learn_less")
    if share < LEAST or less is None:
        return []
    evidence = (
        f"the environments stand still {100 * share:.0f} % of the time, while "
        f"{seen.baseline.updates_per_cycle} updates take {costs.update / 1e6:.2f} ms"
    )
    return [of_result(less, "waits_for_learner", "the updates are the bottleneck", evidence, share)]
