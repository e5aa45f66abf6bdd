// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Charts. An axis is {of, low, high, log, words}.
'use strict';

const CHART = {width: 560, height: 250, left: 62, right: 14, top: 12, bottom: 40};

class Axis {
  constructor(values, {log = false, from, to, words = short}) {
    const usable = values.filter(value => Number.isFinite(value) && (!log || value > 0));
    let low = usable.length ? usable.reduce((a, b) => Math.min(a, b)) : log ? 0.1 : 0;
    let high = usable.length ? usable.reduce((a, b) => Math.max(a, b)) : 1;
    if (log) {
      low /= 1.4;
      high *= 1.4;
    } else {
      const room = (high - low || Math.abs(high) || 1) * 0.05;
      low -= room;
      high += room;
      if (low < 0 && usable.every(value => value >= 0)) low = 0;
    }
    Object.assign(this, {low, high, log, from, to, words});
  }
  place(value) {
    const map = this.log ? Math.log : x => x;
    const share = (map(Math.max(value, this.log ? this.low : -Infinity)) - map(this.low)) / (map(this.high) - map(this.low));
    return this.from + Math.min(1, Math.max(0, share)) * (this.to - this.from);
  }
  value(place) {
    const share = (place - this.from) / (this.to - this.from);
    return this.log ? this.low * Math.pow(this.high / this.low, share) : this.low + share * (this.high - this.low);
  }
  ticks(most = 6) {
    if (this.log) {
      const first = Math.ceil(Math.log10(this.low)), last = Math.floor(Math.log10(this.high));
      if (last - first >= 1) {
        const step = Math.ceil((last - first + 1) / most);
        return Array.from({length: Math.floor((last - first) / step) + 1}, (_, i) => Math.pow(10, first + i * step));
      }
      return [this.low * 1.4, Math.sqrt(this.low * this.high), this.high / 1.4];
    }
    const raw = (this.high - this.low) / most, size = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].find(factor => factor * size >= raw) * size;
    const ticks = [];
    for (let tick = Math.ceil(this.low / step) * step; tick <= this.high; tick += step) ticks.push(Math.abs(tick) < step / 1e6 ? 0 : tick);
    return ticks;
  }
}

// An empty plot with its axes; `draw` adds to it in pixels.
function frame(x, y, {xTitle, yTitle, label}) {
  const {width, height, left, right, top, bottom} = CHART;
  const picture = svg('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label});
  for (const tick of x.ticks())
    picture.append(svg('line', {class: 'axis', x1: x.place(tick), x2: x.place(tick), y1: top, y2: height - bottom}),
      svg('text', {x: x.place(tick), y: height - bottom + 15, 'text-anchor': 'middle'}, x.words(tick)));
  for (const tick of y.ticks())
    picture.append(svg('line', {class: 'axis', x1: left, x2: width - right, y1: y.place(tick), y2: y.place(tick)}),
      svg('text', {x: left - 6, y: y.place(tick) + 4, 'text-anchor': 'end'}, y.words(tick)));
  picture.append(svg('text', {x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle'}, xTitle));
  if (yTitle) picture.append(svg('text', {x: 0, y: 0, transform: `translate(12,${(top + height - bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle'}, yTitle));
  return picture;
}
const xRange = {from: CHART.left, to: CHART.width - CHART.right};
const yRange = {from: CHART.height - CHART.bottom, to: CHART.top};

const figure = (title, ...content) => html('figure', {}, html('figcaption', {}, title), ...content);

// The same data as an accessible table.
function asTable(columns, rows) {
  return html('details', {}, html('summary', {}, 'Numbers'), html('table', {},
    html('thead', {}, html('tr', {}, columns.map(name => html('th', {scope: 'col', class: 'number'}, name)))),
    html('tbody', {}, rows.map(row => html('tr', {}, row.map(cell => html('td', {class: 'number'}, typeof cell === 'number' ? short(cell) : cell ?? '')))))));
}

// Line chart. `series`: {name, points: [[x, y]], second}. The pointer or the arrow keys show the
// nearest points.
function curves(title, series, {xTitle, log = false, words = short, steps = false, counts = false}) {
  const all = series.flatMap(one => one.points);
  const x = new Axis(all.map(point => point[0]), xRange), y = new Axis(counts ? [0, 4, ...all.map(point => point[1])] : all.map(point => point[1]), {...yRange, log, words});
  const picture = frame(x, y, {xTitle, label: title});
  const known = point => Number.isFinite(point[1]) && (!log || point[1] > 0);
  for (const one of series) {
    let path = '', last = null;
    for (const point of one.points) {
      if (!known(point)) { last = null; continue; }
      const at = `${x.place(point[0]).toFixed(1)},${y.place(point[1]).toFixed(1)}`;
      path += last === null ? 'M' + at : (steps ? `H${x.place(point[0]).toFixed(1)}` : '') + 'L' + at;
      last = point;
    }
    picture.append(svg('path', {class: one.second ? 'curve second' : 'curve', d: path}));
    if (one.points.length === 1 || one.dots)
      for (const point of one.points.filter(known))
        picture.append(svg('circle', {class: one.second ? 'chosen' : 'dot', cx: x.place(point[0]), cy: y.place(point[1]), r: 3}));
  }
  const told = html('span', {class: 'soft', 'aria-live': 'polite'}), hair = svg('line', {class: 'hair', y1: CHART.top, y2: CHART.height - CHART.bottom, visibility: 'hidden'});
  picture.append(hair);
  let at = -1;
  const grid = [...new Set(all.map(point => point[0]))].sort((a, b) => a - b);
  const tell = i => {
    if (!grid.length) return;
    at = Math.min(grid.length - 1, Math.max(0, i));
    const place = x.place(grid[at]);
    hair.setAttribute('x1', place);
    hair.setAttribute('x2', place);
    hair.setAttribute('visibility', 'visible');
    const found = series.map(one => [one, one.points.find(point => point[0] === grid[at])]).filter(([, point]) => point);
    told.textContent = ` ${xTitle} ${short(grid[at])}: ` + found.map(([one, point]) => `${one.name} ${words(point[1])}`).join(', ');
  };
  picture.addEventListener('pointermove', event => {
    const box = picture.getBoundingClientRect(), value = x.value((event.clientX - box.left) / box.width * CHART.width);
    let best = 0;
    grid.forEach((each, i) => { if (Math.abs(each - value) < Math.abs(grid[best] - value)) best = i; });
    tell(best);
  });
  picture.setAttribute('tabindex', 0);
  picture.addEventListener('keydown', event => {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    event.preventDefault();
    tell(event.key === 'ArrowRight' ? at + 1 : at - 1);
  });
  const result = figure(title, picture, asTable([xTitle, ...series.map(one => one.name)],
    grid.map(value => [value, ...series.map(one => one.points.find(point => point[0] === value)?.[1])])));
  if (series.length > 1)
    result.firstChild.append(...series.map(one => html('span', {class: one.second ? 'key second' : 'key'}, one.name)));
  result.firstChild.append(told);
  return result;
}

// Histogram of a value's exponents, and f16's range.
function histogram(exponents) {
  const known = Object.entries(exponents).map(([exponent, count]) => [Number(exponent), count]).sort((a, b) => a[0] - b[0]);
  if (!known.length) return null;
  const low = Math.min(known[0][0], -16) - 1, high = Math.max(known[known.length - 1][0], 3) + 2;
  const most = Math.max(...known.map(([, count]) => count)), width = 350, height = 110, base = 86;
  const step = width / (high - low), place = exponent => (exponent - low) * step;
  const whole = known.reduce((sum, [, count]) => sum + count, 0);
  const picture = svg('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img',
    'aria-label': `Histogram of exponents from ${known[0][0]} to ${known[known.length - 1][0]}`});
  // f16's normal range is 2^-14 to 2^16; below it loses bits.
  const zone = (from, to, what) => {
    const a = Math.max(place(from), 0), b = Math.min(place(to), width);
    if (b > a) picture.append(svg('rect', {class: 'zone', x: a, y: 4, width: b - a, height: base - 4}, svg('title', {}, what)));
  };
  zone(-14, 16, 'f16 holds these whole');
  for (const [exponent, count] of known) {
    const size = Math.max(1.5, Math.sqrt(count / most) * (base - 8));
    picture.append(svg('rect', {class: 'column', x: place(exponent) + step * 0.1, y: base - size, width: Math.max(1, step * 0.8), height: size},
      svg('title', {}, `2^${exponent}: ${count.toLocaleString('en')} elements, ${percent(count / whole)}`)));
  }
  picture.append(svg('line', {class: 'axis', x1: 0, x2: width, y1: base, y2: base}));
  const every = Math.ceil((high - low) / 9);
  for (let exponent = Math.ceil(low / every) * every; exponent < high; exponent += every)
    picture.append(svg('text', {x: place(exponent) + step / 2, y: base + 14, 'text-anchor': 'middle'}, '2' + superscript(exponent)));
  return html('div', {}, picture, html('p', {class: 'soft'}, 'elements by magnitude (square root of their number); shaded: what f16 holds with all of its bits'));
}
const superscript = number => String(number).replace('-', '\u207b').replace(/\d/g, digit => '\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079'[digit]);
