/*
 * Runs in the measured page from its first moment. A frame counts when the component drew in it and the shown window
 * is not the one of the frame before; the detailed picture is there when `data-ready` turns to 1 after the last change.
 */
(() => {
  'use strict';

  const recorder = { paint: null, frames: [], moved: 0, ready: 0, filled: null };
  window.recorder = recorder;
  const element = () => document.getElementById('timeline');
  let shown = '';
  let draws = '';
  let watched = '';

  function look(now) {
    const data = element()?.dataset;
    if (data?.t0 !== undefined) {
      const view = `${data.t0} ${data.t1}`;
      if (view !== shown && data.draws !== draws) {
        recorder.frames.push(now);
        shown = view;
      }
      draws = data.draws;
      if (recorder.paint === null && data.ready === '1' && Number(data.rects) > 0) recorder.paint = performance.now();
    }
    requestAnimationFrame(look);
  }
  requestAnimationFrame(look);

  new MutationObserver((changes) => {
    for (const { target, attributeName } of changes) {
      if (target.id !== 'timeline') continue;
      const view = `${target.dataset.t0} ${target.dataset.t1}`;
      if (attributeName === 'data-ready') {
        if (target.dataset.ready === '1') recorder.ready = performance.now();
      } else if (view !== watched) {
        watched = view;
        recorder.moved = performance.now();
      }
    }
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ['data-t0', 'data-t1', 'data-ready'] });

  /** Shows a share of the whole trace around a place in it (both 0..1). */
  recorder.show = (share, at) => {
    const controller = window.overlane.timeline('timeline');
    controller.zoomTo(0, 9e18);
    const { t1 } = controller.view();
    controller.zoomTo(t1 * (at - share / 2), t1 * (at + share / 2));
  };

  /** Finds a slice at a height of the page: moves along it until the cursor becomes a pointer. */
  recorder.findSlice = (left, width, y) => {
    for (let x = left + 5; x < left + width; x += 3) {
      const move = new PointerEvent('pointermove', { clientX: x, clientY: y, bubbles: true, pointerId: 1 });
      document.elementFromPoint(x, y).dispatchEvent(move);
      if (element().style.cursor === 'pointer') return [x + 1, y];
    }
    return null;
  };

  /** Calls an action with the frame's number in each of so many frames; the answer comes after the last. */
  const everyFrame = (count, action) => new Promise((done) => {
    let k = 0;
    const step = () => {
      if (k === count) return done();
      action(k++);
      return requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });

  /** Turns the wheel by half a notch in every frame, in and out by turns, at a point of the page. */
  recorder.turnWheel = (x, y, frames, turn) => everyFrame(frames, (k) => {
    const deltaY = Math.floor(k / turn) % 2 ? 60 : -60;
    const event = new WheelEvent('wheel', { clientX: x, clientY: y, deltaY, bubbles: true, cancelable: true });
    document.elementFromPoint(x, y).dispatchEvent(event);
  });

  /** Moves the pressed mouse in every frame, to and fro around a point of the page. */
  recorder.drag = (x, y, reach, frames, turn) => everyFrame(frames, (k) => {
    const way = (k % (2 * turn)) / turn;
    const clientX = x + reach * (way < 1 ? way : 2 - way);
    const event = new PointerEvent('pointermove', { clientX, clientY: y, bubbles: true, pointerId: 1, buttons: 1 });
    element().dispatchEvent(event);
  });

  /** From now on: `recorder.filled` is a promise of the ms from the click to the frame with the filled details. */
  recorder.watchDetails = () => {
    const panel = document.getElementById('ov-details');
    const before = panel.textContent;
    let pressed = 0;
    addEventListener('pointerup', () => { pressed = performance.now(); }, { once: true, capture: true });
    recorder.filled = new Promise((done) => {
      const observer = new MutationObserver(() => {
        if (!pressed || panel.textContent === before || !/ops \d+/.test(panel.textContent)) return;
        observer.disconnect();
        requestAnimationFrame(() => done(performance.now() - pressed));
      });
      observer.observe(panel, { childList: true, subtree: true, characterData: true });
    });
  };

  /** Clicks the link of a page; the answer is the ms until the frame in which what fills it is seen, null after a minute. */
  recorder.changePage = (name, filled) => new Promise((done) => {
    const clicked = performance.now();
    document.getElementById(`ov-nav-${name}`).click();
    const look = () => {
      const spent = performance.now() - clicked;
      if (document.querySelector(filled)?.checkVisibility()) requestAnimationFrame(() => done(performance.now() - clicked));
      else if (spent > 60000) done(null);
      else requestAnimationFrame(look);
    };
    look();
  });
})();
