"""Which operation a wait waits for last, and by what its end was known before."""

from __future__ import annotations

import numpy as np

from overlane.analysis.dependencies import Dependencies
from overlane.analysis.keys import Bytes, Codes, Ids
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import Program
from overlane.analysis.ordering.clocks import Clocks, step_row

__all__ = ["Tellers"]


class Tellers:
    """Looks up who told a stream or thread that operations are over.

    Args:
        program: The actions in host order.
        every: Clocks over them.
        deps: Dependencies of the trace.
    """

    def __init__(self, program: Program, every: Clocks, deps: Dependencies) -> None:
        self._program, self._clocks = program, every
        actions = program.actions
        self._puts = np.flatnonzero((actions.kind == act.ITEM) & (actions.flags & act.MARK == 0))
        by_stream = np.argsort(actions.stream[self._puts], kind="stable")
        self._by_stream = self._puts[by_stream]
        streams = len(program.streams.legacy)
        self._starts = np.searchsorted(actions.stream[self._by_stream], np.arange(streams + 1))
        self._record_at = np.full(program.record_count, -1, np.int64)
        made = np.flatnonzero(actions.kind == act.RECORD)
        self._record_at[actions.ref[made]] = made
        # Of the nodes of one launch the one that ends last.
        self._op = np.full(program.item_count, -1, np.int32)
        order = np.argsort(deps.issue.end_ns, kind="stable")
        self._op[program.op_item[order]] = order

    def of_waits(self, places: Ids) -> tuple[Codes, Bytes, Ids]:
        """Return the last operation that each wait covers, and what had told that it is over.

        Args:
            places: int64, shape (n,): places of actions.

        Returns:
            Operation, -1 for none; table and row of what told it, 0 and -1 where the order of a stream or
            another rule does; all of shape (n,).
        """
        op, row = np.full(len(places), -1, np.int32), np.full(len(places), -1, np.int64)
        table = np.zeros(len(places), np.uint8)
        for k, place in enumerate(places.tolist()):
            item = self._last_of(place)
            if item >= 0:
                op[k] = self._op[item]
                table[k], row[k] = self._teller(place, item)
        return op, table, row

    def _last_of(self, place: int) -> int:
        """Return the last item that a wait covers, -1 for none."""
        actions, what = self._program.actions, int(self._program.actions.kind[place])
        if what == act.SYNC_SCOPE:
            ref = int(actions.ref[place])
            low, high = self._program.scope_starts[ref], self._program.scope_starts[ref + 1]
            members = self._program.scope_streams[low:high]
            at = int(np.searchsorted(self._puts, place)) - 1
            while at >= 0 and actions.stream[self._puts[at]] not in members:
                at -= 1
            return int(actions.ref[self._puts[at]]) if at >= 0 else -1
        if what == act.SYNC_STREAM:
            stream, until = int(actions.stream[place]), place
        else:
            record = int(actions.ref[place])
            stream, until = int(self._clocks.record_stream[record]), int(self._record_at[record])
        mine = self._by_stream[self._starts[stream] : self._starts[stream + 1]]
        at = int(np.searchsorted(mine, until)) - 1
        return int(actions.ref[mine[at]]) if at >= 0 else -1

    def _teller(self, place: int, item: int) -> tuple[int, int]:
        """Return the proof by which the end of an item was known to the one who waits for it."""
        found, actions, program = self._clocks, self._program.actions, self._program
        chain, needed = int(found.item_chain[item]), int(found.item_at[item])
        thread = int(actions.thread[place])
        knowing = [found.streams + thread] if thread >= 0 else []
        if actions.kind[place] == act.WAIT:
            if actions.stream[place] == chain:
                return 0, -1
            knowing.insert(0, int(actions.stream[place]))
        for one in knowing:
            step = int(step_row(found.starts, found.value, one * found.chains + chain, needed))
            proof = int(found.row[step]) if step >= 0 else -1
            if proof >= 0:
                return int(program.proof_table[proof]), int(program.proof_row[proof])
        return 0, -1
