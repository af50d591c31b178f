"""The list of workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from overlane_collect.errors import CollectError
from overlane_collect.workloads.alloc_in_loop import AllocInLoop
from overlane_collect.workloads.base import Workload
from overlane_collect.workloads.callback import Callback
from overlane_collect.workloads.cooperative import Cooperative
from overlane_collect.workloads.default_stream import DefaultStream
from overlane_collect.workloads.event_chain import EventChain
from overlane_collect.workloads.graph_replay import GraphReplay
from overlane_collect.workloads.green_context import GreenContext
from overlane_collect.workloads.implicit_sync import ImplicitSync
from overlane_collect.workloads.launch_bound import LaunchBound
from overlane_collect.workloads.lazy_load import LazyLoad
from overlane_collect.workloads.managed_memory import ManagedMemory
from overlane_collect.workloads.many_streams import ManyStreams
from overlane_collect.workloads.priority import Priority
from overlane_collect.workloads.programmatic_launch import ProgrammaticLaunch
from overlane_collect.workloads.stream_contract import StreamContract
from overlane_collect.workloads.sync_scope import SyncScope
from overlane_collect.workloads.two_contexts import TwoContexts
from overlane_collect.workloads.two_gpu import TwoGpu
from overlane_collect.workloads.vector_add import VectorAdd

__all__ = ["WORKLOADS", "WorkloadRegistry"]


class WorkloadRegistry:
    """Workloads by name, in the order of the list.

    Args:
        workloads: The workloads.
    """

    def __init__(self, workloads: Sequence[Workload]) -> None:
        self._workloads = {workload.name: workload for workload in workloads}

    def __iter__(self) -> Iterator[Workload]:
        return iter(self._workloads.values())

    def find(self, name: str) -> Workload:
        """Return the workload of a name.

        Raises:
            CollectError: There is none; the message lists the known ones.
        """
        if name not in self._workloads:
            raise CollectError(f"there is no workload {name!r}; known: {', '.join(self._workloads)}")
        return self._workloads[name]


WORKLOADS = WorkloadRegistry(
    [
        VectorAdd(),
        DefaultStream(),
        SyncScope(),
        Priority(),
        GreenContext(),
        StreamContract(),
        EventChain(),
        Callback(),
        ManyStreams(),
        GraphReplay(),
        AllocInLoop(),
        LaunchBound(),
        ImplicitSync(),
        LazyLoad(),
        Cooperative(),
        ProgrammaticLaunch(),
        ManagedMemory(),
        TwoContexts(),
        TwoGpu(),
    ]
)
"""All workloads."""
