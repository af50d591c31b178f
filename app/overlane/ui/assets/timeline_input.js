/* Mouse, wheel and keys. */
(function (ov) {
  'use strict';

  const CLICK_PX = 3; // a press that moves less is a click
  const EDGE_PX = 5; // how near a handle counts as on it
  const WHEEL_ZOOM = 1.0016; // per px of wheel: one notch of 100 px is 17 %
  const PINCH_ZOOM = 1.01;
  const KEY_ZOOM_PER_MS = 1.0032; // held W or S: a factor of 25 per second
  const KEY_PAN_PER_MS = 0.0012; // held A or D: 1.2 windows per second
  const LINE_PX = 16;
  const STRETCH_STEPS = 50; // presses that make a range as long as the view

  function pointOf(t, event) {
    const box = t.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  const near = (x, edge) => Math.abs(x - edge) <= EDGE_PX;

  /** What a press at a point would take hold of. */
  function zoneAt(t, x, y) {
    const { METRICS } = ov.chrome;
    if (y < METRICS.minimap) return x < t.left ? 'none' : minimapZone(t, x);
    if (x >= t.left && t.range && x <= t.left + t.plotWidth) {
      if (near(x, t.xOf(t.range.t0))) return 'range-start';
      if (near(x, t.xOf(t.range.t1))) return 'range-end';
    }
    if (y < t.top) {
      if (x < t.left) return 'none';
      return markerAt(t, x, y) ? 'marker' : 'ruler';
    }
    if (x >= t.width - METRICS.right && t.scrollBar()) return 'scroll';
    const row = t.rows[ov.rows.rowAt(t.rows, y - t.top + t.scrollTop)];
    if (row && row.type === 'group') return x < t.left ? 'group' : 'group-plot';
    return x < t.left ? 'gutter' : 'plot';
  }

  function minimapZone(t, x) {
    const { x0, x1 } = ov.overlay.minimapHandle(t);
    if (t.view.span < t.view.limit * 0.999 && x1 - x0 > 4 * EDGE_PX) {
      if (near(x, x0)) return 'window-start';
      if (near(x, x1)) return 'window-end';
    }
    return x >= x0 && x <= x1 ? 'window' : 'minimap';
  }

  function markerAt(t, x, y) {
    return t.markers.find(({ box }) => box && x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height);
  }

  const CURSORS = {
    'window-start': 'ew-resize', 'window-end': 'ew-resize', 'range-start': 'ew-resize', 'range-end': 'ew-resize',
    window: 'grab', gutter: 'grab', minimap: 'pointer', ruler: 'col-resize', group: 'pointer', 'group-plot': 'pointer', marker: 'pointer',
  };

  // What each kind of drag does while the mouse moves; `drag` holds where it began.
  const DRAGS = {
    plot(t, drag, x, y) {
      const perPixel = drag.span / t.plotWidth;
      t.scrollTo(drag.scrollTop - (y - drag.y));
      const start = drag.t0 - (x - drag.x) * perPixel;
      t.view.set(start, start + drag.span);
    },
    gutter(t, drag, x, y) {
      t.scrollTo(drag.scrollTop - (y - drag.y));
    },
    lane(t, drag, x, y) {
      ov.notes.dragLane(t, drag.lane, y);
    },
    scroll(t, drag, x, y) {
      const bar = t.scrollBar();
      if (bar && bar.travel > 0) t.scrollTo(drag.scrollTop + ((y - drag.y) * t.scrollLimit) / bar.travel);
    },
    window(t, drag, x) {
      const start = drag.t0 + ((x - drag.x) / t.plotWidth) * t.view.limit;
      const kept = Math.min(Math.max(0, start), t.view.limit - drag.span);
      t.view.set(kept, kept + drag.span);
    },
    'window-start'(t, drag, x) {
      const start = drag.t0 + ((x - drag.x) / t.plotWidth) * t.view.limit;
      t.view.set(Math.max(0, Math.min(start, drag.t1 - 20)), drag.t1);
    },
    'window-end'(t, drag, x) {
      const end = drag.t1 + ((x - drag.x) / t.plotWidth) * t.view.limit;
      t.view.set(drag.t0, Math.max(drag.t0 + 20, Math.min(t.view.limit, end)));
    },
    range(t, drag, x) {
      const at = t.timeAt(Math.min(Math.max(x, t.left), t.left + t.plotWidth));
      const [a, b] = [drag.at, at].sort((p, q) => p - q);
      t.range = { t0: Math.round(Math.max(0, a)), t1: Math.round(Math.min(Math.max(b, a + 1), t.spanNs)) };
      t.redrawOver();
    },
  };

  function beginDrag(t, event) {
    const { x, y } = pointOf(t, event);
    const zone = zoneAt(t, x, y);
    const drag = {
      x, y, zone, kind: zone, t0: t.view.t0, t1: t.view.t1, span: t.view.span, scrollTop: t.scrollTop,
      at: t.timeAt(x), moved: false, before: t.range,
    };
    const row = zone === 'gutter' ? t.rows[ov.rows.rowAt(t.rows, y - t.top + t.scrollTop)] : null;
    if (row && row.type === 'lane') Object.assign(drag, { kind: 'lane', lane: row.lane.id });
    if (zone === 'none' || zone === 'marker') drag.kind = 'none';
    else if (zone === 'group') drag.kind = 'gutter';
    else if (zone === 'group-plot') drag.kind = 'plot';
    if (zone === 'ruler' || (event.shiftKey && (zone === 'plot' || zone === 'group-plot'))) drag.kind = 'range';
    if (zone === 'range-start' || zone === 'range-end') {
      drag.kind = 'range';
      drag.at = zone === 'range-start' ? t.range.t1 : t.range.t0;
    }
    if (zone === 'minimap') {
      const at = ((x - t.left) / t.plotWidth) * t.view.limit;
      t.view.set(Math.max(0, at - drag.span / 2), Math.max(0, at - drag.span / 2) + drag.span);
      Object.assign(drag, { kind: 'window', t0: t.view.t0, t1: t.view.t1 });
    }
    if (zone === 'scroll') {
      const bar = t.scrollBar();
      if (y < bar.y || y > bar.y + bar.h) t.scrollTo(((y - t.top - bar.h / 2) / bar.travel) * t.scrollLimit);
      drag.scrollTop = t.scrollTop;
    }
    return drag;
  }

  function click(t, drag, event) {
    const { x, y } = pointOf(t, event);
    const row = ov.rows.rowAt(t.rows, y - t.top + t.scrollTop);
    if (drag.zone === 'marker') {
      const marker = markerAt(t, x, y);
      if (marker) t.view.glide(...t.around(marker.t0, marker.t1, 0.5));
    } else if (drag.zone === 'group' || drag.zone === 'group-plot') {
      t.focusRow = row;
      t.toggle(t.rows[row]);
    } else if (drag.zone === 'gutter') {
      t.focusRow = row;
      if (ov.notes.isOnPin(t, x)) ov.notes.pinFocused(t);
      t.redrawOver();
    } else if (drag.zone === 'plot') {
      const slice = ov.pick.at(t, x, y);
      if (row >= 0) t.focusRow = row;
      if (slice) t.choose(slice);
      else t.clearSelection();
    } else if (drag.zone === 'ruler' && t.range) {
      t.setRange();
    }
  }

  function attachPointer(t, signal) {
    const { element } = t;
    let drag = null;
    const finish = () => {
      drag = null;
      t.dragKind = null;
      element.classList.remove('ov-dragging');
    };
    element.addEventListener('pointerdown', (event) => {
      if (!t.meta || event.button !== 0 || event.target.closest('.ov-tl-tools, .ov-tl-status, .ov-tl-help, .ov-tl-menu, .ov-tl-notes')) return;
      element.focus({ preventScroll: true });
      drag = beginDrag(t, event);
      if (event.isTrusted) element.setPointerCapture(event.pointerId);
    }, { signal });
    element.addEventListener('pointermove', (event) => {
      if (!t.meta) return;
      const { x, y } = pointOf(t, event);
      if (drag && event.buttons === 0) finish(); // released where no event reached us
      if (!drag) {
        hover(t, x, y, event);
        return;
      }
      if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) > CLICK_PX) {
        drag.moved = true;
        t.dragKind = drag.kind;
        element.classList.add('ov-dragging');
        ov.page.tip(t, null);
      }
      if (drag.moved && DRAGS[drag.kind]) DRAGS[drag.kind](t, drag, x, y);
      if (drag.kind === 'range') t.view.point(t.timeAt(x));
    }, { signal });
    element.addEventListener('pointerup', (event) => {
      if (!drag) return;
      const done = drag;
      const { x, y } = pointOf(t, event); // the last move may have been merged into this event
      if (Math.hypot(x - done.x, y - done.y) > CLICK_PX) done.moved = true;
      if (done.moved && DRAGS[done.kind]) DRAGS[done.kind](t, done, x, y);
      finish();
      if (done.moved && done.kind === 'range') t.setRange(t.range.t0, t.range.t1);
      else if (done.moved && done.kind === 'lane') ov.notes.save(t);
      else if (!done.moved) click(t, done, event);
    }, { signal });
    element.addEventListener('pointercancel', () => {
      if (drag && drag.kind === 'range') t.range = drag.before;
      finish();
      t.redrawOver();
    }, { signal });
    element.addEventListener('pointerleave', () => {
      t.hover = null;
      t.gutterRow = null;
      t.view.point(null);
      ov.page.tip(t, null);
      t.redrawOver();
    }, { signal });
    element.addEventListener('dblclick', (event) => {
      if (!t.meta || event.target.closest('.ov-tl-tools, .ov-tl-status, .ov-tl-help, .ov-tl-menu, .ov-tl-notes')) return;
      doubleClick(t, pointOf(t, event));
    }, { signal });
  }

  function doubleClick(t, { x, y }) {
    if (zoneAt(t, x, y) !== 'plot') return;
    const slice = ov.pick.at(t, x, y);
    if (!slice) return;
    if (slice.count === 1) {
      t.view.glide(...t.around(slice.start, slice.end, 0.7));
      return;
    }
    const at = t.timeAt(x); // many slices: go closer around the mouse until they come apart
    t.view.glide(at - t.view.span / 16, at + t.view.span / 16);
  }

  function hover(t, x, y, event) {
    const zone = zoneAt(t, x, y);
    const inPlot = x >= t.left && x <= t.left + t.plotWidth && y >= ov.chrome.METRICS.minimap;
    t.view.point(inPlot ? t.timeAt(x) : null);
    t.mouseX = inPlot ? x : null;
    const slice = zone === 'plot' ? ov.pick.at(t, x, y) : null;
    const reason = zone === 'plot' && !slice ? ov.causes.at(t, x, y) : null;
    t.gutterRow = zone === 'gutter' ? t.rows[ov.rows.rowAt(t.rows, y - t.top + t.scrollTop)] : null;
    t.hover = slice;
    t.element.style.cursor = slice ? 'pointer' : CURSORS[zone] || 'default';
    const isOwnPart = event.target.closest && event.target.closest('.ov-tl-tools, .ov-tl-status, .ov-tl-help, .ov-tl-menu, .ov-tl-notes');
    const row = t.rows[ov.rows.rowAt(t.rows, y - t.top + t.scrollTop)];
    if (isOwnPart) ov.page.tip(t, null);
    else if (slice) ov.page.tip(t, { x, y, slice });
    else if (reason) ov.page.tip(t, { x, y, content: reason });
    else if ((zone === 'gutter' || zone === 'group') && row) ov.page.tip(t, { x, y, row });
    else if (zone === 'marker') ov.page.tip(t, { x, y, marker: markerAt(t, x, y) });
    else ov.page.tip(t, null);
    t.redrawOver();
  }

  function attachWheel(t, signal) {
    t.element.addEventListener('wheel', (event) => {
      if (!t.meta || event.target.closest('.ov-tl-help, .ov-tl-menu, .ov-tl-notes')) return;
      event.preventDefault();
      const { x, y } = pointOf(t, event);
      const unit = event.deltaMode === 1 ? LINE_PX : event.deltaMode === 2 ? t.height : 1;
      const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
      if (event.ctrlKey) t.view.zoom(PINCH_ZOOM ** dy, t.timeAt(Math.max(x, t.left)));
      else if (event.shiftKey || event.altKey || x < t.left) t.scrollTo(t.scrollTop + (dy || dx));
      else if (Math.abs(dx) > Math.abs(dy)) t.view.pan((dx / t.plotWidth) * t.view.span);
      else if (y < ov.chrome.METRICS.minimap) t.view.zoom(WHEEL_ZOOM ** dy, (t.view.t0 + t.view.t1) / 2);
      else t.view.zoom(WHEEL_ZOOM ** dy, t.timeAt(x));
      if (x < t.left) ov.page.tip(t, null); // what moves by under a resting mouse is not asked for
      else if (!event.ctrlKey) hover(t, x, y, event);
    }, { signal, passive: false });
  }

  /** Held W, A, S, D move a little every frame, by the time that passed, so that speed does not depend on the screen. */
  function attachHeldKeys(t, signal) {
    const held = new Set();
    let frame = 0;
    let last = 0;
    const step = (now) => {
      const passed = Math.min(50, Math.max(0, now - last));
      last = now;
      const factor = KEY_ZOOM_PER_MS ** passed;
      const at = t.mouseX ? t.timeAt(t.mouseX) : (t.view.t0 + t.view.t1) / 2;
      if (held.has('w')) t.view.zoom(1 / factor, at);
      if (held.has('s')) t.view.zoom(factor, at);
      if (held.has('a')) t.view.pan(-KEY_PAN_PER_MS * passed * t.view.span);
      if (held.has('d')) t.view.pan(KEY_PAN_PER_MS * passed * t.view.span);
      frame = held.size && t.element.isConnected ? requestAnimationFrame(step) : 0;
    };
    const release = () => held.clear();
    t.element.addEventListener('keyup', (event) => held.delete(event.key.toLowerCase()), { signal });
    t.element.addEventListener('blur', release, { signal });
    window.addEventListener('blur', release, { signal });
    return (key) => {
      held.add(key);
      if (frame) return;
      last = performance.now() - 16; // the first press moves at once
      frame = requestAnimationFrame(step);
    };
  }

  function fit(t) {
    if (t.range) t.view.glide(...t.around(t.range.t0, t.range.t1, 0.9));
    else if (t.selection) t.view.glide(...t.around(t.selection.start, t.selection.end, 0.7));
    else whole(t);
  }

  function whole(t) {
    t.view.glide(0, t.view.limit);
  }

  function escape(t) {
    if (ov.page.closeHelp(t) || ov.settings.closeMenu(t) || ov.notes.closeList(t)) return;
    if (t.range) t.setRange();
    else if (t.selection) t.clearSelection();
    else ov.hints.dismiss();
  }

  /** Measures the selection, else what is in view. */
  function measure(t) {
    const { selection, view } = t;
    if (selection) t.setRange(selection.start, selection.end);
    else t.setRange(view.t0, view.t1);
  }

  /** Moves the end of the range; without one it begins at the selection, else in the middle. */
  function stretch(t, direction) {
    const step = (direction * t.view.span) / STRETCH_STEPS;
    const at = t.selection ? t.selection.start : (t.view.t0 + t.view.t1) / 2;
    const { t0, t1 } = t.range || { t0: at, t1: t.selection ? t.selection.end : at };
    t.setRange(t0, Math.max(t0 + 1, t1 + step));
  }

  function sideways(t, direction) {
    const row = t.rows[t.focusRow];
    if (row && row.type === 'group') {
      if (row.folded === direction > 0) t.toggle(row);
      return;
    }
    ov.pick.step(t, direction);
  }

  function enter(t) {
    const row = t.rows[t.focusRow];
    if (row && row.type === 'group') t.toggle(row);
    else if (t.selection) t.view.glide(...t.around(t.selection.start, t.selection.end, 0.7));
  }

  const KEYS = {
    f: fit, 0: whole, home: whole, m: (t) => ov.notes.mark(t), k: (t) => ov.notes.toggleList(t), p: (t) => ov.notes.pinFocused(t), escape, enter,
    arrowleft: (t, event) => (event.shiftKey ? stretch(t, -1) : sideways(t, -1)),
    arrowright: (t, event) => (event.shiftKey ? stretch(t, 1) : sideways(t, 1)),
    arrowup: (t, event) => (event.shiftKey ? ov.notes.moveFocused(t, -1) : ov.pick.stepLane(t, -1)),
    arrowdown: (t, event) => (event.shiftKey ? ov.notes.moveFocused(t, 1) : ov.pick.stepLane(t, 1)),
    pageup: (t) => t.scrollTo(t.scrollTop - (t.height - t.top) * 0.8),
    pagedown: (t) => t.scrollTo(t.scrollTop + (t.height - t.top) * 0.8),
    '+': (t) => t.view.zoom(0.8, (t.view.t0 + t.view.t1) / 2), '=': (t) => t.view.zoom(0.8, (t.view.t0 + t.view.t1) / 2),
    '-': (t) => t.view.zoom(1.25, (t.view.t0 + t.view.t1) / 2),
    ',': (t) => ov.causes.walk(t, -1), '.': (t) => ov.causes.walk(t, 1),
    '<': (t) => ov.path.walk(t, -1), '>': (t) => ov.path.walk(t, 1),
    r: measure, backspace: (t, event) => goBack(t, event.shiftKey), v: (t) => ov.settings.toggleMenu(t),
  };

  function goBack(t, isForward) {
    const moved = isForward ? t.view.forward() : t.view.back();
    if (!moved) ov.page.say(t, isForward ? 'There is no later view.' : 'There is no earlier view.');
  }

  function attachKeys(t, signal) {
    const hold = attachHeldKeys(t, signal);
    t.element.addEventListener('keydown', (event) => {
      if (!t.meta || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target !== t.element && event.key !== 'Escape') return; // a button inside has its own keys
      const key = event.key.toLowerCase();
      if ('wasd'.includes(key)) hold(key);
      else if (KEYS[key]) KEYS[key](t, event);
      else return;
      event.preventDefault();
    }, { signal });
    t.element.addEventListener('focus', () => { t.hasFocus = true; t.redrawOver(); }, { signal });
    t.element.addEventListener('blur', () => { t.hasFocus = false; t.redrawOver(); }, { signal });
  }

  function attach(t) {
    const { signal } = t.cleanup;
    attachPointer(t, signal);
    attachWheel(t, signal);
    attachKeys(t, signal);
  }

  ov.input = { attach, fit, goBack, whole };
})((window.overlane = window.overlane || {}));
