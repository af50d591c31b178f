"""The step picker: narrows every page to a step, an annotated range or a mark; kept in the address."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, no_update
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.figures.units import format_ns, format_stamps
from overlane.ui import ids
from overlane.ui.parts import extra
from overlane.ui.wiring import wire, wire_script

if TYPE_CHECKING:
    import dash

    from overlane.cache import OpenedTrace
    from overlane.ui.store import TraceStore

__all__ = ["STEP", "STEPS", "picker", "register", "window_of", "window_words"]

STEP = "ov-step"
STEPS = "ov-steps"
VERSION = 1
"""Changes with what the list of steps holds."""

# Adds the marks that are kept beside the trace and a window that is none of the steps; shows the address's.
_OFFER = """async function(steps, path, search, range) {
    const chosen = new URLSearchParams(search || '').get('window') || null;
    if (!steps) return [[], null, {display: 'none'}];
    const groups = steps.groups.map(one => ({group: one.group, items: [...one.items]}));
    let marks = [];
    try {
        const answer = await fetch(`/api/traces/${encodeURIComponent(steps.trace)}/notes`);
        if (answer.ok) marks = (await answer.json()).marks;
    } catch {
        // Without the server there are no marks; the page says that it cannot be reached.
    }
    const known = new Set(groups.flatMap(one => one.items.map(item => item.value)));
    const items = [];
    for (const mark of marks) {
        const value = `${mark.t0_ns}-${mark.t1_ns}`;
        if (!known.has(value) && mark.t1_ns > mark.t0_ns) items.push({value, label: `mark ${mark.label}`});
        known.add(value);
    }
    if (items.length) groups.push({group: 'Marks', items});
    if (chosen && !known.has(chosen) && /^\\d+-\\d+$/.test(chosen)) {
        const length = chosen.split('-').reduce((a, b) => Number(b) - Number(a));
        const time = window.overlane && window.overlane.time;
        const words = time ? time.duration(length) : length + ' ns';
        groups.push({group: 'Other', items: [{value: chosen, label: `a window of ${words}`}]});
    }
    return [groups, chosen, groups.length ? {} : {display: 'none'}];
}"""

# Writes the choice into the address and brings it into view on the timeline.
_PICK = """function(value, search) {
    const query = new URLSearchParams(search || '');
    if ((query.get('window') || null) === (value || null)) return dash_clientside.no_update;
    if (value) query.set('window', value); else query.delete('window');
    const timeline = window.overlane && window.overlane.timeline('timeline');
    if (timeline && value && location.pathname.startsWith('/timeline')) {
        const [t0, t1] = value.split('-').map(Number);
        timeline.zoomTo(t0, t1);
        query.set('t0', t0);
        query.set('t1', t1);
    }
    return '?' + query.toString().replaceAll('%3A', ':');
}"""


def picker() -> list[Component]:
    """Return the static elements of the picker."""
    select: Component = dmc.Select(
        id=STEP,
        data=[],
        value=None,
        placeholder="whole trace",
        clearable=True,
        searchable=True,
        size="xs",
        w=150,
        maxDropdownHeight=360,
        nothingFoundMessage="No step, range or mark has such a name.",
        comboboxProps={"width": 320, "position": "bottom-end"},
        style={"display": "none"},
        **extra(aria_label="Narrow every page to a step, range or mark"),
    )
    return [select, dcc.Store(id=STEPS)]


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the picker's callbacks to an app."""
    wire(
        app, partial(list_steps, store), Output(STEPS, "data"), Input(ids.OPEN, "data"), State(STEPS, "data")
    )
    wire_script(
        app,
        _OFFER,
        Output(STEP, "data"),
        Output(STEP, "value"),
        Output(STEP, "style"),
        Input(STEPS, "data"),
        Input(ids.LOCATION, "pathname"),
        Input(ids.LOCATION, "search"),
        Input(ids.RANGE, "data"),
    )
    wire_script(
        app,
        _PICK,
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Input(STEP, "value"),
        State(ids.LOCATION, "search"),
        first_call=False,
    )


def list_steps(store: TraceStore, state: dict[str, Any] | None, before: dict[str, Any] | None) -> Any:
    """Return the steps and ranges of the trace that is shown, for the picker; None while none is shown."""
    if not state or state["state"] != "ready":
        return None
    try:
        opened = store.opened(state["trace"])
    except OverlaneError:
        return None  # the page says why
    if opened is None:
        return None
    rank = state["rank"] if state["rank"] is not None else opened.trace.ranks[0]
    key = {"trace": state["trace"], "rank": rank}
    if before and all(before.get(name) == value for name, value in key.items()):
        return no_update
    return {**key, "groups": opened.result(f"steps {rank}", VERSION, lambda: _groups(opened, rank))}


def window_of(state: dict[str, Any] | None) -> tuple[int, int] | None:
    """Return the window that the pages are narrowed to, None for the whole trace."""
    window = state.get("window") if state else None
    return (int(window[0]), int(window[1])) if window else None


def window_words(window: tuple[int, int] | None) -> str:
    """Return the words for a window that a page is narrowed to; empty for the whole trace."""
    if window is None:
        return ""
    return f"Only {format_stamps(*window)} ({format_ns(window[1] - window[0])})."


def _groups(opened: OpenedTrace, rank: int | None) -> list[dict[str, Any]]:
    from overlane.analysis.steps import steps  # noqa: PLC0415 - loads compiled code

    groups: dict[str, list[dict[str, str]]] = {}
    taken: set[str] = set()
    for step in steps(opened.trace, rank=rank):
        value = f"{step.start_ns}-{step.end_ns}"
        if value not in taken and step.end_ns > step.start_ns:
            label = f"{step.name} · {format_ns(step.end_ns - step.start_ns)}"
            groups.setdefault("Steps" if step.kind == "step" else "Ranges", []).append(
                {"value": value, "label": label}
            )
            taken.add(value)
    return [{"group": name, "items": items} for name, items in groups.items()]
