/* The binary tile: what the server answers for one viewport, as typed arrays without parsing. */
(function (ov) {
  'use strict';

  const MAGIC = 0x3154564f; // "OVT1"
  const HEADER_BYTES = 48;
  const BYTES_PER_SLICE = 24;
  const FLAG_EXACT = 1;
  const NO_NAME = 0xffffffff;

  /** Running maximum of the ends of one lane, so that a binary search stays right where slices overlap. */
  function runningMaximum(end, from, to, out) {
    let top = -Infinity;
    for (let i = from; i < to; i++) {
      if (end[i] > top) top = end[i];
      out[i] = top;
    }
  }

  /** Finds where each wire lane begins and ends in the arrays, which are sorted by (lane, start). */
  function indexLanes(lane, end) {
    const lanes = new Map();
    const reach = new Float32Array(end.length);
    let from = 0;
    for (let i = 1; i <= lane.length; i++) {
      if (i < lane.length && lane[i] === lane[from]) continue;
      lanes.set(lane[from], [from, i]);
      runningMaximum(end, from, i, reach);
      from = i;
    }
    return { lanes, reach };
  }

  /**
   * Decodes a tile.
   * @param {ArrayBuffer} buffer the body of the answer
   * @param {number[]} asked the wire lanes that the request named: an asked lane without slices is empty, not unknown
   */
  function decodeTile(buffer, asked) {
    const view = new DataView(buffer);
    if (buffer.byteLength < HEADER_BYTES || view.getUint32(0, true) !== MAGIC) {
      throw new Error('The server answered with something that is not a timeline tile; reload the page.');
    }
    const n = view.getUint32(4, true);
    const nameBytes = view.getUint32(32, true);
    if (buffer.byteLength < HEADER_BYTES + n * BYTES_PER_SLICE + nameBytes) {
      throw new Error('The server cut a timeline tile short; try again.');
    }
    let at = HEADER_BYTES;
    const take = (Type) => {
      const array = new Type(buffer, at, n);
      at += n * Type.BYTES_PER_ELEMENT;
      return array;
    };
    const tile = {
      n,
      t0: view.getFloat64(8, true),
      t1: view.getFloat64(16, true),
      nsPerPixel: view.getFloat64(24, true),
      exact: (view.getUint32(36, true) & FLAG_EXACT) !== 0,
      start: take(Float32Array),
      end: take(Float32Array),
      row: take(Uint32Array),
      count: take(Uint32Array),
      name: take(Uint32Array),
      lane: take(Uint16Array),
      busy: take(Uint8Array),
      category: take(Uint8Array),
      names: new Map(),
      asked: new Set(asked),
    };
    at = (at + 3) & ~3;
    if (nameBytes > 0) {
      const text = new TextDecoder().decode(new Uint8Array(buffer, at, nameBytes));
      for (const [code, name] of Object.entries(JSON.parse(text))) tile.names.set(Number(code), name);
    }
    return Object.assign(tile, indexLanes(tile.lane, tile.end));
  }

  /** First slice in [from, to) that ends at or after `offset` (ns from the tile's t0). */
  function firstReaching(tile, from, to, offset) {
    while (from < to) {
      const middle = (from + to) >> 1;
      if (tile.reach[middle] < offset) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** The name of a slice, or null where the tile carries none. */
  function nameOf(tile, i) {
    const code = tile.name[i];
    return code === NO_NAME ? null : (tile.names.get(code) ?? null);
  }

  /** Wire lanes as the route wants them: [0, 1, 2, 5] becomes "0-2,5". */
  function laneRanges(lanes) {
    const sorted = [...new Set(lanes)].sort((a, b) => a - b);
    const parts = [];
    for (let i = 0; i < sorted.length; ) {
      let j = i;
      while (j + 1 < sorted.length && sorted[j + 1] === sorted[j] + 1) j++;
      parts.push(i === j ? `${sorted[i]}` : `${sorted[i]}-${sorted[j]}`);
      i = j + 1;
    }
    return parts.join(',');
  }

  /** The sentence of a failed answer: the server's own where it sent one. */
  async function failure(response) {
    const body = await response.json().catch(() => null);
    if (body && typeof body.error === 'string') return body.error;
    return `The server answered ${response.status}; it may be busy or restarting.`;
  }

  ov.wire = { decodeTile, failure, firstReaching, laneRanges, nameOf };
})((window.overlane = window.overlane || {}));
