"""What one lane of service_chain holds: everything a later step depends on, as one record, so that a kernel is handed
one pointer. Knows no rule."""

from __future__ import annotations

import numpy as np

from hotloop.core.types import Arrays
from hotloop.envs._service_chain_tables import (
    CENTRES,
    KINDS,
    LINKS,
    MOST_PER_MS,
    PROCESSING_US,
    REQUESTS,
    STAGES,
    VNFS,
    WORDS,
)

_K, _V = len(KINDS), len(VNFS)
EVERYWHERE = CENTRES  # in `standing`, the row that sums all data centres
# In sets of bundles a bundle of age a, counted in traffics, is bit 31 - a: so the oldest is the lowest, and new traffic
# shifts all sets by one.
BORN_NOW = 31

# An event is that a request is through, or, from REQUESTS on, that a VNF in a data centre is idle again. A request
# expects one at most. An action gives at most one VNF, and it is taken no longer than the slowest processing.
WHAT_BITS = 14
EVENTS = REQUESTS + MOST_PER_MS * int(PROCESSING_US.max()) // 1000 + 1
assert REQUESTS + CENTRES * _V <= 1 << WHAT_BITS

REQUEST = np.dtype(
    [
        ("at", np.int32),  # data centre of its last VNF, or its source
        ("destination", np.int32),
        ("stage", np.int32),  # VNFs that it was given
        ("kbps", np.int32),
        ("hosts", np.int32),  # data centre of each of them, three bits each
        ("paths", np.int32, (STAGES + 1,)),  # links of the way to each of them, and after the last one home
    ]
)

LANE = np.dtype(
    [
        ("stream", np.uint64, (2,)),  # see _lanes
        ("ms", np.int64),  # time: whole milliseconds, and actions within one
        ("phase", np.int64),
        ("place", np.int64),  # in the order of data centres, and which one stands there
        ("current", np.int64),
        ("traffic", np.int64),  # number of the newest traffic
        ("requests", np.int64),  # active
        ("events", np.int64),  # in the heap
        ("delay", np.int64),  # of all that were satisfied
        ("cpu_time", np.int64),  # what was in use, summed over actions
        ("storage_time", np.int64),
        ("used_cpu", np.int64),
        ("used_storage", np.int64),
        ("all_cpu", np.int64),
        ("centres", np.int64),  # how many data centres there are
        ("cpu", np.int32, (CENTRES,)),
        ("free_cpu", np.int32, (CENTRES,)),
        ("free_ram", np.int32, (CENTRES,)),
        ("free_storage", np.int32, (CENTRES,)),
        ("installed", np.int32, (CENTRES, _V)),
        ("idle", np.int32, (CENTRES, _V)),
        ("lag_us", np.int32, (LINKS,)),
        ("spare_kbps", np.int32, (LINKS,)),
        ("active", np.int64, (_K,)),
        ("held_kbps", np.int64, (_K,)),  # on links
        ("satisfied", np.int64, (_K,)),
        ("generated", np.int64, (_K,)),
        ("standing", np.int32, (CENTRES + 1, _K, STAGES + 1)),  # active requests by `at`, kind and stage
        ("hosted", np.int32, (CENTRES, _K, _V)),  # VNFs that active requests were given
        ("alive_bundles", np.uint64, (_K,)),  # sets of bundles: with active requests; with waiting ones, by stage
        ("waiting_bundles", np.uint64, (_K, STAGES)),
        ("alive", np.uint64, (WORDS,)),  # sets of requests: active; waiting, by stage; with a VNF in a data centre
        ("waiting", np.uint64, (STAGES, WORDS)),
        ("visited", np.uint64, (CENTRES, WORDS)),
        ("born", np.int32, (WORDS,)),  # number of the traffic that brought the requests of a word
        ("request", REQUEST, (REQUESTS,)),
        ("event", np.int64, (EVENTS,)),  # heap of when << WHAT_BITS | what
    ],
    align=True,
)


def new_lanes(lanes: int) -> np.recarray:
    return np.zeros(lanes, LANE).view(np.recarray)


def columns(lanes: np.recarray) -> Arrays:
    """The same memory as plain arrays, by name."""
    out = {name: np.asarray(lanes[name]) for name in LANE.names or () if name != "request"}
    return out | {f"request.{name}": np.asarray(lanes["request"][name]) for name in REQUEST.names or ()}
