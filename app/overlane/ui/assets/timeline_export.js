/* The view as a file: a picture (PNG) or a drawing (SVG), with axis, lane names and legend. */
(function (ov) {
  'use strict';

  const LEGEND_H = 30;
  const MOST_SHAPES = 20000; // beyond this an SVG is slower to open than anybody waits
  const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  // Control characters are no XML, whatever a trace calls its kernels.
  const escaped = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd').replace(/[&<>"]/g, (sign) => escapes[sign]);
  const hex = (colour) => `#${colour.map((part) => Math.round(part).toString(16).padStart(2, '0')).join('')}`;
  const ofPixel = (pixel) => hex([pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255]);

  const wordsOf = (category) => category.replaceAll('_', ' ').replace(/\b[hdp]2[hdp]\b/, (word) => word.toUpperCase());

  /** What the colours of slices in view stand for. */
  function ofSlices(t) {
    const { tile } = t.feed;
    if (t.settings.colour !== 'engine' || !tile) return [];
    const seen = new Set();
    for (const wire of t.visibleWires()) for (const i of inView(t, tile, wire)) seen.add(tile.category[i]);
    const codes = [...seen].sort((a, b) => a - b);
    return codes.map((code) => ({ label: wordsOf(t.meta.categories[code]), colour: t.theme.categories[code].base }));
  }

  /** What the colours of waits and gaps in view stand for. */
  const ofReasons = (t) => causesInView(t).map((code) => ({ label: t.reasons.causes[code].title, colour: t.theme.causes.colours[code] }));

  /** What the colours in view stand for. */
  const legend = (t) => [...ofSlices(t), ...ofReasons(t)];

  /** Indices of a tile's slices of a wire lane that lie in the view. */
  function inView(t, tile, wire) {
    const bounds = tile.lanes.get(wire);
    if (!bounds) return [];
    const found = [];
    let i = ov.wire.firstReaching(tile, bounds[0], bounds[1], t.view.t0 - tile.t0);
    for (; i < bounds[1] && tile.t0 + tile.start[i] < t.view.t1; i++) if (tile.t0 + tile.end[i] >= t.view.t0) found.push(i);
    return found;
  }

  function causesInView(t) {
    if (!ov.causes.isOn(t) || !t.layers.reasons.tile) return [];
    const { tile } = t.layers.reasons;
    const seen = new Set();
    for (const wire of tile.lanes.keys()) {
      for (const i of inView(t, tile, wire)) if (tile.category[i] < t.reasons.causes.length) seen.add(tile.category[i]);
    }
    return [...seen].sort((a, b) => a - b);
  }

  /** What stands in for the causes of waits and gaps where none are drawn. */
  function quietWords(t) {
    const { settings } = t;
    const isWanted = settings.waits || settings.gaps || settings.colour === 'cause';
    if (t.reasons?.state === 'computing') return 'being computed; waits, gaps and barriers come by themselves';
    if (t.reasons?.state === 'failed') return 'could not be computed';
    return isWanted ? 'nothing in view waits or idles' : 'switched off (V)';
  }

  function legendLine(title, entries, quiet) {
    const { make } = ov.page;
    const line = make('div', '');
    line.append(make('b', '', title), ...entries.map(({ label, colour }) => {
      const item = make('span', '', label);
      const swatch = make('i', '');
      swatch.style.background = hex(colour);
      item.prepend(swatch);
      return item;
    }));
    if (!entries.length) line.append(make('em', '', quiet));
    return line;
  }

  /**
   * Says below the lanes what the colours in view stand for; anew when what is drawn has come to rest. Both lines
   * are there from the start, so that the lanes do not move when the causes arrive.
   */
  function showLegend(t) {
    const isEmpty = !t.meta || t.meta.lanes.length === 0;
    const slices = isEmpty ? [] : ofSlices(t);
    const reasons = isEmpty ? [] : ofReasons(t);
    const { colour } = t.settings;
    const quiet = [colour === 'engine' ? 'nothing in view' : `by ${colour}`, quietWords(t)];
    const key = JSON.stringify([isEmpty, slices, reasons, quiet]);
    if (t.legendKey === key) return;
    t.legendKey = key;
    t.parts.legend.hidden = isEmpty;
    t.parts.legend.replaceChildren(legendLine('Colours', slices, quiet[0]), legendLine('Waits, gaps', reasons, quiet[1]));
    t.makeRoomBelow(t.parts.legend.offsetHeight);
  }

  const fileName = (t, suffix) => `${(t.meta.name || 'timeline').replace(/[^\w.-]+/g, '-').slice(0, 60)}-${Math.floor(t.view.t0)}-${Math.ceil(t.view.t1)}.${suffix}`;

  function save(t, blob, suffix) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = fileName(t, suffix);
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    ov.page.say(t, `Saved as ${link.download}.`);
  }

  // ---- PNG

  function png(t) {
    if (!t.meta) return;
    t.draw();
    const ratio = t.pixelRatio;
    const entries = legend(t);
    const canvas = document.createElement('canvas');
    canvas.width = t.parts.canvas.width;
    canvas.height = t.parts.canvas.height + LEGEND_H * ratio * linesOf(t, entries);
    const g = canvas.getContext('2d');
    g.fillStyle = ov.paint.css(t.theme.bg);
    g.fillRect(0, 0, canvas.width, canvas.height);
    g.drawImage(t.parts.canvas, 0, 0);
    g.drawImage(t.parts.over, 0, 0);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = `11px ${t.theme.font}`;
    g.textBaseline = 'middle';
    for (const { x, y, label, colour } of placed(t, entries)) {
      g.fillStyle = ov.paint.css(colour);
      g.fillRect(x, t.height + y - 5, 10, 10);
      g.fillStyle = ov.paint.css(t.theme.text);
      g.fillText(label, x + 15, t.height + y);
    }
    canvas.toBlob((blob) => save(t, blob, 'png'), 'image/png');
  }

  /** Places of the legend's entries from the left, on as many lines as they need. */
  function placed(t, entries) {
    const font = `11px ${t.theme.font}`;
    let x = 12;
    let y = LEGEND_H / 2;
    return entries.map((entry) => {
      const width = t.fitter.width(t.context, font, entry.label) + 34;
      if (x + width > t.width) {
        x = 12;
        y += LEGEND_H;
      }
      const at = { ...entry, x, y };
      x += width;
      return at;
    });
  }

  const linesOf = (t, entries) => Math.max(1, Math.ceil((placed(t, entries).pop()?.y ?? 0) / LEGEND_H));

  // ---- SVG

  class Drawing {
    constructor(t) {
      this.t = t;
      this.parts = [];
      this.shapes = 0;
    }

    rect(x, y, width, height, fill, extra = '') {
      this.shapes++;
      this.parts.push(`<rect x="${x.toFixed(2)}" y="${y.toFixed(2)}" width="${Math.max(0.3, width).toFixed(2)}" height="${height.toFixed(2)}" fill="${fill}"${extra}/>`);
    }

    text(x, y, text, fill, { size = 11, weight = 400, room = Infinity } = {}) {
      const shown = room === Infinity ? text : this.t.fitter.fit(this.t.context, `${weight} ${size}px ${this.t.theme.font}`, text, room);
      if (shown) this.parts.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" font-size="${size}" font-weight="${weight}" fill="${fill}">${escaped(shown)}</text>`);
    }
  }

  function pixelOf(t, row, tile, i) {
    const { theme } = t;
    const look = ov.colour.dress(t, row.lane, {});
    if (look.flat !== undefined) return look.flat;
    if (look.coloursOf) return look.coloursOf(tile)[i];
    return theme.pixels[tile.category[i] * theme.shades];
  }

  function drawLane(d, row) {
    const { t } = d;
    const { tile } = t.feed;
    if (!tile) return;
    for (let k = 0; k < row.lane.sublanes; k++) {
      const wire = row.lane.first + k;
      const top = t.top + ov.rows.slotTop(row, wire) - t.scrollTop;
      if (top + row.slot < t.top || top > t.height) continue;
      for (const i of inView(t, tile, wire)) {
        const x0 = Math.max(t.left, t.xOf(tile.t0 + tile.start[i]));
        const x1 = Math.min(t.left + t.plotWidth, t.xOf(tile.t0 + tile.end[i]));
        const share = tile.count[i] > 1 || row.lane.kind === 'counter' ? Math.max(0.1, tile.busy[i] / 255) : 1;
        const pixel = pixelOf(t, row, tile, i);
        d.rect(x0, top + row.slot * (1 - share), x1 - x0, row.slot * share, ofPixel(pixel));
        const name = tile.count[i] === 1 && row.slot >= 11 && row.lane.kind !== 'engine' ? ov.wire.nameOf(tile, i) : null;
        if (name && x1 - x0 > 26) d.text(x0 + 5, top + row.slot / 2 + 4, name, ov.paint.textOnPixel(pixel), { room: x1 - x0 - 10 });
      }
    }
  }

  function drawReasons(d, row) {
    const { t } = d;
    if (!ov.causes.isOn(t) || row.lane.kind !== 'stream' || !t.layers.reasons.tile) return;
    const { tile } = t.layers.reasons;
    const index = t.laneOf.get(row.lane.first);
    const top = t.top + row.y + row.top - t.scrollTop;
    const tall = row.lane.sublanes * (row.slot + 1) - 1;
    const each = (wire, act) => {
      for (const i of inView(t, tile, wire)) {
        const x0 = Math.max(t.left, t.xOf(tile.t0 + tile.start[i]));
        act(x0, Math.min(t.left + t.plotWidth, t.xOf(tile.t0 + tile.end[i])) - x0, hex(t.theme.causes.colours[tile.category[i]] || t.theme.dim));
      }
    };
    if (t.settings.gaps) each(t.meta.lanes.length + index, (x, width, colour) => width > 5 && d.rect(x, top, width, tall, colour, ' fill-opacity="0.14"'));
    if (t.settings.waits) each(index, (x, width, colour) => d.rect(x, top + tall + 2, width, 5, colour));
  }

  function drawFrame(d) {
    const { t } = d;
    const { theme } = t;
    for (const row of t.shownRows()) {
      const y = t.top + row.y - t.scrollTop;
      if (row.type === 'group') {
        d.rect(0, y, t.width, row.h, hex(theme.lane));
        d.text(14 + 11 * row.level, y + row.h / 2 + 4, row.group.label, hex(theme.text), { weight: 600 });
      } else {
        d.rect(0, y + row.h - 1, t.width, 1, hex(theme.line));
        d.text(22 + 11 * row.level, y + row.h / 2 + (row.lane.sublabel ? -2 : 4), row.lane.label, hex(theme.text), { room: t.left - 40 });
        if (row.lane.sublabel) d.text(22 + 11 * row.level, y + row.h / 2 + 11, row.lane.sublabel, hex(theme.dim), { size: 10, room: t.left - 40 });
      }
    }
    for (const tick of t.ticks.ticks) {
      const x = t.xOf(tick.t);
      if (x < t.left || x > t.left + t.plotWidth) continue;
      d.rect(x, t.top - 7, 1, t.height - t.top, hex(theme.line));
      d.text(x + 4, t.top - 9, tick.label, hex(theme.dim));
    }
    const base = t.ticks.base === null ? '' : ` · times from ${t.ticks.baseLabel}`;
    d.text(12, 20, `${t.meta.name} · ${ov.time.duration(t.view.span)} from ${ov.time.time(t.view.t0, t.view.span / 100, t.view.t1)}${base}`, hex(theme.text), { size: 12, weight: 600 });
  }

  /** The text of the drawing; null when it would have too many shapes. */
  function drawing(t) {
    const d = new Drawing(t);
    drawFrame(d);
    d.parts.push(`<g clip-path="url(#plot)">`);
    for (const box of ov.barriers.boxes(t)) d.rect(box.x, box.y, box.width, box.height, hex(box.colour), ' fill-opacity="0.13"');
    for (const row of t.shownRows()) {
      if (row.type !== 'lane') continue;
      drawReasons(d, row);
      drawLane(d, row);
      if (d.shapes > MOST_SHAPES) return null;
    }
    d.parts.push('</g>');
    const entries = legend(t);
    for (const { x, y, label, colour } of placed(t, entries)) {
      d.rect(x, t.height + y - 5, 10, 10, hex(colour));
      d.text(x + 15, t.height + y + 4, label, hex(t.theme.text));
    }
    const height = t.height + LEGEND_H * linesOf(t, entries);
    const clip = `<clipPath id="plot"><rect x="${t.left}" y="${t.top}" width="${t.plotWidth}" height="${t.height - t.top}"/></clipPath>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${t.width}" height="${height}" viewBox="0 0 ${t.width} ${height}" font-family="${escaped(t.theme.font)}">`
      + `<defs>${clip}</defs><rect width="100%" height="100%" fill="${hex(t.theme.bg)}"/>${d.parts.join('')}</svg>`;
  }

  function svg(t) {
    if (!t.meta) return;
    t.draw();
    const text = drawing(t);
    if (text === null) {
      ov.page.say(t, 'That are too many shapes for a drawing.');
      ov.page.status(t, { text: `More than ${MOST_SHAPES.toLocaleString('en')} shapes are in view: zoom in, or save it as PNG.`, isError: true });
      setTimeout(() => t.clearStatus(), 5000);
      return;
    }
    save(t, new Blob([text], { type: 'image/svg+xml' }), 'svg');
  }

  ov.export = { causesInView, drawing, inView, legend, png, showLegend, svg };
})((window.overlane = window.overlane || {}));
