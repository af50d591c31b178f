/*
 * The DOM inside a timeline: canvases, tip, buttons, status, help, and the text for screen readers. Names come from
 * foreign files, so they are only ever set as text.
 */
(function (ov) {
  'use strict';

  const TIP_GAP = 14;
  const LOOK_UP_MS = 140; // the mouse rests this long before the server is asked for the longest slice of an aggregate
  const KNOWN_ROWS = 200;

  const HELP = [
    ['Mouse', [
      ['drag', 'move in time and up and down'], ['wheel', 'zoom at the mouse'],
      ['Shift + wheel', 'scroll the lanes, as the wheel over their names'], ['click', 'select and show the details'],
      ['double click', 'zoom to the slice'], ['Shift + drag', 'select a range, as dragging on the ruler'],
      ['overview', 'drag or resize the window, click to jump'],
    ]],
    ['Move', [
      ['W  S', 'zoom in, out'], ['A  D', 'move left, right'], ['F', 'fit the range or selection, else all'],
      ['0  Home', 'show all'], ['Backspace', 'back to the view before; with Shift forward'],
      ['V', 'what is shown: colours, waits, gaps, barriers'], ['Page up  Page down', 'scroll the lanes'],
    ]],
    ['Select', [
      ['←  →', 'slice before, after; fold or open a group'], ['↑  ↓', 'lane above, below'],
      ['Enter', 'zoom to the selection; fold or open a group'], ['R', 'measure the selection, else the view'], ['Shift + ←  Shift + →', 'shorten, lengthen the range'], ['M', 'mark the range or selection, again to unmark'], ['K', 'all marks and their notes'],
      ['P', 'pin the lane to the top'], ['Shift + ↑  Shift + ↓', 'move the lane; or drag its name'],
      ['Esc', 'close the hits, then clear the range, then the selection'],
    ]],
    ['Reasons', [
      [',  .', 'operation that it waited for; that waited for it'], ['<  >', 'back and forth along the critical path'],
    ]],
    ['Find', [['/', 'search all names'], ['N  ]', 'next hit'], ['Shift + N  [', 'hit before'], ['O', 'open a trace of this machine; or drop it on the page'], ['?', 'this help']]],
  ];

  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function button(text, label, action) {
    const element = make('button', 'ov-tl-button', text);
    element.type = 'button';
    element.title = label;
    element.setAttribute('aria-label', label);
    element.addEventListener('click', action);
    return element;
  }

  /** Fills the element; returns its parts. */
  function build(t) {
    const { element } = t;
    element.tabIndex = 0;
    element.setAttribute('role', 'application');
    element.setAttribute('aria-label', 'Timeline. Arrow keys select slices, W A S D move, question mark for all keys.');
    const parts = {
      canvas: make('canvas', 'ov-tl-canvas'), over: make('canvas', 'ov-tl-canvas ov-tl-over'),
      tip: make('div', 'ov-tl-tip'), status: make('div', 'ov-tl-status'), live: make('div', 'ov-tl-live'),
      tools: make('div', 'ov-tl-tools'), legend: make('div', 'ov-tl-legend'),
    };
    parts.canvas.setAttribute('aria-hidden', 'true');
    parts.over.setAttribute('aria-hidden', 'true');
    parts.legend.hidden = true;
    parts.legend.setAttribute('aria-label', 'What the colours in view stand for');
    parts.tip.hidden = true;
    parts.status.hidden = true;
    parts.status.setAttribute('role', 'status');
    parts.live.setAttribute('aria-live', 'polite');
    const middle = () => (t.view.t0 + t.view.t1) / 2;
    parts.tools.append(
      button('‹', 'Back to the view before (Backspace)', () => t.meta && ov.input.goBack(t, false)),
      button('›', 'Forward again (Shift + Backspace)', () => t.meta && ov.input.goBack(t, true)),
      button('−', 'Zoom out (S)', () => t.meta && t.view.zoom(1.6, middle())),
      button('+', 'Zoom in (W)', () => t.meta && t.view.zoom(1 / 1.6, middle())),
      button('fit', 'Fit the range or the selection, else all (F; 0 shows all)', () => t.meta && ov.input.fit(t)),
      ov.settings.menuButton(t, button),
      button('?', 'All keys and mouse actions (?)', () => openHelp(t)),
    );
    element.replaceChildren(...Object.values(parts));
    return parts;
  }

  function clear(t) {
    clearTimeout(t.lookUp);
    closeHelp(t);
    t.element.replaceChildren();
  }

  /** Shows progress or an error over the canvas; null takes it away. */
  function status(t, state) {
    const { status: box } = t.parts;
    box.replaceChildren();
    box.hidden = !state;
    if (!state) return;
    box.classList.toggle('ov-tl-error', Boolean(state.isError));
    box.append(make('p', '', state.text));
    if (!state.isError) {
      const bar = make('div', 'ov-tl-progress');
      const fill = make('div', '');
      fill.style.width = `${Math.round(100 * Math.min(1, Math.max(0.02, state.fraction || 0)))}%`;
      bar.append(fill);
      box.append(bar);
    }
    if (state.retry) box.append(button('Try again', 'Ask the server again', state.retry));
  }

  function say(t, text) {
    t.parts.live.textContent = text;
  }

  const percent = (share) => (share >= 0.995 ? '100 %' : share < 0.01 ? '< 1 %' : `${Math.round(100 * share)} %`);
  const laneWords = (lane) => (lane.sublabel ? `${lane.label} · ${lane.sublabel}` : lane.label);
  const exact = (ns) => `${Math.round(ns).toLocaleString('en').replaceAll(',', '\u202f')} ns`;

  /** One sentence about a slice, for screen readers. */
  function describe(t, slice) {
    const what = slice.count > 1 ? `longest of ${slice.count} slices` : slice.name || `${slice.table} ${slice.row}`;
    const times = `${ov.time.duration(slice.end - slice.start)}, starts at ${ov.time.duration(slice.start)}`;
    return `Selected: ${what}, ${times}, ${laneWords(slice.lane)}`;
  }

  /** A counter's value for people: bytes in binary units, others with three digits. */
  function amount(value, unit) {
    if (unit === 'bytes') {
      const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(value, 1)) / 10)));
      return `${Number((value / 1024 ** power).toPrecision(3))} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`;
    }
    return `${Number(value.toPrecision(3)).toLocaleString('en').replaceAll(',', '\u202f')} ${unit || ''}`.trim();
  }

  function counterFacts(t, slice) {
    const { lane } = slice;
    // A tile carries 255 steps of the lane's highest value, so the tip says about how much.
    const value = lane.max === null || lane.max === undefined ? percent(slice.busy) : `≈ ${amount(slice.busy * lane.max, lane.unit)}`;
    return [[slice.count > 1 ? 'highest value' : 'value', value]];
  }

  function sliceFacts(t, slice) {
    const group = t.meta.groups.find((one) => one.id === slice.lane.group);
    const facts = [];
    const title = slice.lane.kind === 'counter' ? slice.lane.label : slice.name;
    if (slice.lane.kind === 'counter') facts.push(...counterFacts(t, slice));
    const isInstant = slice.lane.kind === 'instants' || slice.end === slice.start;
    if (slice.count > 1) {
      facts.push(['slices', slice.count.toLocaleString('en').replaceAll(',', '\u202f')]);
      if (slice.lane.kind !== 'counter') facts.push(['busy', `${percent(slice.busy)} of ${ov.time.duration(slice.end - slice.start)}`]);
      facts.push(['mostly', t.meta.categories[slice.category].replaceAll('_', ' ')]);
    } else if (!isInstant) {
      facts.push(['duration', ov.time.duration(slice.end - slice.start)]);
    }
    facts.push(['start', ov.time.time(slice.start, slice.count > 1 ? t.view.span / t.plotWidth : 1, slice.start)]);
    facts.push(['lane', group ? `${laneWords(slice.lane)}, ${group.label}` : laneWords(slice.lane)]);
    const many = slice.lane.kind === 'engine' ? 'operations in a row' : 'slices';
    return { title: title || (slice.count > 1 ? `${slice.count} ${many}` : slice.lane.label), facts };
  }

  function showTip(t, content, x, y) {
    const { tip: box } = t.parts;
    box.replaceChildren(make('strong', '', content.title));
    const list = make('dl', '');
    for (const [key, value] of content.facts) list.append(make('dt', '', key), make('dd', '', value));
    if (content.facts.length) box.append(list);
    box.hidden = false;
    const flips = x + TIP_GAP + box.offsetWidth > t.width - 4;
    box.style.left = `${Math.max(4, flips ? x - TIP_GAP - box.offsetWidth : x + TIP_GAP)}px`;
    const below = y + TIP_GAP + 4;
    box.style.top = `${below + box.offsetHeight > t.height - 4 ? Math.max(4, y - TIP_GAP - box.offsetHeight) : below}px`;
  }

  /** Says in the tip which slice of an aggregate is the longest; answers are kept for the next time. */
  function lookUpLongest(t, slice, x, y) {
    const key = `${slice.table}:${slice.row}`;
    if (!t.knownRows) t.knownRows = new Map();
    const complete = (longest) => {
      const content = sliceFacts(t, slice);
      content.facts.splice(2, 0, ['longest', longest]);
      showTip(t, content, x, y);
    };
    if (t.knownRows.has(key)) return complete(t.knownRows.get(key));
    t.lookUp = setTimeout(async () => {
      const { feed } = t;
      const json = await feed.row(slice.table, slice.row);
      const columns = json && json.columns;
      if (!columns || t.feed !== feed) return;
      const start = columns.start_ns ?? columns.at_ns;
      const words = [columns.name, ov.time.duration(Number(columns.end_ns ?? start) - Number(start))].filter(Boolean).join(' · ');
      if (t.knownRows.size >= KNOWN_ROWS) t.knownRows.clear();
      t.knownRows.set(key, words);
      if (t.tipFor === key) complete(words);
    }, LOOK_UP_MS);
    return undefined;
  }

  /** Shows what is under the mouse; null hides the tip. */
  function tip(t, target) {
    clearTimeout(t.lookUp);
    t.tipFor = null;
    if (!target) {
      t.parts.tip.hidden = true;
      return;
    }
    const { x, y, slice, row, marker, content } = target;
    if (content) {
      showTip(t, content, x, y);
    } else if (slice) {
      t.tipFor = `${slice.table}:${slice.row}`;
      showTip(t, sliceFacts(t, slice), x, y);
      if (slice.count > 1 && slice.lane.kind !== 'counter' && slice.lane.kind !== 'engine') lookUpLongest(t, slice, x, y);
    } else if (marker) {
      showTip(t, { title: marker.label, facts: [['length', ov.time.duration(marker.t1 - marker.t0)], ['start', exact(marker.t0)], ...(marker.note ? [['note', marker.note]] : [])] }, x, y);
    } else if (row.type === 'group') {
      const facts = [['click', row.folded ? 'to open' : 'to fold']];
      if (row.group.sublabel) facts.unshift(['', row.group.sublabel]);
      showTip(t, { title: row.group.label, facts }, x, y);
    } else {
      const facts = [[row.lane.kind === 'counter' ? 'samples' : 'slices', row.lane.rows.toLocaleString('en').replaceAll(',', '\u202f')]];
      if (row.lane.sublabel) facts.unshift(['', row.lane.sublabel]);
      if (row.lane.kind === 'counter' && row.lane.max !== null) facts.push(['highest', amount(row.lane.max, row.lane.unit)]);
      showTip(t, { title: row.lane.label, facts }, x, y);
    }
  }

  function openHelp(t) {
    if (t.help) return;
    const box = make('div', 'ov-tl-help');
    box.setAttribute('role', 'dialog');
    box.setAttribute('aria-modal', 'true');
    box.setAttribute('aria-label', 'Keys and mouse actions');
    const close = button('×', 'Close (Esc)', () => closeHelp(t));
    const head = make('header', '');
    head.append(make('strong', '', 'Keys and mouse'), close);
    const grid = make('div', 'ov-tl-help-grid');
    for (const [title, entries] of HELP) {
      const part = make('section', '');
      part.append(make('h3', '', title));
      const list = make('dl', '');
      for (const [keys, action] of entries) {
        const term = make('dt', '');
        for (const key of keys.split('  ')) term.append(make('kbd', '', key));
        list.append(term, make('dd', '', action));
      }
      part.append(list);
      grid.append(part);
    }
    box.append(head, grid);
    box.tabIndex = 0; // it can be scrolled by keys where the window is low
    box.addEventListener('keydown', (event) => {
      event.stopPropagation();
      if (event.key === 'Escape' || event.key === '?') closeHelp(t);
      else if (event.key === 'Tab') (document.activeElement === close ? box : close).focus();
      else return;
      event.preventDefault();
    });
    t.help = box;
    t.element.append(box);
    close.focus();
  }

  /** Closes the help; tells whether it was open. */
  function closeHelp(t) {
    if (!t.help) return false;
    t.help.remove();
    t.help = null;
    t.element.focus({ preventScroll: true });
    return true;
  }

  /** Puts what is drawn on the element, for tests and for style sheets; what stays the same is left alone. */
  function publish(t) {
    const { dataset } = t.element;
    const told = t.told || (t.told = {});
    const put = (key, value) => {
      if (told[key] === value) return;
      told[key] = value;
      dataset[key] = value;
    };
    const rows = t.shownRows();
    if (told.rows !== rows || told.left !== t.left || told.width !== t.plotWidth) {
      Object.assign(told, { rows, left: t.left, width: t.plotWidth });
      const lanes = {};
      for (const row of rows) {
        if (row.type === 'lane') lanes[row.lane.id] = { y: t.top + row.y + row.top - t.scrollTop, h: row.slot };
      }
      put('lanes', JSON.stringify(lanes));
      put('plot', JSON.stringify({ x: t.left, y: t.top, w: t.plotWidth }));
    }
    put('t0', String(Math.floor(t.view.t0)));
    put('t1', String(Math.ceil(t.view.t1)));
    put('rects', String(t.raster.slices || 0));
    put('fetches', String(t.feed ? t.feed.fetches : 0));
    put('draws', String(t.draws));
    put('reasons', t.reasons ? t.reasons.state : '');
    dataset.ready = t.isReady ? '1' : '0'; // others set it, too
  }

  ov.page = Object.assign(ov.page || {}, { build, button, make, clear, closeHelp, describe, openHelp, publish, say, status, tip });
})((window.overlane = window.overlane || {}));
