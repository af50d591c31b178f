/* Colours from the style sheet's variables, and text that fits. */
(function (ov) {
  'use strict';

  const FONT = 'Inter, "Segoe UI", system-ui, "DejaVu Sans", sans-serif';
  // Mixed with white (positive) or black (negative); small enough that no shade looks like another category.
  const SHADES = [0, 0.09, -0.1, 0.045, -0.18, -0.05];
  const SHADED = new Set(['compute', 'operator', 'annotation', 'collective', 'python']);
  const KEYS = ['bg', 'panel', 'line', 'text', 'dim', 'lane', 'accent', 'range', 'marker', 'ghost', 'scroll'];
  const DARK_TEXT = [18, 24, 33];
  const LIGHT_TEXT = [255, 255, 255];
  const MEASURED_NAMES = 20000;
  const SERIES = 10; // colours for things without a meaning of their own: names, streams, partitions
  const DIMMED = 0.8; // how far what a filter leaves out goes towards the ground
  const LEAST_LETTERS = 4; // a shorter rest tells nothing

  /** Any CSS colour as [r, g, b]. */
  function rgb(context, value) {
    context.fillStyle = '#000';
    context.fillStyle = value.trim() || '#888';
    const text = context.fillStyle;
    if (text[0] === '#') return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
    return text.match(/[\d.]+/g).slice(0, 3).map(Number);
  }

  const css = (colour, alpha = 1) => `rgba(${colour[0]}, ${colour[1]}, ${colour[2]}, ${alpha})`;
  const mix = (colour, other, share) => colour.map((part, i) => Math.round(part + (other[i] - part) * share));
  // A pixel of an ImageData as one little-endian number; signed, which the compiler handles several times faster.
  const pack = (colour, alpha = 255) => (alpha << 24) | (colour[2] << 16) | (colour[1] << 8) | colour[0];

  function luminance(colour) {
    const [r, g, b] = colour.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(a, b) {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  }

  /** White or near-black, whichever reads better on the colour; white wins a near tie, it is calmer. */
  function textOn(colour) {
    return contrast(LIGHT_TEXT, colour) * 1.25 >= contrast(DARK_TEXT, colour) ? LIGHT_TEXT : DARK_TEXT;
  }

  /** A small number from a name, equal in every trace, so that one kernel keeps its shade. */
  function shadeOf(name) {
    let hash = 2166136261;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
    return (hash >>> 0) % SHADES.length;
  }

  /**
   * Reads the theme once: page colours, and per category and shade what raster and text need.
   * @param {Element} element inside the themed page
   * @param {string[]} categories names in the order of the wire's category codes
   */
  function readTheme(element, categories) {
    const style = getComputedStyle(element);
    const context = document.createElement('canvas').getContext('2d');
    const theme = { font: FONT, categories: [] };
    for (const key of KEYS) theme[key] = rgb(context, style.getPropertyValue(`--ov-${key}`));
    for (const name of categories) {
      const base = rgb(context, style.getPropertyValue(`--ov-${name.replaceAll('_', '-')}`));
      const shades = SHADED.has(name) ? SHADES : SHADES.map(() => 0);
      const colours = shades.map((s) => mix(base, s > 0 ? [255, 255, 255] : [0, 0, 0], Math.abs(s)));
      theme.categories.push({
        name,
        base,
        pixels: colours.map((colour) => pack(colour)),
        text: css(textOn(base)), // one for all shades: neighbours with names in two colours look like two things
      });
    }
    theme.dimmed = Int32Array.from(theme.categories.flatMap(({ base }) => SHADES.map(() => pack(mix(base, theme.bg, DIMMED)))));
    theme.series = tableOf(context, style, Array.from({ length: SERIES }, (_, i) => `series-${i}`));
    // One flat table for the raster: category times the number of shades, plus the shade.
    theme.shades = SHADES.length;
    theme.pixels = Int32Array.from(theme.categories.flatMap((category) => category.pixels));
    return theme;
  }

  /** Pixels and text colours of some of the style sheet's colours. */
  function tableOf(context, style, names) {
    const colours = names.map((name) => rgb(context, style.getPropertyValue(`--ov-${name}`)));
    return { colours, pixels: Int32Array.from(colours.map((colour) => pack(colour))), texts: colours.map((colour) => css(textOn(colour))) };
  }

  /** What text reads well on a pixel's colour. */
  function textOnPixel(pixel) {
    return css(textOn([pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255]));
  }

  /** Measures each name once per font, and cuts it with an ellipsis where it does not fit. */
  class TextFitter {
    constructor() {
      this.widths = new Map();
      this.cuts = new Map();
    }

    width(context, font, text) {
      const key = font + text;
      let width = this.widths.get(key);
      if (width === undefined) {
        if (this.widths.size > MEASURED_NAMES) this.widths.clear();
        context.font = font;
        width = context.measureText(text).width;
        this.widths.set(key, width);
      }
      return width;
    }

    /** The text, or its longest beginning with an ellipsis that fits `room` px, or '' where not even four letters fit. */
    fit(context, font, text, room) {
      const full = this.width(context, font, text);
      if (full <= room) return text;
      let letters = Math.min(text.length - 1, Math.floor((text.length * room) / full));
      const key = `${font}${letters}|${text}`;
      const known = this.cuts.get(key);
      if (known !== undefined && known.width <= room) return known.text;
      while (letters >= LEAST_LETTERS) {
        const cut = `${text.slice(0, letters).trimEnd()}…`;
        const width = this.width(context, font, cut);
        if (width <= room) {
          if (this.cuts.size > MEASURED_NAMES) this.cuts.clear();
          this.cuts.set(key, { text: cut, width });
          return cut;
        }
        letters--;
      }
      return '';
    }
  }

  ov.paint = { TextFitter, css, mix, pack, readTheme, rgb, shadeOf, tableOf, textOnPixel };
})((window.overlane = window.overlane || {}));
