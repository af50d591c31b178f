/* Time: the shown window, its zoom and pan, the units and ticks. Linked timelines share one window. */
(function (ov) {
  'use strict';

  const SHORTEST_WINDOW_NS = 20; // below this a pixel would show less than the clock resolves
  const ANIMATION_MS = 180;
  const MOST_PLACES = 200;
  const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
  const shared = new Map(); // link name -> View

  /** One time window and one cursor, observed by one or more timelines. */
  class View {
    constructor() {
      this.t0 = 0;
      this.t1 = 1;
      this.cursor = null; // ns under the mouse, or null
      this.members = new Set();
      this.frame = 0;
      this.places = []; // windows that the view rested at, to go back to
      this.place = -1;
    }

    /** The end of time: the longest span among the timelines that share this view. */
    get limit() {
      let limit = 1;
      for (const member of this.members) limit = Math.max(limit, member.spanNs);
      return limit;
    }

    get span() {
      return this.t1 - this.t0;
    }

    /** Shows [t0, t1), kept inside the trace and above the shortest window. */
    set(t0, t1) {
      cancelAnimationFrame(this.frame);
      this.frame = 0;
      this.move(t0, t1);
    }

    move(t0, t1) {
      const limit = this.limit;
      const span = Math.min(Math.max(t1 - t0, SHORTEST_WINDOW_NS), limit);
      const centre = (t0 + t1) / 2;
      const start = t1 - t0 < SHORTEST_WINDOW_NS ? centre - span / 2 : t0;
      this.t0 = Math.min(Math.max(0, start), limit - span);
      this.t1 = this.t0 + span;
      for (const member of this.members) member.onView();
    }

    pan(ns) {
      this.set(this.t0 + ns, this.t1 + ns);
    }

    /** Zooms by `factor` (below 1 is closer) and keeps the time `at` where it is on the screen. */
    zoom(factor, at) {
      const span = Math.min(Math.max(this.span * factor, SHORTEST_WINDOW_NS), this.limit);
      const share = (at - this.t0) / this.span;
      this.set(at - share * span, at - share * span + span);
    }

    /** Glides to [t0, t1): the span changes by equal factors per frame, so that the way there can be followed. */
    glide(t0, t1) {
      cancelAnimationFrame(this.frame);
      if (window.matchMedia('(prefers-reduced-motion: reduce)').matches) return this.set(t0, t1);
      const from = { t0: this.t0, span: this.span };
      const to = { t0, span: Math.max(t1 - t0, SHORTEST_WINDOW_NS) };
      const begin = performance.now();
      const ratio = to.span / from.span;
      const step = () => {
        const time = Math.min(1, (performance.now() - begin) / ANIMATION_MS);
        if (time >= 1) return this.set(t0, t1);
        const eased = 1 - (1 - time) ** 3;
        const span = from.span * ratio ** eased;
        // The edge moves with the span, so that the target does not swing through the picture.
        const share = Math.abs(ratio - 1) < 1e-6 ? eased : (span - from.span) / (to.span - from.span);
        const start = from.t0 + (to.t0 - from.t0) * share;
        this.move(start, start + span);
        this.frame = requestAnimationFrame(step);
        return undefined;
      };
      this.frame = requestAnimationFrame(step);
      return undefined;
    }

    /** Keeps the window as a place to go back to, and forgets those that were gone back from. */
    remember() {
      const last = this.places[this.place];
      if (last && Math.abs(last[0] - this.t0) < 1 && Math.abs(last[1] - this.t1) < 1) return;
      this.places.length = this.place + 1;
      this.places.push([this.t0, this.t1]);
      if (this.places.length > MOST_PLACES) this.places.shift();
      this.place = this.places.length - 1;
    }

    /** Shows the window before this one; tells whether there is one. */
    back() {
      this.remember();
      return this.visit(this.place - 1);
    }

    forward() {
      return this.visit(this.place + 1);
    }

    visit(place) {
      const target = this.places[place];
      if (!target) return false;
      this.place = place;
      this.glide(...target);
      return true;
    }

    point(at) {
      if (this.cursor === at) return;
      this.cursor = at;
      for (const member of this.members) member.onCursor();
    }

    join(member) {
      this.members.add(member);
    }

    leave(member) {
      this.members.delete(member);
      if (this.members.size === 0) cancelAnimationFrame(this.frame);
    }
  }

  /** The view that a link name stands for; timelines without a link get one of their own. */
  function viewFor(link) {
    if (!link) return new View();
    let view = shared.get(link);
    if (!view || view.members.size === 0) {
      view = new View();
      shared.set(link, view);
    }
    return view;
  }

  function unitFor(ns) {
    const size = Math.abs(ns);
    return UNITS.find(([scale]) => size >= scale) || UNITS[UNITS.length - 1];
  }

  /** A duration with four digits: "6.826 ms", "111.2 µs", "48 ns". */
  function duration(ns) {
    const [scale, unit] = unitFor(Math.round(ns));
    const value = ns / scale;
    if (scale === 1) return `${Math.round(value)} ns`;
    const digits = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
    return `${value.toFixed(digits)} ${unit}`;
  }

  /** Groups the digits behind the point by three with thin spaces: "2.501 300". */
  function grouped(text) {
    const point = text.indexOf('.');
    if (point < 0 || text.length - point < 5) return text;
    return text.slice(0, point + 1) + text.slice(point + 1).replace(/(\d{3})(?=\d)/g, '$1\u2009');
  }

  /** A point in time, with as many digits as `resolution` ns needs. */
  function time(ns, resolution, scaleFrom) {
    const [scale, unit] = unitFor(scaleFrom === undefined ? ns : scaleFrom);
    const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(scale / Math.max(resolution, 1)) - 1e-9)));
    return `${grouped((ns / scale).toFixed(Math.min(digits, Math.round(Math.log10(scale)))))} ${unit}`;
  }

  /** The smallest of 1, 2, 5 times a power of ten that is at least `least`. */
  function niceStep(least) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    for (const factor of [1, 2, 5]) if (power * factor >= least) return power * factor;
    return power * 10;
  }

  /**
   * Ruler ticks of a window. Where plain labels would need more than five digits, the labels are offsets from a
   * round base time, which is told apart: so neighbours never read the same.
   * @returns {{step: number, base: number|null, baseLabel: string, ticks: {t: number, label: string}[]}}
   */
  function ticks(t0, t1, pixels, pixelsPerLabel) {
    const step = niceStep(((t1 - t0) / Math.max(pixels, 1)) * pixelsPerLabel);
    const result = { step, base: null, baseLabel: '', ticks: [] };
    if (t1 / step > 20000) {
      const coarse = 10 ** Math.ceil(Math.log10(t1 - t0));
      result.base = Math.floor(t0 / coarse) * coarse;
      result.baseLabel = time(result.base, coarse, t1);
    }
    const origin = result.base ?? 0;
    const scaleFrom = result.base === null ? t1 : Math.max(step, t1 - result.base);
    for (let i = Math.ceil((t0 - origin) / step); origin + i * step < t1; i++) {
      const label = time(i * step, step, scaleFrom);
      result.ticks.push({ t: origin + i * step, label: result.base === null ? label : `+${label}` });
    }
    return result;
  }

  ov.time = { duration, ticks, time, viewFor };
})((window.overlane = window.overlane || {}));
