/* What people add to a trace: marks with notes, pinned lanes and the order of lanes; the server keeps them beside it. */
(function (ov) {
  'use strict';

  const MOST_MARKS = 500;
  const PIN_PX = 24; // at the right end of a lane's name

  const plain = ({ t0, t1, label, note }) => ({ t0_ns: t0, t1_ns: t1, label, note: note || '' });

  // ---- the server

  async function load(t) {
    const { feed } = t;
    try {
      const response = await fetch(feed.address('notes', {}), { signal: feed.abort.signal });
      if (!response.ok || t.feed !== feed) return;
      take(t, await response.json());
    } catch (error) {
      if (error.name !== 'AbortError') console.warn(`The notes could not be read: ${error.message}`);
    }
  }

  function take(t, stored) {
    t.notes = stored;
    t.markers = stored.marks.map((mark) => ({ t0: mark.t0_ns, t1: mark.t1_ns, label: mark.label, note: mark.note }));
    t.relayout();
    t.redraw();
  }

  /** Sends what there is now, one request after the other. */
  async function save(t) {
    if (!t.notes) return;
    if (t.savingNotes) {
      t.notesChanged = true;
      return;
    }
    t.savingNotes = true;
    const { feed } = t;
    const body = { ...t.notes, marks: t.markers.map(plain) };
    try {
      const options = { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
      const response = await fetch(feed.address('notes', {}), options);
      const stored = await response.json();
      if (t.feed === feed && response.ok) t.notes.revision = stored.revision;
      else if (t.feed === feed && response.status === 409) {
        take(t, stored);
        ov.page.say(t, stored.error);
      } else if (t.feed === feed) ov.page.say(t, stored.error || 'The notes could not be kept.');
    } catch {
      ov.page.say(t, 'The server cannot be reached; the notes are kept until the page is left.');
    }
    t.savingNotes = false;
    if (t.notesChanged) {
      t.notesChanged = false;
      save(t);
    }
  }

  // ---- marks

  /** Marks the range or the selected slice; a second time takes the mark away. */
  function mark(t) {
    const source = t.range || (t.selection ? { t0: t.selection.start, t1: t.selection.end } : null);
    if (!source || !t.notes) {
      ov.page.say(t, 'Select a slice or a range first, then mark it.');
      return;
    }
    const [t0, t1] = [Math.round(source.t0), Math.round(source.t1)];
    const same = t.markers.findIndex((marker) => marker.t0 === t0 && marker.t1 === t1);
    if (same >= 0) {
      t.markers.splice(same, 1);
    } else {
      const what = t.range ? ov.time.duration(t1 - t0) : t.selection.name || t.selection.lane.label;
      const used = new Set(t.markers.map((marker) => marker.label.split(' ')[0]));
      let number = 1;
      while (used.has(String(number))) number++;
      t.markers.push({ t0, t1, label: `${number} ${what}`.slice(0, 200), note: '' });
      if (t.markers.length > MOST_MARKS) t.markers.shift();
    }
    ov.page.say(t, same >= 0 ? 'Mark removed.' : `Marked as ${t.markers[t.markers.length - 1].label}.`);
    changed(t);
  }

  function changed(t) {
    save(t);
    if (t.notesList) fillList(t);
    t.redrawOver();
  }

  function item(t, marker) {
    const { make, button } = ov.page;
    const part = make('article', '');
    const label = make('input', '');
    label.value = marker.label;
    label.maxLength = 200;
    label.setAttribute('aria-label', 'Label of the mark');
    label.addEventListener('change', () => {
      marker.label = label.value || 'mark';
      save(t);
      t.redrawOver();
    });
    const note = make('textarea', '');
    note.value = marker.note || '';
    note.maxLength = 4000;
    note.rows = 2;
    note.placeholder = 'a note …';
    note.setAttribute('aria-label', `Note on ${marker.label}`);
    note.addEventListener('change', () => {
      marker.note = note.value;
      save(t);
    });
    const times = make('small', '', `${ov.time.duration(marker.t1 - marker.t0)} from ${ov.time.time(marker.t0, 1000, marker.t0)}`);
    part.append(
      label,
      button('show', `Show ${marker.label}`, () => t.view.glide(...t.around(marker.t0, marker.t1, 0.5))),
      button('delete', `Delete ${marker.label}`, () => {
        t.markers.splice(t.markers.indexOf(marker), 1);
        changed(t);
      }),
      note,
      times,
    );
    return part;
  }

  function fillList(t) {
    const { make, button } = ov.page;
    const head = make('header', '');
    head.append(make('strong', '', 'Marks and notes'), button('copy', 'Copy all marks and notes as text', () => copy(t)), button('×', 'Close (Esc)', () => closeList(t)));
    const none = make('p', 'ov-tl-note', 'No marks yet: select a slice or a range and press M.');
    t.notesList.replaceChildren(head, ...(t.markers.length ? t.markers.map((marker) => item(t, marker)) : [none]));
  }

  async function copy(t) {
    const lines = t.markers.map(({ t0, t1, label, note }) => [label, `${t0} ns`, `${t1} ns`, note || ''].join('\t'));
    try {
      await navigator.clipboard.writeText(lines.join('\n'));
      ov.page.say(t, 'Copied.');
    } catch {
      ov.page.say(t, 'The browser does not allow copying.');
    }
  }

  function toggleList(t) {
    if (closeList(t)) return;
    ov.settings.closeMenu(t);
    t.notesList = ov.page.make('div', 'ov-tl-notes');
    t.notesList.setAttribute('role', 'dialog');
    t.notesList.setAttribute('aria-label', 'Marks and notes');
    t.notesList.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.target.blur();
      closeList(t);
      event.preventDefault();
      event.stopPropagation();
    });
    fillList(t);
    t.element.append(t.notesList);
    t.notesList.querySelector('input, button').focus();
  }

  /** Closes the list; tells whether it was open. */
  function closeList(t) {
    if (!t.notesList) return false;
    t.notesList.remove();
    t.notesList = null;
    t.element.focus({ preventScroll: true });
    return true;
  }

  // ---- lanes

  const focused = (t) => (t.rows[t.focusRow]?.type === 'lane' ? t.rows[t.focusRow] : null);

  function focusOn(t, id) {
    t.focusRow = t.rows.findIndex((row) => row.type === 'lane' && row.lane.id === id);
    if (t.focusRow >= 0) t.reveal(t.rows[t.focusRow]);
  }

  /** Pins the lane that has the focus to the top, or lets it go. */
  function pinFocused(t) {
    const row = focused(t);
    if (!row || !t.notes) {
      ov.page.say(t, 'Choose a lane with the arrow keys first.');
      return;
    }
    const { pinned } = t.notes;
    const at = pinned.indexOf(row.lane.id);
    if (at >= 0) pinned.splice(at, 1);
    else pinned.push(row.lane.id);
    t.relayout();
    focusOn(t, row.lane.id);
    ov.page.say(t, `${row.lane.label} ${at >= 0 ? 'is back in its group' : 'is pinned to the top'}.`);
    save(t);
  }

  /** Puts a lane in the place of its neighbour of the same group; tells whether there is one. */
  function move(t, id, direction) {
    const lanes = t.rows.filter((row) => row.type === 'lane');
    const row = lanes.find((one) => one.lane.id === id);
    const siblings = lanes.filter((one) => one.owner === row.owner);
    const other = siblings[siblings.indexOf(row) + direction];
    if (!other) return false;
    // All lanes get a place, also those that are folded away, so that the order does not depend on what is open.
    const rank = new Map(t.notes.order.map((lane, at) => [lane, at]));
    const all = t.meta.lanes.map((lane) => lane.id);
    const order = t.notes.order.length === all.length ? [...all].sort((a, b) => rank.get(a) - rank.get(b)) : all;
    const [a, b] = [order.indexOf(id), order.indexOf(other.lane.id)];
    [order[a], order[b]] = [order[b], order[a]];
    t.notes.order = order;
    t.relayout();
    return true;
  }

  function moveFocused(t, direction) {
    const row = focused(t);
    if (!row || !t.notes) return;
    const moved = move(t, row.lane.id, direction);
    focusOn(t, row.lane.id);
    ov.page.say(t, moved ? `${row.lane.label} moved ${direction < 0 ? 'up' : 'down'}.` : 'There is no lane beyond in its group.');
    if (moved) save(t);
    t.redraw();
  }

  /** Moves a lane to where the mouse drags its name. */
  function dragLane(t, id, y) {
    if (!t.notes) return;
    const at = y - t.top + t.scrollTop;
    const row = t.rows.find((one) => one.type === 'lane' && one.lane.id === id);
    const under = t.rows[ov.rows.rowAt(t.rows, at)];
    if (!row || !under || under === row || under.owner !== row.owner) return;
    const direction = under.y > row.y ? 1 : -1;
    // Past the middle of the neighbour, so that lanes of different heights do not jump to and fro.
    if ((at - under.y - under.h / 2) * direction > 0) move(t, id, direction);
  }

  const isOnPin = (t, x) => x > t.left - PIN_PX && x < t.left;

  /** A pin at the name under the mouse, and at every pinned lane. */
  function drawPin(t, g) {
    const pinned = new Set(t.notes?.pinned ?? []);
    for (const row of t.shownRows()) {
      if (row.type !== 'lane' || (row !== t.gutterRow && !pinned.has(row.lane.id))) continue;
      const y = t.top + row.y - t.scrollTop + row.h / 2;
      const x = t.left - 13;
      if (y < t.top) continue;
      g.fillStyle = ov.paint.css(t.theme.bg, 0.9);
      g.fillRect(x - 9, y - 9, 18, 18);
      g.fillStyle = g.strokeStyle = ov.paint.css(pinned.has(row.lane.id) ? t.theme.accent : t.theme.dim);
      g.lineWidth = 1.5;
      g.beginPath();
      g.arc(x, y - 2, 3.5, 0, 2 * Math.PI);
      if (pinned.has(row.lane.id)) g.fill();
      else g.stroke();
      g.beginPath();
      g.moveTo(x, y + 1.5);
      g.lineTo(x, y + 7);
      g.stroke();
    }
  }

  ov.notes = { closeList, dragLane, drawPin, isOnPin, load, mark, moveFocused, pinFocused, save, toggleList };
})((window.overlane = window.overlane || {}));
