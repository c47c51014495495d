"""What the agent of service_chain is shown: three parts and the mask, written from tallies alone, so that it costs the
same however many requests there are. Changes nothing."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel
from hotloop.envs._service_chain_choice import wanted_vnfs
from hotloop.envs._service_chain_network import has_room
from hotloop.envs._service_chain_requests import deadline_of, now_of, oldest_traffic
from hotloop.envs._service_chain_state import EVERYWHERE
from hotloop.envs._service_chain_tables import (
    ACTION,
    ALL_STORAGE,
    ALLOCATE,
    CHAIN,
    FILLED,
    KINDS,
    LENGTH,
    LIMIT_MS,
    MOST_CPU,
    SHARE,
    UNINSTALL,
    VNFS,
    WAIT,
)

_KINDS, _VNFS = len(KINDS), len(VNFS)
PARTS = {"dc": (2 * _VNFS + 2,), "here": (_KINDS, 1 + 2 * _VNFS), "all": (_KINDS, 4 + _VNFS)}


@kernel
def show(first, last, lanes, per_ms, link_kbps, dc, here, everywhere):
    """Write the observations of lanes first … last - 1. dc, of the current data centre: VNFs installed, VNFs idle, free
    storage, free CPU."""
    counts = np.zeros(_VNFS, np.int64)
    for i in range(first, last):
        lane = lanes[i]
        d = lane.current
        for vnf in range(_VNFS):
            dc[i, vnf] = FILLED[vnf, lane.installed[d, vnf]]
            dc[i, _VNFS + vnf] = FILLED[vnf, lane.idle[d, vnf]]
        dc[i, 2 * _VNFS] = lane.free_storage[d] / ALL_STORAGE
        dc[i, 2 * _VNFS + 1] = lane.free_cpu[d] / MOST_CPU
        for kind in range(_KINDS):
            _show_here(lane, kind, counts, here, i)
            _show_all(lane, kind, per_ms, link_kbps, counts, everywhere, i)


@kernel
def _show_here(lane, kind, counts, here, i):
    """Of a kind: requests that stand in the current data centre; VNFs given by it, one number for each; VNFs that those
    who stand here still have to be given."""
    d, standing = lane.current, 0
    counts[:] = 0
    for stage in range(LENGTH[kind]):
        standing += lane.standing[d, kind, stage]
        counts[CHAIN[kind, stage]] += standing
    here[i, kind, 0] = SHARE[standing]
    for vnf in range(_VNFS):
        here[i, kind, 1 + vnf] = SHARE[lane.hosted[d, kind, vnf]]
        here[i, kind, 1 + _VNFS + vnf] = SHARE[counts[vnf]]


@kernel
def _show_all(lane, kind, per_ms, link_kbps, counts, everywhere, i):
    """Of a kind: active requests; least time left of any; share of all bandwidth that they hold; VNFs that they still
    have to be given; how many need each VNF next."""
    still = 0
    counts[:] = 0
    for stage in range(LENGTH[kind]):
        standing = lane.standing[EVERYWHERE, kind, stage]
        counts[CHAIN[kind, stage]] += standing
        still += standing * (LENGTH[kind] - stage)
    left = np.float64(LIMIT_MS[kind])
    if lane.alive_bundles[kind]:
        traffic = oldest_traffic(lane, lane.alive_bundles[kind])
        left = (deadline_of(kind, traffic, per_ms) - now_of(lane, per_ms)) / (ACTION * per_ms)
    links = lane.centres * (lane.centres - 1) // 2
    everywhere[i, kind, 0] = SHARE[lane.active[kind]]
    everywhere[i, kind, 1] = left / LIMIT_MS[kind]
    everywhere[i, kind, 2] = lane.held_kbps[kind] / (link_kbps * links)
    everywhere[i, kind, 3] = SHARE[still]
    for vnf in range(_VNFS):
        everywhere[i, kind, 4 + vnf] = SHARE[counts[vnf]]


@kernel
def allow(first, last, lanes, mask):
    """Waiting always; uninstalling what is idle; allocating what some request waits for where there is room."""
    for i in range(first, last):
        lane = lanes[i]
        wanted = wanted_vnfs(lane)
        for vnf in range(_VNFS):
            mask[i, UNINSTALL + vnf] = lane.idle[lane.current, vnf] > 0
            mask[i, ALLOCATE + vnf] = wanted >> vnf & 1 and has_room(lane, lane.current, vnf)
        mask[i, WAIT] = True
