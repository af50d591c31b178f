"""`overlane demo`: the dashboard on the bundled sample traces."""

from __future__ import annotations

import argparse

from overlane.commands.serve import add_server_arguments, check_library

__all__ = ["COMMAND", "DemoCommand"]


class DemoCommand:
    """Serves the dashboard on the bundled sample traces and opens the first one's timeline."""

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
        from overlane.ui.links import timeline_href  # noqa: PLC0415
        from overlane.ui.server import serve  # noqa: PLC0415
        from overlane.ui.store import TraceStore  # noqa: PLC0415

        store = TraceStore(sample_paths(), library=arguments.library)
        first = store.listings()[0]
        serve(
            store,
            host=arguments.host,
            port=arguments.port,
            path=timeline_href(first.trace_id),
            opens_browser=not arguments.no_browser,
        )
        return 0


COMMAND = DemoCommand()
