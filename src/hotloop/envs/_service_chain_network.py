"""The data centres of service_chain and the links between them: room in the ones, shortest paths over the others with
bandwidth to spare, and the order that a path puts data centres into. Knows no request."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import below, uniform
from hotloop.envs._bitboard import ONE, popcount
from hotloop.envs._lanes import COUNT, KEY
from hotloop.envs._service_chain_tables import (
    ALL_RAM,
    ALL_STORAGE,
    CENTRES,
    CPU,
    ENDS,
    KM_PER_US,
    LEAST_CPU,
    LINK,
    MOST_CPU,
    RAM,
    SIDE_KM,
    STORAGE,
)

NO_WAY = -1  # a path that does not exist; 0 is the path from a data centre to itself
_FAR = 1 << 40


@kernel
def found(lane, least, most, link_kbps):
    """New data centres, with nothing in them and nothing on the links between them."""
    key, step = lane.stream[KEY], lane.stream[COUNT]
    n = least + below(key, step, 0, most - least + 1)
    lane.centres, lane.all_cpu, lane.used_cpu, lane.used_storage = n, 0, 0, 0
    lane.installed[:] = 0
    lane.idle[:] = 0
    for d in range(CENTRES):
        cpu = LEAST_CPU + below(key, step, 1 + 3 * d, MOST_CPU - LEAST_CPU + 1) if d < n else 0
        lane.cpu[d] = lane.free_cpu[d] = cpu
        lane.free_ram[d] = ALL_RAM if d < n else 0
        lane.free_storage[d] = ALL_STORAGE if d < n else 0
        lane.all_cpu += cpu
    for link in range(len(ENDS)):
        a, b = ENDS[link, 0], ENDS[link, 1]
        dx = SIDE_KM * uniform(key, step, 2 + 3 * a) - SIDE_KM * uniform(key, step, 2 + 3 * b)
        dy = SIDE_KM * uniform(key, step, 3 + 3 * a) - SIDE_KM * uniform(key, step, 3 + 3 * b)
        us = np.int64(np.ceil(np.sqrt(dx * dx + dy * dy) / KM_PER_US))
        lane.lag_us[link] = us if b < n else 0
        lane.spare_kbps[link] = link_kbps if b < n else 0


@kernel
def has_room(lane, d, vnf):
    """Whether data centre d can give this VNF: by an idle one, or by installing one."""
    return lane.idle[d, vnf] > 0 or (
        lane.free_cpu[d] >= CPU[vnf] and lane.free_ram[d] >= RAM[vnf] and lane.free_storage[d] >= STORAGE[vnf]
    )


@kernel
def install(lane, d, vnf, count):
    """One VNF more (count = 1) or one fewer (-1) in data centre d."""
    lane.installed[d, vnf] += count
    lane.free_cpu[d] -= count * CPU[vnf]
    lane.free_ram[d] -= count * RAM[vnf]
    lane.free_storage[d] -= count * STORAGE[vnf]
    lane.used_cpu += count * CPU[vnf]
    lane.used_storage += count * STORAGE[vnf]


@kernel
def lowest(bits):
    """The number of the lowest bit that is set, of a uint64 that is not 0."""
    return popcount(bits ^ (bits - ONE)) - 1


@kernel
def way(lane, a, b, kbps, besides):
    """The shortest path from a to b with kbps to spare on each link; of equally long ones that of fewest links, then
    the one through lower numbers. `besides`: a path that is about to take as much. A mask of links, or NO_WAY."""
    if a == b:
        return 0
    # Rounding up keeps the triangle inequality, so nothing is shorter than the link itself.
    link = LINK[a, b]
    if lane.spare_kbps[link] >= kbps * (1 + (besides >> link & 1)):
        return 1 << link
    return _around(lane, a, b, kbps, besides)


@kernel
def _around(lane, a, b, kbps, besides):
    """Dijkstra from b, then from a always on to the lowest number that lies on a shortest path."""
    n = lane.centres
    distance = np.full(CENTRES, _FAR, np.int64)
    distance[b] = 0
    known = 0
    for _ in range(n):
        u = -1
        for c in range(n):
            if not known >> c & 1 and distance[c] < _FAR and (u < 0 or distance[c] < distance[u]):
                u = c
        if u < 0:
            break
        known |= 1 << u
        for c in range(n):
            if c != u and lane.spare_kbps[LINK[c, u]] >= kbps * (1 + (besides >> LINK[c, u] & 1)):
                distance[c] = min(distance[c], distance[u] + _length(lane, LINK[c, u]))
    if distance[a] == _FAR:
        return NO_WAY
    path = 0
    while a != b:
        for c in range(n):
            link = LINK[c, a]
            spare = c != a and lane.spare_kbps[link] >= kbps * (1 + (besides >> link & 1))
            if spare and distance[a] == distance[c] + _length(lane, link):
                path |= 1 << link
                a = c
                break
    return path


@kernel
def _length(lane, link):
    """Of a link, so that of equally long paths the one with fewer links is shorter."""
    return np.int64(lane.lag_us[link]) * 16 + 1


@kernel
def travel_us(lane, path):
    """How long it takes along a path."""
    us = 0
    while path:
        us += lane.lag_us[lowest(np.uint64(path))]
        path &= path - 1
    return us


@kernel
def take(lane, path, kbps):
    """Take bandwidth on every link of a path, or with kbps < 0 give it back. Returns how many links that is."""
    links = 0
    while path:
        lane.spare_kbps[lowest(np.uint64(path))] -= kbps
        path &= path - 1
        links += 1
    return links


@kernel
def nth_in_order(n, place, a, path):
    """The data centre at a place of the order: those of the path from a first, then the others by number. With path
    NO_WAY all by number."""
    listed = 0
    if path != NO_WAY:
        listed = 1 << a
        while place > 0 and path:
            for c in range(n):
                if c != a and path >> LINK[a, c] & 1:
                    path ^= 1 << LINK[a, c]
                    listed |= 1 << c
                    a = c
                    break
            place -= 1
        if place == 0:
            return a
        place -= 1
    for c in range(n):
        if not listed >> c & 1:
            if place == 0:
                return c
            place -= 1
    return a
