/* Timelines that share a view although their times differ: each is shifted so that a chosen moment lies under the others'. */
(function (ov) {
  'use strict';

  const APPLY_MS = 120;
  const GIVE_UP_MS = 120000;
  const shifts = new Map(); // "compare:1" -> ns that are added to a timeline's own times in the shared view
  const plainViewFor = ov.time.viewFor;
  let applyTimer = 0;

  /** A shared view in a timeline's own times. */
  class ShiftedView {
    constructor(base, key) {
      this.base = base;
      this.key = key;
    }

    get shift() { return shifts.get(this.key) || 0; }
    get t0() { return this.base.t0 - this.shift; }
    get t1() { return this.base.t1 - this.shift; }
    get span() { return this.base.span; }
    get limit() { return this.base.limit; }
    get frame() { return this.base.frame; }
    get cursor() { return this.base.cursor === null ? null : this.base.cursor - this.shift; }

    set(t0, t1) { this.base.set(t0 + this.shift, t1 + this.shift); }
    glide(t0, t1) { this.base.glide(t0 + this.shift, t1 + this.shift); }
    pan(ns) { this.base.pan(ns); }
    zoom(factor, at) { this.base.zoom(factor, at + this.shift); }
    point(at) { this.base.point(at === null ? null : at + this.shift); }
    remember() { this.base.remember(); }
    back() { return this.base.back(); }
    forward() { return this.base.forward(); }

    join(member) {
      const { key } = this;
      this.adapter = {
        get spanNs() { return member.spanNs ? member.spanNs + (shifts.get(key) || 0) : 0; },
        onView: () => member.onView(),
        onCursor: () => member.onCursor(),
      };
      this.base.join(this.adapter);
    }

    leave() {
      this.base.leave(this.adapter);
    }
  }

  ov.time.viewFor = (link) => {
    const [name, place] = (link || '').split(':');
    return place === undefined ? plainViewFor(link) : new ShiftedView(plainViewFor(name), link);
  };

  /**
   * Shifts the timelines of a link and shows a window of the shared times, once all of them have their traces.
   * @param {string} link name that their data-link starts with
   * @param {number[]} wanted ns to add to the own times of each timeline
   * @param {?number[]} shown window in shared times; null leaves the view
   * @param {string[]} elements ids of the timelines that must be there
   */
  function align(link, wanted, shown, elements) {
    wanted.forEach((ns, place) => shifts.set(`${link}:${place}`, ns));
    const base = plainViewFor(link);
    const since = performance.now();
    clearInterval(applyTimer);
    const apply = () => {
      const loaded = elements.every((id) => document.getElementById(id)?.dataset.lanes !== undefined
        && ov.timeline(id) && [...base.members].filter((member) => member.spanNs > 0).length >= elements.length);
      if (!loaded && performance.now() - since < GIVE_UP_MS) return;
      clearInterval(applyTimer);
      if (shown) base.set(...shown);
      else base.set(base.t0, base.t1);
    };
    applyTimer = setInterval(apply, APPLY_MS);
  }

  /** Tells whoever listens how the shared view moves, at most every `ms`. */
  function watch(link, ms, listener) {
    const base = plainViewFor(link);
    let timer = 0;
    base.join({
      spanNs: 0,
      onView: () => {
        clearTimeout(timer);
        timer = setTimeout(() => listener(base.t0, base.t1, base.limit), ms);
      },
      onCursor: () => {},
    });
  }

  ov.align = { align, watch };
})((window.overlane = window.overlane || {}));
