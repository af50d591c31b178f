"""CUDA's stream semantics as a simulator: traces together with the true cause of every wait.

It is written from CUDA's rules and from what was measured on a GPU, apart from `overlane.analysis`, so that
the two can be held against one another. `docs/simulator.md` says what it models and what it does not.
"""

from __future__ import annotations

from overlane.simulate.checking import ProgramError
from overlane.simulate.program import (
    Access,
    Allocate,
    AllocateAsync,
    Buffer,
    Context,
    ContextSync,
    Copy,
    Costs,
    Device,
    DeviceSync,
    EventQuery,
    EventSync,
    Free,
    FreeAsync,
    Graph,
    GraphLaunch,
    HostAccess,
    HostFunction,
    HostWork,
    ImplicitCall,
    Launch,
    Memset,
    Node,
    Program,
    Record,
    Recording,
    Release,
    Statement,
    Stream,
    StreamQuery,
    StreamSync,
    Thread,
    ValueWait,
    WaitEvent,
)  # fmt: skip
from overlane.simulate.running import Simulated, run
from overlane.simulate.truth import Hazard, IdlePart, Truth, WaitPart

__all__ = [
    "Access", "Allocate", "AllocateAsync", "Buffer", "Context", "ContextSync", "Copy", "Costs", "Device",
    "DeviceSync", "EventQuery", "EventSync", "Free", "FreeAsync", "Graph", "GraphLaunch", "Hazard",
    "HostAccess", "HostFunction", "HostWork", "IdlePart", "ImplicitCall", "Launch", "Memset", "Node",
    "Program", "ProgramError", "Record", "Recording", "Release", "Simulated", "Statement", "Stream",
    "StreamQuery", "StreamSync", "Thread", "Truth", "ValueWait", "WaitEvent", "WaitPart", "run",
]  # fmt: skip
