"""What a file can prove and what is suspect in it, in few words and with all reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from overlane.ui import ids

if TYPE_CHECKING:
    from overlane.ui.facts import TraceFacts

__all__ = ["proof_badge", "proof_details"]

_PROVEN_SHOWN = 2
_PROOF = "What this file can prove"
_NO_PROOF = "The file names no capabilities."
_INTEGRITY = "Integrity"
_NOTHING_SUSPECT = "No check found anything suspect."


def proof_badge(facts: TraceFacts | None) -> Component | None:
    """Return the badge of what the file can prove and what is suspect, with the full list on hover."""
    if facts is None:
        return None
    proven = [name.replace("_", " ") for name in facts.proven]
    more = f" +{len(proven) - _PROVEN_SHOWN}" if len(proven) > _PROVEN_SHOWN else ""
    failed = [check for check in facts.suspect if check.status == "failed"]
    words = "✓ " + " · ".join(proven[:_PROVEN_SHOWN]) + more if proven else "– nothing proven"
    if facts.suspect:
        words += f" · {len(facts.suspect)} to note"
    tone = "bad" if failed else "warn" if facts.suspect or not proven else "ok"
    badge: Component = dmc.HoverCard(
        [
            dmc.HoverCardTarget(
                html.Button(words, className=f"ov-pill ov-pill-button ov-pill-{tone}", type="button")
            ),
            dmc.HoverCardDropdown(_proof_list(facts), className="ov-proof"),
        ],
        width=460,
        shadow="md",
        openDelay=100,
        position="bottom-start",
    )
    return badge


def _proof_list(facts: TraceFacts) -> list[Component]:
    """Return everything that the file can and cannot prove, with reasons, and the integrity checks."""
    items = [html.Li([html.Strong(name), html.Span(reason)]) for name, reason in _abilities(facts)]
    checks = [
        html.Li([html.Strong(name), html.Span(detail)], className=f"ov-check-{status}")
        for name, detail, status in _checks(facts)
    ]
    return [
        html.H3(_PROOF),
        html.Ul(items) if items else html.P(_NO_PROOF),
        html.H3(_INTEGRITY),
        html.Ul(checks) if checks else html.P(_NOTHING_SUSPECT),
    ]


def proof_details(facts: TraceFacts, trace_id: str, clicks: int = 0, *, is_brief: bool = False) -> Component:
    """Return capabilities and integrity as chips that open to the full list, by mouse, touch or keyboard.

    Args:
        facts: What the trace says.
        trace_id: Trace, by which the page tells whose list was opened.
        clicks: How often the chips were pressed: a list that was open stays so where the card is made anew.
        is_brief: Name what is proven in one line instead of a chip each.
    """
    chips = [
        _chip(("✓ " if item.proven else "– ") + name.replace("_", " "), "ok" if item.proven else "off")
        for name, item in sorted(facts.capabilities.items(), key=lambda pair: not pair[1].proven)
    ]
    if is_brief:
        proven = " · ".join(name.replace("_", " ") for name in facts.proven)
        chips = [_chip(f"✓ {proven}" if proven else "– nothing proven", "ok" if proven else "off")]
    return html.Details(
        [
            html.Summary(
                [*chips, *_integrity_chips(facts)],
                id={"type": ids.WHY, "trace": trace_id},
                n_clicks=clicks,
                className="ov-chips",
            ),
            html.Pre(_proof_text(facts), className="ov-proof-text"),
        ],
        open=clicks % 2 == 1,
        className="ov-proof-details",
    )


def _proof_text(facts: TraceFacts) -> str:
    """Return the list of `_proof_list` as one text: fifty cards of a hundred elements stall the page."""
    items = [f"{name}: {reason}" for name, reason in _abilities(facts)]
    checks = [f"{name}: {detail}" for name, detail, _ in _checks(facts)]
    return "\n".join([_PROOF, *(items or [_NO_PROOF]), "", _INTEGRITY, *(checks or [_NOTHING_SUSPECT])])


def _abilities(facts: TraceFacts) -> list[tuple[str, str]]:
    """Return marked names and reasons of what the file can prove, then of what it cannot."""
    return [
        (("✓ " if item.proven else "– ") + name.replace("_", " "), item.reason)
        for name, item in sorted(facts.capabilities.items(), key=lambda pair: not pair[1].proven)
    ]


def _checks(facts: TraceFacts) -> list[tuple[str, str, str]]:
    """Return marked names, details and states of the integrity checks, the worst first."""
    return [
        (mark + check.check.replace("_", " "), check.detail, status)
        for status, mark in (("failed", "✗ "), ("warning", "! "), ("ok", "✓ "))
        for check in facts.integrity
        if check.status == status
    ]


def _integrity_chips(facts: TraceFacts) -> list[Component]:
    if not facts.integrity:
        return [_chip("integrity: nothing suspect found", "ok")]
    found = [
        _chip(f"{mark} integrity: {check.check.replace('_', ' ')}", tone)
        for status, mark, tone in (("failed", "✗", "bad"), ("warning", "!", "warn"))
        for check in facts.integrity
        if check.status == status
    ]
    good = len(facts.integrity) - len(found)
    if good:
        found.append(_chip(f"integrity: {good} {'check' if good == 1 else 'checks'} ok", "ok"))
    return found


def _chip(text: str, tone: str) -> Component:
    return html.Span(text, className=f"ov-chip ov-chip-{tone}")
