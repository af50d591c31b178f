/*
 * Slices as pixels. Each wire lane is first reduced to one height and one colour per pixel column, so the cost of a
 * frame is one pass over the slices in view plus the pixels drawn, whatever the trace holds; then the columns are
 * written to one image. Columns lie on a grid fixed in time, not on the screen: panning moves the picture as a whole
 * and nothing flickers.
 */
(function (ov) {
  'use strict';

  const LEAST_SHARE = 0.15; // a column that holds anything is at least this high
  const CROWD_PIXELS = 2; // a narrow slice with a neighbour this near shows its share, one alone its full height
  const EDGE_FROM_PIXELS = 3; // wider slices leave one pixel to the next, so that touching ones can be told apart
  const ROUND_FROM_PIXELS = 8;
  const RADIUS = 3;
  const LABEL_FROM_PIXELS = 26;
  const COLOUR = 0x00ffffff;
  const GHOST = 0x22000000; // alpha above a bar: shows the full height that its share is measured against
  const HATCH_GROUND = 0x10000000;
  const HATCH_STRIPE = 0x40000000;
  const AREA = 0x66000000; // alpha under a counter's line

  /** The pixels of a rounded corner that are not fully covered: [x, y, share, ...] from the outside. */
  function cornerMask(radius) {
    const mask = [];
    const fine = 4;
    for (let y = 0; y < radius; y++) {
      for (let x = 0; x < radius; x++) {
        let inside = 0;
        for (let k = 0; k < fine * fine; k++) {
          const dx = radius - (x + ((k % fine) + 0.5) / fine);
          const dy = radius - (y + (Math.floor(k / fine) + 0.5) / fine);
          if (dx * dx + dy * dy <= radius * radius) inside++;
        }
        if (inside < fine * fine) mask.push(x, y, inside / (fine * fine));
      }
    }
    return mask;
  }

  /** Shade per slice from its name, worked out once per tile. */
  function shadesOf(tile) {
    if (tile.shades) return tile.shades;
    const byCode = new Map();
    for (const [code, name] of tile.names) byCode.set(code, ov.paint.shadeOf(name));
    tile.shades = new Uint8Array(tile.n);
    for (let i = 0; i < tile.n; i++) tile.shades[i] = byCode.get(tile.name[i]) || 0;
    return tile.shades;
  }

  class Raster {
    constructor() {
      this.canvas = document.createElement('canvas');
      this.context = this.canvas.getContext('2d');
      this.width = 0;
      this.pixelRatio = 0;
    }

    /** Starts a frame of width x height device pixels. */
    begin(width, height, pixelRatio, theme) {
      if (this.width !== width || this.lines !== height) {
        this.width = width;
        this.lines = height;
        this.canvas.width = width;
        this.canvas.height = height;
        this.image = this.context.createImageData(width, height);
        this.pixels = new Int32Array(this.image.data.buffer);
        this.height = new Uint16Array(width);
        this.colour = new Int32Array(width);
        this.line = new Int32Array(width);
        this.next = new Int32Array(width);
        this.hits = new Uint16Array(width);
        this.cover = new Float32Array(width);
        this.narrow = new Int32Array(width);
        this.narrowBest = new Float32Array(width);
      }
      if (this.pixelRatio !== pixelRatio) {
        this.pixelRatio = pixelRatio;
        this.corner = cornerMask(Math.round(RADIUS * pixelRatio));
      }
      this.theme = theme;
      this.pixels.fill(0);
      this.slices = 0;
    }

    /** Puts the finished image on the canvas that the caller draws. */
    finish() {
      this.context.putImageData(this.image, 0, 0);
      return this.canvas;
    }

    /** Forgets the columns of the lane before. */
    beginLane(lines) {
      this.tall = lines;
      this.height.fill(0);
      this.hits.fill(0);
      this.low = this.width;
      this.high = 0;
      this.crowded = false;
      this.hasNarrow = false;
      this.wide = [];
    }

    /**
     * Adds the slices of one wire lane to the columns [from, to).
     * @param {object} tile where they are
     * @param {number} wire the wire lane
     * @param {object} scale {perNs, origin}: device pixel of time t is t * perNs - origin
     * @param {object} look {kind, plain, labels}: plain drawings take one colour per category and no edges; and how
     *   it is coloured: dim for what a filter leaves out, flat, coloursOf(tile), or table with one pixel per category
     */
    addSlices(tile, wire, scale, from, to, look) {
      const bounds = tile.lanes.get(wire);
      if (!bounds || from >= to) return;
      const { start, end, count, category, busy } = tile;
      const shades = shadesOf(tile);
      const table = look.table || (look.dim ? this.theme.dimmed : this.theme.pixels);
      const perCategory = look.table ? 1 : this.theme.shades;
      const shaded = look.plain || look.dim ? 0 : 1;
      const own = look.coloursOf && !look.dim ? look.coloursOf(tile) : null;
      const isFlat = look.flat !== undefined && !look.dim;
      const isCounter = look.kind === 'counter';
      const zero = tile.t0 * scale.perNs - scale.origin;
      const { perNs } = scale;
      const last = (to - zero) / perNs;
      let i = ov.wire.firstReaching(tile, bounds[0], bounds[1], (from - zero) / perNs);
      for (; i < bounds[1] && start[i] < last; i++) {
        this.slices++;
        const x0 = zero + start[i] * perNs;
        const x1 = zero + end[i] * perNs;
        const isMany = isCounter || count[i] > 1;
        const place = category[i] * perCategory + (isMany ? 0 : shaded * shades[i]);
        const colour = own ? own[i] : isFlat ? look.flat : table[place];
        if (isMany) this.addShare(x0, x1, from, to, busy[i] / 255, colour, look);
        else if (x1 - x0 < 1) this.addNarrow(x0, x1 - x0, from, to, colour, look);
        else this.addExact(x0, x1, from, to, colour, look, tile, i);
      }
    }

    addShare(x0, x1, from, to, share, colour, look) {
      const a = Math.max(from, Math.floor(x0));
      const b = Math.min(to, Math.max(Math.floor(x0) + 1, Math.floor(x1)));
      const least = look.kind === 'counter' ? 0 : LEAST_SHARE;
      const lines = look.kind === 'instants' ? this.tall : Math.max(1, Math.round(Math.max(least, share) * this.tall));
      if (lines < this.tall) this.crowded = true;
      for (let x = a; x < b; x++) {
        if (lines > this.height[x]) {
          this.height[x] = lines;
          this.colour[x] = colour;
        }
      }
      if (a < b) this.reach(a, b);
    }

    addNarrow(x0, width, from, to, colour, look) {
      this.hasNarrow = true;
      const x = Math.floor(x0);
      const thick = look.kind === 'instants' ? Math.round(2 * this.pixelRatio) : 1;
      if (x + thick <= from || x >= to) return;
      if (look.kind === 'instants') {
        for (let k = Math.max(from, x); k < Math.min(to, x + thick); k++) {
          this.height[k] = this.tall;
          this.colour[k] = colour;
        }
      } else if (this.hits[x] === 0) {
        this.hits[x] = 1;
        this.cover[x] = width;
        this.narrow[x] = colour;
        this.narrowBest[x] = width;
      } else {
        this.hits[x]++;
        this.cover[x] += width;
        if (width > this.narrowBest[x]) {
          this.narrowBest[x] = width;
          this.narrow[x] = colour;
        }
      }
      this.reach(Math.max(from, x), Math.min(to, x + thick));
    }

    addExact(x0, x1, from, to, colour, look, tile, i) {
      const left = Math.floor(x0);
      const right = Math.max(left + 1, Math.floor(x1));
      const edge = !look.plain && right - left > EDGE_FROM_PIXELS * this.pixelRatio ? Math.round(this.pixelRatio) : 0;
      const a = Math.max(from, left);
      const b = Math.min(to, right - edge);
      if (a >= b) return;
      for (let x = a; x < b; x++) {
        this.height[x] = this.tall;
        this.colour[x] = colour;
      }
      this.reach(a, b);
      if (look.plain) return;
      if (right - left >= ROUND_FROM_PIXELS * this.pixelRatio) {
        this.wide.push(a > left ? -1 : a, b < right - edge ? -1 : b);
      }
      if (look.labels && b - a >= LABEL_FROM_PIXELS * this.pixelRatio) look.labels.push({ a, b, tile, i, text: look.coloursOf || look.flat !== undefined || look.table ? colour : null });
    }

    reach(a, b) {
      if (a < this.low) this.low = a;
      if (b > this.high) this.high = b;
    }

    /** Gives the columns of narrow slices their height: full for one that stands alone, else the share covered. */
    settleNarrow() {
      if (!this.hasNarrow) return;
      const { hits, height, tall } = this;
      for (let x = this.low; x < this.high; x++) {
        if (hits[x] === 0) continue;
        let alone = hits[x] === 1;
        for (let k = 1; k <= CROWD_PIXELS && alone; k++) {
          const before = x - k >= 0 && hits[x - k] + height[x - k] > 0;
          const after = x + k < this.width && hits[x + k] + height[x + k] > 0;
          alone = !(before || after);
        }
        const share = alone ? 1 : Math.min(1, Math.max(LEAST_SHARE, this.cover[x]));
        const lines = Math.max(1, Math.round(share * tall));
        if (lines > height[x]) {
          height[x] = lines;
          this.colour[x] = this.narrow[x];
          if (lines < tall) this.crowded = true;
        }
      }
    }

    /** Writes the columns to lines [top, top + tall) of the image; parts outside are cut. */
    endLane(top, look) {
      if (this.low >= this.high) return;
      this.settleNarrow();
      const first = Math.max(0, -top);
      const last = Math.min(this.tall, this.lines - top);
      if (look.kind === 'counter') {
        this.writeArea(top, first, last);
      } else if (look.over) {
        this.writeOver(top, first, last);
      } else if (this.crowded) {
        this.writeBars(top, first, last);
      } else {
        this.writeBlocks(top, first, last);
      }
      if (this.tall >= 9 * this.pixelRatio) this.roundCorners(top);
    }

    writeBlocks(top, first, last) {
      const { width, low, high, height, colour, pixels } = this;
      if (first >= last) return;
      const origin = (top + first) * width;
      for (let x = low; x < high; x++) if (height[x]) pixels[origin + x] = colour[x];
      for (let y = first + 1; y < last; y++) pixels.copyWithin((top + y) * width + low, origin + low, origin + high);
    }

    /**
     * Writes bars line by line from the top. One line is kept and changes only in the columns whose bar begins there
     * (chained by height), so the pixels themselves are block copies: fifteen times faster than a test per pixel.
     */
    writeBars(top, first, last) {
      const { width, low, high, height, colour, line, next, pixels, tall } = this;
      const heads = new Int32Array(tall + 1).fill(-1);
      for (let x = low; x < high; x++) {
        const lines = height[x];
        line[x] = lines === 0 ? 0 : (colour[x] & COLOUR) | GHOST;
        next[x] = heads[lines];
        heads[lines] = x;
      }
      const part = line.subarray(low, high);
      for (let y = 0; y < last; y++) {
        for (let x = heads[tall - y]; x >= 0; x = next[x]) line[x] = colour[x];
        if (y >= first) pixels.set(part, (top + y) * width + low);
      }
    }

    /**
     * Fills what is still empty of columns [a, b) with quiet stripes.
     * @param {object} pattern {colour, step, shift}: the stripes' pixel, their distance, and what keeps them in place
     *   while panning
     */
    hatch(a, b, top, tall, { colour, step, shift }) {
      const { width, pixels } = this;
      const ground = (colour & COLOUR) | HATCH_GROUND;
      const stripe = (colour & COLOUR) | HATCH_STRIPE;
      const first = Math.max(0, top);
      const last = Math.min(this.lines, top + tall);
      const phase = ((shift % step) + step) % step;
      for (let y = first; y < last; y++) {
        const origin = y * width;
        let place = (a + phase + (y - top)) % step;
        for (let x = a; x < b; x++) {
          if (pixels[origin + x] === 0) pixels[origin + x] = place === 0 ? stripe : ground;
          if (++place === step) place = 0;
        }
      }
    }

    /** Writes bars and leaves the pixels beside them: over what the lane shows already. */
    writeOver(top, first, last) {
      const { width, low, high, height, colour, pixels, tall } = this;
      for (let y = first; y < last; y++) {
        const origin = (top + y) * width;
        for (let x = low; x < high; x++) if (height[x] >= tall - y) pixels[origin + x] = colour[x];
      }
    }

    writeArea(top, first, last) {
      const { width, low, high, height, colour, pixels, tall } = this;
      const line = Math.max(1, Math.round(1.5 * this.pixelRatio));
      for (let y = first; y < last; y++) {
        const origin = (top + y) * width;
        const needed = tall - y;
        for (let x = low; x < high; x++) {
          const lines = height[x];
          if (lines < needed) continue;
          // A step is drawn as a line where the value stands and where it jumps, so that the curve is closed.
          const step = x > low ? height[x - 1] : lines;
          const isLine = lines - needed < line || (step < needed && step !== lines);
          pixels[origin + x] = isLine ? colour[x] : (colour[x] & COLOUR) | AREA;
        }
      }
    }

    roundCorners(top) {
      const { wide, corner, tall } = this;
      for (let m = 0; m < corner.length; m += 3) {
        const upper = top + corner[m + 1];
        const lower = top + tall - 1 - corner[m + 1];
        for (let k = 0; k < wide.length; k += 2) {
          if (wide[k] >= 0) {
            this.fade(wide[k] + corner[m], upper, corner[m + 2]);
            this.fade(wide[k] + corner[m], lower, corner[m + 2]);
          }
          if (wide[k + 1] >= 0) {
            this.fade(wide[k + 1] - 1 - corner[m], upper, corner[m + 2]);
            this.fade(wide[k + 1] - 1 - corner[m], lower, corner[m + 2]);
          }
        }
      }
    }

    fade(x, y, share) {
      if (y < 0 || y >= this.lines) return;
      const at = y * this.width + x;
      const pixel = this.pixels[at];
      this.pixels[at] = (((pixel >>> 24) * share) << 24) | (pixel & COLOUR);
    }
  }

  ov.Raster = Raster;
})((window.overlane = window.overlane || {}));
