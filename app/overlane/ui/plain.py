"""Elements that only show something, as one component of Dash instead of hundreds.

Dash takes a millisecond for each component that it puts on a page, and a panel has two hundred. What has no
callback of its own needs none of that: its root stays a component, and what is in it goes along as data, of
which `plain.js` makes elements. Text stays text there too.
"""

from __future__ import annotations

import json
from typing import Any

from dash.development.base_component import Component

__all__ = ["plain"]

_DATA = "data-plain"


def plain(root: Component) -> Component:
    """Return an element of HTML whose content costs Dash nothing.

    Args:
        root: The element; with a component in it that is no HTML or has an id, it is returned as it is.
    """
    children = getattr(root, "children", None)
    if children is None or _needs_dash(children):
        return root
    setattr(root, _DATA, json.dumps(_tree(children), ensure_ascii=False, separators=(",", ":")))
    root.children = None
    return root


def _needs_dash(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return any(_needs_dash(one) for one in item)
    if not isinstance(item, Component):
        return False
    is_html = item._namespace == "dash_html_components"  # noqa: SLF001 - no other name tells
    return not is_html or hasattr(item, "id") or _needs_dash(getattr(item, "children", None))


def _tree(item: Any) -> Any:
    """Return an element as its type and properties, in the words that Dash itself sends."""
    if isinstance(item, list | tuple):
        return [_tree(one) for one in item if one is not None]
    if not isinstance(item, Component):
        return item
    known = item.to_plotly_json()["props"]  # type: ignore[no-untyped-call]
    props = {name: value for name, value in known.items() if value is not None}
    inner = props.pop(_DATA, None)
    children = json.loads(inner) if inner is not None else _tree(props.pop("children", None))
    return {"type": item._type, "props": props | ({} if children is None else {"children": children})}  # noqa: SLF001
