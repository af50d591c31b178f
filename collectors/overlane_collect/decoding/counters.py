"""Counters: what managed memory moved, and which context the device worked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect.activities import Kind
from overlane_collect.decoding.columns import Column, Draft, constant, stack, texts
from overlane_collect.decoding.frames import Gathered

__all__ = ["counters"]

# Counter to its track, its unit, and the field that names the device.
_MANAGED = {
    1: ("managed memory to the device", "bytes", "dst_id"),
    2: ("managed memory to the host", "bytes", "src_id"),
    3: ("page faults of the host", "faults", None),
    4: ("page faults of the device", "faults", "src_id"),
}
_SWITCHED_IN = 1


def counters(gathered: Gathered, devices: Mapping[int, int]) -> Draft:
    """Return the draft of `counters`; managed memory's are totals since the recording began.

    Args:
        gathered: The journal.
        devices: Context to device.
    """
    parts = [*_managed(gathered.records(Kind.MANAGED_MEMORY)), *_switches(gathered, devices)]
    rows = [len(part["at_ns"].values) for part in parts]
    return stack(parts, rows) if parts else {}


def _managed(records: npt.NDArray[Any]) -> list[Draft]:
    parts = []
    for counter, (track, unit, device) in _MANAGED.items():
        mine = records[(records["counter"] == counter) & (records["start"] != 0)]
        rows = len(mine)
        if not rows:
            continue
        at = np.where(mine["end"] != 0, mine["end"], mine["start"]).astype(np.int64)
        order = np.argsort(at, kind="stable")
        counted = unit == "bytes" or device is not None  # a fault of the host is one record
        amount = mine["value"].astype(np.int64) if counted else np.ones(rows, np.int64)
        parts.append(
            {
                "device_id": constant(None, rows)
                if device is None
                else Column(mine[device][order].astype(np.int64)),
                "track": constant(track, rows),
                "at_ns": Column(at[order]),
                "value": Column(np.cumsum(amount[order])),
                "unit": constant(unit, rows),
            }
        )
    return parts


def _switches(gathered: Gathered, devices: Mapping[int, int]) -> list[Draft]:
    records = gathered.records(Kind.CONTEXT_SWITCH)
    records = records[records["timestamp"] != 0]
    if not len(records):
        return []
    contexts = records["context_id"].tolist()
    found = [devices.get(context) for context in contexts]
    return [
        {
            "device_id": Column(
                np.asarray([device or 0 for device in found], np.int64),
                np.asarray([device is None for device in found]),
            ),
            "track": texts([f"context {context} on the device" for context in contexts]),
            "at_ns": Column(records["timestamp"].astype(np.int64)),
            "value": Column((records["operation"] == _SWITCHED_IN).astype(np.int64)),
            "unit": constant("1 while it is", len(records)),
        }
    ]
