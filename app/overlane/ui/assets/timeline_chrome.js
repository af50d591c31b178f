/* Everything around the slices that is drawn with them: lane bands, grid, names in slices, gutter, ruler, minimap. */
(function (ov) {
  'use strict';

  const METRICS = {
    gutter: 212,
    narrowGutter: 132,
    narrowBelow: 760, // CSS px of the whole timeline
    minimap: 46,
    ruler: 36,
    right: 14, // room for the scroll bar
    minimapTop: 9,
    minimapHeight: 28,
  };
  const TICK_PX = 104;
  const INDENT = 11;
  const LABEL_PAD = 7;
  const LABEL_FROM = 26; // px
  const MINIMAP_BARS = 4; // more devices than this share one bar

  /** Bands of the groups and thin rules between lanes, over the whole width. */
  function drawBands(t, g) {
    const { theme } = t;
    for (const row of t.shownRows()) {
      const y = t.top + row.y - t.scrollTop;
      if (row.type === 'group') {
        g.fillStyle = ov.paint.css(theme.lane);
        g.fillRect(0, y, t.width, row.h);
      } else {
        g.fillStyle = ov.paint.css(theme.line, 0.75);
        g.fillRect(0, y + row.h - 1, t.width, 1);
      }
    }
  }

  function drawGrid(t, g) {
    g.fillStyle = ov.paint.css(t.theme.line);
    const last = t.rows[t.rows.length - 1];
    const end = t.top + Math.min(t.height - t.top, (last ? last.y + last.h : 0) - t.scrollTop);
    for (const tick of t.ticks.ticks) {
      const x = Math.round(t.xOf(tick.t));
      if (x >= t.left) g.fillRect(x, t.top, 1, Math.max(0, end - t.top));
    }
  }

  function clippedToPlot(t, g, work) {
    g.save();
    g.beginPath();
    g.rect(t.left, t.top, t.plotWidth, t.height - t.top);
    g.clip();
    work();
    g.restore();
  }

  /** Names in slices, with the duration behind where there is room. */
  function drawNames(t, g, lanes) {
    const { fitter, theme } = t;
    g.save();
    g.beginPath();
    g.rect(t.left, t.top, t.plotWidth, t.height - t.top);
    g.clip();
    g.textBaseline = 'middle';
    for (const { y, h, found, kind } of lanes) {
      const font = `${h >= 20 ? '500 11.5px' : '11px'} ${theme.font}`;
      for (const { a, b, tile, i, text: on } of found) {
        const at = ov.picture.inView(t, a, b, LABEL_FROM);
        if (!at) continue;
        const [left, width] = at;
        const name = kind === 'engine' ? null : ov.wire.nameOf(tile, i);
        const room = width - 2 * LABEL_PAD + 2;
        const length = ov.time.duration(tile.end[i] - tile.start[i]);
        const both = name ? `${name} · ${length}` : length;
        const roomy = fitter.width(g, font, name || both) < room && fitter.width(g, font, both) <= room;
        const text = roomy ? both : name ? fitter.fit(g, font, name, room) : '';
        if (!text) continue;
        g.font = font;
        g.fillStyle = on === null ? theme.categories[tile.category[i]].text : ov.paint.textOnPixel(on);
        g.fillText(text, left + LABEL_PAD - 1, y + h / 2 + 0.5);
      }
    }
    g.restore();
  }

  function triangle(g, x, y, folded) {
    g.beginPath();
    if (folded) {
      g.moveTo(x, y - 4);
      g.lineTo(x + 6, y);
      g.lineTo(x, y + 4);
    } else {
      g.moveTo(x - 1, y - 3);
      g.lineTo(x + 7, y - 3);
      g.lineTo(x + 3, y + 3);
    }
    g.fill();
  }

  function drawGroupLabel(t, g, row, y) {
    const { theme, fitter } = t;
    const x = 10 + row.level * INDENT;
    const font = `${row.level === 0 ? 600 : 500} 11.5px ${theme.font}`;
    g.fillStyle = ov.paint.css(row.level === 0 ? theme.text : theme.dim);
    triangle(g, x, y + row.h / 2, row.folded);
    g.fillStyle = ov.paint.css(theme.text);
    // Headers of open groups may run over the plot: nothing is drawn there. Folded ones keep to the gutter.
    const room = (row.folded ? t.left - 8 : t.width - t.left) - x - 12;
    const text = fitter.fit(g, font, row.group.label, room);
    g.font = font;
    g.fillText(text, x + 12, y + row.h / 2 + 0.5);
    drawTpcs(t, g, row, y);
    if (row.folded || !row.group.sublabel) return;
    const small = `11px ${theme.font}`;
    const end = x + 12 + fitter.width(g, font, text) + 10;
    const words = fitter.fit(g, small, row.group.sublabel, t.width - 20 - end);
    g.font = small;
    g.fillStyle = ov.paint.css(theme.dim);
    g.fillText(words, end, y + row.h / 2 + 0.5);
  }

  /** The TPCs of a device as a strip, those of the partition filled: which part of the GPU it was given. */
  function drawTpcs(t, g, row, y) {
    const { tpcs, tpc_count: count } = row.group;
    if (row.folded || !tpcs || tpcs.length === 0 || !count || t.plotWidth < 3 * count + 200) return;
    const cell = 3;
    const left = t.width - METRICS.right - 10 - cell * count;
    const given = new Set(tpcs);
    for (let tpc = 0; tpc < count; tpc++) {
      g.fillStyle = given.has(tpc) ? ov.paint.css(t.theme.accent) : ov.paint.css(t.theme.line);
      g.fillRect(left + cell * tpc, y + row.h / 2 - 5, cell - 1, 10);
    }
  }

  function drawLaneLabel(t, g, row, y) {
    const { theme, fitter } = t;
    const { lane } = row;
    const x = 22 + row.level * INDENT;
    const room = t.left - x - 8;
    const middle = row.h > 72 ? y + 18 : y + row.h / 2;
    const font = `11.5px ${theme.font}`;
    const small = `10px ${theme.font}`;
    const label = fitter.fit(g, font, lane.label, room);
    g.fillStyle = ov.paint.css(theme.text);
    g.font = font;
    g.fillText(label, x, lane.sublabel ? middle - 6 : middle + 0.5);
    if (!lane.sublabel) return;
    const sublabel = fitter.fit(g, small, lane.sublabel, room);
    g.fillStyle = ov.paint.css(theme.dim);
    g.font = small;
    g.fillText(sublabel, x, middle + 7);
  }

  function drawGutter(t, g) {
    const { theme } = t;
    g.save();
    g.beginPath();
    g.rect(0, t.top, t.width, t.height - t.top);
    g.clip();
    g.fillStyle = ov.paint.css(theme.bg);
    g.fillRect(0, t.top, t.left, t.height - t.top);
    g.textBaseline = 'middle';
    for (const row of t.shownRows()) {
      const y = t.top + row.y - t.scrollTop;
      if (row.type === 'group') {
        g.fillStyle = ov.paint.css(theme.lane);
        g.fillRect(0, y, t.left, row.h);
        drawGroupLabel(t, g, row, y);
      } else {
        g.fillStyle = ov.paint.css(theme.line, 0.75);
        g.fillRect(0, y + row.h - 1, t.left, 1);
        drawLaneLabel(t, g, row, y);
      }
    }
    g.fillStyle = ov.paint.css(theme.line);
    for (const row of t.shownRows()) {
      const isOpenHeader = row.type === 'group' && !row.folded; // its words run over the line
      if (!isOpenHeader) g.fillRect(t.left - 1, t.top + row.y - t.scrollTop, 1, row.h);
    }
    g.restore();
  }

  /** Copies the names of lanes and groups, which change only as lanes do: text takes longer than all else. */
  function copyGutter(t, g) {
    const content = [t.rows, t.scrollTop, t.width, t.height, t.pixelRatio, t.theme];
    const ratio = t.pixelRatio;
    if (!t.gutter) t.gutter = { canvas: document.createElement('canvas'), content: [] };
    const { canvas } = t.gutter;
    if (!content.every((one, i) => one === t.gutter.content[i])) {
      t.gutter.content = content;
      canvas.width = Math.round(t.width * ratio);
      canvas.height = Math.round(t.height * ratio);
      const context = canvas.getContext('2d');
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawGutter(t, context);
    }
    const copy = (x, y, width, height) => {
      if (height > 0) g.drawImage(canvas, x * ratio, y * ratio, width * ratio, height * ratio, x, y, width, height);
    };
    copy(0, t.top, t.left, t.height - t.top);
    for (const row of t.shownRows()) {
      if (row.type !== 'group' || row.folded) continue; // only the words of open groups run over the plot
      const y = Math.max(t.top, t.top + row.y - t.scrollTop);
      copy(t.left, y, t.width - t.left, Math.min(t.height, t.top + row.y - t.scrollTop + row.h) - y);
    }
  }

  function drawRuler(t, g) {
    const { theme } = t;
    const y = METRICS.minimap;
    g.fillStyle = ov.paint.css(theme.bg);
    g.fillRect(0, y, t.width, METRICS.ruler);
    g.save();
    g.beginPath();
    g.rect(t.left, y, t.width - t.left, METRICS.ruler);
    g.clip();
    g.textBaseline = 'alphabetic';
    const font = `11px ${theme.font}`;
    for (const tick of t.ticks.ticks) {
      const x = Math.round(t.xOf(tick.t));
      g.fillStyle = ov.paint.css(theme.line);
      g.fillRect(x, y + METRICS.ruler - 7, 1, 7);
      const width = t.fitter.width(g, font, tick.label);
      if (x + 4 + width > t.width) continue; // a label that would be cut says less than none
      g.fillStyle = ov.paint.css(theme.dim);
      g.font = font;
      g.fillText(tick.label, x + 4, y + METRICS.ruler - 9);
    }
    t.baseWidth = 0; // flags keep clear of the base time
    if (t.ticks.base !== null) {
      const bold = `600 10.5px ${theme.font}`;
      const words = `${t.ticks.baseLabel} +`;
      t.baseWidth = t.fitter.width(g, bold, words) + 12;
      g.font = bold;
      g.fillStyle = ov.paint.css(theme.text);
      g.fillText(words, t.left + 4, y + 13);
    }
    g.restore();
    g.fillStyle = ov.paint.css(theme.line);
    g.fillRect(0, y + METRICS.ruler - 1, t.width, 1);
  }

  /** Draws the busy share of every device over the whole trace once; frames only copy it. */
  function paintMinimap(t) {
    const ratio = t.pixelRatio;
    const width = Math.max(1, Math.round(t.plotWidth * ratio));
    const height = Math.round(METRICS.minimapHeight * ratio);
    const raster = new ov.Raster();
    raster.begin(width, height, ratio, t.theme);
    const tile = t.feed.minimap;
    if (tile) {
      const lanes = t.meta.minimap;
      const bars = lanes.length <= MINIMAP_BARS ? lanes.length : 1;
      const tall = Math.floor(height / bars);
      const scale = { perNs: width / Math.max(1, t.view.limit), origin: 0 };
      const look = { kind: 'summary', plain: true, labels: null };
      for (let bar = 0; bar < bars; bar++) {
        raster.beginLane(tall - (bars > 1 ? Math.round(ratio) : 0));
        for (const wire of bars === 1 ? lanes : [lanes[bar]]) raster.addSlices(tile, wire, scale, 0, width, look);
        raster.endLane(bar * tall, look);
      }
    }
    return raster.finish();
  }

  function drawMinimap(t, g) {
    const { theme } = t;
    g.fillStyle = ov.paint.css(theme.bg);
    g.fillRect(0, 0, t.width, METRICS.minimap);
    const key = [t.plotWidth, t.pixelRatio, t.view.limit, theme.serial, t.feed.minimap ? t.feed.minimap.n : -1].join();
    if (t.minimapKey !== key) {
      t.minimapKey = key;
      t.minimapImage = paintMinimap(t);
    }
    const y = METRICS.minimapTop;
    g.fillStyle = ov.paint.css(theme.lane);
    g.beginPath();
    g.roundRect(t.left, y, t.plotWidth, METRICS.minimapHeight, 3);
    g.fill();
    g.globalAlpha = 0.6;
    g.drawImage(t.minimapImage, t.left, y, t.plotWidth, METRICS.minimapHeight);
    g.globalAlpha = 1;
    g.strokeStyle = ov.paint.css(theme.line);
    g.lineWidth = 1;
    g.beginPath();
    g.roundRect(t.left - 0.5, y - 0.5, t.plotWidth + 1, METRICS.minimapHeight + 1, 3);
    g.stroke();
    drawMinimapWords(t, g);
  }

  function drawMinimapWords(t, g) {
    const { theme, fitter } = t;
    const room = t.left - 20;
    const bold = `600 11.5px ${theme.font}`;
    const small = `10.5px ${theme.font}`;
    g.textBaseline = 'alphabetic';
    const name = fitter.fit(g, bold, t.meta.name || 'trace', room);
    g.font = bold;
    g.fillStyle = ov.paint.css(theme.text);
    g.fillText(name, 10, 20);
    const shown = t.view.span >= t.view.limit * 0.999 ? 'all shown' : `${ov.time.duration(t.view.span)} shown`;
    const words = fitter.fit(g, small, `${ov.time.duration(t.spanNs)} · ${shown}`, room);
    g.font = small;
    g.fillStyle = ov.paint.css(theme.dim);
    g.fillText(words, 10, 34);
    if (t.meta.minimap && t.meta.minimap.length > 0) return;
    g.fillText(fitter.fit(g, small, 'no device work recorded in this trace', t.plotWidth - 16), t.left + 8, 27);
  }

  function drawScrollBar(t, g) {
    const bar = t.scrollBar();
    if (!bar) return;
    g.fillStyle = ov.paint.css(t.theme.bg);
    g.fillRect(t.width - METRICS.right, t.top, METRICS.right, t.height - t.top);
    g.fillStyle = ov.paint.css(t.theme.scroll);
    g.beginPath();
    g.roundRect(t.width - 10, bar.y, 7, bar.h, 3.5);
    g.fill();
  }

  /** Draws one whole frame, without what follows the mouse. */
  function draw(t, g) {
    g.fillStyle = ov.paint.css(t.theme.bg);
    g.fillRect(0, 0, t.width, t.height);
    t.ticks = ov.time.ticks(t.view.t0, t.view.t1, t.plotWidth, TICK_PX);
    drawGrid(t, g);
    drawBands(t, g); // over the grid, so that the words of a header stand on a calm ground
    const picture = ov.picture.draw(t, g);
    drawNames(t, g, picture.labels);
    clippedToPlot(t, g, () => {
      ov.causes.drawGapLabels(t, g, picture.gaps);
      ov.barriers.drawLabels(t, g);
    });
    copyGutter(t, g);
    drawRuler(t, g);
    drawMinimap(t, g);
    drawScrollBar(t, g);
  }

  ov.chrome = { METRICS, draw };
})((window.overlane = window.overlane || {}));
