/* What a timeline shows beside its slices, and in which colours: the menu, kept for the next visit. */
(function (ov) {
  'use strict';

  const KEY = 'overlane-timeline-settings';
  const COLOURS = [
    ['engine', 'engine', 'compute, copies, memset: what executed it'],
    ['name', 'name', 'one colour per name of an operation'],
    ['stream', 'stream', 'one colour per stream'],
    ['partition', 'partition', 'one colour per partition of the device'],
    ['cause', 'cause', 'the cause that held each operation longest before it started'],
  ];
  const PARTS = [
    ['waits', 'waits', 'a thin bar before each operation, from issue to start'],
    ['gaps', 'gaps', 'idle time of each stream, filled by its cause'],
    ['barriers', 'barriers', 'spans over the streams that each barrier held'],
    ['path', 'critical path', 'the chain that the end of the work, or of the chosen step, waited for'],
    ['pathOfView', 'only in view', 'the chain that the end of the window in view waited for'],
  ];
  const DEFAULTS = { colour: 'engine', waits: true, gaps: true, barriers: true, path: false, pathOfView: false };
  const members = new Set();
  let current = null;

  /** The settings, shared by all timelines of the page. */
  function stored() {
    if (current) return current;
    current = { ...DEFAULTS };
    try {
      const found = JSON.parse(localStorage.getItem(KEY) || '{}');
      for (const [key, fallback] of Object.entries(DEFAULTS)) {
        const isSound = key === 'colour' ? COLOURS.some(([name]) => name === found[key]) : typeof found[key] === typeof fallback;
        if (isSound) current[key] = found[key];
      }
    } catch {
      // Storage may be off or hold something else; the defaults do.
    }
    return current;
  }

  function set(t, key, value) {
    stored()[key] = value;
    try {
      localStorage.setItem(KEY, JSON.stringify(current));
    } catch {
      ov.page.say(t, 'The choice is kept until the page is left.');
    }
    for (const member of members) {
      if (!member.element.isConnected) {
        members.delete(member);
        continue;
      }
      if (member.meta) member.relayout();
      ov.layers.need(member);
      ov.path.need(member);
      member.redraw();
    }
  }

  function choice(t, type, group, [value, label, hint], isOn, act) {
    const { make } = ov.page;
    const line = make('label', 'ov-tl-choice');
    const input = make('input', '');
    input.type = type;
    input.name = `${t.element.id}-${group}`;
    input.value = value;
    input.checked = isOn;
    input.addEventListener('change', () => act(input.checked));
    const words = make('span', '', label);
    line.append(input, words, make('small', '', hint));
    return line;
  }

  function fields(title, lines) {
    const set_ = ov.page.make('fieldset', '');
    set_.append(ov.page.make('legend', '', title), ...lines);
    return set_;
  }

  function buildMenu(t) {
    const box = ov.page.make('div', 'ov-tl-menu');
    box.setAttribute('role', 'dialog');
    box.setAttribute('aria-label', 'What the timeline shows');
    const settings = stored();
    const colours = COLOURS.map((one) => choice(t, 'radio', 'colour', one, settings.colour === one[0], () => set(t, 'colour', one[0])));
    const parts = PARTS.map((one) => choice(t, 'checkbox', 'part', one, settings[one[0]], (isOn) => set(t, one[0], isOn)));
    const exports = ov.page.make('div', 'ov-tl-row');
    exports.append(
      ov.page.button('PNG', 'Save what is shown as a picture (PNG)', () => ov.export.png(t)),
      ov.page.button('SVG', 'Save what is shown as a drawing (SVG)', () => ov.export.svg(t)),
    );
    exports.append(ov.page.button('marks and notes', 'All marks and their notes (K)', () => ov.notes.toggleList(t)));
    const state = ov.causes.sentence(t);
    box.append(fields('Colour by', colours), fields('Reasons', parts));
    if (state) box.append(ov.page.make('p', 'ov-tl-note', state));
    box.append(fields('Save this view, marks', [exports]));
    box.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      closeMenu(t);
      event.preventDefault();
      event.stopPropagation();
    });
    return box;
  }

  function toggleMenu(t) {
    if (closeMenu(t)) return;
    t.menu = buildMenu(t);
    t.element.append(t.menu);
    t.parts.menuButton.setAttribute('aria-expanded', 'true');
    t.menu.querySelector('input:checked, input').focus();
  }

  /** Closes the menu; tells whether it was open. */
  function closeMenu(t) {
    if (!t.menu) return false;
    t.menu.remove();
    t.menu = null;
    t.parts.menuButton.setAttribute('aria-expanded', 'false');
    t.element.focus({ preventScroll: true });
    return true;
  }

  function menuButton(t, button) {
    members.add(t);
    const made = button('show', 'What is shown: colours, waits, gaps, barriers; save the view (V)', () => t.meta && toggleMenu(t));
    made.setAttribute('aria-haspopup', 'dialog');
    made.setAttribute('aria-expanded', 'false');
    queueMicrotask(() => { t.parts.menuButton = made; });
    return made;
  }

  ov.settings = { closeMenu, menuButton, set, stored, toggleMenu };
})((window.overlane = window.overlane || {}));
