/* The hints of the demo: shown where the address asks for them, until they are dismissed, which is remembered. */
(function (ov) {
  'use strict';

  const KEY = 'overlane-hints';
  const HELD = 'cause:partition_busy'; // what the hints speak of, as the search finds it
  const ASK_AGAIN_MS = 700;
  const MOST_TRIES = 90;
  const root = document.documentElement;

  function isDismissed() {
    try {
      return localStorage.getItem(KEY) === 'dismissed';
    } catch {
      return false; // storage may be off; then they are dismissed until the page is left
    }
  }

  const isShown = () => root.dataset.hints === 'shown';

  /** Takes the hints away for good; tells whether they were there. */
  function dismiss() {
    if (!isShown()) return false;
    delete root.dataset.hints;
    try {
      localStorage.setItem(KEY, 'dismissed');
    } catch {
      // see above
    }
    document.getElementById('timeline')?.focus({ preventScroll: true });
    return true;
  }

  /** Selects the first operation that was held; waits until the causes are computed. */
  async function show() {
    const { trace } = document.getElementById('timeline').dataset;
    for (let tries = 0; trace && tries < MOST_TRIES; tries++) {
      const response = await fetch(`/api/traces/${encodeURIComponent(trace)}/search?q=${HELD}&limit=1`);
      const [hit] = response.ok ? (await response.json()).hits : [];
      if (hit) return ov.timeline('timeline').select(hit.table, hit.row);
      if (response.ok) return false;
      await new Promise((done) => { setTimeout(done, ASK_AGAIN_MS); });
    }
    return false;
  }

  function onClick(event) {
    const act = event.target.closest?.('[data-hint]')?.dataset.hint;
    if (act === 'dismiss') dismiss();
    else if (act === 'show') show();
  }

  function onKey(event) {
    if (event.key !== 'Escape' || !event.target.closest?.('.ov-hints') || !dismiss()) return;
    event.preventDefault();
    event.stopPropagation();
  }

  if (new URLSearchParams(location.search).get('hints') === '1' && !isDismissed()) root.dataset.hints = 'shown';
  document.addEventListener('click', onClick);
  document.addEventListener('keydown', onKey, true);

  ov.hints = { dismiss };
})((window.overlane = window.overlane || {}));
