"""What surrounds the pages: header, navigation, theme, and which trace is shown."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.ui import ids, steps
from overlane.ui.facts import TraceFacts
from overlane.ui.links import parse_search, timeline_href
from overlane.ui.pages import PAGES, Page
from overlane.ui.parts import extra, notice
from overlane.ui.proof import proof_badge
from overlane.ui.steps import window_of
from overlane.ui.wiring import wire, wire_script

if TYPE_CHECKING:
    from overlane.ui.store import TraceStore

__all__ = ["INDEX", "THEME_SCRIPT", "layout", "register", "report_fault"]

_POLL_MS = 300
_log = logging.getLogger(__name__)

# Mantine remembers the theme under this key; setting it before the first paint avoids a flash.
THEME_SCRIPT = (
    "(function(){var s=null;try{s=localStorage.getItem('mantine-color-scheme-value')}catch(e){}"
    "if(s!=='light'&&s!=='dark'){s=matchMedia('(prefers-color-scheme: dark)').matches?'dark':'light'}"
    "document.documentElement.dataset.mantineColorScheme=s})()"
)

INDEX = f"""<!DOCTYPE html>
<html lang="en">
    <head>
        {{%metas%}}
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>{{%title%}}</title>
        <script>{THEME_SCRIPT}</script>
        {{%favicon%}}
        {{%css%}}
    </head>
    <body>
        {{%app_entry%}}
        <footer>{{%config%}}{{%scripts%}}{{%renderer%}}</footer>
    </body>
</html>"""

# Shows the page that the address names and marks it in the navigation.
_SHOW_PAGE = """function(path, ...before) {
    const names = %s;
    const wanted = (path || '/').split('/')[1] || names[0];
    const shown = names.includes(wanted) ? wanted : names[0];
    const styles = names.map(n => n === shown ? {} : {display: 'none'});
    const paths = names.map(n => n === shown ? path || '/' : null);
    const changed = paths.map((now, i) => now === (before[i] ?? null) ? dash_clientside.no_update : now);
    return [...styles, ...names.map(n => n === shown), ...changed];
}"""

# Tells callbacks the theme, now and whenever it changes.
_WATCH_THEME = """function(_) {
    const root = document.documentElement;
    const theme = () => root.dataset.mantineColorScheme === 'dark' ? 'dark' : 'light';
    if (!window.overlaneThemeWatched) {
        window.overlaneThemeWatched = true;
        new MutationObserver(() => dash_clientside.set_props('%s', {data: theme()}))
            .observe(root, {attributes: true, attributeFilter: ['data-mantine-color-scheme']});
    }
    return theme();
}"""

# Lets the style sheet leave out the controls of a trace that is not there.
_TELL_STATE = "function(open) { return open ? open.state : 'none'; }"

# Writes a choice of the header into the address; the canvas keeps the rest of it up to date.
_CHOOSE = """function(value) {
    const query = new URLSearchParams(window.location.search);
    const chosen = value === null || value === undefined ? '' : String(value);
    if ((query.get('%(key)s') || '') === chosen) return dash_clientside.no_update;
    if (chosen) query.set('%(key)s', chosen); else query.delete('%(key)s');
    for (const key of %(drops)s) query.delete(key);
    return '?' + query.toString();
}"""

# Mantine's shades in the colours of the pages: 7 is its dark background, 6 its raised surface, 4 its rules.
_THEME = {
    "fontFamily": 'Inter, "Segoe UI", system-ui, sans-serif',
    "defaultRadius": "sm",
    "primaryColor": "accent",
    "primaryShade": {"light": 6, "dark": 5},
    "colors": {
        "accent": [
            *("#eaf1fd", "#d4e2fa", "#a9c5f5", "#7fa8f0", "#6ea3ff"),
            *("#4a86ea", "#2f6fde", "#2860c4", "#2151a6", "#1a4289"),
        ],
        "dark": [
            *("#e6eaf0", "#b6bfcb", "#8c96a5", "#66707e", "#2a313c"),
            *("#222934", "#181d25", "#12161c", "#0e1217", "#0a0d11"),
        ],
    },
}


def layout(store: TraceStore) -> Component:
    """Return the static layout of the whole app."""
    shell: Component = dmc.MantineProvider(
        html.Div(
            [
                dcc.Location(id=ids.LOCATION, refresh=False),
                dcc.Store(id=ids.OPEN),
                dcc.Store(id=ids.THEME),
                dcc.Store(id=ids.SELECTION),
                dcc.Store(id=ids.RANGE),
                dcc.Store(id=ids.VIEW),
                *[dcc.Store(id=ids.path_id(page.NAME)) for page in PAGES],
                dcc.Interval(id=ids.POLL, interval=_POLL_MS, disabled=not store.is_busy()),
                _header(),
                html.Nav(
                    [
                        dmc.NavLink(
                            id=_nav_id(page.NAME),
                            label=page.TITLE,
                            href=f"/{page.NAME}",
                            className="ov-nav-link",
                        )
                        for page in PAGES
                    ],
                    id=ids.NAV,
                    className="ov-nav",
                    **extra(aria_label="Pages"),
                ),
                html.Main(
                    [*map(_section, PAGES), html.Div(id=ids.FAULT, className="ov-fault", role="alert")],
                    id=ids.MAIN,
                    className="ov-main",
                ),
            ],
            className="ov-shell",
        ),
        defaultColorScheme="auto",
        theme=_THEME,
    )
    return shell


def _section(page: Page) -> Component:
    hidden = {"display": "none"}
    return html.Section(page.layout(), id=ids.page_id(page.NAME), className="ov-page", style=hidden)


def _nav_id(name: str) -> str:
    return f"ov-nav-{name}"


def _header() -> Component:
    return html.Header(
        [
            dcc.Link("overlane", href="/", className="ov-brand", title="All traces"),
            html.Div(id=ids.HEADER_TRACE, className="ov-header-trace"),
            html.Div(id=ids.CAPABILITIES, className="ov-header-proof"),
            dmc.TextInput(
                id=ids.SEARCH,
                placeholder="search …",
                debounce=200,
                size="xs",
                className="ov-search",
                leftSection=html.Span("/", className="ov-key"),
                **extra(aria_label="Search all names of the trace"),
            ),
            *steps.picker(),
            html.Div(id=ids.HEADER_TOOLS, className="ov-header-tools"),
            dmc.ColorSchemeToggle(
                lightIcon=html.Span("☀", **extra(aria_hidden="true")),
                darkIcon=html.Span("☾", **extra(aria_hidden="true")),
                variant="subtle",
                color="gray",
                size="md",
                **extra(aria_label="Change between light and dark"),
            ),
        ],
        className="ov-header",
    )


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the callbacks of the shell to an app."""
    names = [page.NAME for page in PAGES]
    wire_script(
        app,
        _SHOW_PAGE % names,
        *[Output(ids.page_id(name), "style") for name in names],
        *[Output(_nav_id(name), "active") for name in names],
        *[Output(ids.path_id(name), "data") for name in names],
        Input(ids.LOCATION, "pathname"),
        *[State(ids.path_id(name), "data") for name in names],
    )
    wire_script(app, _TELL_STATE, Output(ids.MAIN, "data-state"), Input(ids.OPEN, "data"))
    wire_script(app, _WATCH_THEME % ids.THEME, Output(ids.THEME, "data"), Input(ids.LOCATION, "id"))
    for element, key, drops in (
        (ids.COMPARE, "with", []),
        (ids.RANK, "rank", ["t0", "t1", "sel", "range", "window"]),
    ):
        wire_script(
            app,
            _CHOOSE % {"key": key, "drops": drops},
            Output(ids.LOCATION, "search", allow_duplicate=True),
            Input(element, "value", allow_optional=True),
            first_call=False,
        )
    steps.register(app, store)
    wire(
        app,
        partial(follow, store),
        Output(ids.OPEN, "data"),
        Output(ids.POLL, "disabled"),
        Input(ids.LOCATION, "search"),
        Input(ids.POLL, "n_intervals"),
        State(ids.OPEN, "data"),
    )
    wire(
        app,
        partial(show_header, store),
        Output(ids.HEADER_TRACE, "children"),
        Output(ids.CAPABILITIES, "children"),
        Output(ids.HEADER_TOOLS, "children"),
        *[Output(_nav_id(name), "href") for name in names],
        Input(ids.OPEN, "data"),
    )


def report_fault(error: Exception) -> None:
    """Show an error that no callback foresaw and log its trace; the page keeps what it showed."""
    _log.error("a callback failed", exc_info=error)
    what = f"{type(error).__name__}: {error}. The page shows what it had; please report it."
    dash.set_props(ids.FAULT, {"children": notice("A fault of Overlane.", what, kind="failed")})


def follow(
    store: TraceStore, search: str | None, _ticks: int | None, before: dict[str, Any] | None
) -> tuple[Any, bool]:
    """Return which trace is shown, where that changed, and whether there is nothing to ask for again."""
    state = follow_address(store, search)
    return (dash.no_update if state == before else state), not store.is_busy()


def show_header(store: TraceStore, state: dict[str, Any] | None) -> list[Any]:
    """Return what the header says of the trace that is shown, and the addresses of the pages."""
    facts = store.facts(state["trace"] if state else None)
    return [header_trace(state, facts), proof_badge(facts), header_tools(store, state), *nav_hrefs(state)]


def follow_address(store: TraceStore, search: str | None) -> dict[str, Any]:
    """Return which trace the address shows and how far its opening is; asks for it to be opened.

    Returns:
        `trace`, `other` (ids or None), `rank`, `window` (start and end in ns that every page is narrowed to,
        or None), and for both traces `state`, `progress` and `reason`.
    """
    address = parse_search(search)
    first = store.first()
    wanted = address.trace_id or (first.trace_id if first is not None else None)
    shown, other = _asked(store, wanted), _asked(store, address.other_id)
    window = list(address.window) if address.window is not None else None
    return {
        "rank": address.rank,
        "window": window,
        **shown,
        **{f"other_{key}": value for key, value in other.items()},
    }


def _asked(store: TraceStore, trace_id: str | None) -> dict[str, Any]:
    if trace_id is None:
        return {"trace": None, "name": "", "state": "none", "progress": 0.0, "reason": ""}
    try:
        listing = store.listing(trace_id)
        # A trace that failed is tried again only when the user asks on the library page.
        if listing.state == "listed":
            listing = store.request(trace_id)
    except OverlaneError as error:
        return {"trace": trace_id, "name": trace_id, "state": "failed", "progress": 0.0, "reason": str(error)}
    return {
        "trace": trace_id,
        "name": listing.name,
        "state": listing.state,
        "progress": round(listing.progress, 2),
        "reason": listing.reason,
    }


def nav_hrefs(state: dict[str, Any] | None) -> list[str]:
    """Return the addresses of the pages, with the trace that is shown."""
    if not state or not state["trace"]:
        return [f"/{page.NAME}" for page in PAGES]
    query = timeline_href(
        state["trace"], rank=state["rank"], other_id=state["other_trace"], narrowed=window_of(state)
    ).partition("?")[2]
    return [f"/{page.NAME}?{query}" for page in PAGES]


def header_trace(state: dict[str, Any] | None, facts: TraceFacts | None) -> list[Component]:
    """Return the name of the trace that is shown and what it was recorded on."""
    if not state or not state["trace"]:
        return []
    found: list[Component] = [
        html.Span(state["name"], className="ov-pill ov-pill-name", title=f"trace {state['name']}")
    ]
    if state["state"] == "loading":
        found.append(html.Span(f"opening, {state['progress']:.0%}", className="ov-pill"))
    elif state["state"] == "failed":
        found.append(html.Span("cannot be opened", className="ov-pill ov-pill-bad", title=state["reason"]))
    elif facts is not None:
        words = [
            facts.device_words,
            f"CUDA driver {facts.driver}" if facts.driver else "",
            facts.producer or facts.format,
        ]
        text = " · ".join(word for word in words if word)
        found.append(html.Span(text, className="ov-pill ov-pill-facts", title=text))
        if facts.is_synthetic:
            found.append(
                html.Span(
                    "synthetic",
                    className="ov-pill ov-pill-warn",
                    title="made up for demonstration, not recorded",
                )
            )
    return found


def header_tools(store: TraceStore, state: dict[str, Any] | None) -> list[Component]:
    """Return the choices of rank and of a second trace, where there is something to choose."""
    if not state or state["state"] != "ready":
        return []
    found: list[Component] = []
    facts = store.facts(state["trace"])
    ranks = facts.ranks if facts is not None else ()
    if len(ranks) > 1:
        choices = [{"value": str(rank), "label": f"rank {rank}"} for rank in ranks if rank is not None]
        shown = state["rank"] if state["rank"] is not None else ranks[0]
        found.append(
            dmc.Select(id=ids.RANK, data=choices, value=str(shown), size="xs", w=96, allowDeselect=False)
        )
    everything = store.listings()
    counts, full_names = Counter(x.name for x in everything), store.full_names()
    others = [
        {"value": x.trace_id, "label": x.name if counts[x.name] == 1 else full_names.get(x.trace_id, x.name)}
        for x in everything
        if x.trace_id != state["trace"] and x.state != "failed"
    ]
    if others:
        found.append(
            dmc.Select(
                id=ids.COMPARE,
                data=others,
                value=state["other_trace"],
                placeholder="⇄ compare with …",
                clearable=True,
                searchable=True,
                size="xs",
                w=176,
                comboboxProps={"width": 320, "position": "bottom-end"},
                **extra(aria_label="Compare with a second trace that shares the view"),
            )
        )
    return found
