"""A report as one HTML page that works offline and without the trace."""

from overlane.writers.report_html.drawing import Drawing, drawing
from overlane.writers.report_html.page import Block, Chapter, Grid, report_page

__all__ = ["Block", "Chapter", "Drawing", "Grid", "drawing", "report_page"]
