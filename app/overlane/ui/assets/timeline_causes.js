/* Why: waits before operations, gaps of streams, and barriers over them, as the server names them. */
(function (ov) {
  'use strict';

  const POLL_MS = 700;
  const GAP_LABEL_PX = 110;
  const HATCH = 7; // px between the stripes of a gap
  const STRIP = 5; // px

  // ---- what the server knows

  /** Asks until the causes of the trace are computed; nothing waits for it. */
  async function load(t) {
    const { feed } = t;
    t.reasons = { state: 'computing', progress: 0 };
    while (t.feed === feed) {
      try {
        const response = await fetch(feed.address('reasons', {}), { signal: feed.abort.signal });
        if (t.feed !== feed) return;
        const body = await response.json();
        if (response.status === 200) return ready(t, body);
        if (response.status !== 202 && response.status !== 503) {
          t.reasons = { state: 'failed', error: body.error || 'The causes could not be computed.' };
          return undefined;
        }
      } catch (error) {
        if (error.name === 'AbortError') return undefined;
      }
      await new Promise((done) => { setTimeout(done, POLL_MS); });
    }
    return undefined;
  }

  function ready(t, body) {
    t.reasons = { ...body, state: 'ready' };
    t.laneOf = new Map();
    t.meta.lanes.forEach((lane, index) => {
      for (let k = 0; k < lane.sublanes; k++) t.laneOf.set(lane.first + k, index);
    });
    const count = 2 * t.meta.lanes.length + t.wireCount;
    ov.layers.set(t, 'reasons', new ov.LayerFeed(t, { layer: 'reasons' }, (wires) => wiresFor(t, wires), count));
    t.readTheme();
    t.relayout();
    ov.barriers.need(t);
    ov.path.need(t);
    ov.page.tellReasons(t);
    if (t.selection) ofSelection(t);
    t.redraw();
  }

  /** The overlay's lanes for wire lanes of the timeline, by what is switched on. */
  function wiresFor(t, wires) {
    const found = new Set();
    const n = t.meta.lanes.length;
    const { settings } = t;
    for (const wire of wires) {
      const index = t.laneOf.get(wire);
      const lane = t.meta.lanes[index];
      if (!lane) continue;
      if (lane.kind === 'stream') {
        if (settings.waits) found.add(index);
        if (settings.gaps) found.add(n + index);
        if (settings.colour === 'cause') found.add(2 * n + wire);
      }
    }
    return [...found];
  }

  const isOn = (t) => t.reasons?.state === 'ready' && Boolean(t.layers.reasons);

  /** What to say in the menu of the state of the causes. */
  function sentence(t) {
    const { state, error, missing } = t.reasons || {};
    if (state === 'ready') return (missing || []).join(' ');
    if (state === 'failed') return error;
    return 'The causes are being computed; they appear when they are there. This is done once per file.';
  }

  // ---- drawing on the lanes

  function readTheme(t, style, context) {
    const names = (t.reasons?.causes || []).map((cause) => `cause-${cause.name.replaceAll('_', '-')}`);
    const table = ov.paint.tableOf(context, style, names);
    const pixels = new Int32Array(32).fill(ov.paint.pack(ov.paint.mix(t.theme.dim, t.theme.bg, 0.55)));
    pixels.set(table.pixels);
    t.theme.causes = { ...table, pixels, ofBarrier: new Map() };
  }

  /** Room below the slices of a stream for its waits; kept from the start, so that nothing moves when they arrive. */
  function stripRoom(t, lane) {
    return lane.kind === 'stream' && t.settings.waits && t.reasons?.state !== 'failed' ? 4 : 0;
  }

  /** Draws what lies on one lane row beside its slices. */
  function drawRow(t, row, y, columns) {
    if (!isOn(t)) return;
    const index = t.laneOf.get(row.lane.first);
    const n = t.meta.lanes.length;
    const ratio = t.pixelRatio;
    const { settings, layers } = t;
    const bottom = y + row.top + row.lane.sublanes * (row.slot + 1) - 1;
    if (row.lane.kind === 'stream' && settings.gaps) {
      const top = Math.round((y + row.top) * ratio);
      const tall = Math.round((bottom - y - row.top) * ratio);
      hatchGaps(t, n + index, { top, tall, columns, row, y });
    }
    if (row.lane.kind === 'stream' && settings.waits) {
      strip(t, layers.reasons, index, { top: bottom + 1, tall: STRIP, table: t.theme.causes.pixels, columns });
    }
    ov.path.drawRow(t, row, y, columns);
  }

  /** Draws what an overlay has on one of its lanes as a thin bar. */
  function strip(t, feed, wire, { top, tall, table, columns }) {
    const look = { kind: 'strip', plain: true, labels: null, table, over: true };
    t.raster.beginLane(Math.round(tall * t.pixelRatio));
    ov.picture.addFromTiles(t, feed, wire, columns, look);
    t.raster.endLane(Math.round(top * t.pixelRatio), look);
  }

  /** Fills the gaps of one stream that are wide enough with quiet stripes of their cause. */
  function hatchGaps(t, wire, { top, tall, columns, row, y }) {
    const { tile } = t.layers.reasons;
    const bounds = tile && tile.lanes.get(wire);
    if (!bounds) return;
    const { perNs, origin } = t.picture.scale;
    const zero = tile.t0 * perNs - origin;
    const ratio = t.pixelRatio;
    const least = 5 * ratio;
    let i = ov.wire.firstReaching(tile, bounds[0], bounds[1], -zero / perNs);
    for (; i < bounds[1] && zero + tile.start[i] * perNs < columns; i++) {
      const x0 = zero + tile.start[i] * perNs;
      const x1 = zero + tile.end[i] * perNs;
      if (x1 - x0 < least) continue;
      const a = Math.max(0, Math.ceil(x0));
      const b = Math.min(columns, Math.floor(x1));
      t.raster.hatch(a, b, top, tall, { colour: t.theme.causes.pixels[tile.category[i]], step: Math.round(HATCH * ratio), shift: origin });
      if ((b - a) / ratio >= GAP_LABEL_PX && tile.count[i] === 1 && row.slot >= 14) {
        t.picture.gaps.push({ a, b, y: t.top + y + row.top + row.slot / 2, cause: tile.category[i], ns: tile.end[i] - tile.start[i] });
      }
    }
  }

  /** Words in wide gaps: what was waited for and how long. */
  function drawGapLabels(t, g, gaps) {
    const font = `11px ${t.theme.font}`;
    g.textBaseline = 'middle';
    for (const { a, b, y, cause, ns } of gaps) {
      const at = ov.picture.inView(t, a, b, GAP_LABEL_PX);
      if (!at) continue;
      const [x, room] = at;
      const title = t.reasons.causes[cause]?.title ?? 'idle';
      const both = `${title} · ${ov.time.duration(ns)}`;
      const text = t.fitter.width(g, font, both) <= room - 20 ? both : t.fitter.fit(g, font, title, room - 20);
      if (!text) continue;
      const width = t.fitter.width(g, font, text);
      const left = x + (room - width) / 2;
      g.fillStyle = ov.paint.css(t.theme.bg, 0.82);
      g.beginPath();
      g.roundRect(left - 5, y - 8, width + 10, 16, 4);
      g.fill();
      g.font = font;
      g.fillStyle = ov.paint.css(t.theme.causes.colours[cause]);
      g.fillText(text, left, y + 0.5);
    }
  }

  // ---- under the mouse

  /** What lies under a point beside slices: a wait, a gap or a barrier, as {title, facts}; null for nothing. */
  function at(t, x, y) {
    if (!isOn(t) || x < t.left) return null;
    const row = t.rows[ov.rows.rowAt(t.rows, y - t.top + t.scrollTop)];
    if (!row || row.type !== 'lane' || row.lane.kind !== 'stream') return null;
    const inRow = y - t.top + t.scrollTop - row.y;
    const bottom = row.top + row.lane.sublanes * (row.slot + 1);
    const index = t.laneOf.get(row.lane.first);
    const n = t.meta.lanes.length;
    const time = t.timeAt(x);
    if (t.settings.waits && inRow >= bottom) {
      const found = under(t, index, time);
      if (found) return facts(t, found, 'Waiting', 'an operation of this stream, issued and not started');
    }
    const barrier = t.settings.barriers ? ov.barriers.at(t, x, y) : null;
    const gap = t.settings.gaps ? under(t, n + index, time) : null;
    if (!gap) return barrier;
    const idle = facts(t, gap, 'Idle', 'nothing ran on this stream');
    if (barrier) idle.facts.push(['barrier', barrier.title.replace('Barrier: ', '')], ...barrier.facts);
    return idle;
  }

  function under(t, wire, time) {
    const { tile } = t.layers.reasons;
    const bounds = tile && tile.lanes.get(wire);
    if (!bounds) return null;
    const offset = time - tile.t0;
    const near = (2 * t.view.span) / t.plotWidth;
    let i = ov.wire.firstReaching(tile, bounds[0], bounds[1], offset - near);
    while (i < bounds[1] && tile.end[i] < offset - near) i++;
    if (i >= bounds[1] || tile.start[i] > offset + near) return null;
    return { tile, i };
  }

  function facts(t, { tile, i }, what, meaning) {
    const cause = t.reasons.causes[tile.category[i]];
    const many = tile.count[i] > 1;
    const length = ov.time.duration(tile.end[i] - tile.start[i]);
    const found = [[many ? 'mostly' : 'cause', cause ? cause.title : 'unknown'], ['', cause ? cause.sentence : '']];
    found.push(many ? ['parts', `${tile.count[i]} within ${length}`] : ['length', length]);
    found.push(['', meaning]);
    return { title: `${what}: ${cause ? cause.title : 'unknown'}`, facts: found };
  }

  // ---- the selection

  /** Asks what the selected operation waited for and what waited for it. */
  async function ofSelection(t) {
    t.why = null;
    const { selection, feed } = t;
    if (!selection || selection.table !== 'ops' || t.reasons?.state !== 'ready') return;
    try {
      const response = await fetch(feed.address('reasons/op', { op: selection.row }), { signal: feed.abort.signal });
      if (!response.ok || t.feed !== feed || t.selection?.row !== selection.row) return;
      t.why = await response.json();
      t.redrawOver();
    } catch (error) {
      if (error.name !== 'AbortError') console.warn(`The dependencies are not drawn: ${error.message}`);
    }
  }

  /** Walks to the operation that the selected one waited for (-1), or to the first that waited for it (1). */
  async function walk(t, direction) {
    if (!t.selection || t.selection.table !== 'ops') {
      ov.page.say(t, 'Select an operation first.');
      return;
    }
    for (let tries = 0; !t.why && t.reasons?.state === 'ready' && tries < 40; tries++) {
      await new Promise((done) => { setTimeout(done, 25); });
    }
    if (!t.why) {
      ov.page.say(t, sentence(t) || 'Its dependencies are not known.');
      return;
    }
    const edges = (direction < 0 ? t.why.waited_for : t.why.waiting).filter((edge) => edge.op !== null);
    if (!edges.length) {
      ov.page.say(t, direction < 0 ? 'It depends on no recorded operation.' : 'No recorded operation depends on it.');
      return;
    }
    const [edge] = edges;
    ov.page.say(t, `${edge.kind} dependency: ${edge.name}`);
    await t.select('ops', edge.op);
  }

  function pointOn(t, wire, ns) {
    const row = t.rowOfWire.get(wire);
    if (!row || row.type !== 'lane') return null;
    return { x: t.xOf(ns), y: t.top + ov.rows.slotTop(row, wire) - t.scrollTop + row.slot / 2 };
  }

  function arrow(g, from, to, colour, width) {
    const bend = Math.min(70, Math.max(18, Math.abs(to.x - from.x) * 0.4));
    g.strokeStyle = colour;
    g.fillStyle = colour;
    g.lineWidth = width;
    g.beginPath();
    g.moveTo(from.x, from.y);
    g.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x - 6, to.y);
    g.stroke();
    g.beginPath();
    g.moveTo(to.x, to.y);
    g.lineTo(to.x - 8, to.y - 4.5);
    g.lineTo(to.x - 8, to.y + 4.5);
    g.fill();
  }

  /** The whole wait of the selection, and arrows from what it waited for and to what waited for it. */
  function drawSelection(t, g) {
    const { why, selection } = t;
    if (!why || !selection || selection.row !== why.op || selection.table !== 'ops') return;
    const row = t.rowOfWire.get(selection.wire);
    if (!row || row.type !== 'lane') return;
    const top = t.top + row.y + row.top + row.lane.sublanes * (row.slot + 1) - t.scrollTop;
    for (const part of why.parts) {
      const x0 = Math.max(t.left - 5, t.xOf(part.start_ns));
      const x1 = Math.min(t.width, t.xOf(part.end_ns));
      if (x1 <= x0) continue;
      g.fillStyle = ov.paint.css(t.theme.bg);
      g.fillRect(x0, top - 2, x1 - x0, 8);
      g.fillStyle = ov.paint.css(t.theme.causes.colours[part.cause] || t.theme.text);
      g.fillRect(x0, top - 1, Math.max(1, x1 - x0), 6);
    }
    drawArrows(t, g, why, selection);
  }

  function drawArrows(t, g, why, selection) {
    const start = pointOn(t, selection.wire, selection.start);
    const end = pointOn(t, selection.wire, selection.end);
    const font = `600 10px ${t.theme.font}`;
    const draw = (edges, isBefore) => {
      for (const edge of edges) {
        const other = edge.lane === null ? null : pointOn(t, edge.lane, isBefore ? edge.end_ns : edge.start_ns);
        if (!other) continue;
        const colour = isBefore ? t.theme.accent : t.theme.dim;
        const ends = isBefore ? [other, start] : [end, other];
        // Along one lane an arrow runs low, below the words of the gap.
        const low = Math.abs(ends[0].y - ends[1].y) < 2 ? (t.rowOfWire.get(selection.wire)?.slot ?? 0) / 2 - 4 : 0;
        const [from, to] = ends.map(({ x, y }) => ({ x, y: y + low }));
        arrow(g, from, to, ov.paint.css(colour, edge.certainty === 'certain' ? 0.95 : 0.55), isBefore ? 1.75 : 1.25);
        if (!isBefore || Math.abs(to.y - from.y) < 14) continue;
        const text = edge.kind.replaceAll('_', ' ');
        const y = (from.y + to.y) / 2;
        const x = Math.min(t.left + t.plotWidth - t.fitter.width(g, font, text) - 6, Math.max(t.left + 4, Math.max(from.x, to.x) + 8));
        g.font = font;
        g.lineWidth = 3;
        g.strokeStyle = ov.paint.css(t.theme.bg, 0.9);
        g.strokeText(text, x, y);
        g.fillStyle = ov.paint.css(colour);
        g.fillText(text, x, y);
      }
    };
    g.textBaseline = 'middle';
    draw(why.waiting, false);
    draw(why.waited_for, true);
  }

  ov.causes = {
    at, drawGapLabels, drawRow, drawSelection, isOn, load, ofSelection, readTheme, sentence,
    strip, stripRoom, walk,
  };
})((window.overlane = window.overlane || {}));
