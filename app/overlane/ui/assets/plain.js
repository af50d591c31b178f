/*
 * Makes elements of what the server sent as data (ui/plain.py). Names of a trace are only ever the text of nodes
 * and the values of attributes.
 */
(() => {
  'use strict';

  const ATTRIBUTE = 'data-plain';
  const NAMES = { className: 'class', htmlFor: 'for' };

  function made(item) {
    if (item === null || item === undefined) return [];
    if (Array.isArray(item)) return item.flatMap(made);
    if (typeof item !== 'object') return [document.createTextNode(String(item))];
    const element = document.createElement(item.type);
    for (const [name, value] of Object.entries(item.props)) {
      if (name === 'children') element.append(...made(value));
      else if (name === 'style') Object.assign(element.style, value);
      else if (value === true) element.setAttribute(name.toLowerCase(), '');
      else if (value !== false) element.setAttribute(NAMES[name] ?? name.toLowerCase(), value);
    }
    return [element];
  }

  function fill(element) {
    element.replaceChildren(...made(JSON.parse(element.getAttribute(ATTRIBUTE))));
  }

  new MutationObserver((changes) => {
    for (const { type, target, addedNodes } of changes) {
      if (type === 'attributes') {
        if (target.hasAttribute(ATTRIBUTE)) fill(target);
        continue;
      }
      for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE) continue;
        if (node.hasAttribute(ATTRIBUTE)) fill(node);
        else node.querySelectorAll(`[${ATTRIBUTE}]`).forEach(fill);
      }
    }
  }).observe(document, { subtree: true, childList: true, attributeFilter: [ATTRIBUTE] });
})();
