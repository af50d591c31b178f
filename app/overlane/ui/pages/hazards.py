"""The page of hazards: accesses to the same bytes that nothing orders, the missing edge, and the fix."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dash import ALL, Input, Output, State, html, no_update
from dash.development.base_component import Component

from overlane.analysis.rows.hazards import hazard_counts, hazard_rows, hazard_sides
from overlane.analysis.rows.naming import op_name
from overlane.analysis.rows.needless import redundant_counts, redundant_rows, redundant_words
from overlane.analysis.rows.over_strong import checked_words, over_strong_counts, over_strong_rows
from overlane.errors import OverlaneError
from overlane.figures.units import format_bytes, format_count
from overlane.ui import ids
from overlane.ui.grids import Column, column
from overlane.ui.parts import extra, heading, notice, table
from overlane.ui.steps import window_of
from overlane.ui.studied import Scene, StudyPage, block, capped, filled
from overlane.ui.wiring import wire

if TYPE_CHECKING:
    import dash

    from overlane.analysis.study import Study
    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "hazards"
TITLE = "Hazards"

_MOST_LISTED = 1000
_MOST_FIXES = 12
_LIST = {"type": "ov-hazards-list", "page": NAME}
_DETAIL = {"type": "ov-hazards-detail", "page": NAME}
_KINDS = {
    "RAW": "read after write",
    "WAR": "write after read",
    "WAW": "write after write",
    "use_after_free": "use after free",
}
_CERTAINTIES = {
    "proven": "declared accesses, and nothing unrecorded could order them",
    "possible": "inferred accesses, or something that is not recorded could order them",
}
_HOW = (
    "The workloads of overlane run declare what they access; overlane record with --accesses infers it from "
    "the arguments of kernels and copies."
)


def _rows(study: Study) -> dict[str, Any]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415 - loads compiled code

    missing = why_unproven(study.trace, "buffer_accesses")
    waits = _waits(study)
    if missing:
        return {"missing": missing, "hazards": [], **waits}
    rows = hazard_rows(study)
    listed = rows[:_MOST_LISTED]
    return {
        **waits,
        "missing": "",
        "hazards": listed,
        "count": len(rows),
        "sides": hazard_sides(study, listed[0]) if listed else None,
        **hazard_counts(study),
    }


def _waits(study: Study) -> dict[str, Any]:
    """Return the waits that guarantee nothing, and the synchronizations that wait for too much."""
    redundant, strong = redundant_rows(study), over_strong_rows(study)
    left_out = redundant_counts(study)["redundant_waits_left_out"]
    strong_left_out = over_strong_counts(study)["over_strong_left_out"]
    return {
        "redundant": redundant[:_MOST_LISTED],
        "redundant_left_out": left_out + max(len(redundant) - _MOST_LISTED, 0),
        "strong": strong[:_MOST_LISTED],
        "strong_left_out": strong_left_out + max(len(strong) - _MOST_LISTED, 0),
        "strong_checked": checked_words(study),
    }


def _show(found: dict[str, Any], scene: Scene) -> list[Component]:
    return [*_unordered(found, scene), *_too_strong(found, scene), *_redundant(found, scene)]


def _unordered(found: dict[str, Any], scene: Scene) -> list[Component]:
    if found["missing"]:
        words = f"{found['missing']} {_HOW}"
        return [notice("Whether accesses are ordered cannot be told.", words, kind="warning")]
    unchecked = found["accesses_unchecked"]
    said = (
        f"{format_count(unchecked)} accesses name neither an operation nor a thread and were not checked."
        if unchecked
        else ""
    )
    rows = found["hazards"]
    if not rows:
        words = f"Every two accesses to the same bytes are ordered, whatever the stamps say. {said}"
        return [notice("No hazard.", words.strip())]
    return [
        _listed(found, said, scene),
        html.Div(_detail(rows[0], found["sides"], scene), id=_DETAIL, **extra(aria_live="polite")),
        _fixes(rows),
    ]


COLUMNS: list[Column] = [
    column("number", "#", form="count", width=56),
    column("kind", "kind", width=130, tooltip="kind_words"),
    column("certainty", "certainty", width=92, tooltip="certainty_words"),
    column("first", "first", width=170, renderer="link", grows=True, note="leads to it in the timeline"),
    column("second", "second", width=170, grows=True),
    column("bytes", "bytes", form="bytes", width=98, note="that both touch, from the first to the last"),
    column("address", "address", width=130),
    column("fixed_by", "fixed with", width=110, note="number of the row whose fix orders it too"),
]


def _listed(found: dict[str, Any], said: str, scene: Scene) -> Component:
    rows = found["hazards"]
    own = sum(row["implied_by"] is None for row in rows)
    more = found["count"] - len(rows) + found["hazards_left_out"]
    words = [
        f"{format_count(found['count'])} pairs of accesses, {format_count(own)} with a fix of their own.",
        f"{format_count(more)} more are not listed." if more else "",
        said,
        "Choose a row to see it.",
    ]
    numbers = {row["hazard_id"]: at for at, row in enumerate(rows, 1)}
    lines = [_line(at, row, numbers, scene) for at, row in enumerate(rows, 1)]
    box: Any = filled("ov-hazards-grid", COLUMNS, lines, "Hazards; choose a row to see it")
    box.children.id = _LIST
    box.children.dashGridOptions = {
        **box.children.dashGridOptions,
        "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
    }
    return block(
        "Unordered accesses", html.P(" ".join(word for word in words if word), className="ov-quiet"), box
    )


def _line(number: int, row: dict[str, Any], numbers: dict[int, int], scene: Scene) -> dict[str, Any]:
    first, second = row["first_op_id"], row["second_op_id"]
    shown = first if first is not None else second
    return {
        "number": number,
        "kind": row["kind"].replace("_", " "),
        "kind_words": _KINDS.get(row["kind"], row["kind"]),
        "certainty": row["certainty"],
        "certainty_words": _CERTAINTIES.get(row["certainty"], ""),
        "first": _side(row, "first", scene),
        "second": _side(row, "second", scene),
        "bytes": row["bytes"],
        "address": f"0x{row['address']:x}",
        "fixed_by": "" if row["implied_by"] is None else f"# {numbers.get(row['implied_by'], '?')}",
        "href": "" if shown is None else scene.row_href("ops", shown),
    }


def _side(row: dict[str, Any], side: str, scene: Scene) -> str:
    if row[f"{side}_op_id"] is not None:
        return op_name(scene.trace, row[f"{side}_op_id"])
    if row[f"{side}_table"] == "allocations":
        return f"free (allocation {row[f'{side}_row']})"
    return f"host access (access {row[f'{side}_row']})"


def _detail(row: dict[str, Any], sides: dict[str, Any], scene: Scene) -> list[Component]:
    """Return one hazard: drawn with the missing edge, in words, and the fix."""
    from overlane.figures.edges import Bar, missing_edge  # noqa: PLC0415 - loads Plotly

    def bar(side: dict[str, Any], *, is_party: bool = False) -> Bar:
        category = side["engine"] or "sync"
        return Bar(side["lane"], side["name"], side["start_ns"], side["end_ns"], category, is_party)

    first, second = bar(sides["first"], is_party=True), bar(sides["second"], is_party=True)
    known = [bar(side) for side in sides["around"]]
    before, after = (
        bar(sides[key]) if sides[key] else party
        for key, party in (("missing_from", first), ("missing_to", second))
    )
    extra_ends = [
        one
        for one, key in ((before, "missing_from"), (after, "missing_to"))
        if sides[key] and sides[key]["op_id"] not in {row["first_op_id"], row["second_op_id"]}
    ]
    figure = missing_edge([*known, *extra_ends, first, second], (before, after), theme=scene.theme)
    low = min(first.start_ns, second.start_ns)
    high = max(first.end_ns, second.end_ns)
    title = f"{_KINDS.get(row['kind'], row['kind'])}, {row['certainty']}: the missing edge"
    label = f"{row['fix']} The first of the two is {first.name}, the second {second.name}."
    facts = [
        [
            side,
            scene.row_link(_side(row, side, scene), "ops", row[f"{side}_op_id"])
            if row[f"{side}_op_id"] is not None
            else _side(row, side, scene),
            sides[side]["lane"],
        ]
        for side in ("first", "second")
    ]
    last = row["address"] + row["bytes"] - 1
    touched = f"{format_bytes(row['bytes'])}, 0x{row['address']:x} to 0x{last:x}"
    facts.append(["bytes that both touch", touched, ""])
    span = scene.href(low, high, selected=_op(row), is_marked=True)
    return [
        html.Section(
            [
                heading(title, note=_CERTAINTIES.get(row["certainty"], "")),
                scene.chart("edge", figure, label),
                html.P([html.Strong("Fix: "), row["fix"]]),
                table("Both sides", ["", "what", "where"], facts, hides_caption=True),
                html.P(html.A("Both in the timeline", href=span, className="ov-goto")),
            ],
            className="ov-block ov-card",
        )
    ]


def _op(row: dict[str, Any]) -> tuple[str, int] | None:
    found = [row[key] for key in ("first_op_id", "second_op_id") if row[key] is not None]
    return ("ops", found[0]) if found else None


def _fixes(rows: list[dict[str, Any]]) -> Component:
    counts: dict[str, int] = {}
    for row in rows:
        if row["implied_by"] is None:
            counts[row["fix"]] = counts.get(row["fix"], 0) + 1
    few, left = capped([[fix, format_count(count)] for fix, count in counts.items()], most=_MOST_FIXES)
    shown = table("Fixes", ["what to change", "pairs"], few, numbers=(1,), hides_caption=True)
    return block(
        "Fixes", html.Div(shown, className="ov-wrapped"), *left, note="each orders at least one pair"
    )


STRONG_COLUMNS: list[Column] = [
    column("wait", "waits for all of", width=130, renderer="link", note="leads to it in the timeline"),
    column("certainty", "certainty", width=92),
    column("op", "an event after this would do", width=260, grows=True, tooltip="change"),
    column("more", "operations beyond", form="count", width=160, note="that it waits for all the same"),
    column("last", "the last of them", width=260, grows=True),
    column("sooner", "sooner by up to", form="ns", width=130, note="held its thread for these alone"),
]

WAIT_COLUMNS: list[Column] = [
    column("wait", "wait", width=170, renderer="link", note="leads to it in the timeline"),
    column("certainty", "certainty", width=92),
    column("op", "last waits for", width=220, grows=True),
    column("known", "over anyway by", width=170, grows=True, note="what had told that it is over"),
    column("call_ns", "call", form="ns", width=100),
]


def _too_strong(found: dict[str, Any], scene: Scene) -> list[Component]:
    """Return the synchronizations in whose place an event would do, the costliest first."""
    rows = found["strong"]
    if not rows:
        checked = found["strong_checked"]
        return [notice("No synchronization is known to wait for too much.", checked)] if checked else []
    lines = [
        {
            "wait": f"{row['kind']} ({row['sync_id']})",
            "certainty": row["certainty"],
            "op": "nothing needs it" if row["op_id"] is None else op_name(scene.trace, row["op_id"]),
            "more": row["more_count"],
            "last": op_name(scene.trace, row["more_op_id"]),
            "sooner": row["sooner_ns"],
            "change": row["change"],
            "href": scene.row_href("syncs", row["sync_id"]),
        }
        for row in rows
    ]
    more = found["strong_left_out"]
    words = (
        "All of them can be replaced together."
        f"{f' {format_count(more)} more are not listed.' if more else ''} {found['strong_checked']}"
    )
    title = "Over-strong synchronizations"
    box = filled("ov-hazards-strong", STRONG_COLUMNS, lines, title)
    changes: dict[str, int] = {}
    for row in rows:
        changes[row["change"]] = changes.get(row["change"], 0) + 1
    few, left = capped([[change, format_count(count)] for change, count in changes.items()], most=_MOST_FIXES)
    name = "What to do instead"
    instead = table(name, [name.lower(), "waits"], few, numbers=(1,), hides_caption=True)
    told = [html.P(words, className="ov-quiet"), box, html.Div(instead, className="ov-wrapped"), *left]
    return [block(title, *told, note="an event would do in their place")]


def _redundant(found: dict[str, Any], scene: Scene) -> list[Component]:
    """Return the waits that guarantee nothing, in host order."""
    rows = found["redundant"]
    if not rows:
        return []
    lines = [
        redundant_words(scene.trace, row) | {"href": scene.row_href("syncs", row["sync_id"])} for row in rows
    ]
    more = found["redundant_left_out"]
    words = (
        "All of them can go together, unless the host measures time there."
        f"{f' {format_count(more)} more are not listed.' if more else ''}"
    )
    box = filled("ov-hazards-redundant", WAIT_COLUMNS, lines, "Redundant waits")
    note = "what they wait for is over anyway"
    return [block("Redundant waits", html.P(words, className="ov-quiet"), box, note=note)]


_PAGE = StudyPage(
    NAME,
    TITLE,
    "Two accesses to the same bytes, at least one a write, that nothing orders: right values prove nothing.",
    _rows,
    _show,
    "Looking for accesses that nothing orders …",
)


def layout() -> Component:
    """Return the static elements of the page."""
    return _PAGE.layout()


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    _PAGE.register(app, store)
    wire(
        app,
        partial(show_chosen, store),
        Output(_DETAIL | {"page": ALL}, "children"),
        Input(_LIST | {"page": ALL}, "selectedRows"),
        State(ids.OPEN, "data"),
        State(ids.THEME, "data"),
        first_call=False,
    )


def show_chosen(
    store: TraceStore, chosen: list[Any], state: dict[str, Any] | None, theme: str | None
) -> list[Any]:
    """Return the hazard of the row that was chosen."""
    if not chosen or not chosen[0] or not state or state["state"] != "ready":
        return [no_update for _ in chosen]
    window = window_of(state)
    try:
        opened = store.opened(state["trace"])
        found = opened and store.studies.answer(opened, window, NAME, _rows)
    except OverlaneError as error:
        return [notice("There is nothing to show.", str(error), kind="failed")]
    if not opened or not found:
        return [no_update]
    row = found["hazards"][int(chosen[0][0]["number"]) - 1]
    sides = hazard_sides(store.studies.study(opened, window), row)
    scene = Scene(NAME, opened.trace, state["trace"], window, "dark" if theme == "dark" else "light")
    return [_detail(row, sides, scene)]
