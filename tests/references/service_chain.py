"""Placing service chains, written for reading: one game, requests as objects in a list, every sum made anew whenever it
is asked for. The kernels must agree with it, draw for draw. Times are whole numbers of 1 / (1000 · actions_per_step)
ms, so that an action lasts 1000 of them and a microsecond `actions_per_step`."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import ceil, log1p, sqrt

import numpy as np

from hotloop.core.random import ENV, below, stream_key, uniform

VNFS = {  # CPU GHz, RAM GB, storage GB, processing µs
    "NAT": (1, 4, 7, 60),
    "FW": (9, 5, 1, 30),
    "VOC": (5, 11, 13, 110),
    "TM": (13, 7, 7, 70),
    "WO": (5, 2, 5, 80),
    "IDPS": (11, 15, 2, 20),
}
NAMES = list(VNFS)
TYPES = {  # chain, kbit/s (or the range they are drawn from), limit ms, requests in a bundle
    "cloud_gaming": ("NAT FW VOC WO IDPS", 4_000, 80, (40, 55)),
    "augmented_reality": ("NAT FW TM VOC IDPS", 100_000, 10, (1, 4)),
    "voip": ("NAT FW TM FW NAT", 64, 100, (100, 200)),
    "video_streaming": ("NAT FW TM VOC IDPS", 4_000, 100, (50, 100)),
    "massive_iot": ("NAT FW IDPS", (1_000, 50_000), 5, (10, 15)),
    "industry": ("NAT FW", 70_000, 8, (1, 4)),
}
KINDS = list(TYPES)
CHAINS = [[NAMES.index(name) for name in TYPES[kind][0].split()] for kind in KINDS]
LIMITS = [TYPES[kind][2] for kind in KINDS]

RAM, STORAGE, TRAFFIC_EVERY_MS = 256, 2048, 4
SATISFIED, DROPPED, INVALID, NEEDED = Fraction(2), Fraction(-3, 2), Fraction(-1), Fraction(-1, 2)
MOST = 26_001  # what a count is measured against


@dataclass(eq=False)
class Request:
    kind: int
    number: int  # in its bundle
    born: int
    source: int
    destination: int
    kbps: int
    hosts: list[int] = field(default_factory=list)  # the data centre of each VNF so far
    paths: list[list[int]] = field(default_factory=list)  # travelled, or being travelled
    waiting: bool = True
    due: int = 0  # unless waiting: when it is through its VNF, and after the last one at its destination

    @property
    def stage(self) -> int:
        return len(self.hosts)

    @property
    def at(self) -> int:
        return self.hosts[-1] if self.hosts else self.source

    @property
    def left(self) -> list[int]:
        """VNFs not begun yet"""
        return CHAINS[self.kind][self.stage :]

    @property
    def order(self) -> tuple[int, int, int]:
        return self.born, self.kind, self.number


class DataCentre:
    def __init__(self, cpu: int, x: float, y: float) -> None:
        self.cpu, self.x, self.y = cpu, x, y
        self.installed, self.idle = [0] * 6, [0] * 6

    def free(self) -> list[int]:
        """CPU, RAM, storage"""
        used = [sum(n * VNFS[name][what] for n, name in zip(self.installed, NAMES, strict=True)) for what in range(3)]
        return [have - u for have, u in zip((self.cpu, RAM, STORAGE), used, strict=True)]

    def room_for(self, vnf: int) -> bool:
        needs = VNFS[NAMES[vnf]][:3]
        return self.idle[vnf] > 0 or all(f >= n for f, n in zip(self.free(), needs, strict=True))


class ServiceChain:
    def __init__(
        self, least: int, most: int, per_ms: int, traffic_ms: int, link_mbps: int, reward: str, seed: int, lane: int
    ):
        self.reward = reward
        self.least, self.most, self.per_ms, self.traffic_ms = least, most, per_ms, traffic_ms
        self.link_kbps = link_mbps * 1000
        self.key = np.uint64(stream_key(seed, ENV, lane))  # numba hands it out as a Python int
        self.count = 0
        self.begin()

    def begin(self) -> None:
        n = self.least + below(self.key, self.count, 0, self.most - self.least + 1)
        self.dcs = [
            DataCentre(
                12 + below(self.key, self.count, 1 + 3 * d, 109),
                1000.0 * uniform(self.key, self.count, 2 + 3 * d),
                1000.0 * uniform(self.key, self.count, 3 + 3 * d),
            )
            for d in range(n)
        ]
        self.actions, self.place = 0, 0
        self.requests: list[Request] = []
        self.taken: list[tuple[int, int, int]] = []  # VNFs at work: until when, where, which
        self.held: dict[frozenset[int], int] = {}  # kbit/s on each link
        self.generated, self.satisfied, self.dropped = [0] * 6, [0] * 6, [0] * 6
        self.delay, self.cpu_used, self.storage_used = 0, 0, 0
        self.traffic()
        self.turn()

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return 1000 * self.actions

    @property
    def ms(self) -> int:
        return 1000 * self.per_ms

    def left_ms(self, request: Request) -> float:
        return (request.born + LIMITS[request.kind] * self.ms - self.now) / self.ms

    def step(self, action: int) -> tuple[Fraction, bool]:
        """→ reward, whether the episode ended. The world is left as it ended; begin() goes on."""
        self.count += 1
        reward = self.act(action)
        self.actions += 1
        reward += self.advance()
        used = [dc.free() for dc in self.dcs]
        self.cpu_used += sum(dc.cpu - cpu for dc, (cpu, _, _) in zip(self.dcs, used, strict=True))
        self.storage_used += sum(STORAGE - storage for _, _, storage in used)
        if self.actions % (TRAFFIC_EVERY_MS * self.per_ms) == 0 and self.now < self.traffic_ms * self.ms:
            self.traffic()
        self.place = (self.place + 1) % len(self.dcs)
        self.turn()
        return reward, self.now >= self.traffic_ms * self.ms and not self.requests

    def advance(self) -> Fraction:
        """Let the requests arrive that are due, and drop those that are too late."""
        reward = Fraction(0)
        for when, d, vnf in self.taken:
            self.dcs[d].idle[vnf] += when <= self.now
        self.taken = [taken for taken in self.taken if taken[0] > self.now]
        for request in list(self.requests):
            limit = request.born + LIMITS[request.kind] * self.ms
            if not request.waiting and request.due <= min(self.now, limit):
                if request.left:
                    request.waiting = True
                else:
                    self.end(request)
                    self.satisfied[request.kind] += 1
                    self.delay += request.due - request.born
                    reward += SATISFIED if self.reward == "published" else 0
        for request in list(self.requests):
            if self.now - request.born > LIMITS[request.kind] * self.ms:
                self.end(request)
                self.dropped[request.kind] += 1
                reward += DROPPED if self.reward == "published" else -self.credit(request)
        return reward

    def credit(self, request: Request) -> Fraction:
        """For its VNFs so far: 1 part for the first, 2 for the second, …; all parts of its chain are what a satisfied
        request is worth more than a dropped one."""
        parts = sum(range(1, len(CHAINS[request.kind]) + 1))
        return (SATISFIED - DROPPED) * sum(range(1, request.stage + 1)) / parts

    def end(self, request: Request) -> None:
        self.hold(request.paths, -request.kbps)
        self.requests.remove(request)

    def traffic(self) -> None:
        """One bundle of each of 1 to 6 distinct types."""

        def draw(number: int, n: int) -> int:
            return int(below(self.key, self.count, number, n))

        n, kinds = len(self.dcs), list(range(6))
        for chosen in range(1 + draw(32, 6)):
            other = chosen + draw(33 + chosen, 6 - chosen)
            kinds[chosen], kinds[other] = kinds[other], kinds[chosen]
            kind = kinds[chosen]
            _, kbps, _, (fewest, most) = TYPES[KINDS[kind]]
            first = 64 + 1024 * kind
            for number in range(fewest + draw(first, most - fewest + 1)):
                source = draw(first + 1 + 3 * number, n)
                destination = draw(first + 2 + 3 * number, n - 1)
                destination += destination >= source
                if isinstance(kbps, tuple):
                    wanted = kbps[0] + draw(first + 3 + 3 * number, kbps[1] - kbps[0] + 1)
                else:
                    wanted = kbps
                self.requests.append(Request(kind, number, self.now, source, destination, wanted))
                self.generated[kind] += 1

    # --- the network ---------------------------------------------------------------------------------------------

    def hop(self, a: int, b: int) -> int:
        """µs from one data centre to another"""
        dx, dy = self.dcs[a].x - self.dcs[b].x, self.dcs[a].y - self.dcs[b].y
        return ceil(sqrt(dx * dx + dy * dy) / 0.3)

    def travel(self, path: list[int]) -> int:
        return sum(self.hop(a, b) for a, b in pairwise(path)) * self.per_ms

    def free_kbps(self, a: int, b: int) -> int:
        return self.link_kbps - self.held.get(frozenset((a, b)), 0)

    def hold(self, paths: list[list[int]], kbps: int) -> None:
        """Take bandwidth on every link of some paths; give it back where it is negative."""
        for path in paths:
            for a, b in pairwise(path):
                self.held[frozenset((a, b))] = self.held.get(frozenset((a, b)), 0) + kbps

    def path(self, a: int, b: int, kbps: int, besides: list[int] | None = None) -> list[int] | None:
        """The shortest path whose links all have the bandwidth free; of equally long ones that of fewest hops, then
        the one through lower numbers. `besides`: a path that will hold the bandwidth, too."""
        taken = [{c, d} for c, d in pairwise(besides or [])]
        todo = [(0, 0, [a])]
        done = set()
        while todo:
            length, hops, path = heapq.heappop(todo)
            if path[-1] == b:
                return path
            if path[-1] in done:
                continue
            done.add(path[-1])
            for c in range(len(self.dcs)):
                wide = c not in path and self.free_kbps(path[-1], c) >= kbps * (1 + taken.count({path[-1], c}))
                if wide:
                    heapq.heappush(todo, (length + self.hop(path[-1], c), hops + 1, [*path, c]))
        return None

    # --- decisions -----------------------------------------------------------------------------------------------

    def pending(self) -> list[Request]:
        return [r for r in self.requests if r.waiting]

    def turn(self) -> None:
        """Whose data centre's turn it is: along the path of the most urgent request first, then the others."""
        order: list[int] = []
        if pending := self.pending():
            urgent = min(pending, key=lambda r: (self.left_ms(r), *r.order))
            order = self.path(urgent.at, urgent.destination, urgent.kbps) or []
        order += [d for d in range(len(self.dcs)) if d not in order]
        self.current = order[self.place]

    def act(self, action: int) -> Fraction:
        here = self.dcs[self.current]
        if action == 12:
            return Fraction(0)
        vnf = action % 6
        if action < 6:
            if here.idle[vnf] == 0:
                return INVALID
            if any(vnf in request.left for request in self.requests):
                return NEEDED
            here.installed[vnf] -= 1
            here.idle[vnf] -= 1
            return Fraction(0)
        chosen = self.choose(vnf) if here.room_for(vnf) else None
        if chosen is None:
            return INVALID
        request, paths = chosen
        if here.idle[vnf] == 0:
            here.installed[vnf] += 1
        else:
            here.idle[vnf] -= 1
        before = self.credit(request)
        request.hosts.append(self.current)
        request.waiting = False
        processed = self.now + VNFS[NAMES[vnf]][3] * self.per_ms
        request.due = processed + sum(map(self.travel, paths))
        self.taken.append((processed, self.current, vnf))
        request.paths += paths
        self.hold(paths, request.kbps)
        return Fraction(0) if self.reward == "published" else self.credit(request) - before

    def choose(self, vnf: int) -> tuple[Request, list[list[int]]] | None:
        """Of the requests that wait for this VNF and can come here, the one of greatest priority, and its paths: the
        one that leads here, and after its last VNF the one to its destination."""
        candidates = [r for r in self.pending() if r.left[0] == vnf]
        for request in sorted(candidates, key=lambda r: (-self.priority(r), *r.order)):
            way = self.path(request.at, self.current, request.kbps)
            if way and len(request.left) > 1:
                return request, [way]
            home = self.path(self.current, request.destination, request.kbps, way) if way else None
            if way and home:
                return request, [way, home]
        return None

    def priority(self, request: Request) -> float:
        left = self.left_ms(request)
        affinity = 0.0 if not request.hosts else 10.0 if self.current in request.hosts else -5.0
        return -left + affinity + (100.0 / (left + 0.001) if left < 10.0 else 0.0)

    # --- what is seen --------------------------------------------------------------------------------------------

    def mask(self) -> list[bool]:
        here = self.dcs[self.current]
        wanted = {r.left[0] for r in self.pending()}
        allocate = [vnf in wanted and here.room_for(vnf) for vnf in range(6)]
        return [idle > 0 for idle in here.idle] + allocate + [True]

    def observation(self) -> dict[str, np.ndarray]:
        here = self.dcs[self.current]
        fit = [min(120 // cpu, RAM // ram, STORAGE // storage) for cpu, ram, storage, _ in VNFS.values()]
        free = here.free()
        dc = [log1p(n) / log1p(most) for n, most in zip(here.installed, fit, strict=True)]
        dc += [log1p(n) / log1p(most) for n, most in zip(here.idle, fit, strict=True)]
        dc += [free[2] / STORAGE, free[0] / 120]
        rows, everywhere = [[0] * 13 for _ in KINDS], [[0] * 7 for _ in KINDS]  # counts
        least, held = [float(limit) for limit in LIMITS], [0] * 6
        for r in self.requests:
            row, total, chain = rows[r.kind], everywhere[r.kind], CHAINS[r.kind]
            row[0] += r.at == self.current and bool(r.left)
            for vnf, host in zip(chain, r.hosts, strict=False):
                row[1 + vnf] += host == self.current
            for vnf in r.left:
                row[7 + vnf] += r.at == self.current
                total[0] += 1
            if r.left:
                total[1 + r.left[0]] += 1
            least[r.kind] = min(least[r.kind], self.left_ms(r))
            held[r.kind] += r.kbps * sum(len(path) - 1 for path in r.paths)
        bandwidth = self.link_kbps * len(self.dcs) * (len(self.dcs) - 1) // 2
        active = [sum(r.kind == kind for r in self.requests) for kind in range(6)]
        return {
            "dc": np.array(dc, np.float32),
            "here": np.array([[share(n) for n in row] for row in rows], np.float32),
            "all": np.array(
                [
                    [share(active[k]), least[k] / LIMITS[k], held[k] / bandwidth, *map(share, everywhere[k])]
                    for k in range(6)
                ],
                np.float32,
            ),
        }

    def measures(self) -> list[float]:
        satisfied = sum(self.satisfied)
        delay = self.delay / satisfied / self.ms if satisfied else float(max(LIMITS))
        cpu = self.cpu_used / (self.actions * sum(dc.cpu for dc in self.dcs))
        storage = self.storage_used / (self.actions * len(self.dcs) * STORAGE)
        out = [satisfied / sum(self.generated), delay, cpu, storage]
        return out + [float(n) for pair in zip(self.satisfied, self.generated, strict=True) for n in pair]


def share(count: int) -> float:
    """A count between 0 and 1, finer where it is small."""
    return log1p(count) / log1p(MOST - 1)
