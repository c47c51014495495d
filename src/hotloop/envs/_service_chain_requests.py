"""The requests of service_chain from their arrival to their end: the sets they are in, the events they wait for, what
they hold. Chooses none of them."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import below
from hotloop.envs._bitboard import ONE
from hotloop.envs._lanes import COUNT, KEY
from hotloop.envs._service_chain_network import install, lowest, take, travel_us
from hotloop.envs._service_chain_state import BORN_NOW, EVERYWHERE, WHAT_BITS
from hotloop.envs._service_chain_tables import (
    ACTION,
    CHAIN,
    FEWEST,
    FIRST_WORD,
    KIND_OF,
    KINDS,
    LEAST_KBPS,
    LENGTH,
    LIMIT_MS,
    MOST,
    MOST_KBPS,
    PROCESSING_US,
    REQUESTS,
    RING,
    STAGES,
    TRAFFIC_EVERY_MS,
    VNFS,
    WORDS_EACH,
)

_KINDS = len(KINDS)


@kernel
def now_of(lane, per_ms):
    return (lane.ms * per_ms + lane.phase) * ACTION


@kernel
def deadline_of(kind, traffic, per_ms):
    """The last moment at which a request of this bundle may arrive."""
    return (TRAFFIC_EVERY_MS * traffic + LIMIT_MS[kind]) * per_ms * ACTION


@kernel
def first_word(kind, traffic):
    """Where a bundle lies; it takes WORDS_EACH."""
    return FIRST_WORD[kind] + traffic % RING[kind] * WORDS_EACH[kind]


@kernel
def bundle_bit(lane, traffic):
    """A bundle as a member of a set of bundles."""
    return ONE << np.uint64(BORN_NOW - (lane.traffic - traffic))


@kernel
def oldest_traffic(lane, bundles):
    """Which traffic brought the oldest bundle of a set that is not empty."""
    return lane.traffic - (BORN_NOW - lowest(bundles))


# --- arrival ---------------------------------------------------------------------------------------------------------


@kernel
def bring_traffic(lane):
    """One bundle of each of 1 to 6 distinct kinds."""
    key, step = lane.stream[KEY], lane.stream[COUNT]
    lane.traffic += 1
    for kind in range(_KINDS):
        lane.alive_bundles[kind] >>= ONE
        for stage in range(STAGES):
            lane.waiting_bundles[kind, stage] >>= ONE
    order = 0o543210  # a permutation of the kinds, three bits each
    for chosen in range(1 + below(key, step, 32, _KINDS)):
        here, other = 3 * chosen, 3 * (chosen + below(key, step, 33 + chosen, _KINDS - chosen))
        change = (order >> here ^ order >> other) & 7
        order ^= change << here | change << other
        _bring_bundle(lane, order >> here & 7, key, step)


@kernel
def _bring_bundle(lane, kind, key, step):
    draw = 64 + 1024 * kind
    size = FEWEST[kind] + below(key, step, draw, MOST[kind] - FEWEST[kind] + 1)
    first = first_word(kind, lane.traffic)
    for word in range(first, first + WORDS_EACH[kind]):
        lane.born[word] = lane.traffic
        for d in range(lane.centres):
            lane.visited[d, word] = np.uint64(0)
    for number in range(size):
        source = below(key, step, draw + 1 + 3 * number, lane.centres)
        destination = below(key, step, draw + 2 + 3 * number, lane.centres - 1)
        kbps = LEAST_KBPS[kind]
        if MOST_KBPS[kind] > kbps:
            kbps += below(key, step, draw + 3 + 3 * number, MOST_KBPS[kind] - kbps + 1)
        request = lane.request[64 * first + number]
        request.at, request.destination = source, destination + (destination >= source)
        request.stage, request.kbps, request.hosts = 0, kbps, 0
        request.paths[:] = 0
        bit = ONE << np.uint64(number & 63)
        lane.alive[first + (number >> 6)] |= bit
        lane.waiting[0, first + (number >> 6)] |= bit
        lane.standing[source, kind, 0] += 1
    lane.standing[EVERYWHERE, kind, 0] += size
    lane.alive_bundles[kind] |= bundle_bit(lane, lane.traffic)
    lane.waiting_bundles[kind, 0] |= bundle_bit(lane, lane.traffic)
    lane.active[kind] += size
    lane.generated[kind] += size
    lane.requests += size


# --- on the way ------------------------------------------------------------------------------------------------------


@kernel
def launch(lane, r, there, home, per_ms):
    """Request r is given its next VNF by the current data centre, which has room: it goes there along one path, and
    after its last VNF home along another. The VNF is taken for its processing time from now on, the request is on its
    way for that and for its travel."""
    request, d = lane.request[r], lane.current
    kind, stage, kbps = KIND_OF[r >> 6], np.int64(request.stage), np.int64(request.kbps)
    vnf = CHAIN[kind, stage]
    if lane.idle[d, vnf] > 0:
        lane.idle[d, vnf] -= 1
    else:
        install(lane, d, vnf, 1)
    _wait_no_more(lane, r, kind, stage)
    _stand(lane, request.at, kind, stage, -1)
    _stand(lane, d, kind, stage + 1, 1)
    lane.visited[d, r >> 6] |= ONE << np.uint64(r & 63)
    lane.hosted[d, kind, vnf] += 1
    lane.held_kbps[kind] += kbps * (take(lane, there, kbps) + take(lane, home, kbps))
    request.paths[stage] = there
    if stage + 1 == LENGTH[kind]:
        request.paths[stage + 1] = home
    request.hosts |= d << 3 * stage
    request.at, request.stage = d, stage + 1
    processed = now_of(lane, per_ms) + PROCESSING_US[vnf] * per_ms
    _expect(lane, processed, REQUESTS + d * len(VNFS) + vnf)
    through = processed + (travel_us(lane, there) + travel_us(lane, home)) * per_ms
    # What comes too late is dropped before, so that no event is ever left of a request that is gone.
    if through <= deadline_of(kind, np.int64(lane.born[r >> 6]), per_ms):
        _expect(lane, through, r)


@kernel
def _stand(lane, d, kind, stage, count):
    lane.standing[d, kind, stage] += count
    lane.standing[EVERYWHERE, kind, stage] += count


@kernel
def _wait_no_more(lane, r, kind, stage):
    """Take a request out of those who wait, and its bundle out of those with waiting ones when it was the last."""
    word = r >> 6
    lane.waiting[stage, word] &= ~(ONE << np.uint64(r & 63))
    first = first_word(kind, np.int64(lane.born[word]))
    for w in range(first, first + WORDS_EACH[kind]):
        if lane.waiting[stage, w]:
            return
    lane.waiting_bundles[kind, stage] &= ~bundle_bit(lane, np.int64(lane.born[word]))


@kernel
def _expect(lane, when, what):
    """Note an event: that request `what` is through, or that a VNF is idle again."""
    event, at = when << WHAT_BITS | what, lane.events
    lane.events = at + 1
    while at > 0 and lane.event[(at - 1) >> 1] > event:
        lane.event[at] = lane.event[(at - 1) >> 1]
        at = (at - 1) >> 1
    lane.event[at] = event


@kernel
def _next_event(lane):
    """Take the earliest event out of the heap."""
    first, last = lane.event[0], lane.events - 1
    event, at = lane.event[last], 0
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last and lane.event[child + 1] < lane.event[child]:
            child += 1
        if lane.event[child] >= event:
            break
        lane.event[at] = lane.event[child]
        at = child
    lane.event[at] = event
    lane.events = last
    return first


# --- events ----------------------------------------------------------------------------------------------------------


@kernel
def arrive(lane, per_ms):
    """All that is due by now. Returns how many requests were satisfied."""
    now, satisfied = now_of(lane, per_ms), 0
    while lane.events > 0 and lane.event[0] >> WHAT_BITS <= now:
        event = _next_event(lane)
        when, what = event >> WHAT_BITS, event & ((1 << WHAT_BITS) - 1)
        if what >= REQUESTS:
            lane.idle[(what - REQUESTS) // len(VNFS), (what - REQUESTS) % len(VNFS)] += 1
            continue
        kind, word, stage = KIND_OF[what >> 6], what >> 6, np.int64(lane.request[what].stage)
        if stage == LENGTH[kind]:
            lane.delay += when - TRAFFIC_EVERY_MS * np.int64(lane.born[word]) * per_ms * ACTION
            lane.satisfied[kind] += 1
            satisfied += 1
            _end(lane, what, kind)
        else:
            lane.waiting[stage, word] |= ONE << np.uint64(what & 63)
            lane.waiting_bundles[kind, stage] |= bundle_bit(lane, np.int64(lane.born[word]))
    return satisfied


@kernel
def drop_late(lane, per_ms, worth):
    """Drop what is older than its limit. Returns how many requests that is, and what they were worth, by kind and
    VNFs given."""
    dropped, lost = 0, 0.0
    if per_ms > 1 and lane.phase != 1:  # limits and births are whole milliseconds: late is the first action after one
        return dropped, lost
    for kind in range(_KINDS):
        while lane.alive_bundles[kind]:
            traffic = oldest_traffic(lane, lane.alive_bundles[kind])
            if now_of(lane, per_ms) <= deadline_of(kind, traffic, per_ms):
                break
            first = first_word(kind, traffic)
            for word in range(first, first + WORDS_EACH[kind]):
                while lane.alive[word]:
                    r = 64 * word + lowest(lane.alive[word])
                    stage = np.int64(lane.request[r].stage)
                    if stage < LENGTH[kind] and lane.waiting[stage, word] >> np.uint64(r & 63) & ONE:
                        _wait_no_more(lane, r, kind, stage)
                    _end(lane, r, kind)
                    dropped += 1
                    lost += worth[kind, stage]
    return dropped, lost


@kernel
def _end(lane, r, kind):
    """The request leaves with all that it holds."""
    request = lane.request[r]
    stage, kbps, hosts = np.int64(request.stage), np.int64(request.kbps), np.int64(request.hosts)
    for k in range(stage + 1):
        lane.held_kbps[kind] -= kbps * take(lane, np.int64(request.paths[k]), -kbps)
    for k in range(stage):
        lane.hosted[hosts >> 3 * k & 7, kind, CHAIN[kind, k]] -= 1
    _stand(lane, request.at, kind, stage, -1)
    lane.active[kind] -= 1
    lane.requests -= 1
    word = r >> 6
    lane.alive[word] &= ~(ONE << np.uint64(r & 63))
    traffic = np.int64(lane.born[word])
    first = first_word(kind, traffic)
    for w in range(first, first + WORDS_EACH[kind]):
        if lane.alive[w]:
            return
    lane.alive_bundles[kind] &= ~bundle_bit(lane, traffic)
