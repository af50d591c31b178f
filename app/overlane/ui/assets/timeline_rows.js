/* The lane tree: which rows there are, how high, and what lies under a point. */
(function (ov) {
  'use strict';

  const PAD = 4; // above and below the slices of a lane, CSS px
  const GROUP_H = { 0: 26, 1: 22 }; // top groups stand out, nested ones are quieter
  const FOLDED_H = 32; // a folded group keeps a row to draw its busy share in
  const SLOT_H = { engine: 16, stream: 26, calls: 16, syncs: 16, ranges: 16, instants: 14, counter: 28, blocks: 12 };
  const SUMMARY_LANES = 12; // a folded group asks for at most this many wire lanes

  const PINNED = { id: 'pinned', parent: null, label: 'Pinned lanes', sublabel: '', kind: 'pinned', collapsed: false };

  /** Height of one sublane: full for a few, squeezed when there are many. */
  function slotHeight(kind, sublanes) {
    const full = SLOT_H[kind] || 16;
    if (sublanes <= 1) return full;
    if (kind === 'stream') return sublanes === 2 ? 15 : sublanes === 3 ? 12 : Math.max(5, Math.floor(48 / sublanes));
    if (sublanes <= 9) return Math.min(full, 15);
    return Math.max(5, Math.floor(135 / sublanes));
  }

  /** Children of each group, in drawing order. */
  function childrenOf(groups) {
    const known = new Set(groups.map((group) => group.id));
    const children = new Map();
    for (const group of groups) {
      const parent = known.has(group.parent) ? group.parent : null;
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(group);
    }
    return children;
  }

  function lanesByGroup(lanes, pinned) {
    const byGroup = new Map();
    for (const lane of lanes) {
      const group = pinned.has(lane.id) ? PINNED.id : lane.group;
      if (!byGroup.has(group)) byGroup.set(group, []);
      byGroup.get(group).push(lane);
    }
    return byGroup;
  }

  /**
   * Wire lanes from which a folded group draws its summary. A device has a lane with the union of its work; any
   * other group uses the outermost sublane of its lanes, which covers what is nested in it.
   */
  function summaryLanes(meta, group, children, byGroup) {
    if (group.kind === 'device') {
      const devices = meta.groups.filter((other) => other.kind === 'device');
      const union = (meta.minimap || [])[devices.indexOf(group)];
      if (union !== undefined) return [union];
    }
    const found = [];
    const visit = (id) => {
      for (const lane of byGroup.get(id) || []) if (lane.kind !== 'counter') found.push(lane.first);
      for (const child of children.get(id) || []) visit(child.id);
    };
    visit(group.id);
    return found.slice(0, SUMMARY_LANES);
  }

  /**
   * Lays out the tree.
   * @param {object} meta the timeline's JSON
   * @param {Set<string>} folded ids of the folded groups
   * @param {object} options {hides(lane): whether a lane is left out, below(lane): px below its slices, pinned and order: ids of lanes}
   * @returns {{rows: object[], total: number}} rows in drawing order with y and h in CSS px
   */
  function layout(meta, folded, options) {
    const pinned = new Set(options.pinned);
    const rank = new Map(options.order.map((id, at) => [id, at]));
    const placed = meta.lanes.map((lane, at) => ({ lane, at, rank: rank.get(lane.id) ?? -1 }));
    // Lanes that were never moved keep their places; the others follow the order that they were given.
    if (rank.size) placed.sort((a, b) => (a.rank < 0 || b.rank < 0 ? a.at - b.at : a.rank - b.rank));
    const lanes = placed.map(({ lane }) => lane).filter((lane) => !options.hides(lane));
    const children = childrenOf(pinned.size ? [PINNED, ...meta.groups] : meta.groups);
    const byGroup = lanesByGroup(lanes, pinned);
    const isEmpty = (id) => !byGroup.has(id) && (children.get(id) || []).every((child) => isEmpty(child.id));
    const rows = [];
    let y = 0;
    const addLane = (lane, level, owner) => {
      const slot = slotHeight(lane.kind, lane.sublanes);
      const h = slot * lane.sublanes + (lane.sublanes - 1) + 2 * PAD + options.below(lane);
      const tall = lane.sublabel ? Math.max(h, 34) : Math.max(h, 20);
      rows.push({ type: 'lane', lane, owner, level, y, h: tall, top: Math.round((tall - h) / 2) + PAD, slot });
      y += tall;
    };
    const addGroup = (group, level) => {
      if (isEmpty(group.id)) return;
      const isFolded = folded.has(group.id);
      const h = isFolded ? FOLDED_H : GROUP_H[Math.min(level, 1)];
      const row = { type: 'group', group, level, y, h, folded: isFolded, summary: [] };
      if (isFolded) row.summary = summaryLanes(meta, group, children, byGroup);
      rows.push(row);
      y += h;
      if (isFolded) return;
      for (const lane of byGroup.get(group.id) || []) addLane(lane, level, group.id);
      for (const child of children.get(group.id) || []) addGroup(child, level + 1);
    };
    for (const group of children.get(null) || []) addGroup(group, 0);
    return { rows, total: y };
  }

  /** Index of the row at content height y, or -1. */
  function rowAt(rows, y) {
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].y + rows[middle].h <= y) low = middle + 1;
      else high = middle;
    }
    return low < rows.length && y >= rows[low].y ? low : -1;
  }

  /** The wire lane of a lane row at content height y: the nearest sublane. */
  function wireAt(row, y) {
    const slot = Math.floor((y - row.y - row.top) / (row.slot + 1));
    return row.lane.first + Math.min(Math.max(slot, 0), row.lane.sublanes - 1);
  }

  /** Top of a wire lane's slices, in content px. */
  function slotTop(row, wire) {
    return row.y + row.top + (wire - row.lane.first) * (row.slot + 1);
  }

  /** Wire lanes that a row needs drawn. */
  function wiresOf(row) {
    if (row.type === 'group') return row.summary;
    return Array.from({ length: row.lane.sublanes }, (_, i) => row.lane.first + i);
  }

  /** The rows in view and their wire lanes, worked out once per layout, place and size. */
  function shown(t) {
    const before = t.shown;
    if (before && before.rows === t.rows && before.y === t.scrollTop && before.height === t.height && before.top === t.top) return before;
    const first = Math.max(0, rowAt(t.rows, t.scrollTop));
    const end = t.scrollTop + t.height - t.top;
    let last = first;
    while (last < t.rows.length && t.rows[last].y < end) last++;
    const found = t.rows.slice(first, last);
    t.shown = { rows: t.rows, y: t.scrollTop, height: t.height, top: t.top, found, wires: found.flatMap((row) => wiresOf(row)) };
    return t.shown;
  }

  ov.rows = { layout, rowAt, shown, slotTop, wireAt, wiresOf };
})((window.overlane = window.overlane || {}));
