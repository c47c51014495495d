"""The numbers of service_chain: what functions (VNFs) need, what requests ask for, how large a world is. Knows no
rule."""

from __future__ import annotations

from math import log1p

import numpy as np

VNFS = ("NAT", "FW", "VOC", "TM", "WO", "IDPS")
NAT, FW, VOC, TM, WO, IDPS = range(6)
CPU = np.array([1, 9, 5, 13, 5, 11])  # GHz
RAM = np.array([4, 5, 11, 7, 2, 15])  # GB
STORAGE = np.array([7, 1, 13, 7, 5, 2])  # GB
PROCESSING_US = np.array([60, 30, 110, 70, 80, 20])

KINDS = ("cloud_gaming", "augmented_reality", "voip", "video_streaming", "massive_iot", "industry")
_CHAINS = (
    (NAT, FW, VOC, WO, IDPS), (NAT, FW, TM, VOC, IDPS), (NAT, FW, TM, FW, NAT),
    (NAT, FW, TM, VOC, IDPS), (NAT, FW, IDPS), (NAT, FW),
)  # fmt: skip
STAGES = 5  # of the longest chain
LENGTH = np.array([len(chain) for chain in _CHAINS])
CHAIN = np.array([chain + (-1,) * (STAGES - len(chain)) for chain in _CHAINS])  # [kind, stage] → VNF
LEAST_KBPS = np.array([4_000, 100_000, 64, 4_000, 1_000, 70_000])
MOST_KBPS = np.array([4_000, 100_000, 64, 4_000, 50_000, 70_000])
LIMIT_MS = np.array([80, 10, 100, 100, 5, 8])
FEWEST = np.array([40, 1, 100, 50, 10, 1])  # requests in a bundle
MOST = np.array([55, 4, 200, 100, 15, 4])
TRAFFIC_EVERY_MS = 4

# Actions: VNF v is UNINSTALL + v and ALLOCATE + v.
UNINSTALL, ALLOCATE, WAIT, ACTIONS = 0, 6, 12, 13

# Time is counted in units of which an action lasts ACTION, whatever the number of actions in a millisecond (per_ms): so
# a microsecond is per_ms of them, a millisecond 1000 · per_ms, and nothing is ever rounded.
ACTION, MOST_PER_MS = 1000, 1000

CENTRES = 8  # most data centres
LEAST_CPU, MOST_CPU, ALL_RAM, ALL_STORAGE = 12, 120, 256, 2048
SIDE_KM, KM_PER_US = 1000.0, 0.3

# Links between any two data centres are numbered so that n data centres have the first ones. A path is a set of links:
# bit l of a mask stands for link l.
LINKS = CENTRES * (CENTRES - 1) // 2
ENDS = np.array([(a, b) for b in range(CENTRES) for a in range(b)])
LINK = np.zeros((CENTRES, CENTRES), np.int64)
LINK[ENDS[:, 0], ENDS[:, 1]] = LINK[ENDS[:, 1], ENDS[:, 0]] = np.arange(LINKS)

# Where the requests lie. A bundle of one kind comes at most every TRAFFIC_EVERY_MS, and what is left of it is dropped
# by the first action after its limit, before new traffic comes. So at most limit // TRAFFIC_EVERY_MS + 1 bundles of a
# kind are active at once, and a ring of that many places, each for the largest bundle, always has one free for the
# next: no request is ever turned away for want of room. A place is a few words of 64 bits; request r is bit r % 64 of
# word r // 64.
RING = LIMIT_MS // TRAFFIC_EVERY_MS + 1
WORDS_EACH = (MOST + 63) // 64
FIRST_WORD = np.concatenate(([0], np.cumsum(RING * WORDS_EACH)[:-1]))
WORDS = int((RING * WORDS_EACH).sum())
KIND_OF = np.repeat(np.arange(len(KINDS)), RING * WORDS_EACH)  # [word]
REQUESTS = 64 * WORDS

# What the observation measures counts against: the VNFs that fit into the largest empty data centre, and a number of
# requests that is never exceeded. Both by logarithms, finer where it is few: of no VNF that is idle and one that is,
# more depends than of eight and nine. FILLED[vnf, count] and SHARE[count] lie between 0 and 1.
FIT = np.minimum(np.minimum(MOST_CPU // CPU, ALL_RAM // RAM), ALL_STORAGE // STORAGE)
FILLED = np.array([[log1p(n) / log1p(most) for n in range(int(FIT.max()) + 1)] for most in FIT], np.float32)
GREATEST = int((RING * MOST).max()) * STAGES
SHARE = np.array([log1p(n) / log1p(GREATEST) for n in range(GREATEST + 1)], np.float32)
