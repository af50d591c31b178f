"""Which of CUPTI's kinds of records belong to what a user can choose."""

from __future__ import annotations

from collections.abc import Mapping

from overlane_collect.activities import LAYOUTS, Kind

__all__ = ["KIND_NUMBERS", "OPTIONAL", "PLACES", "kind_names"]

PLACES = (Kind.DEVICE, Kind.CONTEXT, Kind.GREEN_CONTEXT, Kind.STREAM)
"""Kinds that say where work runs; recorded always, since each comes only once."""

KIND_NUMBERS: Mapping[str, tuple[int, ...]] = {
    "kernels": (Kind.CONCURRENT_KERNEL,),
    "copies": (Kind.MEMCPY, Kind.MEMCPY2),
    "memsets": (Kind.MEMSET,),
    "syncs": (Kind.SYNCHRONIZATION,),
    "events": (Kind.CUDA_EVENT,),
    "overheads": (Kind.OVERHEAD,),
    "host-functions": (Kind.HOST_LAUNCH, Kind.GRAPH_HOST_NODE),
    "counters": (Kind.MANAGED_MEMORY, Kind.CONTEXT_SWITCH),
}
"""Kinds of `backends.base.KINDS`."""

OPTIONAL: Mapping[str, tuple[int, ...]] = {
    "allocations": (Kind.MEMORY2,),
    "markers": (Kind.MARKER, Kind.NAME),
    "external": (Kind.EXTERNAL_CORRELATION,),
}
"""Kinds that an option of their own switches."""


def kind_names(numbers: tuple[int, ...]) -> list[str]:
    """Return the names of kinds."""
    return [LAYOUTS[number].name for number in numbers]
