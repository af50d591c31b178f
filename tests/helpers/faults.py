"""A kit of odd Kineto files, each with the outcome that is right for it.

The cases are the ways in which real files were seen or reported to break readers. A case that can be read
states its device figures as literals worked by hand; a case that cannot names words of which one must stand
in the sentence that refuses it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from helpers.kineto import Fault, Raw, Readable, Refused, as_text, copy, document, kernel, launch

__all__ = ["FAULTS", "PLAIN"]


def _stream_ids(*expected: int | None) -> Callable[[Any], None]:
    def check(trace: Any) -> None:
        assert sorted(trace.table("ops")["stream_id"].to_pylist(), key=str) == sorted(expected, key=str)

    return check


def _names(*expected: str) -> Callable[[Any], None]:
    def check(trace: Any) -> None:
        assert sorted(trace.table("ops")["name"].to_pylist()) == sorted(expected)

    return check


def _failed(check_name: str) -> Callable[[Any], None]:
    def check(trace: Any) -> None:
        (found,) = (item for item in trace.header.integrity if item.check == check_name)
        assert (found.status, found.count) == ("failed", 1)

    return check


def _counters(trace: Any) -> None:
    samples = trace.table("counters")
    assert sorted(samples["at_ns"].to_pylist()) == [1000, 1000, 2000, 2000]
    assert sorted(samples["value"].to_pylist()) == [1, 1, 2.5, 2.5]
    assert len(set(samples["track"].to_pylist())) == 2
    assert trace.table("instants")["scope"].to_pylist() == ["thread", "process", "global"]


def _rank(expected: int | None) -> Callable[[Any], None]:
    def check(trace: Any) -> None:
        assert trace.ranks == (expected,)

    return check


def _starts(*expected: int) -> Callable[[Any], None]:
    def check(trace: Any) -> None:
        starts = trace.table("ops")["start_ns"].to_pylist()
        assert [start - starts[0] for start in starts] == list(expected)

    return check


PLAIN = document(launch(100, 5), kernel(110, 20), copy(120, 20, "Memcpy HtoD (Pinned -> Device)", stream=8))
PLAIN_OUTCOME = Readable({0: 30_000}, 2)  # 110-130 and 120-140


def _valid(name: str, text: str, outcome: Readable, **more: Any) -> Fault:
    return Fault(name, text.encode(), outcome, **more)


def _shapes() -> list[Fault]:
    """Return files that are valid JSON with unusual content."""
    epoch = "1718293847561"
    return [
        _valid(
            "partly overlapping on one stream",
            document(kernel("3.0", "3.776"), kernel("5.0", "2.0")),
            Readable({0: 4_000}, 2),
        ),
        _valid(
            "nested and equal starts on one stream",
            document(kernel(10, 9), kernel(10, 3), kernel(12, 2), kernel(19, 1)),
            Readable({0: 10_000}, 4),
        ),
        _valid(
            "one stream number on three devices",
            document(*(kernel(10 * d, 20, device=d, stream=17) for d in (1, 2, 3))),
            Readable(
                {1: 20_000, 2: 20_000, 3: 20_000},
                3,
                also=lambda trace: _equal(trace.table("streams").num_rows, 3),
            ),
        ),
        _valid(
            "graph replay: 400 kernels of one launch",
            document(launch(0, 30, name="cudaGraphLaunch"), *(kernel(50 + 10 * i, 8) for i in range(400))),
            Readable({0: 3_200_000}, 400),
        ),
        _valid(
            "no launch and dangling arrows",
            document(
                kernel(10, 5, correlation=77),
                {"ph": "f", "id": 9, "pid": 0, "tid": 7, "ts": 10, "cat": "ac2g", "name": "ac2g", "bp": "e"},
            ),
            Readable({0: 5_000}, 1, dropped=1),
        ),
        _valid(
            "no correlation at all",
            document(kernel(10, 5) | {"args": {"device": 0, "stream": 7}}),
            Readable({0: 5_000}, 1),
        ),
        _valid("kernel before its launch", document(launch(12, 5), kernel(10, 5)), Readable({0: 5_000}, 1)),
        _valid(
            "19-digit stamps that touch",
            document(
                kernel(f"{epoch}234.567", "0.433"),
                copy(f"{epoch}235.000", "0.001", "Memcpy DtoH (Device -> Pinned)", stream=8),
            ),
            Readable({0: 434}, 2, also=_starts(0, 433)),
        ),
        _valid(
            "19-digit stamps 50 ns apart",
            document(*(kernel(f"{epoch}234.{50 * i:03d}", "0.050") for i in range(20))),
            Readable({0: 1_000}, 20, also=_starts(*range(0, 1000, 50))),
        ),
        _valid(
            "ids and stamps as text",
            as_text(
                {
                    "traceEvents": [
                        kernel(0, 0, device="0", stream="7", correlation="5")
                        | {"ts": f"{epoch}234.567", "dur": "2.5"},
                        kernel(0, 0, device="0", stream="stream 9", correlation="6")
                        | {"ts": f"{epoch}236.067", "dur": "2"},
                    ]
                }
            ),
            Readable({0: 3_500}, 2, also=_stream_ids(7, 9)),
            clean=document(
                kernel(f"{epoch}234.567", "2.5", correlation=5),
                kernel(f"{epoch}236.067", "2", stream=9, correlation=6),
            ),
        ),
        _valid(
            "unset lanes",
            document(kernel(10, 5, stream=-1), kernel(20, 5, stream=4294967295), kernel(30, 5, stream=7)),
            Readable({0: 15_000}, 3, also=_stream_ids(None, None, 7)),
        ),
        _valid(
            "synchronizations are not work",
            document(
                kernel(10, 5),
                kernel(90, 5),
                *(
                    {
                        "ph": "X",
                        "cat": "cuda_sync",
                        "name": "Stream Wait Event",
                        "pid": 0,
                        "tid": 7,
                        "ts": 20 + 3 * i,
                        "dur": 2,
                        "args": {
                            "cuda_sync_kind": "Stream Wait Event",
                            "stream": 7,
                            "device": 0,
                            "context": 1,
                            "correlation": i,
                        },
                    }
                    for i in range(20)
                ),
                {
                    "ph": "X",
                    "cat": "cuda_sync",
                    "name": "Context Sync",
                    "pid": 0,
                    "tid": -1,
                    "ts": 30,
                    "dur": 60,
                    "args": {
                        "cuda_sync_kind": "Context Sync",
                        "stream": 4294967295,
                        "device": 0,
                        "context": 1,
                        "correlation": 99,
                    },
                },
            ),
            Readable(
                {0: 10_000}, 2, also=lambda trace: _equal(trace.table("syncs")["stream_id"].null_count, 1)
            ),
        ),
        _valid(
            "30 zero-length kernels at one instant",
            document(kernel(5, 1), *(kernel(40, 0) for _ in range(30))),
            Readable({0: 1_000}, 31),
        ),
        _valid("only a zero-length kernel", document(kernel(5, 0)), Readable({0: 0}, 1)),
        _valid(
            "negative duration",
            document(kernel(10, 5), kernel(12, -5), kernel(20, 5)),
            Readable({0: 10_000}, 3, also=_failed("impossible_durations")),
            clean=document(kernel(10, 5), kernel(12, 0), kernel(20, 5)),
        ),
        _valid(
            "giant slice over 500 others",
            document(kernel(0, 100_000), *(kernel(10 * i, 8) for i in range(1, 501))),
            Readable({0: 100_000_000}, 501),
        ),
        _valid(
            "annotations on the device's lanes",
            document(
                kernel(10, 5),
                *(
                    {
                        "ph": "X",
                        "cat": "gpu_user_annotation",
                        "name": "step",
                        "pid": 0,
                        "tid": 7,
                        "ts": 0,
                        "dur": 100,
                        "args": {"External id": 3},
                    }
                    for _ in range(2)
                ),
            ),
            Readable(
                {0: 5_000},
                1,
                also=lambda trace: _equal(
                    trace.table("ranges")["track"].to_pylist(), ["device_annotation"] * 2
                ),
            ),
        ),
        _valid(
            "bookkeeping spans with text ids",
            document(
                kernel(10, 5),
                {
                    "ph": "X",
                    "cat": "Trace",
                    "ts": 0,
                    "dur": 900,
                    "pid": "Spans",
                    "tid": "PyTorch Profiler",
                    "name": "PyTorch Profiler (0)",
                    "args": {"Op count": 0},
                },
            ),
            Readable(
                {0: 5_000},
                1,
                also=lambda trace: _equal(trace.table("ranges")["track"].to_pylist(), ["profiler"]),
            ),
        ),
        _valid(
            "counters and instants of all scopes",
            document(
                kernel(10, 5),
                *(
                    {"ph": "C", "name": "memory", "pid": 50, "ts": t, "args": {"a": 1, "b": 2.5}}
                    for t in (11, 12)
                ),
                *({"ph": "i", "s": s, "name": f"at {s}", "pid": 50, "tid": 50, "ts": 13} for s in "tpg"),
            ),
            Readable({0: 5_000}, 1, also=_counters),
        ),
        _valid(
            "devices beyond the list",
            document(kernel(10, 5, device=2), kernel(10, 7, device=9)),
            Readable({2: 5_000, 9: 7_000}, 2),
        ),
        _valid(
            "empty objects first and last",
            document({}, kernel(10, 5), {}),
            Readable({0: 5_000}, 1, dropped=2),
        ),
        _valid("no distributedInfo", document(kernel(10, 5)), Readable({0: 5_000}, 1, also=_rank(None))),
        _valid(
            "distributedInfo without rank",
            document(kernel(10, 5), before={"distributedInfo": {"backend": "nccl"}}),
            Readable({0: 5_000}, 1, also=_rank(None)),
        ),
        _valid(
            "rank after the events",
            document(kernel(10, 5), before={}, after={"distributedInfo": {"rank": 3, "world_size": 8}}),
            Readable({0: 5_000}, 1, also=_rank(3)),
        ),
        _valid("bare list", as_text([kernel(10, 5), launch(5, 1)]), Readable({0: 5_000}, 1)),
        _valid(
            "capital categories of 2020",
            as_text(
                [
                    kernel(10, 5) | {"cat": "Kernel", "tid": "stream 7"},
                    launch(5, 1) | {"cat": "Runtime", "tid": "99"},
                ]
            ),
            Readable({0: 5_000}, 1),
        ),
        _valid(
            "unknown top-level keys and a decoy list",
            document(
                kernel(10, 5),
                before={
                    "metadata": {"traceEvents": [kernel(1, 1)], "note": '"traceEvents": ['},
                    "numbers": [1, [2, {"x": []}]],
                    "n": None,
                },
                after={"ERROR": ["a ] b } c"], "depth": [[[[1]]]], "traceName": "x"},
            ),
            Readable({0: 5_000}, 1),
        ),
        _valid(
            "brackets and quotes in names",
            document(kernel(10, 5, name='a "},{" b \\ [') | {"tid": 7}, kernel(20, 5)),
            Readable({0: 10_000}, 2, also=_names('a "},{" b \\ [', "k")),
        ),
        _valid(
            "escaped names",
            document(kernel(10, 5)).replace('"k"', r'"\u00e9\n\ud83d\ude00\/"'),
            Readable({0: 5_000}, 1, also=_names("\u00e9\n\U0001f600/")),
        ),
        _valid(
            "Greek and Chinese names",
            document(kernel(10, 5, name="πυρήνας 内核")),
            Readable({0: 5_000}, 1, also=_names("πυρήνας 内核")),
        ),
        _valid("exponents", document(kernel("1.0e1", "4.2e1")), Readable({0: 42_000}, 1)),
        _valid(
            "arguments beyond 64 bits",
            document(kernel(10, 5, args={"address": Raw("18446744073709551615"), "huge": Raw("9" * 40)})),
            Readable({0: 5_000}, 1),
        ),
        _valid(
            "deep arguments",
            document(kernel(10, 5, args={"deep": Raw("[" * 50 + "]" * 50)})),
            Readable({0: 5_000}, 1),
        ),
        _valid(
            "arguments that are null or a list",
            document(kernel(10, 5), launch(1, 1) | {"args": None}, launch(2, 1) | {"args": [1, "}"]}),
            Readable({0: 5_000}, 1),
        ),
        _valid(
            "arguments before the phase",
            document(dict(reversed(list(kernel(10, 5).items())))),
            Readable({0: 5_000}, 1),
        ),
        _valid("no spaces", json.dumps(json.loads(PLAIN), separators=(",", ":")), PLAIN_OUTCOME),
        _valid(
            "windows line ends", json.dumps(json.loads(PLAIN), indent=1).replace("\n", "\r\n"), PLAIN_OUTCOME
        ),
        _valid("no device work", document(launch(10, 5)), Readable({}, 0)),
        _valid("no events", document(), Readable({}, 0)),
        _valid(
            "slice without a start",
            document(kernel(10, 5), {k: v for k, v in kernel(1, 1).items() if k != "ts"}),
            Readable({0: 5_000}, 1, dropped=1),
            clean=document(kernel(10, 5), {}),
        ),
    ]


def _broken() -> list[Fault]:
    """Return files that are not quite JSON, or not quite gzip, and can be read all the same."""
    plain = PLAIN.encode()
    half = len(plain) // 2
    strange = [
        ("invalid escapes", document(kernel(10, 5)).replace('"k"', r'"C:\Users\sp\kernel"')),
        ("bare N/A beside the text N/A", document(kernel(10, 5, args={"a": Raw("N/A"), "b": "N/A"}))),
        (
            "bare NaN and infinities",
            document(
                kernel(
                    10,
                    5,
                    args=dict.fromkeys("a", Raw("inf"))
                    | {"b": Raw("-inf"), "c": Raw("nan"), "d": Raw("NaN"), "e": Raw("Infinity")},
                )
            ),
        ),
        ("raw tab in a name", document(kernel(10, 5)).replace('"k"', '"a\tb"')),
        ("comma after the last event", document(kernel(10, 5)).replace("}]", "},\n]")),
    ]
    one = document(kernel(10, 5))
    faults = [Fault(name, text.encode(), Readable({0: 5_000}, 1), clean=one) for name, text in strange]
    bytes_in_name = document(kernel(10, 5)).encode().replace(b'"k"', b'"a\xff\xfeb"')
    return [
        *faults,
        Fault("name that is not UTF-8", bytes_in_name, Readable({0: 5_000}, 1), clean=one),
        Fault("byte order mark", b"\xef\xbb\xbf" + plain, PLAIN_OUTCOME, clean=PLAIN),
        Fault("gzip", gzip.compress(plain), PLAIN_OUTCOME, ".json.gz", PLAIN),
        Fault(
            "gzip of two members",
            gzip.compress(plain[:half]) + gzip.compress(plain[half:]),
            PLAIN_OUTCOME,
            ".json.gz",
            PLAIN,
        ),
        Fault("gzip with a plain name", gzip.compress(plain), PLAIN_OUTCOME, ".json", PLAIN),
        Fault("plain with a foreign suffix", plain, PLAIN_OUTCOME, ".txt", PLAIN),
    ]


def _unreadable() -> list[Fault]:
    """Return files that must be refused."""
    plain, packed = PLAIN.encode(), gzip.compress(PLAIN.encode())
    long = document(*(kernel(10 * i, 5) for i in range(5000))).encode()
    return [
        Fault("empty", b"", Refused(("empty",))),
        Fault("empty gzip", gzip.compress(b""), Refused(("empty", "without content")), ".json.gz"),
        Fault(
            "cut inside the last string",
            plain[: plain.rindex(b"Memcpy") + 3],
            Refused(("cut", "end", "truncated", "incomplete")),
        ),
        Fault(
            "cut after an event",
            long[: long.rindex(b"},") + 1],
            Refused(("cut", "end", "truncated", "incomplete")),
        ),
        Fault(
            "cut gzip",
            gzip.compress(long)[:-200],
            Refused(("cut", "gzip", "damaged", "truncated")),
            ".json.gz",
        ),
        Fault(
            "gzip without its last bytes",
            packed[:-4],
            Refused(("cut", "gzip", "damaged", "truncated")),
            ".json.gz",
        ),
        Fault(
            "gzip with a flipped bit",
            packed[:30] + bytes([packed[30] ^ 64]) + packed[31:],
            Refused(),
            ".json.gz",
        ),
        Fault("not a gzip under its name", b"hello, this is text\n" * 10, Refused(), ".json.gz"),
        Fault("text", b"Nothing to see here.\n" * 20, Refused()),
        Fault("zero bytes", bytes(4096), Refused()),
        Fault("picture", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), Refused(), ".png"),
        Fault("page", b"<!doctype html><html><body>404</body></html>", Refused(), ".json"),
        Fault("empty object", b"{}", Refused()),
        Fault("other JSON", b'{"name": "package", "version": "1.0"}', Refused()),
        Fault("list of numbers", b"[1, 2, 3]", Refused()),
        Fault("null", b"null", Refused()),
        Fault("events that are no list", b'{"schemaVersion": 1, "traceEvents": 5}', Refused()),
        Fault("name with raw quotes", PLAIN.replace('"k"', '"{"a": "b"}"').encode(), Refused()),
    ]


def _equal(found: Any, expected: Any) -> None:
    assert found == expected


FAULTS: tuple[Fault, ...] = (*_shapes(), *_broken(), *_unreadable())
