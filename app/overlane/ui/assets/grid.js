/* How grids write their cells: numbers with units, links into the timeline, verdicts; and rows copied as CSV. */
(function (ov) {
  'use strict';

  const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];
  const BYTES = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']];
  const THIN = '\u202f';
  const NONE = '–';

  /** Four digits, as in 6.823, 20.42 or 111.2. */
  function digits(value) {
    for (const [decimals, limit] of [[3, 9.9995], [2, 99.995], [1, 999.95]]) if (value < limit) return value.toFixed(decimals);
    return value.toFixed(0);
  }

  function grouped(value) {
    return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
  }

  function ns(value) {
    if (value < 0) return `−${ns(-value)}`;
    if (value === 0) return '0';
    if (value < 999.5) return `${Math.round(value)} ns`;
    for (const [scale, unit] of [...UNITS].reverse()) if (value / scale < 999.95 || unit === 's') return `${digits(value / scale)} ${unit}`;
    return NONE;
  }

  function bytes(value) {
    const found = BYTES.find(([scale]) => value >= scale);
    return found ? `${digits(value / found[0])} ${found[1]}` : `${value} B`;
  }

  function share(value) {
    if (value <= 0) return '0 %';
    if (value < 0.001) return '< 0.1 %';
    return value > 0.999 && value < 1 ? '> 99.9 %' : `${(100 * value).toFixed(1)} %`;
  }

  /** A ratio as a change in percent; a factor where it is far from one. */
  function ratio(value) {
    if (value >= 3) return `${digits(value)}×`;
    if (value > 0 && value <= 1 / 3) return `${value.toPrecision(3)}×`;
    const percent = 100 * (value - 1);
    return `${percent > 0.05 ? '+' : percent < -0.05 ? '−' : '±'}${Math.abs(percent).toFixed(1)} %`;
  }

  const FORMS = {
    ns, bytes, share, ratio,
    count: grouped,
    rate: (value) => (value >= 1 ? `${digits(value)} GB/s` : `${digits(value * 1000)} MB/s`),
    extent: (value) => (value[0] === value[1] ? grouped(value[0]) : `${grouped(value[0])} – ${grouped(value[1])}`),
    interval: (value) => `${ratio(value[0])} … ${ratio(value[1])}`,
    change: (value) => (value > 0 ? `+${ns(value)}` : ns(value)),
  };

  const isMissing = (value) => value === null || value === undefined;

  function form(kind, value) {
    return isMissing(value) ? NONE : FORMS[kind](value);
  }

  function exact(kind, value) {
    if (isMissing(value)) return 'not recorded';
    if (kind === 'ns' || kind === 'change') return `${grouped(value)} ns`.replace('NaN', String(value));
    return kind === 'bytes' ? `${grouped(value)} bytes` : form(kind, value);
  }

  /** A number in the unit of its column; one that is not zero never reads as zero. */
  function scaled(value, factor, decimals) {
    if (isMissing(value)) return NONE;
    const least = 10 ** -decimals;
    if (value > 0 && value / factor < least / 2) return `< ${least.toFixed(decimals)}`;
    const [whole, rest] = (value / factor).toFixed(value ? decimals : 0).split('.');
    return grouped(Number(whole)) + (rest ? `.${rest}` : '');
  }

  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.overlaneForm = form;
  functions.overlaneExact = exact;
  functions.overlaneScaled = scaled;

  const components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const element = (...parts) => window.React.createElement(...parts);

  components.OvLink = ({ value, data }) => (
    data.href ? element('a', { href: data.href, className: 'ov-goto', title: value }, value) : element('span', { title: value }, value)
  );

  const TONES = { faster: 'ok', slower: 'bad', 'not comparable': 'warn' };
  components.OvVerdict = ({ value }) => (
    value ? element('span', { className: `ov-chip ov-verdict ov-chip-${TONES[value] || 'none'}` }, value) : null
  );

  // ---- CSV

  const quoted = (value) => {
    const text = isMissing(value) ? '' : Array.isArray(value) ? value.join(' – ') : String(value);
    // A cell that starts like a formula would be run by a spreadsheet.
    const safe = /^[=+@\t\r]/.test(text) || /^-[^\d]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };

  /** Rows of a grid as CSV: plain numbers in the units that the fields name. */
  function csv(columns, rows) {
    const lines = [columns.map((one) => quoted(one.field))];
    for (const row of rows) lines.push(columns.map((one) => quoted(row[one.field])));
    return lines.map((line) => line.join(',')).join('\r\n') + '\r\n';
  }

  /** Copies the selected rows, or all of them in the order shown; returns what to say. */
  async function copy(definitions, selected, shown) {
    const columns = definitions.flatMap((one) => one.children || [one]);
    const rows = selected && selected.length ? selected : shown || [];
    if (!rows.length) return 'There are no rows to copy.';
    const text = csv(columns, rows);
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement('textarea'); // without permission, as in plain http from another host
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand('copy');
      area.remove();
      if (!done) return 'The browser does not let the page copy.';
    }
    return `${rows.length} ${rows.length === 1 ? 'row' : 'rows'} copied as CSV.`;
  }

  ov.grid = { copy, csv, form };
})((window.overlane = window.overlane || {}));
