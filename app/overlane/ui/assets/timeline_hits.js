/* The results of a search: a table that holds only the rows in sight, next and previous, and the filter by it. */
(function (ov) {
  'use strict';

  const PAGE = 100; // hits asked for at once
  const ROW = 24; // px, as in the style sheet
  const TYPING_MS = 180;
  const LEAST_ROOM_NS = 500;
  const LEAST_FREE_PX = 220; // of the plot beside the list; with less, the list folds up when it has led somewhere
  const HINT = 'Also: kind:kernel  stream:7  cause:event_wait  >10us  1ms..2ms';
  const COLUMNS = [['name', 'name'], ['where', 'stream or thread'], ['start', 'start'], ['length', 'duration']];

  let primary = () => null;
  let panel = null;
  let parts = null;
  let timer = 0;
  let search = null; // {trace, rank, line, total, pages: Map, wires, at, control}

  const field = () => {
    const found = document.getElementById('ov-search');
    return found && (found.matches('input') ? found : found.querySelector('input'));
  };
  const count = (n) => n.toLocaleString('en').replaceAll(',', '\u202f');
  const isOpen = () => panel !== null && !panel.hidden && panel.offsetParent !== null;

  // ---- the panel

  function build() {
    const { make, button } = ov.page;
    const bar = make('div', 'ov-hits-bar');
    const previous = button('↑', 'Previous hit (Shift + N)', () => step(-1));
    const next = button('↓', 'Next hit (N)', () => step(1));
    const at = make('span', 'ov-hits-at');
    at.setAttribute('aria-live', 'polite');
    const dim = button('dim others', 'Dim everything that the search did not find', () => toggleFilter('dim'));
    const hide = button('only these', 'Hide everything that the search did not find', () => toggleFilter('hide'));
    const fold = button('▴', 'Fold the list', () => setFolded(!panel.classList.contains('ov-folded')));
    bar.append(previous, next, at, dim, hide, fold, button('×', 'Close the results (Esc)', close));
    const note = make('p', 'ov-hits-note', HINT);
    const head = make('div', 'ov-hits-head');
    head.setAttribute('role', 'row');
    for (const [, title] of COLUMNS) {
      const cell = make('span', '', title);
      cell.setAttribute('role', 'columnheader');
      head.append(cell);
    }
    const list = make('div', 'ov-hits-list');
    list.tabIndex = 0;
    list.setAttribute('role', 'rowgroup');
    list.setAttribute('aria-label', 'Hits; arrow keys choose one, Enter shows it');
    const room = make('div', 'ov-hits-room');
    list.append(head, room);
    const grid = make('div', 'ov-hits-grid');
    grid.setAttribute('role', 'grid');
    grid.append(list);
    panel.replaceChildren(bar, note, grid);
    parts = { at, dim, fold, grid, hide, list, note, room };
    list.addEventListener('scroll', () => render());
    list.addEventListener('keydown', onListKey);
  }

  function open() {
    panel.hidden = false;
    panel.style.display = '';
  }

  /** Leaves only the bar of the results, or shows the list again. */
  function setFolded(isFolded) {
    panel.classList.toggle('ov-folded', isFolded);
    parts.fold.textContent = isFolded ? '▾' : '▴';
    parts.fold.title = isFolded ? 'Show the list' : 'Fold the list';
    parts.fold.setAttribute('aria-label', parts.fold.title);
    parts.fold.setAttribute('aria-expanded', String(!isFolded));
    if (!isFolded) render();
  }

  function close() {
    if (panel) panel.hidden = true;
    const t = primary();
    if (t) t.element.focus({ preventScroll: true });
  }

  // ---- asking

  function begin(line) {
    const t = primary();
    if (!t || !t.meta) return;
    panel = document.getElementById('ov-search-panel');
    if (!parts || !panel.contains(parts.grid)) build();
    if (search) search.control.abort();
    const words = line.trim();
    if (!words) {
      search = null;
      panel.hidden = true;
      if (t.filter) ov.layers.filter(t, null);
      return;
    }
    search = {
      trace: t.trace, rank: t.rank, line: words, total: null, pages: new Map(), at: -1, control: new AbortController(), error: '',
    };
    open();
    setFolded(false);
    parts.list.scrollTop = 0;
    load(search, 0).then((mine) => {
      if (!mine || mine !== search) return;
      if (t.filter) applyFilter(t, t.filter.mode);
    });
    render();
  }

  /** Asks for one page of hits; returns the search it belongs to, null when it is no longer wanted. */
  async function load(mine, page) {
    const t = primary();
    if (!t || !t.feed || mine.pages.has(page)) return null;
    mine.pages.set(page, null);
    try {
      const address = t.feed.address('search', { q: mine.line, offset: page * PAGE, limit: PAGE });
      const response = await fetch(address, { signal: mine.control.signal });
      if (!response.ok) throw new Error(await ov.wire.failure(response));
      const body = await response.json();
      mine.total = body.total;
      mine.wires = body.lanes;
      mine.pages.set(page, body.hits);
      mine.error = '';
    } catch (error) {
      if (error.name === 'AbortError') return null;
      mine.pages.delete(page);
      mine.total = mine.total ?? 0;
      mine.error = error.message;
    }
    if (mine === search) render();
    return mine;
  }

  async function hitAt(index) {
    const page = Math.floor(index / PAGE);
    if (!search.pages.get(page)) {
      const mine = search;
      while (mine.pages.get(page) === null) await new Promise((done) => { setTimeout(done, 20); });
      if (!mine.pages.get(page)) await load(mine, page);
      if (mine !== search) return null;
    }
    return search.pages.get(page)?.[index % PAGE] ?? null;
  }

  // ---- drawing the rows in sight

  function where(hit) {
    if (hit.stream !== null) return `stream ${hit.stream}`;
    if (hit.thread !== null) return `thread ${hit.thread}`;
    return hit.table.replaceAll('_', ' ');
  }

  function rowOf(hit, index) {
    const { make } = ov.page;
    const row = make('div', 'ov-hits-row');
    row.setAttribute('role', 'row');
    row.setAttribute('aria-rowindex', String(index + 2));
    row.setAttribute('aria-selected', String(index === search.at));
    row.style.top = `${index * ROW}px`;
    row.dataset.index = String(index);
    const texts = hit
      ? [hit.name || `${hit.table} ${hit.row}`, where(hit), ov.time.duration(hit.start_ns), ov.time.duration(hit.end_ns - hit.start_ns)]
      : ['…', '', '', ''];
    for (const text of texts) {
      const cell = make('span', '', text);
      cell.setAttribute('role', 'gridcell');
      cell.title = text;
      row.append(cell);
    }
    row.addEventListener('click', () => jump(index));
    return row;
  }

  function render() {
    if (!parts || !search) return;
    const { total } = search;
    const n = total ?? 0;
    parts.note.textContent = search.error || (total === 0 ? `Nothing holds “${search.line}”. ${HINT}` : HINT);
    parts.note.classList.toggle('ov-hits-error', search.error !== '');
    const place = search.at >= 0 ? `${count(search.at + 1)} of ` : '';
    parts.at.textContent = total === null ? 'searching …' : `${place}${count(n)} ${n === 1 ? 'hit' : 'hits'}`;
    parts.grid.hidden = n === 0;
    parts.grid.setAttribute('aria-rowcount', String(n + 1));
    parts.room.style.height = `${n * ROW}px`;
    const mode = primary()?.filter?.mode;
    parts.dim.setAttribute('aria-pressed', String(mode === 'dim'));
    parts.hide.setAttribute('aria-pressed', String(mode === 'hide'));
    const first = Math.max(0, Math.floor(parts.list.scrollTop / ROW) - 4);
    const last = Math.min(n, first + Math.ceil((parts.list.clientHeight || 300) / ROW) + 8);
    const rows = [];
    for (let index = first; index < last; index++) {
      const page = Math.floor(index / PAGE);
      if (!search.pages.has(page)) load(search, page);
      rows.push(rowOf(search.pages.get(page)?.[index % PAGE], index));
    }
    parts.room.replaceChildren(...rows);
  }

  // ---- going there

  /** Px of the plot that the list covers, from the right. */
  function coveredBy(t) {
    if (!isOpen() || panel.classList.contains('ov-folded')) return 0;
    return Math.max(0, t.element.getBoundingClientRect().left + t.left + t.plotWidth - panel.getBoundingClientRect().left);
  }

  /**
   * The window that shows a hit with room on both sides, in the part of the plot that the list leaves free. Where
   * that is too narrow, or the trace ends too early to move the hit there, the list folds up.
   */
  function viewOf(t, hit) {
    const length = Math.max(hit.end_ns - hit.start_ns, LEAST_ROOM_NS);
    const free = t.plotWidth - coveredBy(t);
    const perPixel = (5 * length) / free;
    const start = (hit.start_ns + hit.end_ns) / 2 - 2.5 * length;
    const end = start + perPixel * t.plotWidth;
    const isLate = end > t.view.limit && hit.end_ns > t.view.limit - perPixel * (t.plotWidth - free);
    if (free === t.plotWidth || (free >= LEAST_FREE_PX && !isLate)) return [start, end];
    setFolded(true);
    return viewOf(t, hit);
  }

  async function jump(index) {
    const hit = await hitAt(index);
    const t = primary();
    if (!hit || !t) return;
    search.at = index;
    const place = viewOf(t, hit);
    t.view.set(...place);
    t.select(hit.table, hit.row, place);
    const top = index * ROW;
    const { list } = parts;
    if (top < list.scrollTop || top + ROW > list.scrollTop + list.clientHeight - list.firstChild.offsetHeight) {
      list.scrollTop = Math.max(0, top - list.clientHeight / 2);
    }
    render();
  }

  /** The next hit (1) or the one before (-1), around the end. */
  function step(by) {
    if (!search || !search.total) return;
    const n = search.total;
    const from = search.at < 0 ? (by > 0 ? -1 : 0) : search.at;
    jump((from + by + n) % n);
  }

  function onListKey(event) {
    const n = search?.total ?? 0;
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -n, End: n };
    if (event.key in moves) {
      const from = search.at < 0 && moves[event.key] > 0 ? -1 : search.at;
      jump(Math.min(n - 1, Math.max(0, from + moves[event.key])));
    } else if (event.key === 'Enter') {
      primary()?.element.focus({ preventScroll: true });
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // ---- the filter

  function applyFilter(t, mode) {
    if (!search || search.error) return;
    ov.layers.filter(t, { line: search.line, mode, wires: new Set(search.wires) });
    render();
  }

  function toggleFilter(mode) {
    const t = primary();
    if (!t || !search) return;
    if (t.filter && t.filter.mode === mode) {
      ov.layers.filter(t, null);
      ov.page.say(t, 'Everything is shown again.');
      render();
    } else {
      applyFilter(t, mode);
      ov.page.say(t, mode === 'dim' ? 'All but the hits is dimmed.' : 'Only the hits are shown.');
    }
  }

  // ---- the page

  function onTyping(event) {
    if (event.target !== field()) return;
    clearTimeout(timer);
    timer = setTimeout(() => begin(event.target.value), TYPING_MS);
  }

  function onFieldKey(event) {
    if (event.key === 'Escape' && isOpen() && !document.querySelector('.ov-tl-help, .ov-tl-menu, .ov-tl-notes')) {
      // Before the timeline's own Esc, which clears range and selection.
      const hadFocus = event.target === field() || panel.contains(event.target);
      panel.hidden = true;
      if (hadFocus) primary()?.element.focus({ preventScroll: true });
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (event.target !== field()) return;
    if (event.key === 'Escape') {
      primary()?.element.focus({ preventScroll: true });
    } else if (event.key === 'Enter') {
      clearTimeout(timer);
      if (search?.line !== event.target.value.trim()) begin(event.target.value);
      stepWhenThere(event.shiftKey ? -1 : 1);
    } else if (event.key === 'ArrowDown' && isOpen()) {
      parts.list.focus();
      event.preventDefault();
    }
  }

  async function stepWhenThere(by) {
    const mine = search;
    for (let tries = 0; mine && mine === search && mine.total === null && tries < 200; tries++) {
      await new Promise((done) => { setTimeout(done, 25); });
    }
    if (mine === search) step(by);
  }

  function onFocus(event) {
    if (event.target === field() && search && panel) open();
  }

  /** Another trace or rank is shown: what was found in the one before says nothing of it. */
  function onTrace(t) {
    const { value } = field() || { value: '' };
    if (t === primary() && value && (!search || search.trace !== t.trace || search.rank !== t.rank)) begin(value);
  }

  function watch(primaryOf) {
    primary = primaryOf;
    document.addEventListener('keydown', onFieldKey, true);
    document.addEventListener('input', onTyping);
    document.addEventListener('focusin', onFocus);
  }

  ov.hits = { onTrace, step, watch };
})((window.overlane = window.overlane || {}));
