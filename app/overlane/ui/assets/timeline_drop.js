/* Opening a trace that is dropped on the page, or chosen with the key O: progress, cancel, and what was refused. */
(function (ov) {
  'use strict';

  const MOST_BYTES = 2 ** 30; // what the server takes
  let box = null;
  let request = null;
  let depth = 0; // dragenter and dragleave come for every element under the mouse

  const size = (bytes) => (bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${Math.ceil(bytes / 1024)} KiB`);
  const hasFiles = (event) => Boolean(event.dataTransfer) && [...event.dataTransfer.types].includes('Files');

  /** Shows the box over the page with a sentence and what can be done; nothing takes it away. */
  function show(kind, text, parts = []) {
    hide();
    const { make } = ov.page;
    box = make('div', `ov-drop ov-drop-${kind}`);
    box.setAttribute('role', kind === 'failed' ? 'alert' : 'status');
    const card = make('div', 'ov-drop-card');
    card.append(make('p', '', text), ...parts);
    box.append(card);
    document.body.append(box);
    box.querySelector('button')?.focus();
  }

  function hide() {
    if (box) box.remove();
    box = null;
  }

  function fail(sentence) {
    show('failed', sentence, [ov.page.button('Close', 'Close (Esc)', hide)]);
  }

  function bar() {
    const outer = ov.page.make('div', 'ov-tl-progress');
    const inner = ov.page.make('div', '');
    inner.style.width = '0%';
    outer.append(inner);
    return { outer, inner };
  }

  function cancel() {
    if (request) request.abort();
    request = null;
    hide();
  }

  function send(file) {
    if (file.size === 0) return fail(`${file.name} is empty; drop a trace.`);
    if (file.size > MOST_BYTES) {
      return fail(`${file.name} has ${size(file.size)}, at most ${size(MOST_BYTES)} can be dropped; put it into the library folder and open it there.`);
    }
    const progress = bar();
    const words = ov.page.make('p', 'ov-drop-note', `0 % of ${size(file.size)}`);
    show('busy', `Sending ${file.name} to the server …`, [progress.outer, words, ov.page.button('Cancel', 'Cancel (Esc)', cancel)]);
    request = new XMLHttpRequest();
    const mine = request;
    mine.open('POST', `/api/traces?name=${encodeURIComponent(file.name)}`);
    mine.setRequestHeader('Content-Type', 'application/octet-stream');
    mine.responseType = 'json';
    mine.upload.addEventListener('progress', (event) => {
      const percent = Math.round((100 * event.loaded) / Math.max(1, event.total));
      progress.inner.style.width = `${percent}%`;
      words.textContent = `${percent} % of ${size(file.size)}`;
    });
    mine.addEventListener('load', () => {
      if (mine !== request) return;
      request = null;
      if (mine.status === 201) goTo(mine.response.id);
      else fail(mine.response?.error ? `${file.name} was refused: ${mine.response.error}.` : `The server refused ${file.name} (${mine.status}).`);
    });
    mine.addEventListener('error', () => {
      if (mine === request) fail('The server cannot be reached; is it still running?');
    });
    mine.send(file);
    return undefined;
  }

  /** Opens it as any other trace: the timeline shows how far that is. */
  function goTo(id) {
    hide();
    history.pushState({}, '', `/timeline?trace=${encodeURIComponent(id)}`);
    window.dispatchEvent(new CustomEvent('_dashprivate_pushstate')); // how Dash's own links tell its router
  }

  function take(files) {
    if (files.length === 1) send(files[0]);
    else if (files.length > 1) fail('Several files were dropped; drop one trace at a time.');
    else hide();
  }

  /** The way without a mouse. */
  function choose() {
    const input = document.createElement('input');
    input.type = 'file';
    input.addEventListener('change', () => take(input.files));
    input.click();
  }

  function onKey(event) {
    if (event.key === 'Escape' && box) {
      cancel();
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    const typing = event.target.closest && event.target.closest('input, textarea, select, [contenteditable="true"], .ov-tl-help, .ov-tl-menu, .ov-tl-notes');
    if (event.key.toLowerCase() !== 'o' || event.ctrlKey || event.metaKey || event.altKey || typing) return;
    choose();
    event.preventDefault();
  }

  function watch() {
    document.addEventListener('dragenter', (event) => {
      if (!hasFiles(event) || request) return;
      if (depth++ === 0) show('target', `Drop a trace to open it here: at most ${size(MOST_BYTES)}, it stays on this server.`);
    });
    document.addEventListener('dragleave', (event) => {
      if (!hasFiles(event) || request || depth === 0) return;
      if (--depth === 0) hide();
    });
    document.addEventListener('dragover', (event) => {
      if (hasFiles(event)) event.preventDefault(); // else the browser would leave the page and show the file
    });
    document.addEventListener('drop', (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = 0;
      if (!request) take(event.dataTransfer.files);
    });
    document.addEventListener('keydown', onKey, true);
  }

  watch();
  ov.drop = { send };
})((window.overlane = window.overlane || {}));
