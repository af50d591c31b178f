/* From a point, a row id or the keyboard to a slice. */
(function (ov) {
  'use strict';

  const NEAR_PX = 3; // the mouse need not hit a narrow slice exactly
  const MOST_LOOKED_AT = 256;
  const LOCATE_PX = 64;
  const LOOK_PX = 4096; // so fine that the neighbours of a slice come one by one

  /** A slice as the rest of the component passes it on: times in ns of the trace, not of a tile. */
  function sliceAt(t, tile, i) {
    const wire = tile.lane[i];
    const lane = t.laneOfWire(wire);
    return {
      wire,
      lane,
      table: lane.table,
      row: tile.row[i],
      count: tile.count[i],
      busy: tile.busy[i] / 255,
      category: tile.category[i],
      name: ov.wire.nameOf(tile, i),
      start: tile.t0 + tile.start[i],
      end: tile.t0 + tile.end[i],
    };
  }

  /** The slice under a point of the element (CSS px), or null. */
  function at(t, x, y) {
    const row = t.rows[ov.rows.rowAt(t.rows, y - t.top + t.scrollTop)];
    if (!row || row.type !== 'lane' || x < t.left) return null;
    return nearest(t, ov.rows.wireAt(row, y - t.top + t.scrollTop), t.timeAt(x), (NEAR_PX * t.view.span) / t.plotWidth);
  }

  /** The slice of a wire lane that covers a time, else the nearest within `near` ns. */
  function nearest(t, wire, time, near) {
    const { tile } = t.feed;
    const bounds = tile && tile.lanes.get(wire);
    if (!bounds) return null;
    const offset = time - tile.t0;
    let best = -1;
    let bestGap = Infinity;
    const first = ov.wire.firstReaching(tile, bounds[0], bounds[1], offset - near);
    for (let i = first; i < bounds[1] && i < first + MOST_LOOKED_AT && tile.start[i] <= offset + near; i++) {
      const gap = Math.max(tile.start[i] - offset, offset - tile.end[i], 0);
      const isLonger = best >= 0 && gap === bestGap && tile.end[i] - tile.start[i] > tile.end[best] - tile.start[best];
      if (gap < bestGap || isLonger) {
        best = i;
        bestGap = gap;
      }
    }
    return best >= 0 ? sliceAt(t, tile, best) : null;
  }

  /** A row's own slice in the newest tile, or null when it is not there or only part of an aggregate. */
  function find(t, table, row, wire) {
    const { tile } = t.feed;
    if (!tile) return null;
    let found = null;
    for (const [lane, [from, to]] of tile.lanes) {
      if (wire !== undefined && lane !== wire) continue;
      const owner = t.laneOfWire(lane);
      if (!owner || owner.table !== table) continue;
      for (let i = from; i < to; i++) {
        if (tile.row[i] !== row || tile.count[i] !== 1) continue;
        const slice = sliceAt(t, tile, i);
        if (owner.kind !== 'engine') return slice; // an engine lane repeats what a stream shows
        found = found || slice;
      }
    }
    return found;
  }

  function timesOf(json) {
    const columns = json.columns || {};
    const start = json.start_ns ?? columns.start_ns ?? columns.at_ns;
    if (start === undefined || start === null) return null;
    return { start: Number(start), end: Number(json.end_ns ?? columns.end_ns ?? start) };
  }

  /** Asks the server where a row lies: its times, then its lane. */
  async function locate(t, table, row) {
    const { feed } = t;
    const json = await feed.row(table, row);
    if (!json || t.feed !== feed) return null;
    const times = timesOf(json);
    if (!times) return null;
    const known = { table, row, count: 1, busy: 1, name: json.columns?.name ?? null, ...times };
    const wire = json.lane ?? (await laneByTile(t, table, row, times));
    if (wire === null || wire === undefined || t.feed !== feed) return null;
    return { ...known, wire, lane: t.laneOfWire(wire), category: 0 };
  }

  const wiresOf = (lane) => Array.from({ length: lane.sublanes }, (_, i) => lane.first + i);

  /** Looks a row up in a narrow tile over all lanes of its table; a slice as long as the tile is always exact there. */
  async function laneByTile(t, table, row, { start, end }) {
    const lanes = t.meta.lanes.filter((lane) => lane.table === table && lane.kind !== 'engine');
    const tile = await t.feed.look(start - 1, Math.max(start, end) + 1, LOCATE_PX, lanes.flatMap(wiresOf));
    if (!tile) return null;
    for (let i = 0; i < tile.n; i++) if (tile.row[i] === row) return tile.lane[i];
    return null;
  }

  /** Fills in the true times and name of the longest slice of a selected aggregate. */
  async function resolve(t, slice) {
    const json = await t.feed.row(slice.table, slice.row);
    const times = json && timesOf(json);
    if (!times || t.selection !== slice) return;
    Object.assign(slice, times, { count: 1, name: json.columns.name ?? slice.name });
    ov.page.say(t, ov.page.describe(t, slice));
    t.redrawOver();
  }

  /** The slice of the same lane that starts next (direction 1) or before (-1) in a tile, or null. */
  function beside(t, tile, slice, direction) {
    let best = null;
    for (const wire of wiresOf(slice.lane)) {
      const bounds = tile.lanes.get(wire);
      if (!bounds) continue;
      const offset = slice.start - tile.t0;
      // Stamps of a tile are rounded, so the slice itself is recognised by its row, not by its time.
      const slack = Math.max(1, Math.abs(offset) * 1e-6);
      let i = ov.wire.firstReaching(tile, bounds[0], bounds[1], offset - slack);
      if (direction > 0) {
        while (i < bounds[1] && (tile.start[i] <= offset - slack || tile.row[i] === slice.row)) i++;
      } else {
        while (i >= bounds[0] && (i >= bounds[1] || tile.start[i] >= offset - slack || tile.row[i] === slice.row)) i--;
      }
      if (i < bounds[0] || i >= bounds[1]) continue;
      if (!best || (tile.start[i] - best.start) * direction < 0) best = { i, start: tile.start[i] };
    }
    return best ? sliceAt(t, tile, best.i) : null;
  }

  /** The neighbour of a slice that the newest tile does not show one by one: a closer look, then a wider one. */
  async function lookBeside(t, slice, direction) {
    const { feed } = t;
    const close = (8 * t.view.span) / t.plotWidth;
    const windows = direction > 0
      ? [[slice.start - 1, slice.end + close], [slice.start - 1, t.spanNs]]
      : [[slice.start - close, slice.end + 1], [0, slice.end + 1]];
    for (const [t0, t1] of windows) {
      const tile = await feed.look(t0, Math.min(t1, t.spanNs), LOOK_PX, wiresOf(slice.lane));
      const found = tile && t.feed === feed ? beside(t, tile, slice, direction) : null;
      if (found) return found;
    }
    return null;
  }

  /** Moves the selection along its lane. */
  async function step(t, direction) {
    const from = t.selection;
    if (!from) return stepInto(t, t.focusRow, direction);
    // A selection that the tile shows only within an aggregate has its neighbours in there too.
    const isExact = find(t, from.table, from.row, from.wire) !== null;
    const near = isExact ? beside(t, t.feed.tile, from, direction) : null;
    const found = near && near.count === 1 ? near : await lookBeside(t, from, direction);
    if (t.selection !== from) return false;
    if (found) return goTo(t, found);
    ov.page.say(t, direction > 0 ? 'No later slice in this lane.' : 'No earlier slice in this lane.');
    return false;
  }

  function goTo(t, slice) {
    t.choose(slice);
    const length = slice.end - slice.start;
    if (slice.start >= t.view.t0 && slice.end <= t.view.t1) return true;
    if (length <= t.view.span * 0.9) {
      const middle = (slice.start + slice.end) / 2;
      t.view.set(middle - t.view.span / 2, middle + t.view.span / 2);
    } else if (slice.end < t.view.t0 || slice.start > t.view.t1) {
      t.view.pan(slice.start - t.view.t0 - t.view.span * 0.1);
    }
    return true;
  }

  /** Moves the focus to the row above or below; in a lane the slice nearest in time becomes the selection. */
  function stepLane(t, direction) {
    let index = t.focusRow;
    if (t.selection) index = t.rows.indexOf(t.rowOfWire.get(t.selection.wire));
    if (t.focusRow >= 0 && t.rows[t.focusRow]?.type === 'group') index = t.focusRow;
    stepInto(t, Math.min(Math.max(0, index + direction), t.rows.length - 1), direction);
  }

  function stepInto(t, index, direction) {
    const row = t.rows[Math.max(0, index)];
    if (!row) return false;
    t.focusRow = t.rows.indexOf(row);
    t.reveal(row);
    t.redrawOver();
    if (row.type === 'group') {
      const state = row.folded ? 'folded; right arrow opens it' : 'open; left arrow folds it';
      ov.page.say(t, `Group ${row.group.label}, ${state}`);
      return true;
    }
    const time = t.selection ? (t.selection.start + t.selection.end) / 2 : (t.view.t0 + t.view.t1) / 2;
    let best = null;
    for (const wire of ov.rows.wiresOf(row)) {
      const found = nearest(t, wire, Math.min(Math.max(time, t.view.t0), t.view.t1), t.view.span);
      const gap = (slice) => Math.max(slice.start - time, time - slice.end, 0);
      if (found && (!best || gap(found) < gap(best))) best = found;
    }
    if (best) t.choose(best);
    else ov.page.say(t, `Lane ${row.lane.label}: nothing ${direction ? 'in this window' : 'here'}`);
    return true;
  }

  ov.pick = { at, find, locate, resolve, step, stepLane };
})((window.overlane = window.overlane || {}));
