"""A chain of kernels that hops from stream to stream, each hop an event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["EventChain"]


class EventChain:
    """Shows a critical path that runs through event waits only."""

    name = "event-chain"
    description = "a chain of kernels over several streams, each waiting for the one before by an event"
    parameters: tuple[Parameter, ...] = (
        Parameter("streams", 4, "streams that take the links in turn", least=1),
        Parameter("links", 24, "kernels of the chain", least=1),
        Parameter("elements", 1 << 20, "integers that each link counts up", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run the chain; every integer must be the number of links."""
        kernel = gpu.compile(SOURCE, "plus_one")["plus_one"]
        numbers = Integers(gpu, values["elements"])
        streams = [gpu.stream(f"links {n}") for n in range(values["streams"])]
        events = [gpu.event(timing=False) for _ in range(values["links"])]
        gpu.synchronize()
        for link, event in enumerate(events):
            stream = streams[link % len(streams)]
            if link:
                gpu.wait(stream, events[link - 1])
            numbers.apply(kernel, stream)
            gpu.record(event, stream)
        gpu.synchronize()
        wrong = numbers.mismatches(values["links"] + values["shift"])
        return verdict(wrong, f"links={values['links']}")
