"""Which request of service_chain an allocation serves, whose data centre's turn it is, and what the heuristic would do.
Changes nothing but the turn."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel
from hotloop.envs._bitboard import ONE, popcount
from hotloop.envs._service_chain_network import NO_WAY, has_room, lowest, nth_in_order, way
from hotloop.envs._service_chain_requests import deadline_of, first_word, now_of, oldest_traffic
from hotloop.envs._service_chain_tables import (
    ACTION,
    ALLOCATE,
    CHAIN,
    KINDS,
    LEAST_KBPS,
    LENGTH,
    MOST_KBPS,
    STAGES,
    WAIT,
    WORDS_EACH,
)

HERE_BONUS, ELSEWHERE_BONUS = 10.0, -5.0
URGENT_MS, URGENCY, SOFTENING_MS = 10.0, 100.0, 0.001
_KINDS = len(KINDS)
_FRESH, _HERE, _ELSEWHERE = range(3)  # groups of requests: given no VNF yet; one of theirs is here; none of theirs is


@kernel
def priority(left_ms, bonus):
    """P1 + P2 + P3 of the paper. Within one group it falls with the time left."""
    return bonus - left_ms + (URGENCY / (left_ms + SOFTENING_MS) if left_ms < URGENT_MS else 0.0)


@kernel
def _left_ms(lane, kind, traffic, per_ms):
    return (deadline_of(kind, traffic, per_ms) - now_of(lane, per_ms)) / (ACTION * per_ms)


@kernel
def choose(lane, vnf, per_ms):
    """Of the requests that wait for this VNF and can come to the current data centre, the one of greatest priority; of
    equals the one generated first. Returns it with its path to here, and from its last VNF home; or -1."""
    best, best_there, best_home = -1, 0, 0
    best_priority, best_traffic = -np.inf, 0
    for kind in range(_KINDS):
        for stage in range(LENGTH[kind]):
            if CHAIN[kind, stage] != vnf or not lane.waiting_bundles[kind, stage]:
                continue
            for group in range(_HERE if stage else _FRESH, _ELSEWHERE + 1 if stage else _FRESH + 1):
                bonus = 0.0 if group == _FRESH else HERE_BONUS if group == _HERE else ELSEWHERE_BONUS
                r, traffic, there, home = _first(lane, kind, stage, group, bonus, best_priority, per_ms)
                if r < 0:
                    continue
                found = priority(_left_ms(lane, kind, traffic, per_ms), bonus)
                earlier = traffic < best_traffic or (traffic == best_traffic and r < best)  # rows are in order of kinds
                if found > best_priority or (found == best_priority and earlier):
                    best, best_there, best_home, best_priority, best_traffic = r, there, home, found, traffic
    return best, best_there, best_home


@kernel
def _first(lane, kind, stage, group, bonus, least, per_ms):
    """The most urgent request of a kind, stage and group that can come here, unless its priority is below `least`:
    (request or -1, its traffic, its path here, its path home)."""
    d, last, bundles = lane.current, stage + 1 == LENGTH[kind], lane.waiting_bundles[kind, stage]
    alike = np.int64(LEAST_KBPS[kind] == MOST_KBPS[kind])  # where one finds no way, no other of its kind does
    unreachable, no_return = 0, 0
    while bundles:
        traffic = oldest_traffic(lane, bundles)
        if priority(_left_ms(lane, kind, traffic, per_ms), bonus) < least:
            break
        bundles &= bundles - ONE
        first = first_word(kind, traffic)
        for word in range(first, first + WORDS_EACH[kind]):
            some = lane.waiting[stage, word]
            if group == _HERE:
                some &= lane.visited[d, word]
            elif group == _ELSEWHERE:
                some &= ~lane.visited[d, word]
            while some:
                r = 64 * word + lowest(some)
                some &= some - ONE
                request = lane.request[r]
                at, goal, kbps = np.int64(request.at), np.int64(request.destination), np.int64(request.kbps)
                if (unreachable >> at | no_return >> goal) & 1:
                    continue
                there = way(lane, at, d, kbps, 0)
                if there == NO_WAY:
                    unreachable |= alike << at
                    continue
                home = way(lane, d, goal, kbps, there) if last else 0
                if home != NO_WAY:
                    return r, traffic, there, home
                if there == 0:
                    no_return |= alike << goal
    return -1, 0, 0, 0


@kernel
def wanted_vnfs(lane):
    """The VNFs that some request waits for, as bits."""
    wanted = 0
    for kind in range(_KINDS):
        for stage in range(LENGTH[kind]):
            if lane.waiting_bundles[kind, stage]:
                wanted |= 1 << CHAIN[kind, stage]
    return wanted


# --- whose turn it is ------------------------------------------------------------------------------------------------


@kernel
def take_turn(lane, per_ms):
    """Set the data centre that stands at the present place of the order: along the remaining path of the most urgent
    request, then the others."""
    r, at, path = _most_urgent(lane, per_ms), 0, NO_WAY
    if r >= 0:
        request = lane.request[r]
        at = np.int64(request.at)
        path = way(lane, at, np.int64(request.destination), np.int64(request.kbps), 0)
    lane.current = nth_in_order(lane.centres, lane.place, at, path)


@kernel
def _most_urgent(lane, per_ms):
    """The waiting request with the least time left; of equals the one generated first. -1 where none waits."""
    best_kind, best_traffic, best_deadline = -1, 0, 0
    for kind in range(_KINDS):
        bundles = _any_stage(lane, kind)
        if bundles:
            traffic = oldest_traffic(lane, bundles)
            deadline = deadline_of(kind, traffic, per_ms)
            if best_kind < 0 or (deadline, traffic) < (best_deadline, best_traffic):
                best_kind, best_traffic, best_deadline = kind, traffic, deadline
    if best_kind < 0:
        return -1
    word = first_word(best_kind, best_traffic)
    while not _any_stage_of(lane, word):
        word += 1
    return 64 * word + lowest(_any_stage_of(lane, word))


@kernel
def _any_stage(lane, kind):
    """The bundles with waiting requests."""
    bundles = lane.waiting_bundles[kind, 0]
    for stage in range(1, STAGES):
        bundles |= lane.waiting_bundles[kind, stage]
    return bundles


@kernel
def _any_stage_of(lane, word):
    """The waiting requests of a word."""
    some = lane.waiting[0, word]
    for stage in range(1, STAGES):
        some |= lane.waiting[stage, word]
    return some


# --- the heuristic ---------------------------------------------------------------------------------------------------


@kernel
def advise(lanes, per_ms, actions):
    """Requests by least time left: the first one for whom the current data centre is the best of those on its
    remaining path is given its next VNF. Waits where there is none."""
    bundles = np.zeros(_KINDS, np.uint64)
    for i in range(actions.shape[0]):
        lane = lanes[i]
        for kind in range(_KINDS):
            bundles[kind] = _any_stage(lane, kind)
        actions[i] = WAIT
        while actions[i] == WAIT:
            kind, traffic, least = -1, 0, 0
            for k in range(_KINDS):
                if bundles[k]:
                    born = oldest_traffic(lane, bundles[k])
                    deadline = deadline_of(k, born, per_ms)
                    if kind < 0 or (deadline, born) < (least, traffic):
                        kind, traffic, least = k, born, deadline
            if kind < 0:
                break
            bundles[kind] &= bundles[kind] - ONE
            actions[i] = _advise_bundle(lane, kind, first_word(kind, traffic))


@kernel
def _advise_bundle(lane, kind, first):
    for word in range(first, first + WORDS_EACH[kind]):
        some = _any_stage_of(lane, word)
        while some:
            r = 64 * word + lowest(some)
            some &= some - ONE
            vnf = CHAIN[kind, lane.request[r].stage]
            if has_room(lane, lane.current, vnf) and _best_on_path(lane, r, vnf) == lane.current:
                return ALLOCATE + vnf
    return WAIT


@kernel
def _best_on_path(lane, r, vnf):
    """Of the data centres with room on the remaining path of a request the one that it has been in, and else the one
    with the greatest share of free CPU. -1 where there is none."""
    request = lane.request[r]
    at = np.int64(request.at)
    path = way(lane, at, np.int64(request.destination), np.int64(request.kbps), 0)
    if path == NO_WAY:
        return -1
    best, best_worth = -1, -1.0
    for place in range(popcount(np.uint64(path)) + 1):
        d = nth_in_order(lane.centres, place, at, path)
        if has_room(lane, d, vnf):
            hosted = np.int64(lane.visited[d, r >> 6] >> np.uint64(r & 63) & ONE)
            worth = 100 * hosted + lane.free_cpu[d] / lane.cpu[d]
            if worth > best_worth:
                best, best_worth = d, worth
    return best
