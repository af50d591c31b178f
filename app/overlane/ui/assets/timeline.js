/* The timeline component: one controller per .ov-timeline element, and what other scripts may call. */
(function (ov) {
  'use strict';

  const MOTION_MS = 500; // a view that rests this long is told to the page
  const LEGEND_MS = 200;
  const LEGEND_PX = 48; // room below the last lane, unless the legend needs more
  const COMFORTABLE = 0.3; // of the width: how wide a slice gets that is zoomed to by selecting it
  const LEAST_ZOOM_NS = 400;
  const SAME_SCALE = 1e-9;
  const timelines = new Map(); // element -> Timeline

  class Timeline {
    constructor(element) {
      this.element = element;
      this.fitter = new ov.paint.TextFitter();
      this.rasters = { narrow: new ov.Raster(), wide: new ov.Raster() };
      this.raster = this.rasters.narrow; // the one that was drawn last
      this.spanNs = 0;
      this.counter = 0;
      this.draws = 0;
      this.baseWidth = 0;
      this.legendHeight = 0;
      this.themeSerial = 0;
      this.pixelRatio = 1;
      this.layers = {};
      this.settings = ov.settings.stored();
      this.cleanup = new AbortController();
      this.view = ov.time.viewFor(element.dataset.link);
      this.view.join(this);
      this.parts = ov.page.build(this);
      this.context = this.parts.canvas.getContext('2d', { alpha: false });
      this.overContext = this.parts.over.getContext('2d');
      this.resizes = new ResizeObserver(() => this.resize());
      this.resizes.observe(element);
      ov.input.attach(this);
      this.reset();
      this.resize();
      this.load();
    }

    /** Forgets the trace: nothing of the one before may show in the next. */
    reset() {
      if (this.feed) this.feed.close();
      ov.layers.close(this);
      this.filter = null;
      this.reasons = null;
      this.barriers = null;
      this.barriersPending = false;
      this.why = null;
      this.picture = null;
      this.pictureShift = 0;
      this.pathKey = null;
      this.pathWindow = null;
      this.feed = null;
      this.meta = null;
      this.rows = [];
      this.total = 0;
      this.rowOfWire = new Map();
      this.scrollTop = 0;
      this.selection = null;
      this.sought = null; // what an address names and is not selected yet
      this.range = null;
      this.hover = null;
      this.markers = [];
      this.notes = null;
      this.focusRow = -1;
      this.minimapKey = '';
      this.spanNs = 0;
      this.element.dataset.ready = '0';
      this.parts.tools.hidden = true;
    }

    load() {
      this.trace = this.element.dataset.trace || '';
      this.rank = this.element.dataset.rank || '';
      if (this.rank === 'null' || this.rank === 'None') this.rank = '';
      this.clearStatus();
      this.redraw();
      if (!this.trace) return;
      this.feed = new ov.Feed(this);
      this.feed.start();
    }

    reload() {
      if ((this.element.dataset.trace || '') === this.trace && (this.element.dataset.rank || '') === this.rank) return;
      this.reset();
      this.view.set(this.view.t0, this.view.t1); // a linked timeline may have become the longest
      this.load();
    }

    close() {
      this.cleanup.abort();
      this.resizes.disconnect();
      if (this.feed) this.feed.close();
      ov.layers.close(this);
      this.view.leave(this);
      cancelAnimationFrame(this.frame);
      cancelAnimationFrame(this.overFrame);
      clearTimeout(this.motion);
      clearTimeout(this.legendTimer);
      ov.page.clear(this);
    }

    // ---- what the feed tells

    onMeta(meta) {
      const showsAll = this.view.span >= this.view.limit * 0.999;
      this.meta = meta;
      this.spanNs = Math.max(1, meta.span_ns);
      // Under each other there is little room: the streams are what runs are compared by.
      const isCompared = (this.element.dataset.link || '').startsWith('compare');
      const folds = (group) => group.collapsed || (isCompared && group.kind === 'engines');
      this.folded = new Set(meta.groups.filter(folds).map((group) => group.id));
      this.wireCount = meta.lanes.reduce((most, lane) => Math.max(most, lane.first + lane.sublanes), 0);
      ov.notes.load(this);
      this.readTheme();
      this.relayout();
      this.clearStatus();
      this.parts.tools.hidden = meta.lanes.length === 0;
      ov.hits.onTrace(this);
      ov.causes.load(this);
      if (meta.lanes.length === 0) {
        this.showError('This trace holds nothing that can be drawn: no device operation, host call, range or counter.', null);
      }
      // The address places the view; without one the trace says what to show first, or a linked timeline does.
      if (ov.page.restore(this)) return;
      if (showsAll) this.view.set(...meta.first_view);
      else this.view.set(this.view.t0, this.view.t1);
    }

    onMinimap() {
      this.redraw();
    }

    onTile() {
      this.refreshSelection();
      ov.layers.need(this);
      this.redraw();
    }

    onLayer() {
      this.redraw();
    }

    onView() {
      this.element.dataset.ready = '0';
      this.need();
      this.redraw();
      clearTimeout(this.motion);
      this.motion = setTimeout(() => this.rest(), MOTION_MS);
    }

    /** The view has come to rest: it becomes a place to go back to, and the page is told. */
    rest() {
      this.view.remember();
      ov.page.tellView(this);
    }

    need() {
      if (!this.feed) return;
      this.feed.need();
      ov.layers.need(this);
      ov.barriers.need(this);
    }

    onCursor() {
      this.redrawOver();
    }

    showProgress(fraction) {
      const percent = Math.round(100 * Math.min(1, Math.max(0, fraction)));
      ov.page.status(this, { text: percent > 0 ? `Opening the trace: ${percent} %` : 'Opening the trace …', fraction });
    }

    showError(text, retry) {
      ov.page.status(this, { text, retry, isError: true });
    }

    clearStatus() {
      ov.page.status(this, null);
    }

    // ---- geometry

    resize() {
      const { element, parts } = this;
      const width = element.clientWidth;
      const height = element.clientHeight;
      const ratio = window.devicePixelRatio || 1;
      if (width === 0 || height === 0) return; // hidden; drawn when it shows again
      if (width === this.width && height === this.height && ratio === this.pixelRatio) return;
      const { METRICS } = ov.chrome;
      this.width = width;
      this.height = height;
      this.pixelRatio = ratio;
      this.left = width < METRICS.narrowBelow ? METRICS.narrowGutter : METRICS.gutter;
      this.top = METRICS.minimap + METRICS.ruler;
      this.plotWidth = Math.max(20, width - this.left - METRICS.right);
      for (const canvas of [parts.canvas, parts.over]) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
      }
      parts.tools.classList.toggle('ov-tl-narrow', this.left < METRICS.gutter);
      this.scrollTo(this.scrollTop);
      this.draw(); // at once: a resized canvas is empty until it is drawn
      this.need();
    }

    /** Device pixels per ns and the pixel of time zero: whole, so that columns stay on one grid while panning. */
    get scale() {
      const perNs = (this.plotWidth * this.pixelRatio) / this.view.span;
      // Panning changes the span by errors of rounding; the picture is moved only while the scale is the very same.
      if (!(Math.abs(perNs / this.perNs - 1) < SAME_SCALE)) this.perNs = perNs;
      return { perNs: this.perNs, origin: Math.floor(this.view.t0 * this.perNs) };
    }

    /** Where a time is drawn, in CSS px from the element's left edge. */
    xOf(ns) {
      const { perNs, origin } = this.scale;
      return this.left + (ns * perNs - origin) / this.pixelRatio;
    }

    timeAt(x) {
      return this.view.t0 + ((x - this.left) / this.plotWidth) * this.view.span;
    }

    relayout() {
      const { rows, total } = ov.rows.layout(this.meta, this.folded, {
        hides: (lane) => ov.layers.hides(this, lane),
        below: (lane) => ov.causes.stripRoom(this, lane),
        pinned: this.notes?.pinned ?? [],
        order: this.notes?.order ?? [],
      });
      this.rows = rows;
      this.total = total + Math.max(LEGEND_PX, this.legendHeight);
      this.rowOfWire = new Map();
      this.rowOfLane = new Map(rows.filter((row) => row.type === 'lane').map((row) => [row.lane.id, row]));
      for (const row of rows) {
        if (row.type === 'lane') for (const wire of ov.rows.wiresOf(row)) this.rowOfWire.set(wire, row);
      }
      this.scrollTo(this.scrollTop);
    }

    /** Leaves room for a legend of this height, so that the last lane can be scrolled above it. */
    makeRoomBelow(height) {
      if (height === this.legendHeight) return;
      this.total += Math.max(LEGEND_PX, height) - Math.max(LEGEND_PX, this.legendHeight);
      this.legendHeight = height;
      this.scrollTo(this.scrollTop);
    }

    shownRows() {
      return ov.rows.shown(this).found;
    }

    visibleWires() {
      return ov.rows.shown(this).wires;
    }

    get scrollLimit() {
      return Math.max(0, this.total - (this.height - this.top));
    }

    scrollTo(y) {
      this.scrollTop = Math.round(Math.min(Math.max(0, y), this.scrollLimit));
      this.need();
      this.redraw();
    }

    /** The scroll bar's place, or null when everything fits. */
    scrollBar() {
      const room = this.height - this.top;
      if (this.total <= room) return null;
      const h = Math.max(28, (room * room) / this.total);
      return { y: this.top + ((room - h) * this.scrollTop) / this.scrollLimit, h, travel: room - h };
    }

    /** Brings a row into sight with as little scrolling as it takes. */
    reveal(row) {
      const room = Math.max(row.h, this.height - this.top - this.legendHeight);
      if (row.y < this.scrollTop) this.scrollTo(row.y - 4);
      else if (row.y + row.h > this.scrollTop + room) this.scrollTo(row.y + row.h - room + 4);
    }

    toggle(row) {
      const { id } = row.group;
      if (this.folded.has(id)) this.folded.delete(id);
      else this.folded.add(id);
      this.relayout();
      ov.page.say(this, `${row.group.label}, ${this.folded.has(id) ? 'folded' : 'open'}`);
    }

    /** Opens the groups around a wire lane and returns its row, or null when there is no such lane. */
    unfold(wire) {
      const lane = this.meta.lanes.find((one) => wire >= one.first && wire < one.first + one.sublanes);
      if (!lane) return null;
      const parents = new Map(this.meta.groups.map((group) => [group.id, group.parent]));
      for (let id = lane.group; id !== null && id !== undefined; id = parents.get(id)) this.folded.delete(id);
      this.relayout();
      return this.rowOfWire.get(wire);
    }

    laneOfWire(wire) {
      return this.rowOfWire.get(wire)?.lane ?? this.meta.lanes.find((l) => wire >= l.first && wire < l.first + l.sublanes);
    }

    // ---- drawing

    readTheme() {
      this.theme = ov.paint.readTheme(this.element, this.meta ? this.meta.categories : []);
      this.theme.serial = ++this.themeSerial;
      ov.causes.readTheme(this, getComputedStyle(this.element), document.createElement('canvas').getContext('2d'));
      ov.path.readTheme(this);
    }

    onTheme() {
      this.readTheme();
      if (this.width) this.draw();
    }

    redraw() {
      if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
    }

    redrawOver() {
      if (!this.frame && !this.overFrame) this.overFrame = requestAnimationFrame(() => this.drawOver());
    }

    draw() {
      cancelAnimationFrame(this.frame);
      this.frame = 0;
      if (!this.width) return;
      if (!this.theme) this.readTheme();
      const ratio = this.pixelRatio;
      this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
      if (this.meta && this.feed) {
        ov.chrome.draw(this, this.context);
      } else {
        this.context.fillStyle = ov.paint.css(this.theme.bg);
        this.context.fillRect(0, 0, this.width, this.height);
      }
      this.draws++;
      this.drawOver();
      ov.page.publish(this);
      clearTimeout(this.legendTimer);
      this.legendTimer = setTimeout(() => this.settle(), LEGEND_MS);
    }

    /** After the last of some frames: what need not follow every move. */
    settle() {
      if (!this.feed || !this.meta) return;
      ov.export.showLegend(this);
      ov.table.show(this);
      ov.path.need(this);
    }

    drawOver() {
      cancelAnimationFrame(this.overFrame);
      this.overFrame = 0;
      this.overContext.setTransform(this.pixelRatio, 0, 0, this.pixelRatio, 0, 0);
      this.overContext.clearRect(0, 0, this.width, this.height);
      if (this.meta && this.feed) ov.overlay.draw(this, this.overContext);
    }

    // ---- selection, range, view: what other scripts may call

    /** Selects a row of a table and makes it comfortably visible, wherever it lies; `place` says where to look. */
    async select(table, row, place = null) {
      if (!this.meta) {
        this.wanted = { table, row };
        return false;
      }
      const found = ov.pick.find(this, table, row) || (await ov.pick.locate(this, table, row));
      if (!found) return false;
      this.choose(found);
      this.show(found, place);
      return true;
    }

    /** Makes a slice the selection and tells the page. */
    choose(slice) {
      this.selection = slice;
      ov.page.tellSelection(this);
      ov.causes.ofSelection(this);
      this.redrawOver();
      if (slice.count > 1) ov.pick.resolve(this, slice);
    }

    /** After a new tile: a selection whose times were not known yet takes them from there. */
    refreshSelection() {
      if (!this.selection) return;
      const found = ov.pick.find(this, this.selection.table, this.selection.row, this.selection.wire);
      if (found) Object.assign(this.selection, found);
    }

    clearSelection() {
      if (!this.selection) return;
      this.selection = null;
      this.why = null;
      ov.page.tellSelection(this);
      this.redrawOver();
    }

    /** Moves and zooms only as far as it takes to see a slice well. */
    show(slice, place = null) {
      const row = this.unfold(slice.wire);
      if (row) {
        this.reveal(row);
        this.focusRow = this.rows.indexOf(row);
      }
      const length = slice.end - slice.start;
      const width = (length / this.view.span) * this.plotWidth;
      const inside = slice.start >= this.view.t0 && slice.end <= this.view.t1;
      if (!place && inside && width >= 12) return;
      this.view.set(...(place || this.around(slice.start, slice.end, COMFORTABLE)));
    }

    around(start, end, share) {
      const length = Math.max(end - start, 1);
      const span = Math.max(length / share, LEAST_ZOOM_NS);
      const middle = (start + end) / 2;
      return [middle - span / 2, middle + span / 2];
    }

    zoomTo(t0, t1) {
      this.view.set(Number(t0), Number(t1));
    }

    /** Sets the range, or clears it when called without times. */
    setRange(t0, t1) {
      if (t0 === undefined || t0 === null) {
        this.range = null;
      } else {
        const [a, b] = [Number(t0), Number(t1)].sort((x, y) => x - y);
        const start = Math.round(Math.min(Math.max(0, a), this.spanNs));
        this.range = { t0: start, t1: Math.max(start + 1, Math.round(Math.min(b, this.spanNs))) };
      }
      ov.page.tellRange(this);
      this.redrawOver();
    }

    get isReady() {
      return Boolean(this.meta && this.feed && !this.feed.pending && this.feed.isCurrent() && ov.layers.areReady(this) && !this.view.frame);
    }
  }

  /** What callbacks and tests get hold of. */
  function controllerOf(t) {
    return {
      select: (table, row) => t.select(table, Number(row)),
      zoomTo: (t0, t1) => t.zoomTo(t0, t1),
      setRange: (t0, t1) => t.setRange(t0, t1),
      view: () => ({ t0_ns: Math.floor(t.view.t0), t1_ns: Math.ceil(t.view.t1), t0: t.view.t0, t1: t.view.t1 }),
      clear: () => { t.clearSelection(); t.setRange(); },
      back: () => t.view.back(),
      forward: () => t.view.forward(),
      filter: (filter) => ov.layers.filter(t, filter),
      set: (key, value) => ov.settings.set(t, key, value),
      xOf: (ns) => t.xOf(Number(ns)),
      timeAt: (x) => t.timeAt(Number(x)),
    };
  }

  function scan() {
    for (const [element, timeline] of timelines) {
      if (element.isConnected) continue;
      timeline.close();
      timelines.delete(element);
    }
    for (const element of document.querySelectorAll('.ov-timeline')) {
      if (!timelines.has(element)) timelines.set(element, new Timeline(element));
    }
  }

  function start() {
    const root = document.documentElement;
    new MutationObserver((changes) => {
      if (changes.some((change) => change.type === 'childList')) scan();
      for (const change of changes) {
        if (change.type === 'attributes' && timelines.has(change.target)) timelines.get(change.target).reload();
      }
    }).observe(root, { childList: true, subtree: true, attributes: true, attributeFilter: ['data-trace', 'data-rank'] });
    new MutationObserver(() => {
      for (const timeline of timelines.values()) timeline.onTheme();
    }).observe(root, { attributes: true, attributeFilter: ['data-mantine-color-scheme'] });
    ov.page.watch(timelines);
    scan();
  }

  ov.timeline = (id) => {
    const timeline = timelines.get(document.getElementById(id));
    return timeline ? controllerOf(timeline) : null;
  };
  ov.ready = (id) => Boolean(timelines.get(document.getElementById(id))?.isReady);

  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else queueMicrotask(start); // after the other files of this component, whatever their order
})((window.overlane = window.overlane || {}));
