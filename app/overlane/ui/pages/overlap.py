"""The overlap page: how the engines of each device share its time, each number leading to its proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dash.development.base_component import Component

from overlane.ui.engines import device_section, places_of
from overlane.ui.studied import Scene, StudyPage

if TYPE_CHECKING:
    import dash

    from overlane.analysis.study import Study
    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "overlap"
TITLE = "Overlap"


def _rows(study: Study) -> dict[str, Any]:
    return study.engines.to_json()


def _show(found: dict[str, Any], scene: Scene) -> Sequence[Component]:
    """Return the report of every device of the trace."""
    devices = found["devices"]
    places = places_of(scene.trace, scene.trace_id, devices)
    return [device_section(device, place, scene) for device, place in zip(devices, places, strict=True)]


_PAGE = StudyPage(
    name=NAME,
    title="Engines and overlap",
    lead=(
        "Busy is the length of the union of the operations; overlap is when both were busy. "
        "Each time and count, bar and cell leads to the longest stretch that proves it."
    ),
    rows=_rows,
    show=_show,
    computing="Measuring the engines …",
    is_quick=True,
)


def layout() -> Component:
    """Return the static elements of the page."""
    return _PAGE.layout()


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    _PAGE.register(app, store)
