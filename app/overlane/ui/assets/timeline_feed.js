/* What the timeline asks the server: the lane tree, the overview, and tiles for what is in view. */
(function (ov) {
  'use strict';

  const MARGIN = 0.5; // of a window, asked for on either side
  const SCALE_DRIFT = 1.8; // a tile is used until the scale differs by more
  const LANE_MARGIN = 3; // wire lanes asked for above and below
  const SETTLE_MS = 20; // several wheel events in a row make one request
  const POLL_MS = 400;
  const RETRY_MS = [2000, 5000, 15000];
  const USELESS_DRIFT = 6; // a request for a scale this far off is given up

  class Feed {
    /** @param {object} host the timeline: it has trace, rank, view, spanNs, plotWidth and visibleWires() */
    constructor(host) {
      this.host = host;
      this.abort = new AbortController();
      this.tile = null;
      this.overview = null; // the first tile of the whole trace: drawn where the newest tile does not reach
      this.minimap = null;
      this.pending = null; // {t0, t1, span, control} of the request in flight
      this.timer = 0;
      this.failures = 0;
      this.fetches = 0;
    }

    /** Gives up everything in flight; the feed is not used again. */
    close() {
      this.abort.abort();
      if (this.pending) this.pending.control.abort();
      clearTimeout(this.timer);
    }

    address(what, query) {
      const { trace, rank } = this.host;
      const text = new URLSearchParams(query);
      if (rank !== '') text.set('rank', rank);
      return `/api/traces/${encodeURIComponent(trace)}/${what}?${text}`;
    }

    /** Reads the lane tree, and waits while the trace is still loading. */
    async start() {
      const { host } = this;
      host.showProgress(0);
      for (;;) {
        const response = await this.request(this.address('timeline', {}));
        if (!response) return;
        if (response.status !== 202 && response.status !== 503) { // not ready yet, in the words of two kinds of server
          if (!response.ok) return this.fail(await ov.wire.failure(response), () => this.start());
          const meta = await response.json();
          if (this.abort.signal.aborted) return;
          if (meta.state === 'failed') return host.showError(meta.error || 'The trace could not be read.', null);
          host.onMeta(meta);
          this.loadMinimap(meta);
          return;
        }
        const state = await response.json().catch(() => ({}));
        if (this.abort.signal.aborted) return;
        if (state.state === 'failed') return host.showError(state.error || 'The trace could not be read.', null);
        host.showProgress(state.progress || 0);
        await new Promise((done) => { setTimeout(done, POLL_MS); });
        if (this.abort.signal.aborted) return;
      }
    }

    /** A response, or null when this feed was closed meanwhile or the server could not be reached. */
    async request(address) {
      try {
        return await fetch(address, { signal: this.abort.signal });
      } catch (error) {
        if (error.name !== 'AbortError') this.fail('The server cannot be reached; is it still running?', () => this.start());
        return null;
      }
    }

    /** Shows a sentence with a way to try again, and tries again by itself a few times. */
    fail(sentence, again) {
      const retry = () => {
        clearTimeout(this.timer);
        this.timer = 0;
        this.host.clearStatus();
        again();
      };
      this.host.showError(sentence, retry);
      clearTimeout(this.timer);
      if (this.failures < RETRY_MS.length) this.timer = setTimeout(retry, RETRY_MS[this.failures]);
      this.failures++;
    }

    async loadMinimap(meta) {
      const lanes = meta.minimap || [];
      if (lanes.length === 0) return;
      const query = { t0: 0, t1: meta.span_ns, px: Math.max(200, Math.round(this.host.plotWidth)), lanes: ov.wire.laneRanges(lanes) };
      try {
        const response = await fetch(this.address('tile', query), { signal: this.abort.signal });
        if (!response.ok) return; // the main request reports what is wrong; without an overview the page still works
        this.minimap = ov.wire.decodeTile(await response.arrayBuffer(), lanes);
        this.host.onMinimap();
      } catch (error) {
        if (error.name !== 'AbortError') this.host.onMinimap();
      }
    }

    /** The wire lanes to ask for: those in view and a few around them. */
    wanted() {
      const visible = this.host.visibleWires();
      const known = this.host.wireCount;
      const all = new Set(visible);
      for (const wire of visible) {
        for (let k = 1; k <= LANE_MARGIN; k++) {
          if (wire - k >= 0) all.add(wire - k);
          if (wire + k < known) all.add(wire + k);
        }
      }
      return [...all];
    }

    /** Whether the newest tile shows the view as well as a new one would. */
    isCurrent() {
      const { tile, host } = this;
      if (!tile) return false;
      const { view, spanNs } = host;
      if (tile.t0 > Math.max(0, view.t0) + 1 || tile.t1 < Math.min(spanNs, view.t1) - 1) return false;
      if (!host.visibleWires().every((wire) => tile.asked.has(wire))) return false;
      if (tile.exact) return true;
      return view.span > tile.span * 0.98 && view.span < tile.span * SCALE_DRIFT && tile.plotWidth >= host.plotWidth * 0.98;
    }

    /** Asks for a tile unless the newest one, or the request in flight, will do. */
    need() {
      if (!this.host.meta) return;
      if (this.pending) {
        const { view } = this.host;
        const apart = this.pending.t1 < view.t0 || this.pending.t0 > view.t1;
        const drift = Math.max(this.pending.span / view.span, view.span / this.pending.span);
        if (apart || drift > USELESS_DRIFT) this.pending.control.abort();
        return;
      }
      if (this.isCurrent() || this.timer) return;
      this.timer = setTimeout(() => {
        this.timer = 0;
        if (!this.pending && !this.isCurrent()) this.fetchTile();
      }, SETTLE_MS);
    }

    async fetchTile() {
      const { host } = this;
      const { view, spanNs } = host;
      const lanes = this.wanted();
      const t0 = Math.floor(Math.max(0, view.t0 - view.span * MARGIN));
      const t1 = Math.ceil(Math.min(spanNs, view.t1 + view.span * MARGIN));
      if (t1 <= t0 || lanes.length === 0) {
        this.accept(Object.assign(emptyTile(t0, t1, lanes), { span: view.span, plotWidth: host.plotWidth }));
        return;
      }
      const px = Math.max(1, Math.round((host.plotWidth * (t1 - t0)) / view.span));
      const pending = { t0, t1, span: view.span, control: new AbortController() };
      this.pending = pending;
      try {
        const query = { t0, t1, px, lanes: ov.wire.laneRanges(lanes) };
        const response = await fetch(this.address('tile', query), { signal: pending.control.signal });
        if (!response.ok) throw Object.assign(new Error(await ov.wire.failure(response)), { status: response.status });
        const tile = ov.wire.decodeTile(await response.arrayBuffer(), lanes);
        tile.span = pending.span;
        tile.plotWidth = host.plotWidth;
        this.pending = null;
        if (this.abort.signal.aborted) return;
        this.failures = 0;
        this.accept(tile);
      } catch (error) {
        this.pending = null;
        if (this.abort.signal.aborted) return;
        if (error.name === 'AbortError') this.need();
        else this.failTile(error);
      }
    }

    failTile(error) {
      const sentence = error.name === 'TypeError' ? 'The server cannot be reached; is it still running?' : error.message;
      this.fail(sentence, () => this.need());
    }

    accept(tile) {
      this.tile = tile;
      this.fetches++;
      const { spanNs } = this.host;
      if (!this.overview && tile.t0 <= 0 && tile.t1 >= spanNs) this.overview = tile;
      this.host.onTile();
      this.need();
    }

    /** A tile for a closer look at some lanes, beside what is shown; null when the server cannot say. */
    async look(t0, t1, px, wires) {
      const query = { t0: Math.max(0, Math.floor(t0)), t1: Math.ceil(t1), px, lanes: ov.wire.laneRanges(wires) };
      try {
        const response = await fetch(this.address('tile', query), { signal: this.abort.signal });
        return response.ok ? ov.wire.decodeTile(await response.arrayBuffer(), wires) : null;
      } catch {
        return null;
      }
    }

    /** Everything that the trace says of one row, as the server's JSON; null when it cannot say. */
    async row(table, row) {
      try {
        const response = await fetch(this.address('row', { table, row }), { signal: this.abort.signal });
        return response.ok ? await response.json() : null;
      } catch {
        return null;
      }
    }
  }

  /** A tile without slices, for a window that lies outside the trace (a linked one may be longer). */
  function emptyTile(t0, t1, lanes) {
    return {
      n: 0, t0, t1, nsPerPixel: 1, exact: true, names: new Map(), lanes: new Map(), asked: new Set(lanes),
      start: new Float32Array(0), end: new Float32Array(0), reach: new Float32Array(0), row: new Uint32Array(0),
      count: new Uint32Array(0), name: new Uint32Array(0), lane: new Uint16Array(0), busy: new Uint8Array(0),
      category: new Uint8Array(0),
    };
  }

  ov.Feed = Feed;
})((window.overlane = window.overlane || {}));
