/* What the canvas shows, as a table for those who do not see it: the slices in view, lane by lane. */
(function (ov) {
  'use strict';

  const MOST_PER_LANE = 12;
  const MOST_ROWS = 240;
  const HEAD = ['lane', 'what', 'start', 'length', 'busy'];

  /** The element that takes the table: beside the canvas where the page has one, since the canvas has keys of its own. */
  function placeOf(t) {
    const beside = document.getElementById(`${t.element.id}-table`);
    if (beside || t.parts.table) return beside || t.parts.table;
    t.parts.table = ov.page.make('div', 'ov-hidden');
    t.element.append(t.parts.table);
    return t.parts.table;
  }

  function cellsOf(t, lane, tile, i) {
    const what = tile.count[i] > 1 ? `${tile.count[i]} slices, mostly ${t.meta.categories[tile.category[i]].replaceAll('_', ' ')}`
      : ov.wire.nameOf(tile, i) || t.meta.categories[tile.category[i]].replaceAll('_', ' ');
    const share = tile.count[i] > 1 || lane.kind === 'counter' ? `${Math.round((100 * tile.busy[i]) / 255)} %` : '';
    return [what, ov.time.duration(tile.t0 + tile.start[i]), ov.time.duration(tile.end[i] - tile.start[i]), share];
  }

  /** Rows of text: of each lane in sight the longest slices in view, in order of time. */
  function rowsOf(t) {
    const { tile } = t.feed;
    const found = [];
    for (const row of t.shownRows()) {
      if (row.type !== 'lane' || found.length >= MOST_ROWS) continue;
      const name = row.lane.sublabel ? `${row.lane.label}, ${row.lane.sublabel}` : row.lane.label;
      const seen = ov.rows.wiresOf(row).flatMap((wire) => ov.export.inView(t, tile, wire));
      const longest = [...seen].sort((a, b) => tile.end[b] - tile.start[b] - (tile.end[a] - tile.start[a])).slice(0, MOST_PER_LANE);
      for (const i of longest.sort((a, b) => tile.start[a] - tile.start[b])) found.push([name, ...cellsOf(t, row.lane, tile, i)]);
      if (seen.length > longest.length) found.push([name, `and ${seen.length - longest.length} shorter`, '', '', '']);
      if (!seen.length) found.push([name, 'nothing in view', '', '', '']);
    }
    return found;
  }

  function line(kind, texts) {
    const { make } = ov.page;
    const row = make('tr', '');
    row.append(...texts.map((text) => make(kind, '', text)));
    return row;
  }

  /** Writes the table anew when what is drawn has come to rest. */
  function show(t) {
    if (!t.feed.tile || !t.isReady) return;
    const key = [t.trace, t.rank, t.view.t0, t.view.t1, t.scrollTop, t.total, t.feed.fetches].join();
    if (t.tableKey === key) return;
    t.tableKey = key;
    const { make } = ov.page;
    const table = make('table', '');
    const from = ov.time.duration(t.view.t0);
    table.append(make('caption', '', `${t.meta.name}: slices in view, ${ov.time.duration(t.view.span)} from ${from}`));
    const head = make('thead', '');
    head.append(line('th', HEAD));
    const body = make('tbody', '');
    body.append(...rowsOf(t).map((texts) => line('td', texts)));
    table.append(head, body);
    placeOf(t).replaceChildren(table);
  }

  ov.table = { show };
})((window.overlane = window.overlane || {}));
