/* The critical path: of the whole trace, of the step that the pages are narrowed to, or of the window in view. */
(function (ov) {
  'use strict';

  const TALL = 3; // px
  const isOnPath = (lane) => lane.kind === 'stream' || lane.kind === 'calls';

  /** The walk moves the view; meanwhile the path stays the one that it began on. */
  const isWalked = (t) => t.pathAt && t.selection?.table === t.pathAt.table && t.selection.row === t.pathAt.row;

  /** What the address says of the window whose path is shown. */
  function windowOf(t) {
    if (t.settings.pathOfView && t.pathWindow && isWalked(t)) return t.pathWindow;
    if (t.settings.pathOfView) {
      const { t0, t1 } = t.view;
      const from = Math.floor(Math.max(0, t0));
      return { from, to: Math.max(from + 1, Math.ceil(Math.min(t.spanNs, t1))), passing: 1 };
    }
    const [from, to] = (new URLSearchParams(location.search).get('window') || '').split('-').map(Number);
    return to > from ? { from, to } : {};
  }

  /** Asks for the path of another window where it has changed; the one before stays until then. */
  function need(t) {
    const isShown = ov.causes.isOn(t) && t.settings.path;
    const window = isShown ? windowOf(t) : null;
    const key = isShown ? JSON.stringify(window) : null;
    if (t.pathKey === key) return;
    t.pathKey = key;
    t.pathWindow = window;
    t.pathPlace = undefined;
    t.pathAt = null;
    const before = t.layers.path;
    const feed = isShown ? new ov.LayerFeed(t, { layer: 'path', ...window }, (wires) => wiresFor(t, wires), t.meta.lanes.length) : null;
    if (feed && before?.tile) feed.tile = { ...before.tile, isOld: true };
    ov.layers.set(t, 'path', feed);
  }

  function wiresFor(t, wires) {
    const found = new Set();
    for (const wire of wires) {
      const index = t.laneOf.get(wire);
      if (index !== undefined && isOnPath(t.meta.lanes[index])) found.add(index);
    }
    return [...found];
  }

  function readTheme(t) {
    t.theme.path = Int32Array.of(ov.paint.pack(t.theme.text));
  }

  function drawRow(t, row, y, columns) {
    if (!t.settings.path || !t.layers.path || !isOnPath(row.lane)) return;
    const look = { top: y + 1, tall: TALL, table: t.theme.path, columns };
    ov.causes.strip(t, t.layers.path, t.laneOf.get(row.lane.first), look);
  }

  /** Walks along the path. */
  async function walk(t, direction) {
    if (!ov.causes.isOn(t)) {
      ov.page.say(t, ov.causes.sentence(t));
      return;
    }
    if (!t.settings.path) ov.settings.set(t, 'path', true);
    need(t);
    const from = t.selection ? { table: t.selection.table, row: t.selection.row } : {};
    const query = { by: direction, at: Math.round((t.view.t0 + t.view.t1) / 2), ...t.pathWindow, ...from };
    if (t.pathPlace !== undefined) query.place = t.pathPlace;
    const response = await fetch(t.feed.address('reasons/path', query), { signal: t.feed.abort.signal });
    const body = await response.json();
    if (!response.ok || !body.link) {
      ov.page.say(t, body.error || 'The critical path ends here.');
      return;
    }
    t.pathPlace = body.link.place;
    t.pathAt = { table: body.link.table, row: body.link.row };
    await t.select(body.link.table, body.link.row);
  }

  ov.path = { drawRow, need, readTheme, walk };
})((window.overlane = window.overlane || {}));
