"""Long tables: sortable, filtered, drawn only where they are in view, and copied as CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dash_ag_grid
from dash.development.base_component import Component

from overlane.figures.units import byte_unit_of, unit_of

__all__ = ["COPY_SCRIPT", "Column", "column", "grid", "grid_height", "in_one_unit", "together", "used"]

Column = dict[str, Any]

_ROW_PX, _HEAD_PX, _GROUP_HEAD_PX, _EDGES_PX = 28, 32, 28, 20
"""Heights of a row, of the headings, and of borders with a scroll bar."""
COPY_SCRIPT = """async function(clicks, columns, selected, shown) {
    if (!clicks) return dash_clientside.no_update;
    return await window.overlane.grid.copy(columns, selected, shown);
}"""
"""Copies the selected rows of a grid, or all that are shown, as CSV."""
_UNITS: dict[str, Callable[[int], tuple[int, str]]] = {
    "ns": unit_of,
    "bytes": byte_unit_of,
    "rate": lambda _: (1, "GB/s"),
}
"""Forms that can be written in one unit for a whole column: the largest value to its factor and name."""
_RENDERERS = {"link": "OvLink", "verdict": "OvVerdict"}


def column(
    field: str,
    title: str,
    *,
    form: str = "",
    width: int = 110,
    note: str = "",
    renderer: str = "",
    grows: bool = False,
    sort: str = "",
    tooltip: str = "",
) -> Column:
    """Return one column of a grid.

    Args:
        field: Key of the row's value; numbers stay numbers, so that they sort.
        title: Heading.
        form: How numbers are written: ns, count, share, rate, bytes, ratio, extent, change; empty for text.
        width: Least width in px.
        note: What shows when the heading is pointed at.
        renderer: `link` (to the row's `href`) or `verdict`.
        grows: Takes the room that is left.
        sort: `asc` or `desc` for the column that the rows are ordered by at first.
        tooltip: Key of what shows when a cell is pointed at; by default the value.
    """
    found: Column = {
        "field": field,
        "headerName": title,
        "headerTooltip": note or title,
        "minWidth": width,
        "width": width,
    }
    if form:
        found |= {
            "context": {"form": form},
            "valueFormatter": {"function": f"overlaneForm('{form}', params.value)"},
            "tooltipValueGetter": {"function": f"overlaneExact('{form}', params.value)"},
            "type": "rightAligned",
        }
    else:
        found |= {"tooltipField": tooltip or field}
    if renderer:
        found["cellRenderer"] = _RENDERERS[renderer]
    if grows:
        found["flex"] = 1
    if sort:
        found["sort"] = sort
    return found


def grid(name: str, columns: Sequence[Column], *, is_selectable: bool = True) -> Component:
    """Return an empty grid; a callback gives it `rowData`, and `columnDefs` from `used`.

    Args:
        name: Id of the element.
        columns: Its columns.
        is_selectable: Rows have a box to tick.
    """
    ticking = {
        "rowSelection": {"mode": "multiRow", "enableClickSelection": False},
        "selectionColumnDef": {"width": 36, "minWidth": 36, "maxWidth": 36, "pinned": "left"},
    }
    made: Component = dash_ag_grid.AgGrid(
        id=name,
        columnDefs=list(columns),
        rowData=[],
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "rowHeight": _ROW_PX,
            "headerHeight": _HEAD_PX,
            "groupHeaderHeight": _GROUP_HEAD_PX,
            "animateRows": False,
            **(ticking if is_selectable else {}),
            "enableCellTextSelection": True,
            "ensureDomOrder": True,
            "tooltipShowDelay": 400,
            "suppressNoRowsOverlay": True,
        },
        className="ov-grid",
        style={"height": "100%", "width": "100%"},
    )
    return made


def grid_height(rows: int, *, most: str, is_grouped: bool = False) -> dict[str, str]:
    """Return the style of a grid's box that is as high as its rows need.

    Args:
        rows: Number of rows.
        most: Greatest height, as CSS writes it.
        is_grouped: Columns stand under common headings.
    """
    needed = _HEAD_PX + (_GROUP_HEAD_PX if is_grouped else 0) + _EDGES_PX + _ROW_PX * max(rows, 1)
    return {"height": f"min({needed}px, {most})"}


def together(title: str, columns: Sequence[Column]) -> Column:
    """Return columns under a common heading."""
    return {"headerName": title, "children": list(columns), "marryChildren": True}


def in_one_unit(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[Column]:
    """Return the columns, those of times and sizes in the unit of their largest value, as the headings say.

    Args:
        columns: As `column` makes them; rates are written in GB/s.
        rows: The rows that they will show.
    """
    found = []
    for one in columns:
        form = one.get("context", {}).get("form", "")
        if form not in _UNITS:
            found.append(one)
            continue
        factor, unit = _UNITS[form](max((abs(row.get(one["field"]) or 0) for row in rows), default=0))
        decimals = 3 if factor > 1 else 2 if form == "rate" else 0
        written = {"function": f"overlaneScaled(params.value, {factor}, {decimals})"}
        title = f"{one['headerName']}, {unit}"
        # Another id is another column, whose cells are drawn anew.
        found.append(
            one | {"colId": f"{one['field']} {unit}", "headerName": title, "valueFormatter": written}
        )
    return found


def used(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[Column]:
    """Return the columns, those hidden in which no row has a value."""
    return [
        {**one, "hide": all(row.get(one["field"]) is None or row[one["field"]] == "" for row in rows)}
        for one in columns
    ]
