// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph view: pans and zooms through the viewBox, recolours by one class on the root, and
// delegates events to the root.
'use strict';

const FAR = 0.3, MOST_ZOOM = 4, MOST_LISTED = 80;
const COLUMN_GAP = 90, WIDE = 1.5;

// Wraps the layout of a deep network into columns, left to right, with about equal width and height
// overall.
function inColumns() {
  const count = Math.max(1, Math.round(Math.sqrt(WIDE * drawing.height / (drawing.width + COLUMN_GAP))));
  const height = drawing.height / count;
  const columns = Array.from({length: count}, () => ({left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity}));
  const columnOf = place => Math.min(count - 1, Math.max(0, Math.floor((place.y + place.height / 2) / height)));
  // Kernel boxes are not split.
  const boxColumn = new Map(drawing.kernels.map(box => [box.kernel, columnOf(box)]));
  const ofNode = drawing.nodes.map(node => boxColumn.get(node.op === undefined ? undefined : ops[node.op].launch) ?? columnOf(node));
  const widen = (column, place) => {
    column.left = Math.min(column.left, place.x);
    column.right = Math.max(column.right, place.x + place.width);
    column.top = Math.min(column.top, place.y);
    column.bottom = Math.max(column.bottom, place.y + place.height);
  };
  drawing.kernels.forEach(box => widen(columns[boxColumn.get(box.kernel)], box));
  drawing.nodes.forEach((node, i) => widen(columns[ofNode[i]], node));
  let x = 10, most = 0;
  for (const column of columns.filter(each => each.right >= each.left)) {
    column.dx = x - column.left;
    column.dy = 10 - column.top;
    x += column.right - column.left + COLUMN_GAP;
    most = Math.max(most, column.bottom - column.top);
  }
  const move = (place, column) => ({...place, x: place.x + columns[column].dx, y: place.y + columns[column].dy});
  const nodes = drawing.nodes.map((node, i) => move(node, ofNode[i]));
  let hops = 0;
  const edges = drawing.edges.map(edge => {
    const from = nodes[edge.from], to = nodes[edge.to], column = ofNode[edge.from];
    if (column === ofNode[edge.to]) return {...edge, shift: `translate(${columns[column].dx},${columns[column].dy})`};
    // Routed through the gap next to the column, on separate tracks.
    const x1 = from.x + from.width / 2, y1 = from.y + from.height, x2 = to.x + to.width / 2, y2 = to.y;
    const track = columns[column].right + columns[column].dx + COLUMN_GAP * (0.3 + 0.1 * (hops++ % 5));
    return {...edge, hops: true, path: `M${x1},${y1}V${y1 + 11}H${track}V${y2 - 13}H${x2}V${y2}`};
  });
  return {width: x - COLUMN_GAP + 10, height: most + 20, nodes, edges, kernels: drawing.kernels.map(box => move(box, boxColumn.get(box.kernel)))};
}

class GraphView {
  // `onSelect` receives the selection: {op}, {kernel}, {input} or {result}, or null.
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.chosen = null;
    this.view = {x: 0, y: 0, scale: 1};
    this.layout = drawing;
    this.nodes = drawing.nodes;
    this.out = this.nodes.map(() => []);
    this.into = this.nodes.map(() => []);
    drawing.edges.forEach((edge, i) => { this.out[edge.from].push(i); this.into[edge.to].push(i); });
    this.picture = svg('svg', {'aria-hidden': 'true'});
    this.canvas = html('div', {class: 'canvas', tabindex: 0, role: 'application', 'aria-roledescription': 'graph',
      'aria-label': `Graph of ${this.nodes.length} nodes. Arrows follow values, Enter opens what is chosen, plus and minus zoom, 0 shows all.`},
    this.picture);
    this.legend = html('div', {class: 'legend'});
    this.map = html('canvas', {class: 'map', 'aria-hidden': 'true'});
    this.canvas.append(this.legend, this.map);
    if (drawing.of === 'kernels')
      this.canvas.append(html('p', {class: 'note'}, `${ops.length} ops are too many to draw: each node is a kernel`));
    this.draw();
    this.listen();
  }

  factsOf(node) {
    if (node.op !== undefined) {
      const op = ops[node.op], launch = op.launch ?? -1;
      return {name: op.name, kind: `${op.kind} ${typeOf(op)}`, type: op.compute, stored: op.storage[0], error: errorShare(op),
        time: launch < 0 ? 0 : timeShare(launch),
        text: [op.name, op.kind, op.layer, op.kernel, typeOf(op), ...op.storage, op.rule].join(' ')};
    }
    if (node.kernel !== undefined) {
      const kernel = kernels[node.kernel];
      return {name: kernel.name, kind: `${kernel.kind}, ${kernel.ops.length} ops`, type: typeOfLaunch(node.kernel), error: errorOfLaunch(node.kernel),
        time: timeShare(node.kernel), text: [kernel.name, kernel.kind, ...kernel.ops].join(' ')};
    }
    const name = node.input ?? node.result, isInput = node.input !== undefined;
    return {name, kind: isInput ? 'input' : 'result', error: isInput && own(explained.error?.inputs, name) || 0, time: 0,
      text: `${name} ${isInput ? 'input' : 'result'}`};
  }

  draw() {
    this.facts = this.nodes.map(node => this.factsOf(node));
    const boxes = svg('g'), wires = svg('g'), nodes = svg('g');
    this.boxElements = new Map();
    for (const box of drawing.kernels) {
      const {width, height} = box;
      const rect = svg('rect', {class: 'box', 'data-kernel': box.kernel, width, height});
      rect.style.setProperty('--k', `var(--time${level(timeShare(box.kernel))})`);
      boxes.append(svg('g', {}, rect, svg('text', {class: 'label', x: 8, y: 14}, shorten(kernels[box.kernel].name, Math.floor((width - 12) / 7)))));
      this.boxElements.set(box.kernel, rect);
    }
    this.wireElements = drawing.edges.map(edge => {
      const from = this.nodes[edge.from];
      const isCast = from.op !== undefined && !ops[from.op].results.includes(edge.type);
      const path = svg('path', {class: isCast ? 'wire cast' : 'wire', 'marker-end': 'url(#tip)'});
      path.style.setProperty('--w', `var(--${tint(edge.type)}-line)`);
      wires.append(path);
      return path;
    });
    this.nodeElements = this.nodes.map((node, i) => {
      const facts = this.facts[i], {width, height} = node;
      const group = svg('g', {class: facts.type === undefined ? 'node value' : 'node', 'data-node': i},
        svg('title', {}, `${facts.name}\n${facts.kind}`), svg('rect', {class: 'body', width, height}));
      if (facts.stored && tint(facts.stored) !== tint(facts.type)) {
        const band = svg('rect', {class: 'stored', x: width - 8, y: 1, width: 7, height: height - 2});
        band.style.fill = `var(--${tint(facts.stored)}-line)`;
        group.append(band);
      }
      const letters = Math.floor((width - 18) / 7);
      group.append(svg('text', {x: 8, y: 16}, shorten(facts.name, letters)));
      if (facts.type !== undefined) {
        group.append(svg('text', {class: 'kind', x: 8, y: 30}, shorten(facts.kind, letters + 2)));
        const error = level(facts.error), spent = level(facts.time);
        for (const [name, value] of [['--t', `var(--${tint(facts.type)})`], ['--tl', `var(--${tint(facts.type)}-line)`],
          ['--e', `var(--error${error})`], ['--et', error >= 5 ? 'var(--on-high)' : error === 4 ? 'var(--on-fourth)' : 'var(--ink)'],
          ['--k', `var(--time${spent})`], ['--kt', spent >= 4 ? 'var(--on-high)' : 'var(--ink)']])
          group.style.setProperty(name, value);
      } else if (facts.error) {
        group.style.setProperty('--e', `var(--error${level(facts.error)})`);
      }
      nodes.append(group);
      return group;
    });
    this.picture.append(svg('defs', {}, svg('marker', {id: 'tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: 'userSpaceOnUse', orient: 'auto'},
      svg('path', {d: 'M0,0L8,4L0,8z', fill: 'var(--int-line)'}))), boxes, wires, nodes);
  }

  // Positions everything; `isWrapped`: in columns.
  arrange(isWrapped) {
    this.isWrapped = isWrapped;
    this.layout = isWrapped ? inColumns() : drawing;
    this.nodes = this.layout.nodes;
    this.nodes.forEach((node, i) => this.nodeElements[i].setAttribute('transform', `translate(${node.x},${node.y})`));
    for (const box of this.layout.kernels)
      this.boxElements.get(box.kernel).parentNode.setAttribute('transform', `translate(${box.x},${box.y})`);
    this.layout.edges.forEach((edge, i) => {
      const wire = this.wireElements[i];
      wire.setAttribute('d', edge.path);
      wire.setAttribute('transform', edge.shift || '');
      wire.classList.toggle('hop', edge.hops === true);
    });
  }
  // The legend covers the lower edge.
  covered() {
    return this.legend.offsetHeight + 14;
  }
  fitScale(layout) {
    const {width, height} = this.size();
    return Math.min(width / (layout.width + 40), Math.max(50, height - this.covered()) / (layout.height + 20), 1.2);
  }
  // Uses columns if that shows a deep graph larger.
  arrangeWell() {
    const plain = this.fitScale(drawing);
    this.arrange(plain < 0.6 && this.fitScale(inColumns()) > 1.3 * plain);
    this.begin();
    this.drawMap();
  }

  colour(mode) {
    this.mode = mode;
    for (const each of ['type', 'error', 'time']) this.picture.classList.toggle('by-' + each, each === mode);
    const swatch = (colour, text) => {
      const square = html('i');
      square.style.background = colour;
      return html('span', {}, square, text);
    };
    if (mode === 'type') {
      const types = [...new Set(this.facts.map(facts => facts.type).filter(type => type !== undefined))].sort();
      const band = this.facts.some(facts => facts.stored && tint(facts.stored) !== tint(facts.type));
      this.legend.replaceChildren(html('b', {}, 'computes in'), ...types.map(type => swatch(`var(--${tint(type)})`, type)),
        html('hr'), html('span', {class: 'soft'}, (band ? 'band at the right: stored in another type \u00b7 ' : '') + 'dashed line: converted on its way'));
    } else {
      const what = mode === 'error' ? `share of the predicted ${explained.error.measure} error\u2019s square` : `share of the time, ${timeWord}`;
      this.legend.replaceChildren(html('b', {}, what), html('hr'),
        ...LEVEL_WORDS.map((text, i) => swatch(`var(--${mode}${i})`, text)));
    }
    if (this.isFit) this.fit();
    this.drawMap();
  }

  // Size of the viewport.

  size() {
    return {width: this.canvas.clientWidth || 800, height: this.canvas.clientHeight || 600};
  }
  show() {
    const {width, height} = this.size(), {x, y, scale} = this.view;
    this.isFit = false;
    this.picture.setAttribute('viewBox', `${x} ${y} ${width / scale} ${height / scale}`);
    this.picture.classList.toggle('far', scale < FAR);
    this.frameMap();
  }
  fit() {
    const {width, height} = this.size(), scale = this.fitScale(this.layout);
    this.view = {scale, x: (this.layout.width - width / scale) / 2, y: (this.layout.height - (height - this.covered()) / scale) / 2};
    this.show();
    this.isFit = true;
  }
  // Fits the graph, or for a large one shows its start at a readable size.
  begin() {
    const {width} = this.size();
    if (this.fitScale(this.layout) >= 0.36 || !this.nodes.length) { this.fit(); return; }
    const first = this.nodes.reduce((best, node) => node.y < best.y ? node : best);
    const scale = Math.min(1, Math.max(0.75, width / (this.layout.width + 40)));
    const x = width / scale >= this.layout.width ? (this.layout.width - width / scale) / 2
      : this.isWrapped ? -20 : first.x + first.width / 2 - width / scale / 2;
    this.view = {scale, x, y: Math.min(...this.nodes.map(node => node.y)) - 24};
    this.show();
  }
  zoom(factor, at) {
    const {width, height} = this.size();
    const least = Math.min(this.fitScale(this.layout), 0.6) / 2;
    const scale = Math.min(MOST_ZOOM, Math.max(least, this.view.scale * factor));
    const point = at || {x: width / 2, y: height / 2};
    this.view.x += point.x / this.view.scale - point.x / scale;
    this.view.y += point.y / this.view.scale - point.y / scale;
    this.view.scale = scale;
    this.show();
  }
  pan(dx, dy) {
    this.view.x -= dx / this.view.scale;
    this.view.y -= dy / this.view.scale;
    this.show();
  }
  // `down`: vertical position as a fraction of the height.
  centre(place, down = 0.5) {
    const {width, height} = this.size();
    this.view.scale = Math.max(this.view.scale, 0.7);
    this.view.x = place.x + place.width / 2 - width / this.view.scale / 2;
    this.view.y = place.y + place.height / 2 - height / this.view.scale * down;
    this.show();
  }

  // A minimap, if the graph does not fit.

  drawMap() {
    const most = {width: 200, height: Math.max(80, this.size().height - 140)};
    const scale = Math.min(most.width / this.layout.width, most.height / this.layout.height);
    const {map} = this, ratio = window.devicePixelRatio || 1;
    this.mapScale = scale;
    const width = Math.max(24, Math.ceil(this.layout.width * scale)), height = Math.max(24, Math.ceil(this.layout.height * scale));
    map.width = width * ratio;
    map.height = height * ratio;
    map.style.width = width + 'px';
    map.style.height = height + 'px';
    const style = getComputedStyle(document.documentElement);
    const colours = new Map();
    const resolve = name => {
      if (!colours.has(name)) colours.set(name, style.getPropertyValue(name).trim());
      return colours.get(name);
    };
    const image = document.createElement('canvas');
    image.width = map.width;
    image.height = map.height;
    const context = image.getContext('2d');
    context.scale(ratio, ratio);
    this.nodes.forEach((node, i) => {
      const {type, error, time} = this.facts[i];
      context.fillStyle = resolve(this.mode === 'error' ? `--error${level(error)}` : this.mode === 'time' ? `--time${level(time)}`
        : type === undefined ? '--box' : `--${tint(type)}-line`);
      context.fillRect(node.x * scale, node.y * scale, Math.max(1.5, node.width * scale), Math.max(1.2, node.height * scale));
    });
    this.mapImage = image;
    this.frameMap();
  }
  frameMap() {
    if (!this.mapImage) return;
    const {width, height} = this.size(), {x, y, scale} = this.view, ratio = window.devicePixelRatio || 1;
    const whole = x <= 0 && y <= 0 && width / scale + x >= this.layout.width && height / scale + y >= this.layout.height;
    this.map.hidden = whole;
    if (whole) return;
    const context = this.map.getContext('2d');
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.map.width, this.map.height);
    context.drawImage(this.mapImage, 0, 0);
    context.scale(ratio * this.mapScale, ratio * this.mapScale);
    context.strokeStyle = getComputedStyle(this.map).getPropertyValue('--mark');
    context.lineWidth = 1.5 / this.mapScale;
    const edge = 1 / this.mapScale;
    const left = Math.max(x, edge), top = Math.max(y, edge);
    context.strokeRect(left, top, Math.min(x + width / scale, this.layout.width - edge) - left, Math.min(y + height / scale, this.layout.height - edge) - top);
  }

  // Selection.

  nodeOf(what) {
    return what ? this.nodes.findIndex(node => ['op', 'kernel', 'input', 'result'].some(key => what[key] !== undefined && node[key] === what[key])) : -1;
  }
  select(what, {move = true, say = true} = {}) {
    for (const element of this.marked || []) element.classList.remove('chosen', 'near');
    this.chosen = what;
    this.marked = [];
    let node = this.nodeOf(what);
    // In the kernel view, an op's details are those of its kernel.
    if (node < 0 && what && what.op !== undefined) node = this.nodeOf({kernel: ops[what.op].launch});
    const box = what && node < 0 ? this.layout.kernels.find(each => each.kernel === what.kernel) : null;
    this.current = node;
    if (node >= 0) {
      this.marked = [this.nodeElements[node], ...[...this.out[node], ...this.into[node]].map(i => this.wireElements[i])];
      this.marked.forEach((element, i) => element.classList.add(i ? 'near' : 'chosen'));
      if (move) this.reveal(this.nodes[node]);
      const facts = this.facts[node];
      if (say) announce(`${facts.name}, ${facts.kind}`);
    } else if (box) {
      this.marked = [this.boxElements.get(box.kernel)];
      this.marked[0].classList.add('chosen');
      if (move) this.reveal(box);
      if (say) announce(`kernel ${kernels[box.kernel].name}`);
    }
    this.onSelect(what);
  }
  reveal(place) {
    const {width, height} = this.size(), {x, y, scale} = this.view;
    const isSeen = scale >= FAR && place.x > x + 10 && place.y > y + 10
      && place.x + place.width < x + width / scale - 10 && place.y + place.height < y + height / scale - 10;
    if (!isSeen) this.centre(place);
  }
  // The neighbour in a direction: along edges, or sideways.
  neighbour(key) {
    const node = this.nodes[this.current];
    if (!node) return 0;
    if (key === 'ArrowDown' || key === 'ArrowUp') {
      const edge = (key === 'ArrowDown' ? this.out : this.into)[this.current][0];
      return edge === undefined ? this.current : drawing.edges[edge][key === 'ArrowDown' ? 'to' : 'from'];
    }
    const sign = key === 'ArrowRight' ? 1 : -1;
    let best = this.current, distance = Infinity;
    this.nodes.forEach((other, i) => {
      const dx = sign * (other.x + other.width / 2 - node.x - node.width / 2);
      const dy = Math.abs(other.y + other.height / 2 - node.y - node.height / 2);
      if (dx > 5 && dy < 60 && dx + 3 * dy < distance) { best = i; distance = dx + 3 * dy; }
    });
    return best;
  }
  choiceOf(i) {
    const {op, kernel, input, result} = this.nodes[i];
    return {op, kernel, input, result};
  }

  // Events.

  listen() {
    const {canvas, picture} = this;
    let drag = null;
    const point = event => {
      const box = canvas.getBoundingClientRect();
      return {x: event.clientX - box.left, y: event.clientY - box.top};
    };
    picture.addEventListener('pointerdown', event => {
      if (event.button !== 0) return;
      drag = {x: event.clientX, y: event.clientY, far: false, id: event.pointerId};
    });
    picture.addEventListener('pointermove', event => {
      if (!drag) return;
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.far && Math.hypot(dx, dy) < 4) return;
      if (!drag.far) {
        drag.far = true;
        picture.setPointerCapture(drag.id);
        picture.classList.add('dragging');
      }
      drag.x = event.clientX;
      drag.y = event.clientY;
      this.pan(dx, dy);
    });
    const drop = () => { drag = drag && drag.far ? {done: true} : null; picture.classList.remove('dragging'); if (drag) setTimeout(() => { drag = null; }); };
    picture.addEventListener('pointerup', drop);
    picture.addEventListener('pointercancel', drop);
    picture.addEventListener('click', event => {
      if (drag) return;
      const node = target(event, '.node'), box = target(event, '.box');
      if (node) this.select(this.choiceOf(Number(node.dataset.node)), {move: false});
      else if (box) this.select({kernel: Number(box.dataset.kernel)}, {move: false});
      else this.select(null);
    });
    canvas.addEventListener('wheel', event => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 20 : 1;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * unit * 0.004), point(event));
      else this.pan(-(event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX) * unit, -(event.shiftKey && !event.deltaX ? 0 : event.deltaY) * unit);
    }, {passive: false});
    canvas.addEventListener('keydown', event => {
      const {key} = event;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (key.startsWith('Arrow')) {
        if (this.nodes.length) this.select(this.choiceOf(this.neighbour(key)));
      } else if (key === '+' || key === '=') this.zoom(1.3);
      else if (key === '-') this.zoom(1 / 1.3);
      else if (key === '0') this.fit();
      else if (key === 'Escape') this.select(null);
      else if (key === 'Enter' && this.chosen) byId('details').focus();
      else return;
      event.preventDefault();
    });
    const jump = event => {
      const box = this.map.getBoundingClientRect(), {width, height} = this.size();
      this.view.x = (event.clientX - box.left) / this.mapScale - width / this.view.scale / 2;
      this.view.y = (event.clientY - box.top) / this.mapScale - height / this.view.scale / 2;
      this.show();
    };
    this.map.addEventListener('pointerdown', event => { this.map.setPointerCapture(event.pointerId); jump(event); });
    this.map.addEventListener('pointermove', event => { if (event.buttons) jump(event); });
    new ResizeObserver(() => { if (canvas.clientWidth) { if (this.isFit) this.fit(); else this.show(); this.drawMap(); } }).observe(canvas);
  }
}

// The search box: matches are highlighted in the graph, listed, and visited by arrow keys or Enter.
class Search {
  constructor(graph) {
    this.graph = graph;
    this.hits = [];
    this.at = -1;
    this.texts = graph.facts.map(facts => facts.text.toLowerCase());
    this.input = html('input', {type: 'text', id: 'search', role: 'combobox', 'aria-expanded': 'false', 'aria-controls': 'matches',
      'aria-autocomplete': 'list', 'aria-label': 'Search ops', placeholder: 'Search  ( / )', title: 'Words of names, kinds, layers, kernels, types and rules',
      autocomplete: 'off', spellcheck: 'false'});
    this.count = html('span', {class: 'count', 'aria-live': 'polite', id: 'count'});
    this.list = html('ul', {role: 'listbox', id: 'matches', 'aria-label': 'Matches', hidden: true});
    this.element = html('div', {class: 'search', role: 'search'}, this.input, this.count, this.list);
    this.input.addEventListener('input', () => this.find());
    this.input.addEventListener('focus', () => this.open(this.hits.length > 0));
    this.input.addEventListener('blur', () => this.open(false));
    this.input.addEventListener('keydown', event => this.key(event));
    this.list.addEventListener('pointerdown', event => {
      event.preventDefault();
      const item = target(event, 'li');
      if (item) { this.go(Number(item.dataset.at)); this.open(false); }
    });
  }
  open(isOpen) {
    this.list.hidden = !isOpen;
    this.input.setAttribute('aria-expanded', String(isOpen));
  }
  find() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const i of this.hits) this.graph.nodeElements[i].classList.remove('hit');
    this.hits = words.length ? this.texts.flatMap((text, i) => words.every(word => text.includes(word)) ? [i] : []) : [];
    for (const i of this.hits) this.graph.nodeElements[i].classList.add('hit');
    this.graph.picture.classList.toggle('searching', words.length > 0);
    this.at = -1;
    this.input.removeAttribute('aria-activedescendant');
    this.list.replaceChildren(...this.hits.slice(0, MOST_LISTED).map((hit, at) => html('li',
      {role: 'option', id: 'match' + at, 'data-at': at, 'aria-selected': 'false', title: this.graph.facts[hit].name},
      html('span', {}, this.graph.facts[hit].name), html('span', {}, this.graph.facts[hit].kind))));
    this.open(this.hits.length > 0);
    this.tell(words.length > 0);
  }
  tell(isAsked) {
    this.count.textContent = !isAsked ? '' : !this.hits.length ? 'no match'
      : this.at < 0 ? `${this.hits.length} found` : `${this.at + 1} of ${this.hits.length}`;
  }
  go(at) {
    if (!this.hits.length) return;
    this.list.children[this.at]?.setAttribute('aria-selected', 'false');
    this.at = (at + this.hits.length) % this.hits.length;
    const item = this.list.children[this.at];
    if (item) {
      item.setAttribute('aria-selected', 'true');
      item.scrollIntoView({block: 'nearest'});
      this.input.setAttribute('aria-activedescendant', item.id);
    } else {
      this.input.removeAttribute('aria-activedescendant');
    }
    this.tell(true);
    this.graph.select(this.graph.choiceOf(this.hits[this.at]), {say: false, move: false});
    // Below the list.
    this.graph.centre(this.graph.nodes[this.hits[this.at]], 0.65);
  }
  clear() {
    this.input.value = '';
    this.find();
    this.open(false);
  }
  key(event) {
    const {key} = event;
    if (key === 'ArrowDown' || (key === 'Enter' && !event.shiftKey)) this.go(this.at + 1);
    else if (key === 'ArrowUp' || key === 'Enter') this.go(this.at < 0 ? -1 : this.at - 1);
    else if (key === 'Escape') this.clear();
    else return;
    event.preventDefault();
  }
}
