"""The list of the report's sections; to add one, write it and name it here."""

from __future__ import annotations

from overlane.commands.report import advice, barriers, critical, engines, hazards, partitions, waits
from overlane.commands.report.section import Section

__all__ = ["SECTIONS"]

SECTIONS: tuple[Section, ...] = (
    *advice.SECTIONS,
    *engines.SECTIONS,
    *waits.SECTIONS,
    *barriers.SECTIONS,
    *hazards.SECTIONS,
    *partitions.SECTIONS,
    *critical.SECTIONS,
)
"""All sections, in the order of the report."""
