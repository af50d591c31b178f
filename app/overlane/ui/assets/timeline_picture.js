/*
 * The plot as one picture: slices, gaps, waits and barriers. While the view pans, a picture that is wider than the view
 * is moved and nothing is drawn anew; while it zooms, every frame draws one as wide as the view.
 */
(function (ov) {
  'use strict';

  const MARGIN = 0.5; // of the plot, drawn on either side once the view pans; tiles reach as far
  const MOST_PIXELS = 16e6; // of a picture with margins: more takes more memory than it saves time
  const SEARCHED = new Set(['ops', 'api_calls', 'syncs', 'ranges', 'overheads', 'instants']);

  /** All that a picture depends on beside its place in time. */
  function contentOf(t) {
    const found = [t.scale.perNs, t.plotWidth, t.height, t.pixelRatio, t.scrollTop, t.rows, t.theme, t.filter, t.reasons?.state, t.barriers];
    for (const feed of [t.feed, t.layers.reasons, t.layers.path, t.layers.found]) found.push(feed?.tile, feed?.overview);
    return found;
  }

  /** The picture of the view: the one before where it shows the same and reaches as far, else another. */
  function current(t) {
    const { origin } = t.scale;
    const columns = Math.round(t.plotWidth * t.pixelRatio);
    const lines = Math.round((t.height - t.top) * t.pixelRatio);
    const content = contentOf(t);
    const before = t.picture;
    const isSame = Boolean(before) && content.every((one, i) => one === before.content[i]);
    if (isSame && origin >= before.origin && origin + columns <= before.origin + before.columns) return before;
    const wide = Math.round(columns * MARGIN);
    const margin = isSame && (columns + 2 * wide) * lines <= MOST_PIXELS ? wide : 0;
    t.raster = margin ? t.rasters.wide : t.rasters.narrow;
    t.picture = {
      content,
      origin: origin - margin,
      columns: columns + 2 * margin,
      lines,
      scale: { perNs: t.scale.perNs, origin: origin - margin },
      labels: [], // what can carry a name: {y, h, found, kind}
      gaps: [], // gaps that can carry words
      barriers: [], // boxes of barriers, from the picture's left edge
      canvas: null,
    };
    paint(t, t.picture);
    return t.picture;
  }

  function paint(t, picture) {
    const { raster } = t;
    const ratio = t.pixelRatio;
    const { columns, lines } = picture;
    raster.begin(columns, lines, ratio, t.theme);
    for (const row of t.shownRows()) {
      const y = row.y - t.scrollTop;
      if (row.type === 'group') {
        if (row.folded) drawSummary(t, row, y, columns);
        continue;
      }
      const tall = Math.max(1, Math.round(row.slot * ratio));
      for (let k = 0; k < row.lane.sublanes; k++) {
        const slotY = y + row.top + k * (row.slot + 1);
        if (slotY + row.slot < 0 || slotY > t.height - t.top) continue;
        const found = row.slot >= 11 && row.lane.kind !== 'counter' ? [] : null;
        drawLane(t, row, row.lane.first + k, { tall, top: Math.round(slotY * ratio), columns, found });
        if (found && found.length) picture.labels.push({ y: t.top + slotY, h: row.slot, found, kind: row.lane.kind });
      }
      ov.causes.drawRow(t, row, y, columns);
    }
    picture.canvas = raster.finish();
    ov.barriers.paint(t, picture, raster.context);
  }

  /** Copies the picture to its place. */
  function draw(t, g) {
    const picture = current(t);
    const ratio = t.pixelRatio;
    const columns = Math.round(t.plotWidth * ratio);
    t.pictureShift = picture.origin - t.scale.origin;
    g.imageSmoothingEnabled = false;
    const { lines } = picture;
    g.drawImage(picture.canvas, -t.pictureShift, 0, columns, lines, t.left, t.top, columns / ratio, lines / ratio);
    return picture;
  }

  /** Columns of a picture that lie in the view, as [left, width] in CSS px; null where too few do. */
  function inView(t, a, b, least) {
    const columns = Math.round(t.plotWidth * t.pixelRatio);
    const first = Math.max(0, a + t.pictureShift);
    const last = Math.min(columns, b + t.pictureShift);
    return last - first < least * t.pixelRatio ? null : [t.left + first / t.pixelRatio, (last - first) / t.pixelRatio];
  }

  /** One wire lane: its slices, or under a filter all of them dimmed and those found over them. */
  function drawLane(t, row, wire, { tall, top, columns, found }) {
    const { raster } = t;
    const isHidden = t.filter && t.filter.mode === 'hide' && SEARCHED.has(row.lane.table) && row.lane.kind !== 'engine';
    const look = ov.colour.dress(t, row.lane, { kind: row.lane.kind, plain: row.lane.kind === 'engine', labels: t.filter ? null : found });
    if (t.settings.colour === 'cause' && row.lane.kind === 'stream' && ov.causes.isOn(t)) {
      drawByCause(t, wire, { tall, top, columns, found: t.filter ? null : found });
    } else if (!isHidden) {
      const under = t.filter ? { ...look, dim: true } : look;
      raster.beginLane(tall);
      addFromTiles(t, t.feed, wire, columns, under);
      raster.endLane(top, under);
    }
    if (!t.filter || !t.layers.found) return;
    const over = { ...look, labels: found, over: true };
    raster.beginLane(tall);
    addFromTiles(t, t.layers.found, wire, columns, over);
    raster.endLane(top, over);
  }

  /** The operations of a stream in the colour of the cause that held each longest. */
  function drawByCause(t, wire, { tall, top, columns, found }) {
    const look = { kind: 'stream', plain: false, labels: found, table: t.theme.causes.pixels };
    t.raster.beginLane(tall);
    addFromTiles(t, t.layers.reasons, 2 * t.meta.lanes.length + wire, columns, look);
    t.raster.endLane(top, look);
  }

  function drawSummary(t, row, y, columns) {
    const ratio = t.pixelRatio;
    const look = { kind: 'summary', plain: true, labels: null, dim: Boolean(t.filter) };
    t.raster.beginLane(Math.round((row.h - 10) * ratio));
    for (const wire of row.summary) addFromTiles(t, t.feed, wire, columns, look);
    t.raster.endLane(Math.round((y + 5) * ratio), look);
  }

  /** Slices of one wire lane: from the newest tile where it reaches, beside it from the overview of the whole trace. */
  function addFromTiles(t, feed, wire, columns, look) {
    const { tile, overview } = feed;
    const { scale } = t.picture;
    let from = 0;
    let to = 0;
    if (tile && tile.asked.has(wire)) {
      from = Math.min(columns, Math.max(0, Math.floor(tile.t0 * scale.perNs - scale.origin)));
      to = Math.max(from, Math.min(columns, Math.ceil(tile.t1 * scale.perNs - scale.origin) + 1));
      t.raster.addSlices(tile, wire, scale, from, to, look);
    }
    if (!overview || overview === tile || !overview.asked.has(wire)) return;
    const quiet = { ...look, labels: null };
    t.raster.addSlices(overview, wire, scale, 0, from, quiet);
    t.raster.addSlices(overview, wire, scale, to, columns, quiet);
  }

  ov.picture = { addFromTiles, draw, inView };
})((window.overlane = window.overlane || {}));
