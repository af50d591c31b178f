"""The dashboard: a Dash app around the canvas timeline, served on this machine only."""
