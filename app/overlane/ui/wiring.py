"""Attach callbacks to an app: the one place that touches Dash's untyped functions.

Callbacks are module-level functions of the store and of the page's values, so that tests reach them; Dash's
own module-level decorator would attach them to the first app of the process only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dash
from dash import Input

__all__ = ["wire", "wire_again", "wire_script"]

# An interval would ask before slow answers come, and a page drops the answer of a question that it has asked
# anew. Dash allows no circle of outputs.
_AGAIN = """function(turn) {
    if (turn) setTimeout(() => dash_clientside.set_props('TURN', {data: turn}), 300);
}"""


def wire(app: dash.Dash, function: Callable[..., Any], *parts: Any, first_call: bool = True) -> None:
    """Attach a Python callback.

    Args:
        app: App to attach to.
        function: Takes the values of the inputs and states, returns those of the outputs.
        parts: Outputs, inputs and states.
        first_call: Call it once when the page has loaded.
    """
    app.callback(*parts, prevent_initial_call=not first_call)(function)


def wire_script(app: dash.Dash, script: str, *parts: Any, first_call: bool = True) -> None:
    """Attach a callback that runs in the browser.

    Args:
        app: App to attach to.
        script: A few lines of JavaScript.
        parts: Outputs, inputs and states.
        first_call: Call it once when the page has loaded.
    """
    app.clientside_callback(  # type: ignore[no-untyped-call]
        script, *parts, prevent_initial_call=not first_call
    )


def wire_again(app: dash.Dash, again: str, turn: str) -> None:
    """Let a Python callback ask again a moment after it has answered "not yet".

    Args:
        app: App to attach to.
        again: Id of the store where it leaves a number that grows, None when it need not ask again.
        turn: Id of the store that is among its inputs; the number arrives there.
    """
    wire_script(app, _AGAIN.replace("TURN", turn), Input(again, "data"), first_call=False)
