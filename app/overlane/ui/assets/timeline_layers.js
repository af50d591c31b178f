/* What lies over a timeline as tiles of its own: the slices that a search found, and the causes of waiting. */
(function (ov) {
  'use strict';

  const QUIET_RETRIES = 3;

  /** Tiles of an overlay, asked for as those of the timeline under it are; it never disturbs that one. */
  class LayerFeed extends ov.Feed {
    /**
     * @param {object} t the timeline
     * @param {object} extra what the address says beside the viewport
     * @param {function(number[]): number[]} wiresFor the overlay's wire lanes for wire lanes of the timeline
     * @param {number} wireCount how many wire lanes the overlay has
     */
    constructor(t, extra, wiresFor, wireCount) {
      super({
        get trace() { return t.trace; },
        get rank() { return t.rank; },
        get meta() { return t.meta; },
        get view() { return t.view; },
        get spanNs() { return t.spanNs; },
        get plotWidth() { return t.plotWidth; },
        wireCount,
        visibleWires: () => wiresFor(t.visibleWires()),
        onTile: () => t.onLayer(),
        clearStatus: () => {},
        showError: () => {},
      });
      this.timeline = t;
      this.extra = extra;
      this.wiresFor = wiresFor;
      this.isGivenUp = false;
    }

    address(what, query) {
      return super.address(what, what === 'tile' ? { ...query, ...this.extra } : query);
    }

    /** Without its overlay the timeline is still right, so a failure is tried again and then left. */
    fail(sentence, again) {
      if (++this.failures > QUIET_RETRIES) {
        this.isGivenUp = true;
        console.warn(`An overlay of the timeline is not drawn: ${sentence}`);
        return;
      }
      this.timer = setTimeout(() => {
        this.timer = 0;
        again();
      }, 1000 * this.failures);
    }

    /** The overlay's lanes for the lanes in view and a few around them. */
    wanted() {
      return this.wiresFor(this.timeline.feed.wanted());
    }

    /** A tile that was taken over from another overlay is drawn until there is one of this. */
    isCurrent() {
      return !this.tile?.isOld && super.isCurrent();
    }

    /** What is being computed will be there; it is asked for until then. */
    failTile(error) {
      if (error.status === 503) this.failures = 0;
      super.failTile(error);
    }

    get isSettled() {
      return this.isGivenUp || (!this.pending && this.isCurrent());
    }
  }

  const feeds = (t) => Object.values(t.layers).filter(Boolean);

  function need(t) {
    for (const feed of feeds(t)) feed.need();
  }

  function close(t) {
    for (const feed of feeds(t)) feed.close();
    t.layers = {};
  }

  function areReady(t) {
    return feeds(t).every((feed) => feed.isSettled);
  }

  function set(t, name, feed) {
    if (t.layers[name]) t.layers[name].close();
    t.layers[name] = feed;
    if (feed) feed.need();
    t.redraw();
  }

  // ---- the filter: what a search found stays, the rest is dimmed or hidden

  /**
   * Filters by a search.
   * @param {object} t the timeline
   * @param {object|null} filter {line, mode: 'dim' or 'hide', wires: Set of wire lanes with hits}; null shows all
   */
  function filter(t, filter_) {
    const before = t.filter;
    t.filter = filter_;
    if (!before || !filter_ || before.line !== filter_.line) {
      const feed = filter_ ? new LayerFeed(t, { layer: 'found', q: filter_.line }, (wires) => wires, t.wireCount) : null;
      set(t, 'found', feed);
    }
    t.relayout();
    t.redraw();
  }

  /** Whether a lane is left out because the filter hides it. */
  function hides(t, lane) {
    if (!t.filter || t.filter.mode !== 'hide' || !t.filter.wires) return false;
    for (let k = 0; k < lane.sublanes; k++) if (t.filter.wires.has(lane.first + k)) return false;
    return true;
  }

  ov.LayerFeed = LayerFeed;
  ov.layers = { areReady, close, filter, hides, need, set };
})((window.overlane = window.overlane || {}));
