"""Random programs from a seed, and smaller ones that still show what a large one showed.

Each program draws a few features, so that most are about one or two things, and a few are about all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from overlane.simulate import program as p
from overlane.simulate.calls import CALLS
from overlane.simulate.checking import ProgramError

__all__ = ["FEATURES", "random_program", "shrink"]

FEATURES = (
    "events", "legacy", "syncs", "copies", "pageable", "shapes", "priorities", "partitions",
    "host_functions", "value_waits", "graphs", "memory", "code", "programmatic", "threads",
    "devices", "contexts", "small_queue", "recording", "accesses",
)  # fmt: skip
"""What a program may be about."""

_DATA = tuple(p.Buffer(f"data {k}", 4096) for k in range(3))


@dataclass
class _Draft:
    """A program while its statements are drawn."""

    random: Random
    features: frozenset[str]
    streams: list[p.Stream] = field(default_factory=list)
    contexts: list[p.Context] = field(default_factory=list)
    devices: list[p.Device] = field(default_factory=list)
    graphs: list[p.Graph] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    kernels: int = 0
    allocated: int = 0
    live: list[str] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)

    def has(self, feature: str) -> bool:
        return feature in self.features


def random_program(seed: int, *, features: frozenset[str] | None = None, size: int = 24) -> p.Program:
    """Return the program of a seed.

    Args:
        seed: Any integer; the same one gives the same program.
        features: Names of `FEATURES` that it may use; drawn when None.
        size: Statements of a thread, at most.

    Example:
        >>> random_program(7) == random_program(7)
        True
    """
    random = Random(seed)  # noqa: S311 - a seed, not secrecy
    if features is None:
        count = random.choice((1, 2, 2, 3, 3, 4, 6, len(FEATURES)))
        features = frozenset(random.sample(FEATURES, count))
        if seed % 2:
            features |= {"accesses"}
    draft = _Draft(random, features)
    _place(draft)
    if draft.has("graphs"):
        draft.graphs = [_graph(draft, f"graph {k}") for k in range(random.choice((1, 1, 2)))]
    threads = [
        p.Thread(_statements(draft, size), 0 if k == 0 else random.randrange(20_000))
        for k in range(2 if draft.has("threads") else 1)
    ]
    if draft.flags:
        threads.append(_releasing(draft))
    return p.Program(
        tuple(threads), tuple(draft.streams), tuple(draft.devices), tuple(draft.contexts), _buffers(draft),
        tuple(draft.graphs), _costs(draft),
    )  # fmt: skip


def _costs(draft: _Draft) -> p.Costs:
    random = draft.random
    costs = p.Costs(
        launch_ns=random.choice((2_000, 4_000, 4_004)),
        kernel_ns=random.choice((900, 1_500)),
        copy_ns=random.choice((700, 1_200)),
        memset_ns=random.choice((800, 1_300)),
    )
    return replace(costs, queue_depth=random.choice((2, 3, 5))) if draft.has("small_queue") else costs


def _place(draft: _Draft) -> None:
    """Draw devices, contexts and streams."""
    random = draft.random
    draft.devices = [p.Device(k, random.choice((2, 4, 8))) for k in range(2 if draft.has("devices") else 1)]
    draft.contexts = [p.Context(1 + k, k) for k in range(len(draft.devices))]
    sms = draft.devices[0].sm_count
    if draft.has("partitions"):
        cut = random.randrange(2, sms + 1, 2)
        draft.contexts.append(p.Context(11, 0, 1, (0, cut)))
        if cut < sms:
            draft.contexts.append(p.Context(12, 0, 1, (cut, sms)))
    if draft.has("contexts"):
        draft.contexts.append(p.Context(21, 0))
    kinds = ["blocking", "nonblocking"]
    for k in range(random.randrange(2, 6)):
        context = random.choice(draft.contexts)
        kind = "nonblocking" if context.parent is not None else random.choice(kinds)
        priority = random.choice((0, 0, -1, -5)) if draft.has("priorities") else 0
        draft.streams.append(p.Stream(f"s{k}", kind, context.context_id, priority))
    if draft.has("legacy") or draft.has("pageable"):
        full = [c for c in draft.contexts if c.parent is None]
        for context in random.sample(full, random.randrange(1, len(full) + 1)):
            draft.streams.append(
                p.Stream(f"legacy {context.context_id}", "legacy_default", context.context_id)
            )
            if random.random() < 0.4:
                name = f"per-thread {context.context_id}"
                draft.streams.append(p.Stream(name, "per_thread_default", context.context_id))


def _duration(draft: _Draft) -> int:
    return int(10 ** draft.random.uniform(2.8, 4.6))


def _stream(draft: _Draft) -> str:
    return draft.random.choice(draft.streams).name


def _accesses(draft: _Draft) -> tuple[p.Access, ...]:
    random = draft.random
    if not draft.has("accesses"):
        return ()
    found = []
    for _ in range(random.randrange(3)):
        offset = random.randrange(0, 4096, 512)
        length = random.randrange(512, 4096 - offset + 1, 512)
        name = random.choice(_DATA).name
        if draft.live and random.random() < 0.4:
            name = random.choice(draft.live)
        elif draft.freed and random.random() < 0.1:
            name = random.choice(draft.freed)
        found.append(p.Access(name, random.choice(("read", "write")), offset, length))
    return tuple(found)


def _launch(draft: _Draft, stream: str) -> p.Launch:
    random = draft.random
    draft.kernels += 1
    kernel = p.Launch(stream, _duration(draft), name=f"kernel {draft.kernels}", accesses=_accesses(draft))
    if draft.has("shapes") or draft.has("priorities") or draft.has("partitions"):
        kernel = replace(
            kernel,
            blocks=random.choice((1, 2, 4, 8, 16, 40)),
            threads=random.choice((32, 256, 512, 1024, 1024)),
            registers=random.choice((16, 32, 64)),
            shared_bytes=random.choice((0, 0, 16_000, 100_000, 200_000)),
        )
    if draft.has("shapes") and random.random() < 0.2:
        if kernel.blocks <= 2 and random.random() < 0.5:
            kernel = replace(kernel, launch_type="cooperative")
        elif kernel.blocks % 2 == 0:
            kernel = replace(kernel, cluster=2)
    if draft.has("programmatic"):
        trigger = random.randrange(1, 2 * kernel.block_ns) if random.random() < 0.6 else None
        kind = "programmatic" if random.random() < 0.4 else kernel.launch_type
        kernel = replace(kernel, trigger_ns=trigger, launch_type=kind)
    if draft.has("code") and random.random() < 0.2:
        kernel = replace(kernel, loads_code=True)
    return kernel


def _copy(draft: _Draft, stream: str) -> p.Copy:
    random = draft.random
    direction = random.choice(("h2d", "h2d", "d2h", "d2d"))
    copy = p.Copy(stream, direction, _duration(draft))
    if draft.has("pageable") and direction != "d2d" and random.random() < 0.6:
        copy = replace(copy, is_pageable=True, bytes=random.choice((16 << 10, 1 << 20)))
    if draft.has("pageable") and stream.startswith("legacy") and random.random() < 0.5:
        copy = replace(copy, is_async=False)
    if copy.is_pageable and direction == "h2d":
        return copy  # when the host's side is read depends on the staging
    return replace(copy, accesses=_accesses(draft))


def _graph(draft: _Draft, name: str) -> p.Graph:
    random = draft.random
    nodes: list[p.Node] = []
    for k in range(random.randrange(1, 6)):
        work: p.Launch | p.Copy | p.Memset = replace(_launch(draft, ""), loads_code=False, trigger_ns=None)
        if isinstance(work, p.Launch) and work.launch_type == "programmatic":
            work = replace(work, launch_type="regular")
        if random.random() < 0.2:
            work = p.Memset("", _duration(draft), accesses=_accesses(draft))
        elif draft.has("copies") and random.random() < 0.3:
            work = p.Copy("", random.choice(("h2d", "d2h", "d2d")), _duration(draft))
        before = random.sample(range(k), random.randrange(k == 1, min(k, 2) + 1)) if k else []
        nodes.append(p.Node(work, tuple(sorted(before))))
    return p.Graph(name, tuple(nodes))


def _choices(draft: _Draft) -> list[Callable[[], list[p.Statement]]]:
    """Return the ways in which the next statements may be drawn, likelier ones more often."""
    random = draft.random
    events = [f"e{k}" for k in range(3)]
    ways: list[Callable[[], list[p.Statement]]] = [
        lambda: [_launch(draft, _stream(draft))],
        lambda: [_launch(draft, _stream(draft))],
        lambda: [_launch(draft, _stream(draft))],
        lambda: [p.HostWork(_duration(draft), random.choice((None, "prepare", "decode")))],
    ]
    if draft.has("copies") or draft.has("pageable"):
        ways += [lambda: [_copy(draft, _stream(draft))]] * 3
        ways.append(lambda: [p.Memset(_stream(draft), _duration(draft), accesses=_accesses(draft))])
    if draft.has("events"):
        ways += [lambda: [p.Record(random.choice(events), _stream(draft))]] * 2
        ways += [lambda: [p.WaitEvent(_stream(draft), random.choice(events))]] * 2
        ways += [lambda: _handover(draft, random.choice(events))] * 3
    if draft.has("priorities") or draft.has("shapes"):
        ways += [lambda: [_launch(draft, _stream(draft)) for _ in range(random.randrange(3, 6))]] * 2
    if draft.has("syncs"):
        ways += [lambda: [_sync(draft, events)]] * 2
    if draft.has("graphs"):
        ways += [lambda: [p.GraphLaunch(random.choice(draft.graphs).name, _stream(draft))]] * 2
    if draft.has("host_functions"):
        ways.append(lambda: [p.HostFunction(_stream(draft), _duration(draft), random.random() < 0.5)])
    if draft.has("value_waits"):
        ways.append(lambda: [_value_wait(draft)])
    if draft.has("memory"):
        ways += [lambda: [_memory(draft)]] * 2
    if draft.has("code"):
        ways.append(lambda: [_implicit(draft)])
    if draft.has("accesses"):
        ways.append(lambda: [p.HostAccess(access) for access in _accesses(draft)[:1]])
    if draft.has("recording"):
        ways.append(lambda: [p.Recording(_duration(draft))])
    return ways


def _statements(draft: _Draft, size: int) -> tuple[p.Statement, ...]:
    found: list[p.Statement] = []
    ways = _choices(draft)
    draft.live, draft.freed = [], []  # each thread uses and frees what it has allocated
    for _ in range(draft.random.randrange(3, size + 1)):
        found += draft.random.choice(ways)()
    return tuple(found)


def _sync(draft: _Draft, events: list[str]) -> p.Statement:
    random = draft.random
    plain = [s.name for s in draft.streams if s.kind != "legacy_default"]
    return random.choice(
        (
            p.EventSync(random.choice(events)),
            p.EventQuery(random.choice(events)),
            p.StreamSync(random.choice(plain)),
            p.StreamQuery(random.choice(plain)),
            p.ContextSync(random.choice([c.context_id for c in draft.contexts if c.parent is None])),
            p.DeviceSync(random.choice(draft.devices).device_id),
        )
    )


def _handover(draft: _Draft, event: str) -> list[p.Statement]:
    """Let one stream wait for what another was given, perhaps over a third one."""
    first, second, third = (_stream(draft) for _ in range(3))
    steps: list[p.Statement] = [_launch(draft, first), p.Record(event, first), p.WaitEvent(second, event)]
    if draft.random.random() < 0.3:
        steps += [p.Record(event, second), p.WaitEvent(third, event), _launch(draft, third)]
    return [*steps, _launch(draft, second)]


def _value_wait(draft: _Draft) -> p.Statement:
    draft.flags.append(f"flag {len(draft.flags)}")
    return p.ValueWait(_stream(draft), draft.flags[-1], draft.random.random() < 0.5)


def _memory(draft: _Draft) -> p.Statement:
    random = draft.random
    if not draft.live or random.random() < 0.5:
        # Addresses are not used again: a pool that hands one out on another stream would order the two.
        draft.allocated += 1
        name = f"scratch {draft.allocated}"
        draft.live.append(name)
        plain = [s.name for s in draft.streams if s.kind != "legacy_default"]
        return random.choice(
            (p.Allocate(name, _duration(draft)), p.AllocateAsync(name, random.choice(plain)))
        )
    name = draft.live.pop()
    draft.freed.append(name)
    return random.choice(
        (p.Free(name, random.choice(draft.devices).device_id), p.FreeAsync(name, _stream(draft)))
    )


def _buffers(draft: _Draft) -> tuple[p.Buffer, ...]:
    scratch = (p.Buffer(f"scratch {1 + k}", 1 << 20) for k in range(draft.allocated))
    return (*_DATA, *scratch)


def _implicit(draft: _Draft) -> p.Statement:
    calls = sorted(CALLS - {"cuMemAlloc_v2", "cuMemFree_v2"})
    device = draft.random.choice(draft.devices).device_id
    return p.ImplicitCall(draft.random.choice(calls), device, _duration(draft))


def _releasing(draft: _Draft) -> p.Thread:
    """Return a thread that sets every flag sooner or later, and is never held itself."""
    steps: list[p.Statement] = []
    for flag in draft.flags:
        steps += [p.HostWork(_duration(draft)), p.Release(flag)]
    return p.Thread(tuple(steps))


def shrink(program: p.Program, is_shown: Callable[[p.Program], bool]) -> p.Program:
    """Return a smaller program that still shows it, by leaving out statements as long as that is possible.

    Args:
        program: Program that shows it.
        is_shown: Whether a program shows it; one that cannot be played does not.

    Example:
        >>> from overlane.simulate import run
        >>> waits = lambda program: any(part.cause == "stream_order" for part in run(program).truth.waits)
        >>> seed = next(seed for seed in range(99) if waits(random_program(seed)))
        >>> sum(len(thread.statements) for thread in shrink(random_program(seed), waits).threads)
        2
    """

    def holds(candidate: p.Program) -> bool:
        try:
            return is_shown(candidate)
        except ProgramError:
            return False

    is_smaller = True
    while is_smaller:
        is_smaller = False
        for number, thread in enumerate(program.threads):
            for place in reversed(range(len(thread.statements))):
                left = program.threads[number].statements
                fewer = replace(program.threads[number], statements=left[:place] + left[place + 1 :])
                candidate = replace(
                    program, threads=(*program.threads[:number], fewer, *program.threads[number + 1 :])
                )
                if holds(candidate):
                    program, is_smaller = candidate, True
    return program
