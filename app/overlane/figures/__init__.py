"""Plotly figures made from results of analyses, and the palette and wording of numbers of all drawings."""
