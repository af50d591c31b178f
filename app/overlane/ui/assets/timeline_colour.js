/* Which colour a slice has: by engine as the palette says, or by name, stream, partition or cause. */
(function (ov) {
  'use strict';

  /** A number from a name, equal in every trace, so that a kernel keeps its colour. */
  function hash(text) {
    let value = 2166136261;
    for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
    return value >>> 0;
  }

  /** Pixels of a tile's slices by name, worked out once per tile and theme; runs of many keep their engine's. */
  function byName(t, tile) {
    const { theme } = t;
    if (tile.byName && tile.byNameTheme === theme.serial) return tile.byName;
    const { series, pixels, shades } = theme;
    const ofCode = new Map();
    for (const [code, name] of tile.names) ofCode.set(code, series.pixels[hash(name) % series.pixels.length]);
    tile.byName = new Int32Array(tile.n);
    for (let i = 0; i < tile.n; i++) tile.byName[i] = ofCode.get(tile.name[i]) ?? pixels[tile.category[i] * shades];
    tile.byNameTheme = theme.serial;
    return tile.byName;
  }

  /** Place of each stream lane, or of each group that holds one, among its like: neighbours get different colours. */
  function places(t, key) {
    if (t.colourPlaces?.meta === t.meta && t.colourPlaces.key === key) return t.colourPlaces.of;
    const seen = new Map();
    const of = new Map();
    for (const lane of t.meta.lanes) {
      if (lane.kind !== 'stream') continue;
      const value = key === 'stream' ? lane.id : lane.group;
      if (!seen.has(value)) seen.set(value, seen.size);
      of.set(lane.id, seen.get(value));
    }
    t.colourPlaces = { meta: t.meta, key, of };
    return of;
  }

  /** Adds to a lane's look how its slices are coloured. */
  function dress(t, lane, look) {
    const mode = t.settings.colour;
    if (lane.kind === 'blocks') {
      // Blocks of one kernel belong together whatever else is chosen.
      look.coloursOf = (tile) => byName(t, tile);
      return look;
    }
    if (lane.kind !== 'stream' || mode === 'engine' || mode === 'cause') return look;
    if (mode === 'name') look.coloursOf = (tile) => byName(t, tile);
    else look.flat = t.theme.series.pixels[places(t, mode).get(lane.id) % t.theme.series.pixels.length];
    return look;
  }

  ov.colour = { dress };
})((window.overlane = window.overlane || {}));
