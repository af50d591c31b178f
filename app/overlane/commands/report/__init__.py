"""`overlane report`: the answers of the analyses, as text, Markdown or JSON."""

from overlane.commands.report.command import COMMAND, ReportCommand, parse_window, report_json
from overlane.commands.report.section import Section
from overlane.commands.report.sections import SECTIONS

__all__ = ["COMMAND", "SECTIONS", "ReportCommand", "Section", "parse_window", "report_json"]
