// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// DOM and text helpers. Names from a model are always inserted as text; HTML is never parsed.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';

// Sets attributes and appends children, which are elements or text.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? '' : value);
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}
const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const byId = id => document.getElementById(id);

// Three significant digits, as the command prints them.
function short(value) {
  if (value === null || value === undefined) return '';
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 1e7 || size < 1e-2) return value.toExponential(1).replace('.0e', 'e').replace('e+', 'e');
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(3)));
}
function scaled(value, units, step) {
  let unit = 0;
  for (; Math.abs(value) >= step && unit + 1 < units.length; ++unit) value /= step;
  return short(value) + ' ' + units[unit];
}
const bytes = value => scaled(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000);
const flops = value => scaled(value, ['', 'k', 'M', 'G', 'T'], 1000).trim();
const time = ms => ms >= 1 ? short(ms) + ' ms' : ms > 0 ? short(ms * 1000) + ' \u00b5s' : '0';
const percent = share => share === 0 ? '0 %' : share < 1e-4 ? '< 0.01 %' : short(share * 100) + ' %';
// Truncates in front: the end of a name is more specific.
function shorten(name, most) {
  const letters = Array.from(name);
  return letters.length <= most ? name : '\u2026' + letters.slice(letters.length - most + 1).join('');
}
// Shell quoting; control and invisible characters as bash and zsh escape them.
const quoted = text => /^[\w@%+=:,./-]+$/.test(text) ? text
  : /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)
    ? "$'" + text.replace(/[\\']/g, '\\$&').replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
      c => Array.from(new TextEncoder().encode(c), byte => '\\' + byte.toString(8).padStart(3, '0')).join('')) + "'"
    : "'" + text.replace(/'/g, "'\\''") + "'";

function announce(text) {
  byId('announce').textContent = text;
}

// The nearest `selector` ancestor of an event's target.
const target = (event, selector) => event.target instanceof Element ? event.target.closest(selector) : null;

// A button that copies a command.
function command(text) {
  return html('div', {class: 'command'}, html('code', {}, text),
    html('button', {type: 'button', class: 'copy', 'aria-label': 'Copy ' + text}, 'Copy'));
}
document.addEventListener('click', event => {
  const button = target(event, '.copy');
  if (!button) return;
  const code = button.previousElementSibling;
  const done = () => { button.textContent = 'Copied'; setTimeout(() => { button.textContent = 'Copy'; }, 1200); };
  // In some browsers, file: pages have no clipboard: select the text.
  const select = () => getSelection().selectAllChildren(code);
  if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, select);
  else select();
});

// Bar chart rows. `rows`: {name, share, text, fill, attributes}.
function bars(rows) {
  return html('div', {class: 'bars'}, rows.map(row => [
    row.attributes ? html('button', {type: 'button', class: 'link name', title: row.name, ...row.attributes}, shorten(row.name, 27))
      : html('span', {class: 'name', title: row.name}, shorten(row.name, 27)),
    bar(row.share, row.fill), html('span', {class: 'number'}, row.text)]));
}
function bar(share, colour) {
  const inside = html('i');
  inside.style.width = Math.min(100, Math.max(0, share * 100)) + '%';
  if (colour) inside.style.background = colour;
  return html('div', {class: 'bar'}, inside);
}
