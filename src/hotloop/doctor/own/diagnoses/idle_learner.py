"""idle_learner: what computes the updates waits for something to learn from. On a GPU this is the idle device."""

from __future__ import annotations

from hotloop.doctor.own.examined import Advice, Examined, of_result

LEAST = 0.3
MOST_WAITING = 0.1  # of the other side: where both wait, it is the machine that is busy with something else


def find(seen: Examined) -> list[Advice]:
    costs = seen.baseline.costs
    idle = 1 - costs.update / costs.cycle
    if not costs.overlap or idle < LEAST or costs.wait > MOST_WAITING * costs.cycle:
        return []
    part = max(("env", "act"), key=lambda name: getattr(costs, name))
    of_cycle = (
        f"{'the environment' if part == 'env' else 'acting'} takes {100 * getattr(costs, part) / costs.cycle:.0f} %"
    )
    tried = [r for name in ("workers", "lanes") if (r := seen.best(name)) is not None]
    best = max(tried, key=lambda r: r.gain, default=None)
    evidence = f"the learner's thread has nothing to do {100 * idle:.0f} % of the time; {of_cycle} of a cycle"
    if best is None or best.gain <= 1.0:
        most = f"; of what was tried {best.trial.title} came nearest" if best else ""
        return [Advice("idle_learner", "collecting is the bottleneck", evidence + most, "", idle, "same learning")]
    return [of_result(best, "idle_learner", "collecting is the bottleneck", evidence, idle)]
