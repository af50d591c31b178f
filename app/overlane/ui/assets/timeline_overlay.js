/* What moves with the mouse and the selection: cursor, hover, selection, range, markers, the minimap's handle. */
(function (ov) {
  'use strict';

  const LEAST_BOX = 5; // px: a box around a slice is never narrower
  const HANDLE = 5;

  function clipToPlot(t, g) {
    g.beginPath();
    g.rect(t.left, t.top, t.plotWidth, t.height - t.top);
    g.clip();
  }

  /** Where a slice of a wire lane is drawn, or null when its lane is folded away or out of sight. */
  function boxOf(t, slice) {
    const row = t.rowOfWire.get(slice.wire);
    if (!row || row.type !== 'lane') return null;
    const y = t.top + ov.rows.slotTop(row, slice.wire) - t.scrollTop;
    if (y + row.slot < t.top || y > t.height) return null;
    const x0 = Math.max(-20, t.xOf(slice.start));
    const x1 = Math.min(t.width + 20, t.xOf(slice.end));
    const width = Math.max(LEAST_BOX, x1 - x0);
    return { x: width > x1 - x0 ? x0 - (width - (x1 - x0)) / 2 : x0, y, width, height: row.slot };
  }

  function outline(g, box, grow, radius) {
    g.beginPath();
    g.roundRect(box.x - grow, box.y - grow, box.width + 2 * grow, box.height + 2 * grow, radius);
    g.stroke();
  }

  function drawSelection(t, g) {
    const box = t.selection && t.selection.end !== undefined ? boxOf(t, t.selection) : null;
    if (!box) return;
    g.strokeStyle = ov.paint.css(t.theme.bg);
    g.lineWidth = 4;
    outline(g, box, 1, 4);
    g.strokeStyle = ov.paint.css(t.theme.accent);
    g.lineWidth = 2.5;
    outline(g, box, 0.5, 3.5);
  }

  function drawHover(t, g) {
    const box = t.hover ? boxOf(t, t.hover) : null;
    if (!box) return;
    g.strokeStyle = ov.paint.css(t.theme.text, 0.75);
    g.lineWidth = 1.25;
    outline(g, box, 0, 3);
  }

  /** Marks the row that the arrow keys are on. */
  function drawFocusRow(t, g) {
    if (t.focusRow < 0 || !t.hasFocus) return;
    const row = t.rows[t.focusRow];
    if (!row) return;
    const y = t.top + row.y - t.scrollTop;
    g.save();
    g.beginPath();
    g.rect(0, t.top, t.width, t.height - t.top);
    g.clip();
    g.fillStyle = ov.paint.css(t.theme.accent);
    g.fillRect(0, y, 3, row.h);
    g.restore();
  }

  /** A label on a small flag in the ruler. */
  function flag(t, g, x, y, text, colour, align) {
    const font = `600 10.5px ${t.theme.font}`;
    const width = t.fitter.width(g, font, text) + 12;
    let left = align === 'centre' ? x - width / 2 : x;
    left = Math.max(t.left + t.baseWidth, Math.min(t.left + t.plotWidth - width, left));
    g.fillStyle = ov.paint.css(colour);
    g.beginPath();
    g.roundRect(left, y, width, 15, 3);
    g.fill();
    g.font = font;
    g.textBaseline = 'middle';
    g.fillStyle = ov.paint.css(t.theme.bg);
    g.fillText(text, left + 6, y + 8);
    return { left, width };
  }

  function drawMarkers(t, g) {
    for (const marker of t.markers) {
      if (marker.t1 < t.view.t0 || marker.t0 > t.view.t1) continue;
      const x0 = Math.max(t.left, t.xOf(marker.t0));
      const x1 = Math.min(t.left + t.plotWidth, Math.max(t.xOf(marker.t1), x0 + 1));
      g.fillStyle = ov.paint.css(t.theme.marker, 0.1);
      g.fillRect(x0, t.top, x1 - x0, t.height - t.top);
      g.fillStyle = ov.paint.css(t.theme.marker, 0.9);
      if (t.xOf(marker.t0) >= t.left) g.fillRect(x0 - 0.5, t.top - 20, 1, t.height);
      if (x1 - x0 > 2 && x1 < t.left + t.plotWidth) g.fillRect(x1 - 0.5, t.top, 1, t.height);
      const label = t.fitter.fit(g, `600 10.5px ${t.theme.font}`, marker.label, 150);
      const box = flag(t, g, x0, t.top - 35, label, t.theme.marker, 'left');
      marker.box = { x: box.left, y: t.top - 35, width: box.width, height: 15 };
    }
  }

  function drawRange(t, g) {
    const { range, theme } = t;
    if (!range) return;
    const x0 = t.xOf(range.t0);
    const x1 = t.xOf(range.t1);
    if (x1 < t.left || x0 > t.left + t.plotWidth) return;
    const left = Math.max(t.left, x0);
    const right = Math.min(t.left + t.plotWidth, x1);
    const ruler = t.top - ov.chrome.METRICS.ruler;
    g.fillStyle = ov.paint.css(theme.accent, 0.1);
    g.fillRect(left, ruler, Math.max(1, right - left), t.height - ruler);
    g.fillStyle = ov.paint.css(theme.accent);
    for (const x of [x0, x1]) {
      if (x < t.left - 1 || x > t.left + t.plotWidth + 1) continue;
      g.fillRect(Math.round(x) - 0.5, ruler, 1.5, t.height - ruler);
      g.beginPath();
      g.roundRect(Math.round(x) - 3, t.top - 9, 6, 9, 2);
      g.fill();
    }
    flag(t, g, (left + right) / 2, ruler + 2, ov.time.duration(range.t1 - range.t0), theme.accent, 'centre');
  }

  function drawCursor(t, g) {
    const at = t.view.cursor;
    if (at === null || at < t.view.t0 || at > t.view.t1) return;
    const x = t.xOf(at);
    g.fillStyle = ov.paint.css(t.theme.text, 0.35);
    g.fillRect(Math.round(x), t.top - 6, 1, t.height - t.top + 6);
    if (t.dragKind === 'range') return; // the range says its own length in the same place
    const text = ov.time.time(at, t.view.span / t.plotWidth, t.view.t1);
    flag(t, g, x, t.top - ov.chrome.METRICS.ruler + 2, text, t.theme.dim, 'centre');
  }

  /** Where the shown window lies on the minimap. */
  function minimapHandle(t) {
    const perNs = t.plotWidth / t.view.limit;
    const x0 = t.left + t.view.t0 * perNs;
    const x1 = t.left + t.view.t1 * perNs;
    const width = Math.max(6, x1 - x0);
    const left = Math.min(t.left + t.plotWidth - width, Math.max(t.left, (x0 + x1 - width) / 2));
    return { x0: left, x1: left + width };
  }

  function drawMinimapHandle(t, g) {
    const { theme } = t;
    const { minimapTop: y, minimapHeight: h } = ov.chrome.METRICS;
    const { x0, x1 } = minimapHandle(t);
    g.fillStyle = ov.paint.css(theme.bg, 0.55);
    g.fillRect(t.left, y, x0 - t.left, h);
    g.fillRect(x1, y, t.left + t.plotWidth - x1, h);
    g.strokeStyle = ov.paint.css(theme.accent);
    g.lineWidth = 1.5;
    g.beginPath();
    g.roundRect(x0, y - 0.5, x1 - x0, h + 1, 3);
    g.stroke();
    if (x1 - x0 > 24 && t.view.span < t.view.limit * 0.999) {
      g.fillStyle = ov.paint.css(theme.accent);
      for (const x of [x0, x1]) {
        g.beginPath();
        g.roundRect(x - HANDLE / 2, y + h / 2 - 7, HANDLE, 14, 2);
        g.fill();
      }
    }
    if (!t.range) return;
    const perNs = t.plotWidth / t.view.limit;
    g.fillStyle = ov.paint.css(theme.accent, 0.3);
    g.fillRect(t.left + t.range.t0 * perNs, y, Math.max(2, (t.range.t1 - t.range.t0) * perNs), h);
  }

  function draw(t, g) {
    g.clearRect(0, 0, t.width, t.height);
    drawFocusRow(t, g);
    ov.notes.drawPin(t, g);
    drawMarkers(t, g);
    drawRange(t, g);
    g.save();
    clipToPlot(t, g);
    drawHover(t, g);
    ov.causes.drawSelection(t, g);
    drawSelection(t, g);
    g.restore();
    drawCursor(t, g);
    drawMinimapHandle(t, g);
  }

  ov.overlay = { draw, minimapHandle };
})((window.overlane = window.overlane || {}));
