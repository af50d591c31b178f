/* What joins the timeline to the page around it: the address, Dash's stores, links, markers, keys of the whole page. */
(function (ov) {
  'use strict';

  const WRITE_MS = 300; // browsers refuse more than some hundred address changes in half a minute
  const PRIMARY = 'timeline';
  const FORWARDED = /^([wasdfmvkpr0+=,.<>-]|Backspace|Home|Enter|Escape|Arrow(Left|Right|Up|Down)|Page(Up|Down))$/i;
  let timelines = new Map();
  let writeTimer = 0;

  const isShown = (t) => t.element.isConnected && t.element.offsetParent !== null;
  const rankOf = (t) => (t.rank === '' ? null : Number(t.rank));

  function setProps(id, data) {
    const { set_props: set } = window.dash_clientside || {};
    if (!set || !document.body) return;
    try {
      set(id, { data });
    } catch (error) {
      console.warn(`The page has no store called ${id}.`, error);
    }
  }

  // ---- to Dash

  function tellSelection(t) {
    const slice = t.selection;
    if (slice) ov.page.say(t, ov.page.describe(t, slice));
    else ov.page.say(t, 'Nothing selected.');
    const data = slice ? { trace: t.trace, rank: rankOf(t), table: slice.table, row: slice.row, n: ++t.counter } : null;
    setProps('ov-selection', data);
    writeSoon();
  }

  function tellRange(t) {
    const { range } = t;
    if (range) ov.page.say(t, `Range of ${ov.time.duration(range.t1 - range.t0)} from ${ov.time.duration(range.t0)}`);
    const data = range ? { trace: t.trace, rank: rankOf(t), t0_ns: range.t0, t1_ns: range.t1, n: ++t.counter } : null;
    setProps('ov-range', data);
    writeSoon();
  }

  function tellView(t) {
    if (!t.meta || t.element.id !== PRIMARY) return;
    const window = { t0_ns: Math.floor(t.view.t0), t1_ns: Math.ceil(t.view.t1) };
    setProps('ov-view', { trace: t.trace, rank: rankOf(t), ...window, n: ++t.counter });
    writeSoon();
  }

  /** The causes are known: panels that speak of them can. */
  function tellReasons(t) {
    if (t.element.id === PRIMARY) setProps('ov-reasons', { trace: t.trace, rank: rankOf(t), n: ++t.counter });
  }

  // ---- the address

  function primary() {
    return [...timelines.values()].find((t) => t.element.id === PRIMARY) || null;
  }

  function writeSoon() {
    clearTimeout(writeTimer);
    writeTimer = setTimeout(writeAddress, WRITE_MS);
  }

  /** Keeps the address telling what is shown, so that it can be copied, reloaded and returned to. */
  function writeAddress() {
    const t = primary();
    if (!t || !t.meta || !isShown(t)) return;
    const query = new URLSearchParams(location.search);
    if (query.has('trace') && query.get('trace') !== t.trace) return; // the page is about to show another trace
    query.set('trace', t.trace);
    if (t.rank !== '') query.set('rank', t.rank);
    const isWhole = t.view.span >= t.view.limit;
    const put = (key, value) => (value === null ? query.delete(key) : query.set(key, value));
    put('t0', isWhole ? null : Math.floor(t.view.t0));
    put('t1', isWhole ? null : Math.ceil(t.view.t1));
    const selected = t.sought || t.selection;
    put('sel', selected ? `${selected.table}:${selected.row}` : null);
    put('range', t.range ? `${t.range.t0}-${t.range.t1}` : null);
    const text = `?${query.toString().replaceAll('%3A', ':')}`;
    if (text !== location.search) history.replaceState(history.state, '', location.pathname + text + location.hash);
  }

  function wholeNumber(text) {
    return text !== null && /^\d{1,18}$/.test(text) ? Number(text) : null;
  }

  function placeOf(search) {
    const query = new URLSearchParams(search);
    const [table, row] = (query.get('sel') || '').split(':');
    const [r0, r1] = (query.get('range') || '').split('-');
    const range = wholeNumber(r0 ?? null) !== null && wholeNumber(r1 ?? null) !== null ? [Number(r0), Number(r1)] : null;
    const [t0, t1] = [wholeNumber(query.get('t0')), wholeNumber(query.get('t1'))];
    return {
      trace: query.get('trace'),
      rank: query.get('rank') || '',
      window: t0 !== null && t1 !== null && t1 > t0 ? [t0, t1] : null,
      selected: wholeNumber(row ?? null) !== null ? { table, row: Number(row) } : null,
      range,
    };
  }

  /** Shows the place that an address names; tells whether it placed the view. */
  function goTo(t, place) {
    if (place.window) t.view.set(...place.window);
    if (place.range) t.setRange(...place.range);
    if (place.selected) selectAt(t, place);
    return Boolean(place.window);
  }

  /** Selects what an address names; until it is found, the address goes on naming it. */
  async function selectAt(t, place) {
    t.sought = place.selected;
    try {
      if (place.window) await selectInside(t, place.selected);
      else await t.select(place.selected.table, place.selected.row);
    } finally {
      if (t.sought === place.selected) t.sought = null;
    }
  }

  /** Selects without leaving the window that is shown. */
  async function selectInside(t, selected) {
    const found = ov.pick.find(t, selected.table, selected.row) || (await ov.pick.locate(t, selected.table, selected.row));
    if (!found) return;
    const row = t.unfold(found.wire);
    if (row) t.reveal(row);
    t.choose(found);
  }

  /** At the first draw of a trace: what the address says of it. */
  function restore(t) {
    const place = placeOf(location.search);
    const isMine = t.element.id === PRIMARY && (place.trace === null || place.trace === t.trace);
    if (t.wanted) {
      const { table, row } = t.wanted;
      t.wanted = null;
      t.select(table, row);
      return true;
    }
    return isMine ? goTo(t, place) : false;
  }

  // ---- links inside the page

  /** Follows a link to a place in the timeline without loading the page anew. */
  function followLink(event) {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest ? event.target.closest('a.ov-goto') : null;
    if (!link || !follow(new URL(link.href, location.href))) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Goes to a place of the timeline that a chart or link names. */
  function open(href) {
    const address = new URL(href, location.href);
    if (address.origin === location.origin && !follow(address)) location.assign(address);
  }

  /** Moves a timeline that is here to an address; false where it shows another trace, so that the page must load. */
  function follow(address) {
    const place = placeOf(address.search);
    const candidates = [...timelines.values()].filter((t) => t.meta && t.trace === place.trace);
    const t = candidates.find((one) => place.rank === '' || place.rank === one.rank || one.rank === '');
    if (!t || address.origin !== location.origin) return false;
    if (!isShown(t) || location.pathname !== address.pathname) {
      history.pushState({}, '', address.pathname + address.search);
      window.dispatchEvent(new CustomEvent('_dashprivate_pushstate')); // how Dash's own links tell its router
    }
    goTo(t, place);
    writeSoon();
    if (isShown(t)) t.element.focus({ preventScroll: true });
    return true;
  }

  /** Back and forward between places of the same trace. */
  function onHistory() {
    const place = placeOf(location.search);
    const t = primary();
    if (!t || !t.meta || place.trace !== t.trace) return;
    if (!place.window && !place.selected) t.view.set(0, t.view.limit);
    goTo(t, place);
  }

  // ---- keys of the whole page

  function isTyping(target) {
    return target.closest && target.closest('input, textarea, select, [contenteditable="true"], .ov-tl-help, .ov-tl-menu, .ov-tl-notes') !== null;
  }

  function onPageKey(event) {
    const t = [...timelines.values()].find((one) => one.element.contains(event.target)) || primary();
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.target === document.body && t && t.meta && isShown(t) && FORWARDED.test(event.key)) {
      // Nothing has the focus, as after loading: the timeline's keys work all the same.
      t.element.focus({ preventScroll: true });
      t.element.dispatchEvent(new KeyboardEvent('keydown', { key: event.key, shiftKey: event.shiftKey, cancelable: true }));
      event.preventDefault();
      return;
    }
    if (event.key === '/') {
      const search = document.getElementById('ov-search');
      const input = search && (search.matches('input') ? search : search.querySelector('input'));
      if (!input) return;
      input.focus();
      input.select();
    } else if (event.key === '?' && t && isShown(t)) {
      ov.page.openHelp(t);
    } else if (event.key === 'n' || event.key === ']') {
      ov.hits.step(1);
    } else if (event.key === 'N' || event.key === '[') {
      ov.hits.step(-1);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Starts listening to the page, once. */
  function watch(all) {
    timelines = all;
    // In the capture phase, so that a router's own handler does not load the page first.
    document.addEventListener('click', followLink, true);
    ov.hits.watch(primary);
    document.addEventListener('keydown', onPageKey);
    window.addEventListener('popstate', onHistory);
    window.addEventListener('_dashprivate_pushstate', () => { // the window that the pages are narrowed to may be another
      for (const t of timelines.values()) t.settle();
    });
  }

  ov.page = Object.assign(ov.page || {}, { open, restore, tellRange, tellReasons, tellSelection, tellView, watch });
})((window.overlane = window.overlane || {}));
