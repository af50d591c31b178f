/* Barriers: translucent spans over the streams that each held, below the slices, with what they are and cost. */
(function (ov) {
  'use strict';

  const MOST = 200; // the costliest of a window; more would be a haze
  const MARGIN = 0.5; // of a window, asked for on either side
  const DRIFT = 2; // they are asked for anew when the scale differs by more
  const LEAST_PX = 2;
  const LABEL_FROM = 60; // px
  // Barriers take the colour of the cause that they are for what they held.
  const COLOUR_OF_BARRIER = {
    event_sync: 'host_sync', stream_sync: 'host_sync', context_sync: 'host_sync', device_sync: 'host_sync',
  };

  function isCurrent(t) {
    const held = t.barriers;
    const { view } = t;
    if (!held || held.feed !== t.feed) return false;
    const drift = Math.max(held.span / view.span, view.span / held.span);
    const reaches = held.t0 <= Math.max(0, view.t0) && held.t1 >= Math.min(t.spanNs, view.t1);
    return reaches && (drift < DRIFT || !held.isCut);
  }

  async function need(t) {
    if (!ov.causes.isOn(t) || !t.settings.barriers || t.barriersPending || isCurrent(t)) return;
    const { feed, view } = t;
    const t0 = Math.floor(Math.max(0, view.t0 - view.span * MARGIN));
    const t1 = Math.max(t0 + 1, Math.ceil(Math.min(t.spanNs, view.t1 + view.span * MARGIN)));
    const { span } = view;
    t.barriersPending = true;
    try {
      const response = await fetch(feed.address('barriers', { t0, t1, limit: MOST }), { signal: feed.abort.signal });
      if (!response.ok) throw new Error(await ov.wire.failure(response));
      const body = await response.json();
      t.barriers = { feed, t0, t1, span, list: body.barriers, isCut: body.total > body.barriers.length };
    } catch (error) {
      if (error.name !== 'AbortError') {
        console.warn(`Barriers are not drawn: ${error.message}`);
        t.barriers = { feed, t0: -Infinity, t1: Infinity, span, list: [], isCut: false };
      }
    }
    t.barriersPending = false;
    if (t.feed !== feed) return;
    t.redraw();
    need(t);
  }

  function colourOf(t, kind) {
    const { causes } = t.theme;
    if (!causes.ofBarrier.has(kind)) {
      const place = t.reasons.causes.findIndex((cause) => cause.name === (COLOUR_OF_BARRIER[kind] || kind));
      causes.ofBarrier.set(kind, causes.colours[place] || t.theme.text);
    }
    return causes.ofBarrier.get(kind);
  }

  /** Stretches of neighbouring lanes that a barrier held, in content px; worked out once per layout. */
  function stretchesOf(t, barrier) {
    if (barrier.layout === t.rows) return barrier.stretches;
    const rows = barrier.lanes.map((id) => t.rowOfLane.get(id)).filter(Boolean).sort((a, b) => a.y - b.y);
    barrier.layout = t.rows;
    barrier.stretches = [];
    for (const row of rows) {
      const last = barrier.stretches[barrier.stretches.length - 1];
      if (last && Math.abs(last.bottom - row.y) < 2) last.bottom = row.y + row.h;
      else barrier.stretches.push({ top: row.y, bottom: row.y + row.h });
    }
    return barrier.stretches;
  }

  /**
   * Adds the spans to a picture, under what it shows already: one path per colour, since there is no time for hundreds
   * of translucent fills. Keeps where they are, for labels and for the mouse.
   */
  function paint(t, picture, context) {
    if (!ov.causes.isOn(t) || !t.settings.barriers || !t.barriers) return;
    const ratio = t.pixelRatio;
    const { perNs, origin } = picture.scale;
    const right = picture.columns / ratio;
    const paths = new Map();
    for (const barrier of [...t.barriers.list].reverse()) { // the costliest lies on top
      const x0 = Math.max(0, (barrier.start_ns * perNs - origin) / ratio);
      const x1 = Math.min(right, (barrier.end_ns * perNs - origin) / ratio);
      if (x1 - x0 < LEAST_PX) continue; // too thin to be told from a line
      const colour = colourOf(t, barrier.kind);
      if (!paths.has(colour)) paths.set(colour, { fill: new Path2D(), edge: new Path2D() });
      const { fill, edge } = paths.get(colour);
      stretchesOf(t, barrier).forEach(({ top, bottom }, at) => {
        const box = { x: x0, width: x1 - x0, y: top - t.scrollTop, height: bottom - top - 1 };
        if (box.y > t.height - t.top || box.y + box.height < 0) return;
        fill.rect(box.x, box.y, box.width, box.height);
        if (box.width >= 6) {
          edge.rect(box.x, box.y, 1, box.height);
          edge.rect(box.x + box.width - 1, box.y, 1, box.height);
        }
        picture.barriers.push({ ...box, barrier, colour, isFirst: at === 0 });
      });
    }
    context.save();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalCompositeOperation = 'destination-over';
    for (const [colour, { fill, edge }] of [...paths].reverse()) { // each goes under those before it
      context.fillStyle = ov.paint.css(colour, 0.75);
      context.fill(edge);
      context.fillStyle = ov.paint.css(colour, 0.13);
      context.fill(fill);
    }
    context.restore();
  }

  /** The spans in view, cut to it, on the element; the costliest last. */
  function boxes(t) {
    const found = [];
    const shift = t.pictureShift / t.pixelRatio;
    for (const box of t.picture?.barriers ?? []) {
      const x0 = Math.max(0, box.x + shift);
      const x1 = Math.min(t.plotWidth, box.x + box.width + shift);
      if (x1 > x0) found.push({ ...box, x: t.left + x0, width: x1 - x0, y: t.top + box.y });
    }
    return found;
  }

  /** Labels on the upper edge of barriers, where they fit whole and hide no other; the costliest first. */
  function drawLabels(t, g) {
    const font = `600 10px ${t.theme.font}`;
    const taken = [];
    g.textBaseline = 'middle';
    g.lineWidth = 1;
    for (const { barrier, colour, ...box } of boxes(t).reverse()) {
      if (!box.isFirst || box.width <= LABEL_FROM) continue;
      const words = [`${barrier.title} · ${ov.time.duration(barrier.lost_ns)} lost`, barrier.title]
        .find((text) => t.fitter.width(g, font, text) + 12 <= box.width);
      if (!words) continue;
      const pill = { x: box.x, y: Math.max(t.top, box.y - 7), width: t.fitter.width(g, font, words) + 10 };
      if (taken.some((one) => one.y === pill.y && pill.x < one.x + one.width + 2 && one.x < pill.x + pill.width + 2)) continue;
      taken.push(pill);
      g.fillStyle = ov.paint.css(t.theme.bg, 0.92);
      g.strokeStyle = ov.paint.css(colour, 0.8);
      g.beginPath();
      g.roundRect(pill.x + 0.5, pill.y + 0.5, pill.width, 13, 4);
      g.fill();
      g.stroke();
      g.font = font;
      g.fillStyle = ov.paint.css(colour);
      g.fillText(words, pill.x + 5.5, pill.y + 7.5);
    }
  }

  /** The shortest barrier under a point, as {title, facts, barrier}; null for none. */
  function at(t, x, y) {
    let best = null;
    for (const box of boxes(t)) {
      const isIn = x >= box.x - 1 && x <= box.x + box.width + 1 && y >= box.y && y <= box.y + box.height;
      if (isIn && (!best || box.width <= best.width)) best = box;
    }
    if (!best) return null;
    const { barrier } = best;
    const count = barrier.ops_held;
    const names = barrier.ops.map((op) => op.name || `operation ${op.row}`);
    if (count > names.length) names.push(`and ${count - names.length} more`);
    const list = [
      ['lost', `${ov.time.duration(barrier.lost_ns)} over ${barrier.streams_held} ${barrier.streams_held === 1 ? 'stream' : 'streams'}`],
      ['span', `${ov.time.duration(barrier.end_ns - barrier.start_ns)} from ${ov.time.time(barrier.start_ns, 1000, barrier.start_ns)}`],
      [`held (${count})`, names.join('; ') || 'no operation'],
      ['is', barrier.proof],
    ];
    return { title: `Barrier: ${barrier.title}`, facts: list, barrier };
  }

  ov.barriers = { at, boxes, colourOf, drawLabels, need, paint };
})((window.overlane = window.overlane || {}));
