"""The findings of a study as lists of JSON rows: what the command line prints and the pages show.

Each module turns one kind of finding into rows; keys are documented in `docs/report.md`. Importing them loads
nothing heavy, so that `--help` stays quick.
"""
