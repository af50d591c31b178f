"""The list of backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from overlane_collect.backends.base import Backend
from overlane_collect.errors import CollectError

__all__ = ["BACKENDS", "BackendRegistry"]


def _cupti() -> Backend:
    from overlane_collect.backends.cupti import CuptiBackend  # noqa: PLC0415 - loads CUDA

    return CuptiBackend()


def _cuda_events() -> Backend:
    from overlane_collect.backends.cuda_events import CudaEventsBackend  # noqa: PLC0415 - loads NumPy

    return CudaEventsBackend()


def _fake() -> Backend:
    from overlane_collect.backends.fake import FakeBackend  # noqa: PLC0415 - for tests and demonstrations

    return FakeBackend()


class BackendRegistry:
    """Backends by name.

    Args:
        makers: Name to a function that makes the backend.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Backend]]) -> None:
        self._makers = dict(makers)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all backends."""
        return tuple(self._makers)

    def make(self, name: str) -> Backend:
        """Return a new backend.

        Raises:
            CollectError: There is none of that name; the message lists the known ones.
        """
        if name not in self._makers:
            raise CollectError(f"there is no backend {name!r}; known: {', '.join(self.names)}")
        return self._makers[name]()


BACKENDS = BackendRegistry({"cupti": _cupti, "cuda_events": _cuda_events, "fake": _fake})
"""All backends."""
