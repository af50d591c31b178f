# ruff: noqa: INP001 - Python finds it by its name, in no package
"""Runs at the start of every process that a followed program starts; see `overlane_collect.follow`."""

import os

from overlane_collect.follow import SETTINGS_VARIABLE, run_sitecustomize, start_child

run_sitecustomize()
if SETTINGS_VARIABLE in os.environ:
    start_child()
