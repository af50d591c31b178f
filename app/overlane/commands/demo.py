"""`overlane demo`: the dashboard on the bundled sample traces."""

from __future__ import annotations

import argparse

from overlane.commands.serve import add_server_arguments, check_library

__all__ = ["COMMAND", "DemoCommand"]


class DemoCommand:
    """Serves the dashboard on the bundled sample traces and opens one with hints for the first minute."""

    name = "demo"
    help = "serve the dashboard on the bundled sample traces and open the browser"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare where to serve."""
        add_server_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve until interrupted.

        Raises:
            OverlaneError: The samples are missing, the library is no folder, or the port cannot be bound.
        """
        check_library(arguments.library)
        from overlane.samples import sample_paths  # noqa: PLC0415
        from overlane.ui.hints import AGAINST, OPENED, demo_href  # noqa: PLC0415
        from overlane.ui.naming import slug  # noqa: PLC0415
        from overlane.ui.server import serve  # noqa: PLC0415
        from overlane.ui.store import TraceStore  # noqa: PLC0415

        store = TraceStore(sample_paths(), library=arguments.library)
        for name in (OPENED, AGAINST):  # the others are opened after these
            store.request(slug(name))
        serve(
            store,
            host=arguments.host,
            port=arguments.port,
            path=demo_href(),
            opens_browser=not arguments.no_browser,
        )
        return 0


COMMAND = DemoCommand()
