# ruff: noqa: E501 - traces stand as text, one event a line
"""Any list of events, written as JSON: the tables equal those of a plain reader made of json.loads and Decimal."""

import json
from decimal import ROUND_HALF_UP, Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.readers import open_trace

RANGE_TRACKS = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "python_function": "python",
    "Trace": "profiler",
    "strange": "other",
}
UNSET = (None, -1, 4294967295)


class Raw(float):
    """A number that is written as given."""

    def __new__(cls, text):
        made = super().__new__(cls, float(text))
        made.text = text
        return made

    def __repr__(self):
        return self.text

    __str__ = __repr__


decimals = st.builds(
    lambda whole, fraction: Raw(f"{whole}{'.' + fraction if fraction else ''}"),
    st.one_of(st.integers(0, 10**7), st.integers(1_718_293_847_561_234, 1_718_293_847_999_999)),
    st.text("0123456789", max_size=6),
)
ids = st.one_of(st.none(), st.integers(1, 9), st.sampled_from([-1, 4294967295]))
names = st.text(max_size=12)
plain = st.one_of(st.integers(-(10**17), 10**17), st.floats(allow_nan=False, allow_infinity=False), names, st.booleans(), st.none(),
                  st.lists(st.integers(-9, 9), max_size=3), st.dictionaries(names, st.integers(), max_size=2))  # fmt: skip
others = st.dictionaries(names.map(lambda n: f"x{n}"), plain, max_size=3)


@st.composite
def event(draw):
    cat = draw(
        st.sampled_from(["kernel", "gpu_memcpy", "cuda_runtime", "cuda_driver", "cuda_sync", *RANGE_TRACKS])
    )
    args = dict(draw(others))
    for key, values in (("correlation", ids), ("External id", ids)):
        if cat != "cuda_sync" or key == "correlation":
            args[key] = draw(values)
    if cat in {"kernel", "gpu_memcpy", "cuda_sync"}:
        args |= {"device": draw(st.integers(0, 2)), "stream": draw(ids), "context": draw(ids)}
    made = {"ph": "X", "cat": cat, "name": draw(names), "pid": draw(st.integers(0, 3)), "tid": draw(st.integers(0, 3)),
            "ts": draw(decimals), "dur": draw(decimals.filter(lambda d: d < 10**8)), "args": {k: v for k, v in args.items() if v is not None or k[0] == "x"}}  # fmt: skip
    keys = draw(st.permutations(list(made)))
    return {key: made[key] for key in keys}


def ns(number):
    return int((Decimal(number.text) * 1000).to_integral_value(ROUND_HALF_UP))


def known(value):
    return None if value in UNSET else value


def expected(events):
    """Return per table its rows, by the rules, in canonical order."""
    origin = min(ns(e["ts"]) for e in events)
    tables = {"ops": [], "api_calls": [], "syncs": [], "ranges": []}
    for e in events:
        args, cat = dict(e["args"]), e["cat"]
        start = ns(e["ts"]) - origin
        taken = {key: args.pop(key, None) for key in ("correlation",)}
        if cat != "cuda_sync":
            taken["External id"] = args.pop("External id", None)
        row = {
            "start_ns": start,
            "end_ns": start + ns(e["dur"]),
            "correlation_id": known(taken["correlation"]),
        }
        if cat in {"kernel", "gpu_memcpy"}:
            args.setdefault("stream", e["tid"])  # drawn under its stream
        if cat in {"kernel", "gpu_memcpy", "cuda_sync"}:
            row |= {key + "_id": known(args.pop(key, None)) for key in ("device", "stream", "context")}
        if cat == "cuda_sync":
            tables["syncs"].append((row, args))
            continue
        row |= {"name": e["name"], "external_id": known(taken["External id"])}
        if cat in {"kernel", "gpu_memcpy"}:
            tables["ops"].append((row | {"kind": "kernel" if cat == "kernel" else "memcpy"}, args))
        elif cat in RANGE_TRACKS:
            tables["ranges"].append(
                (row | {"track": RANGE_TRACKS[cat], "process_id": e["pid"], "thread_id": e["tid"]}, args)
            )
        else:
            is_driver = cat == "cuda_driver" or (e["name"][:2] == "cu" and "A" <= e["name"][2:3] <= "Z")
            tables["api_calls"].append(
                (
                    row
                    | {
                        "api": "driver" if is_driver else "runtime",
                        "process_id": e["pid"],
                        "thread_id": e["tid"],
                    },
                    args,
                )
            )
    for name, rows in tables.items():
        rows.sort(key=lambda item: (item[0]["start_ns"], item[0]["end_ns"] * (-1 if name == "ranges" else 1)))
    return origin, tables


def encode(events):
    """json.dumps with the numbers as drawn (it would write floats by their own repr)."""
    marks = {}

    def mark(value):
        if isinstance(value, Raw):
            marks[f"@{len(marks)}@"] = value.text
            return f"@{len(marks) - 1}@"
        return value

    text = json.dumps([{key: mark(value) for key, value in e.items()} for e in events])
    for key, number in marks.items():
        text = text.replace(f'"{key}"', number)
    return text


@settings(max_examples=150, deadline=None)
@given(st.lists(event(), min_size=1, max_size=25))
def test_tables_equal_those_of_a_plain_reader(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("property") / "t.json"
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": {encode(events)}}}')
    trace = open_trace(path)
    origin, tables = expected(events)
    assert trace.header.source_events == len(events)
    assert trace.header.origin_unix_ns == (origin if origin >= 10**18 else None)
    for name, rows in tables.items():
        assert trace.table(name).num_rows == len(rows)
        for row_id, (row, attributes) in enumerate(rows):
            found = trace.row(name, row_id)
            assert {key: found[key] for key in row} == row
            assert trace.attributes(name, row_id) == attributes
