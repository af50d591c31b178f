
// The timeline of a report page: draws what stands in the page and keeps view and selection in the address.
(() => {
  'use strict';

  const at = (id) => document.getElementById(id);
  const data = JSON.parse(at('drawing').textContent);
  const canvas = at('canvas');
  const ruler = at('ruler');
  const plot = at('plot');
  const GROUP_PX = 22;
  const ROW_PX = 22;
  const SUBLANE_PX = 15;
  const WAIT_PX = 3;
  const LEAST_NS = 20;
  const LETTER_PX = 6.3;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const is = { waits: true, gaps: true, barriers: true };
  const view = { t0: data.view[0], t1: data.view[1] };
  let picked = -1; // place of the selected slice
  let rows = []; // what is shown, from top to bottom
  let height = 0;
  let isAsked = false;

  // ------------------------------------------------------------------ data

  function unpack(columns) {
    const n = columns.start.length;
    const found = {
      offset: columns.offset,
      start: new Float64Array(n),
      end: new Float64Array(n),
      row: new Float64Array(n),
      count: new Uint32Array(n).fill(1),
      busy: new Float64Array(n),
      category: columns.category,
      name: columns.name,
    };
    let start = 0;
    let row = 0;
    for (let i = 0; i < n; i += 1) {
      start += columns.start[i];
      row += columns.row[i];
      found.start[i] = start;
      found.row[i] = row;
      found.end[i] = start + columns.length[i];
      found.busy[i] = columns.length[i];
    }
    columns.several.forEach((place, i) => {
      found.count[place] = columns.count[i];
      found.busy[place] = columns.busy[i];
    });
    return found;
  }

  const slices = unpack(data.slices);
  const waits = unpack(data.waits);
  const gaps = unpack(data.gaps);
  const laneOf = []; // lane of each row of slices
  data.lanes.forEach((lane, number) => {
    for (let i = 0; i < lane.sublanes; i += 1) laneOf[lane.first + i] = number;
  });
  const waitParts = new Map();
  data.wait_parts.op.forEach((op, i) => {
    if (!waitParts.has(op)) waitParts.set(op, []);
    waitParts.get(op).push({ cause: data.wait_parts.cause[i], ns: data.wait_parts.ns[i] });
  });
  const placeOf = new Map(); // table and row to the slice that stands for it
  slices.offset.slice(0, -1).forEach((low, line) => {
    const lane = data.lanes[laneOf[line]];
    if (lane.union) return;
    for (let i = low; i < slices.offset[line + 1]; i += 1) placeOf.set(`${lane.table}:${slices.row[i]}`, i);
  });

  /** The first item of a line that ends after a time. */
  function firstAfter(items, line, time) {
    let low = items.offset[line];
    let high = items.offset[line + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items.end[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function lineOf(place) {
    let low = 0;
    let high = slices.offset.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (slices.offset[middle] <= place) low = middle;
      else high = middle;
    }
    return low;
  }

  // ------------------------------------------------------------------ words

  function duration(ns) {
    if (ns < 1e3) return `${Math.round(ns)} ns`;
    if (ns < 1e6) return `${(ns / 1e3).toPrecision(4)} µs`;
    if (ns < 1e9) return `${(ns / 1e6).toPrecision(4)} ms`;
    return `${(ns / 1e9).toPrecision(4)} s`;
  }

  const exact = (ns) => `${Math.round(ns).toString().replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f')} ns`;

  function stamp(ns, step) {
    const [factor, unit] = Math.abs(ns) >= 1e9 ? [1e9, 's'] : Math.abs(ns) >= 1e6 ? [1e6, 'ms']
      : Math.abs(ns) >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
    const decimals = Math.min(9, Math.max(0, Math.ceil(Math.log10(factor / step))));
    return `${(ns / factor).toFixed(decimals)} ${unit}`;
  }

  function wordOf(place) {
    const lane = data.lanes[laneOf[lineOf(place)]];
    const name = data.names[slices.name[place]];
    if (lane.union) return `${lane.label}: busy`;
    return slices.count[place] > 1 ? `${slices.count[place].toLocaleString('en')} slices, the longest ${name}` : name;
  }

  // ------------------------------------------------------------------ layout

  const hasSlices = (lane) => slices.offset[lane.first + lane.sublanes] > slices.offset[lane.first];
  const isUsed = (number) => data.lanes.some((lane) => lane.group === number && hasSlices(lane))
    || data.groups.some((group, child) => group.parent === number && isUsed(child));

  function layout() {
    rows = [];
    height = 0;
    const labels = at('labels');
    labels.replaceChildren();
    const put = (element, label, sublabel, px) => {
      element.append(label);
      if (sublabel) {
        const more = document.createElement('span');
        more.append(sublabel);
        element.append(more);
      }
      element.title = sublabel ? `${label} ${sublabel}` : label;
      element.style.top = `${height}px`;
      element.style.height = `${px}px`;
      labels.append(element);
      height += px;
    };
    const isHidden = (group) => group.parent >= 0
      && (data.groups[group.parent].collapsed || isHidden(data.groups[group.parent]));
    data.groups.forEach((group, number) => {
      if (isHidden(group) || !isUsed(number)) return;
      const button = document.createElement('button');
      button.type = 'button';
      button.setAttribute('aria-expanded', String(!group.collapsed));
      button.addEventListener('click', () => {
        group.collapsed = !group.collapsed;
        layout();
        at('labels').querySelector(`[data-group="${number}"]`).focus();
      });
      button.dataset.group = String(number);
      rows.push({ group: number, y: height, px: GROUP_PX });
      put(button, `${group.collapsed ? '▸' : '▾'} ${group.label}`, group.sublabel, GROUP_PX);
      if (group.collapsed) return;
      data.lanes.forEach((lane, place) => {
        if (lane.group !== number || !hasSlices(lane)) return;
        const px = lane.sublanes > 1 ? lane.sublanes * SUBLANE_PX + 4 : ROW_PX;
        rows.push({ lane: place, y: height, px });
        put(document.createElement('div'), lane.label, lane.sublabel, px);
      });
    });
    labels.style.height = `${height}px`;
    draw();
  }

  const isTall = (lane) => lane.sublanes > 1;
  const sliceBox = (row, sublane) => {
    const lane = data.lanes[row.lane];
    return isTall(lane) ? [row.y + 2 + sublane * SUBLANE_PX, SUBLANE_PX - 2] : [row.y + 2, ROW_PX - 4 - WAIT_PX];
  };

  // ------------------------------------------------------------------ drawing

  function draw() {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      paint();
    });
  }

  const width = () => canvas.clientWidth || 1;
  const xOf = (time) => ((time - view.t0) / (view.t1 - view.t0)) * width();
  const timeOf = (x) => view.t0 + (x / width()) * (view.t1 - view.t0);

  function fit(element, wide, tall) {
    const scale = devicePixelRatio || 1;
    element.style.height = `${tall}px`;
    const [w, h] = [Math.round(wide * scale), Math.round(tall * scale)];
    if (element.width !== w || element.height !== h) Object.assign(element, { width: w, height: h });
    const pen = element.getContext('2d');
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    return pen;
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const side = dark.matches ? 1 : 0;
    const theme = { side };
    for (const name of ['panel', 'line', 'text', 'dim', 'lane', 'accent']) theme[name] = style.getPropertyValue(`--${name}`);
    const letters = (hex) => {
      const [r, g, b] = [1, 3, 5].map((from) => parseInt(hex.slice(from, from + 2), 16));
      return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#10151c' : '#ffffff';
    };
    theme.fill = data.categories.map((item) => item.colours[side]);
    theme.letters = theme.fill.map(letters);
    theme.cause = data.causes.map((item) => item.colours[side]);
    return theme;
  }

  function paint() {
    const theme = colours();
    const pen = fit(canvas, width(), height);
    const wide = width();
    const seen = { category: new Set(), cause: new Set() };
    pen.fillStyle = theme.panel;
    pen.fillRect(0, 0, wide, height);
    const ticks = paintRuler(theme);
    pen.fillStyle = theme.line;
    for (const time of ticks) pen.fillRect(Math.round(xOf(time)), 0, 1, height);
    for (const row of rows) {
      pen.fillStyle = row.lane === undefined ? theme.lane : theme.line;
      pen.fillRect(0, row.lane === undefined ? row.y : row.y + row.px - 0.5, wide, row.lane === undefined ? row.px : 0.5);
    }
    pen.font = '11px Inter, "Segoe UI", system-ui, sans-serif';
    pen.textBaseline = 'middle';
    for (const row of rows.filter((each) => each.lane !== undefined)) {
      if (is.gaps) paintReasons(pen, row, gaps, { theme, seen, isGap: true });
      paintSlices(pen, row, theme, seen);
      if (is.waits) paintReasons(pen, row, waits, { theme, seen, isGap: false });
    }
    if (is.barriers) paintBarriers(pen, theme);
    paintPicked(pen, theme);
    paintLegend(theme, seen);
    canvas.dataset.t0 = String(view.t0);
    canvas.dataset.t1 = String(view.t1);
    canvas.dataset.selected = picked < 0 ? '' : keyOf(picked);
    canvas.dataset.ready = '1';
  }

  function paintSlices(pen, row, theme, seen) {
    const lane = data.lanes[row.lane];
    for (let sublane = 0; sublane < lane.sublanes; sublane += 1) {
      const line = lane.first + sublane;
      const [y, px] = sliceBox(row, sublane);
      let drawnTo = -1;
      for (let i = firstAfter(slices, line, view.t0); i < slices.offset[line + 1] && slices.start[i] < view.t1; i += 1) {
        const x0 = Math.max(xOf(slices.start[i]), -1);
        const x1 = Math.min(xOf(slices.end[i]), width() + 1);
        if (x1 < drawnTo) continue; // this pixel has its colour
        const category = slices.category[i];
        seen.category.add(category);
        const share = slices.busy[i] / Math.max(slices.end[i] - slices.start[i], 1);
        pen.globalAlpha = slices.count[i] > 1 ? 0.35 + 0.65 * Math.min(share, 1) : 1;
        pen.fillStyle = theme.fill[category];
        const from = Math.max(x0, drawnTo);
        // A pixel stays free between neighbours that are wide enough to spare it.
        const to = Math.max(x1 - (x1 - x0 > 4 ? 1 : 0), from + 1);
        pen.fillRect(from, y, to - from, px);
        drawnTo = to;
        pen.globalAlpha = 1;
        const room = Math.floor((x1 - Math.max(x0, 0) - 8) / LETTER_PX);
        if (room < 3 || lane.union) continue;
        const word = wordOf(i);
        pen.fillStyle = theme.letters[category];
        pen.fillText(word.length > room ? `${word.slice(0, room - 1)}…` : word, Math.max(x0, 0) + 4, y + px / 2 + 0.5);
      }
    }
  }

  function paintReasons(pen, row, items, { theme, seen, isGap }) {
    const { lane: line } = row;
    const [y, px] = isGap ? [row.y + 2, ROW_PX - 4 - WAIT_PX] : [row.y + ROW_PX - 2 - WAIT_PX, WAIT_PX];
    for (let i = firstAfter(items, line, view.t0); i < items.offset[line + 1] && items.start[i] < view.t1; i += 1) {
      const x0 = Math.max(xOf(items.start[i]), -1);
      const x1 = Math.min(xOf(items.end[i]), width() + 1);
      if (x1 - x0 < (isGap ? 3 : 0.5)) continue;
      pen.fillStyle = theme.cause[items.category[i]];
      seen.cause.add(items.category[i]);
      pen.globalAlpha = isGap ? 0.14 : 1;
      pen.fillRect(x0, y, x1 - x0, px);
      if (isGap) {
        pen.globalAlpha = 0.4;
        for (let x = Math.max(0, Math.ceil(x0 / 6) * 6); x < x1; x += 6) pen.fillRect(x, y + px / 2 - 0.5, 2, 1);
      }
      pen.globalAlpha = 1;
    }
  }

  function paintBarriers(pen, theme) {
    const rowOf = new Map(rows.filter((row) => row.lane !== undefined).map((row) => [row.lane, row]));
    for (const barrier of data.barriers) {
      const [x0, x1] = [xOf(barrier.start), xOf(barrier.end)];
      if (x1 < 0 || x0 > width() || x1 - x0 < 2) continue;
      for (const lane of barrier.lanes) {
        const row = rowOf.get(lane);
        if (!row) continue;
        pen.globalAlpha = 0.1;
        pen.fillStyle = theme.text;
        pen.fillRect(x0, row.y, x1 - x0, row.px);
        pen.globalAlpha = 0.55;
        pen.fillRect(x0, row.y, 1, row.px);
        pen.fillRect(x1 - 1, row.y, 1, row.px);
        pen.globalAlpha = 1;
      }
    }
  }

  function paintPicked(pen, theme) {
    if (picked < 0) return;
    const line = lineOf(picked);
    const row = rows.find((each) => each.lane === laneOf[line]);
    if (!row) return;
    const [y, px] = sliceBox(row, line - data.lanes[row.lane].first);
    const x0 = xOf(slices.start[picked]);
    const x1 = Math.max(xOf(slices.end[picked]), x0 + 2);
    pen.strokeStyle = theme.text;
    pen.lineWidth = 2;
    pen.strokeRect(Math.max(x0, -4) - 1, y - 1, Math.min(x1, width() + 4) - Math.max(x0, -4) + 2, px + 2);
  }

  function paintRuler(theme) {
    const pen = fit(ruler, width(), 24);
    const span = view.t1 - view.t0;
    const least = (span / width()) * 110;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = Math.max(1, [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least));
    pen.fillStyle = theme.panel;
    pen.fillRect(0, 0, width(), 24);
    pen.fillStyle = theme.dim;
    pen.font = '11px Inter, "Segoe UI", system-ui, sans-serif';
    const ticks = [];
    for (let time = Math.ceil(view.t0 / step) * step; time <= view.t1; time += step) {
      ticks.push(time);
      pen.fillRect(Math.round(xOf(time)), 16, 1, 8);
      pen.fillText(time === 0 ? '0' : stamp(time, step), Math.round(xOf(time)) + 4, 14);
    }
    at('span').textContent = `shows ${duration(span)}`;
    return ticks;
  }

  function paintLegend(theme, seen) {
    const wanted = [
      ...[...seen.category].sort((a, b) => a - b).map((code) => [data.categories[code].label, theme.fill[code], '']),
      ...[...seen.cause].sort((a, b) => a - b)
        .map((code) => [`waits: ${data.causes[code].label}`, theme.cause[code], data.causes[code].sentence]),
    ];
    const key = JSON.stringify(wanted);
    const legend = at('legend');
    if (legend.dataset.key === key) return;
    legend.dataset.key = key;
    legend.replaceChildren(...wanted.map(([label, colour, sentence]) => {
      const item = document.createElement('span');
      const box = document.createElement('i');
      box.style.background = colour;
      item.append(box, label);
      item.title = sentence;
      return item;
    }));
  }

  // ------------------------------------------------------------------ details

  function describe() {
    const panel = at('details');
    panel.replaceChildren();
    const title = document.createElement('h3');
    panel.append(title);
    if (picked < 0) {
      title.textContent = 'Nothing is selected.';
      return;
    }
    const line = lineOf(picked);
    const lane = data.lanes[laneOf[line]];
    const list = document.createElement('dl');
    const say = (term, text) => {
      const [dt, dd] = [document.createElement('dt'), document.createElement('dd')];
      dt.textContent = term;
      dd.textContent = text;
      list.append(dt, dd);
    };
    title.textContent = wordOf(picked);
    say('lane', `${data.groups[lane.group].label} · ${lane.label}`);
    say('kind', data.categories[slices.category[picked]].label);
    say('start', exact(slices.start[picked]));
    say('end', exact(slices.end[picked]));
    say(slices.count[picked] > 1 ? 'busy' : 'duration',
      `${duration(slices.busy[picked])} (${exact(slices.busy[picked])})`);
    say('row', `${lane.table} ${slices.row[picked]}${slices.count[picked] > 1 ? ', the longest of them' : ''}`);
    const parts = lane.table === 'ops' && slices.count[picked] === 1 ? waitParts.get(slices.row[picked]) : null;
    if (parts) {
      const total = parts.reduce((sum, part) => sum + part.ns, 0);
      const words = [...parts].sort((a, b) => b.ns - a.ns)
        .map((part) => `${data.causes[part.cause].label} ${duration(part.ns)}`);
      say('waited', `${duration(total)}: ${words.join(', ')}`);
    }
    panel.append(list);
  }

  const keyOf = (place) => `${data.lanes[laneOf[lineOf(place)]].table}:${slices.row[place]}`;

  function select(place) {
    // A run on a lane of unions is many rows; its first one is selected where it is drawn alone.
    const isUnion = place >= 0 && data.lanes[laneOf[lineOf(place)]].union;
    picked = isUnion ? placeOf.get(keyOf(place)) ?? -1 : place;
    describe();
    keep();
    draw();
  }

  function reveal(place) {
    const lane = laneOf[lineOf(place)];
    let group = data.groups[data.lanes[lane].group];
    let hasOpened = false;
    for (; group; group = data.groups[group.parent]) {
      hasOpened ||= group.collapsed;
      group.collapsed = false;
    }
    if (hasOpened) layout();
    const row = rows.find((each) => each.lane === lane);
    if (row.y < plot.scrollTop) plot.scrollTop = row.y;
    if (row.y + row.px > plot.scrollTop + plot.clientHeight) plot.scrollTop = row.y + row.px - plot.clientHeight;
  }

  // ------------------------------------------------------------------ view and address

  function show(t0, t1) {
    const most = (data.view[1] - data.view[0]) * 4;
    const span = Math.min(Math.max(t1 - t0, LEAST_NS), most);
    let start = (t0 + t1) / 2 - span / 2;
    start = Math.min(Math.max(start, data.view[0] - span * 0.9), data.view[1] - span * 0.1);
    view.t0 = start;
    view.t1 = start + span;
    keep();
    draw();
  }

  function zoom(factor, x = width() / 2) {
    const time = timeOf(x);
    show(time - (time - view.t0) * factor, time + (view.t1 - time) * factor);
  }

  const pan = (share) => show(view.t0 + (view.t1 - view.t0) * share, view.t1 + (view.t1 - view.t0) * share);

  let isKept = 0;
  function keep() {
    // Browsers refuse hundreds of changes of the address in a row, so the last of a movement is kept.
    clearTimeout(isKept);
    isKept = setTimeout(() => {
      const words = `#t0=${Math.round(view.t0)}&t1=${Math.round(view.t1)}`;
      history.replaceState(null, '', picked < 0 ? words : `${words}&sel=${keyOf(picked)}`);
    }, 120);
  }

  function restore() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!asked.has('t0')) return false;
    const [t0, t1] = [Number(asked.get('t0')), Number(asked.get('t1'))];
    const place = placeOf.get(asked.get('sel') ?? '');
    if (place !== undefined) {
      reveal(place);
      select(place);
    }
    if (Number.isFinite(t0) && Number.isFinite(t1) && t1 > t0) show(t0, t1);
    return true;
  }

  // ------------------------------------------------------------------ hands

  function hit(x, y) {
    const row = rows.find((each) => each.lane !== undefined && y >= each.y && y < each.y + each.px);
    if (!row) return -1;
    const lane = data.lanes[row.lane];
    const sublane = isTall(lane) ? Math.min(lane.sublanes - 1, Math.max(0, Math.floor((y - row.y - 2) / SUBLANE_PX))) : 0;
    const slack = ((view.t1 - view.t0) / width()) * 2;
    const line = lane.first + sublane;
    let best = -1;
    let nearest = slack;
    for (let i = firstAfter(slices, line, timeOf(x) - slack); i < slices.offset[line + 1]; i += 1) {
      if (slices.start[i] > timeOf(x) + slack) break;
      const away = Math.max(slices.start[i] - timeOf(x), timeOf(x) - slices.end[i], 0);
      if (away <= nearest) [best, nearest] = [i, away];
    }
    return best;
  }

  function step(by) {
    if (picked < 0) {
      const row = rows.find((each) => each.lane !== undefined && !data.lanes[each.lane].union);
      const first = row ? firstAfter(slices, data.lanes[row.lane].first, view.t0) : -1;
      if (first >= 0 && first < slices.start.length) go(first);
      return;
    }
    const line = lineOf(picked);
    const next = picked + by;
    if (next >= slices.offset[line] && next < slices.offset[line + 1]) go(next);
  }

  /** Select the slice nearest in time on the next lane that has any. */
  function cross(by) {
    if (picked < 0) {
      step(1);
      return;
    }
    const middle = (slices.start[picked] + slices.end[picked]) / 2;
    const shown = rows.filter((each) => each.lane !== undefined && !data.lanes[each.lane].union);
    let place = shown.findIndex((row) => row.lane === laneOf[lineOf(picked)]) + by;
    for (; place >= 0 && place < shown.length; place += by) {
      const line = data.lanes[shown[place].lane].first;
      const [low, high] = [slices.offset[line], slices.offset[line + 1]];
      if (high > low) {
        go(Math.min(firstAfter(slices, line, middle), high - 1));
        return;
      }
    }
  }

  function go(place) {
    reveal(place);
    select(place);
    const [start, end] = [slices.start[place], slices.end[place]];
    if (start < view.t0 || end > view.t1) {
      const half = (view.t1 - view.t0) / 2;
      show((start + end) / 2 - half, (start + end) / 2 + half);
    }
  }

  const deeds = {
    whole: () => show(data.view[0], data.view[1]),
    in: () => zoom(1 / 1.5),
    out: () => zoom(1.5),
    left: () => pan(-0.2),
    right: () => pan(0.2),
    fit: () => {
      if (picked < 0) return;
      const margin = Math.max(slices.end[picked] - slices.start[picked], LEAST_NS);
      show(slices.start[picked] - margin, slices.end[picked] + margin);
    },
  };
  const keys = {
    w: deeds.in, s: deeds.out, a: deeds.left, d: deeds.right, f: deeds.fit, 0: deeds.whole, Home: deeds.whole,
    ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => cross(-1), ArrowDown: () => cross(1),
    Escape: () => select(-1),
  };

  function listen() {
    let grip = null;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1200);
      else zoom(1.0016 ** event.deltaY, event.offsetX);
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      grip = { x: event.offsetX, t0: view.t0, t1: view.t1, hasMoved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (grip && (grip.hasMoved || Math.abs(event.offsetX - grip.x) > 3)) {
        grip.hasMoved = true;
        const shift = ((event.offsetX - grip.x) / width()) * (grip.t1 - grip.t0);
        show(grip.t0 - shift, grip.t1 - shift);
      }
      hover(grip ? -1 : hit(event.offsetX, event.offsetY), event);
    });
    canvas.addEventListener('pointerup', (event) => {
      if (grip && !grip.hasMoved) select(hit(event.offsetX, event.offsetY));
      grip = null;
    });
    canvas.addEventListener('pointerleave', (event) => hover(-1, event));
    canvas.addEventListener('dblclick', deeds.fit);
    canvas.addEventListener('keydown', (event) => {
      const deed = keys[event.key] ?? keys[event.key.toLowerCase()];
      if (!deed || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      deed();
    });
    document.querySelectorAll('[data-do]').forEach((button) => {
      button.addEventListener('click', () => deeds[button.dataset.do]());
    });
    for (const name of Object.keys(is)) {
      at(`show-${name}`).addEventListener('change', (event) => {
        is[name] = event.target.checked;
        draw();
      });
    }
    at('save').addEventListener('click', save);
    addEventListener('hashchange', () => {
      if (restore()) at('timeline').scrollIntoView({ block: 'start' });
    });
    new ResizeObserver(draw).observe(plot);
    dark.addEventListener('change', draw);
  }

  function hover(place, event) {
    const tip = at('tip');
    tip.hidden = place < 0;
    if (place < 0) return;
    tip.textContent = `${wordOf(place)} · ${duration(slices.busy[place])}`;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 300)}px`;
    tip.style.top = `${event.clientY + 16}px`;
  }

  function save() {
    const text = JSON.stringify(JSON.parse(at('report').textContent), null, 2);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    link.download = 'report.json';
    link.click();
    URL.revokeObjectURL(link.href);
  }

  listen();
  layout();
  describe();
  restore();
})();
