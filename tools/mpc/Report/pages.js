// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pages by command, and shared behaviour: selection, keys, theme.
'use strict';

let graph = null, search = null, side = null;

//===----------------------------------------------------------------------===//
// Light and dark
//===----------------------------------------------------------------------===//

const THEMES = ['system', 'light', 'dark'];
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
let theme = 'system';

function showTheme() {
  document.documentElement.dataset.theme = theme === 'system' ? (prefersDark.matches ? 'dark' : 'light') : theme;
  byId('theme').textContent = {system: '\u25d0 System', light: '\u2600 Light', dark: '\u263e Dark'}[theme];
  byId('theme').setAttribute('aria-label', `Colours: ${theme}; press for ${THEMES[(THEMES.indexOf(theme) + 1) % 3]}`);
  if (graph) graph.drawMap();
}
byId('theme').addEventListener('click', () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % 3];
  showTheme();
});
prefersDark.addEventListener('change', showTheme);

//===----------------------------------------------------------------------===//
// The graph's page
//===----------------------------------------------------------------------===//

function colourSwitch(start) {
  const choices = [['type', 'Type', true], ['error', 'Error share', hasErrors], ['time', 'Time', hasTimes]];
  const group = html('fieldset', {class: 'switch'}, html('legend', {}, 'Colour by'), choices.map(([value, text, usable]) =>
    html('label', {title: usable ? null : value === 'error' ? 'Needs samples: --inputs' : 'The target\u2019s rates are not known'},
      html('input', {type: 'radio', name: 'colour', value, checked: value === start, disabled: !usable}), html('span', {}, text))));
  group.addEventListener('change', event => graph.colour(event.target.value));
  return group;
}

function graphPage() {
  side = html('aside', {class: 'side', 'aria-label': 'Details'});
  graph = new GraphView(what => { side.replaceChildren(...detailsOf(what).flat().filter(Boolean)); side.scrollTop = 0; });
  search = new Search(graph);
  const start = doc.launches && hasTimes ? 'time' : 'type';
  const buttons = html('div', {role: 'group', 'aria-label': 'Zoom'}, [['\u2212', 'Zoom out', () => graph.zoom(1 / 1.4)], ['+', 'Zoom in', () => graph.zoom(1.4)],
    ['Fit', 'Show all', () => graph.fit()]].map(([text, label, action]) => {
    const button = html('button', {type: 'button', 'aria-label': label, title: label}, text);
    button.addEventListener('click', action);
    return [button, ' '];
  }));
  const columns = html('label', {title: 'Cut a deep graph into columns'}, html('input', {type: 'checkbox', id: 'columns'}), ' Columns');
  columns.addEventListener('change', event => {
    graph.arrange(event.target.checked);
    graph.select(graph.chosen, {move: false, say: false});
    graph.begin();
    graph.drawMap();
  });
  const page = html('div', {class: 'graph'}, html('div', {class: 'toolbar'}, colourSwitch(start), search.element, buttons, columns), graph.canvas, side);
  graph.select(null);
  graph.colour(start);
  return page;
}

// Links to ops and kernels, anywhere in the page.
document.addEventListener('click', event => {
  const link = target(event, 'button.link');
  if (!link || !drawing) return;
  const what = link.dataset.op !== undefined ? {op: Number(link.dataset.op)} : {kernel: Number(link.dataset.kernel)};
  const wasInside = side !== null && side.contains(link);
  openPage('Graph');
  graph.select(what);
  if (wasInside) byId('details')?.focus();
  else graph.canvas.focus();
});

//===----------------------------------------------------------------------===//
// The front of a tuning
//===----------------------------------------------------------------------===//

function frontPage() {
  const isTime = doc.objective === 'time', cost = isTime ? seconds => time(seconds * 1000) : bytes;
  const points = [...doc.front.map(point => [point.cost, point.predicted]), ...doc.tried.map(point => [point.cost, point.measured]),
    ...(doc.float32 ? [[doc.float32.cost, doc.float32.measured]] : [])];
  const x = new Axis(points.map(point => point[0]), {...xRange, words: cost});
  const y = new Axis([...points.map(point => point[1]), ...(doc.limit > 0 ? [doc.limit] : [])], {...yRange, log: true});
  const measure = doc.budget.split(' ')[0];
  const picture = frame(x, y, {xTitle: {time: 'time', memory: 'memory', bytes: 'bytes that kernels move'}[doc.objective], yTitle: `${measure} error`,
    label: `Cost against ${measure} error: ${doc.front.length} points of the front, ${doc.tried.length} measured`});
  const at = point => `${x.place(point[0]).toFixed(1)},${y.place(point[1]).toFixed(1)}`;
  if (doc.limit > 0)
    picture.append(svg('line', {class: 'limit', x1: CHART.left, x2: CHART.width - CHART.right, y1: y.place(doc.limit), y2: y.place(doc.limit)}),
      svg('text', {class: 'limit-text', x: CHART.width - CHART.right - 4, y: y.place(doc.limit) - 5, 'text-anchor': 'end'}, `budget ${doc.budget}`));
  const front = doc.front.map(point => [point.cost, point.predicted]);
  if (front.length) picture.append(svg('path', {class: 'curve', d: 'M' + front.map(at).join('L')}));
  for (const point of front)
    picture.append(svg('circle', {class: 'dot', cx: x.place(point[0]), cy: y.place(point[1]), r: 3.5}, svg('title', {}, `front: ${cost(point[0])}, predicted ${short(point[1])}`)));
  const cross = (cx, cy) => `M${cx - 4},${cy - 4}L${cx + 4},${cy + 4}M${cx - 4},${cy + 4}L${cx + 4},${cy - 4}`;
  for (const point of doc.tried)
    picture.append(svg('path', {class: 'tried', d: cross(x.place(point.cost), y.place(point.measured))}, svg('title', {}, `measured ${short(point.measured)}, predicted ${short(point.predicted)}, ${cost(point.cost)}`)));
  if (doc.float32) {
    const cx = x.place(doc.float32.cost), cy = y.place(doc.float32.measured);
    picture.append(svg('rect', {class: 'wide', x: cx - 5, y: cy - 5, width: 10, height: 10}, svg('title', {}, `float32: ${cost(doc.float32.cost)}, measured ${short(doc.float32.measured)}`)),
      svg('text', {x: cx - 10, y: cy + 4, 'text-anchor': 'end'}, 'float32'));
  }
  if (doc.chosen) {
    const cx = x.place(doc.chosen.cost), cy = y.place(doc.chosen.measured);
    if (doc.chosen.held_back !== undefined)
      picture.append(svg('circle', {class: 'held', cx, cy: y.place(doc.chosen.held_back), r: 6}, svg('title', {}, `chosen, on validation samples: ${short(doc.chosen.held_back)}`)));
    picture.append(svg('circle', {class: 'chosen', cx, cy, r: 6}, svg('title', {}, `chosen: ${cost(doc.chosen.cost)}, measured ${short(doc.chosen.measured)}`)),
      svg('text', {x: cx + 11, y: cy + 4}, 'chosen'));
  }
  const rows = [...doc.front.map(point => ['front', point.cost, point.predicted, null]), ...doc.tried.map(point => ['tried', point.cost, point.predicted, point.measured]),
    ...(doc.float32 ? [['float32', doc.float32.cost, doc.float32.predicted, doc.float32.measured]] : []),
    ...(doc.chosen ? [['chosen', doc.chosen.cost, doc.chosen.predicted, doc.chosen.measured]] : [])];
  const verdict = doc.ok ? html('p', {}, html('b', {class: 'good'}, 'The budget is kept. '), `${cost(doc.chosen.cost)}, float32 ${cost(doc.float32.cost)} (${short(doc.chosen.cost / doc.float32.cost)} of it). `,
    `Measured ${short(doc.chosen.measured)} on ${doc.samples} samples` + (doc.chosen.held_back !== undefined ? `, ${short(doc.chosen.held_back)} on ${doc.held_back} validation samples.` : '.'))
    : html('p', {}, html('b', {class: 'bad'}, 'The budget cannot be met.'));
  const shares = doc.ops || [];
  const numbers = new Map();
  ops.forEach((op, i) => { if (!numbers.has(op.name)) numbers.set(op.name, i); });
  const name = row => numbers.has(row.name) ? opLink(numbers.get(row.name), row.name) : row.name;
  return html('div', {}, verdict, html('div', {class: 'charts'},
    figure('Cost against error', picture, html('p', {class: 'soft'}, 'line: the front as predicted; \u00d7 measured; filled circle: chosen; ring: chosen, on validation samples'),
      asTable(['point', 'cost', 'predicted', 'measured'], rows)),
    figure('What was chosen', doc.culprits && doc.culprits.length ? html('p', {class: 'bad'}, `break the budget alone and stay in f32: ${doc.culprits.join(', ')}`) : null, table('Values and products', [
      {name: 'name', of: row => row.name, cell: name, wrap: true}, {name: 'what', of: row => row.what},
      {name: 'type', of: row => row.type, cell: row => chip(typeWord(row.type))},
      {name: 'error share', of: row => row.error_share, number: true, cell: row => row.error_share === undefined ? '' : withBar(row.error_share, percent(row.error_share), 'var(--error4)')},
      {name: 'error if narrow', of: row => row.error_if_narrow, number: true, cell: row => short(row.error_if_narrow)}],
    [...shares].sort((a, b) => (b.error_share ?? -1) - (a.error_share ?? -1))))));
}
const typeWord = type => ({float32: 'f32', float16: 'f16', bfloat16: 'bf16', float64: 'f64'}[type] || type);

//===----------------------------------------------------------------------===//
// The curves of a training
//===----------------------------------------------------------------------===//

function curvesPage() {
  const of = field => doc.progress.filter(entry => entry[field] !== null && entry[field] !== undefined).map(entry => [entry.step, entry[field]]);
  const charts = [curves('Training loss', [{name: 'loss', points: of('loss'), dots: doc.progress.length < 40}], {xTitle: 'step'})];
  if (of('accuracy').length) charts.push(curves('Training accuracy', [{name: 'accuracy', points: of('accuracy')}], {xTitle: 'step', words: percent}));
  charts.push(curves('Loss scale', [{name: 'scale', points: of('loss_scale')}], {xTitle: 'step', log: true, steps: true}),
    curves('Skipped steps', [{name: 'skipped', points: of('skipped_steps')}], {xTitle: 'step', steps: true, counts: true}));
  const epochs = doc.epochs || [];
  const byEpoch = (field, title, words) => {
    const series = [['train_' + field, 'training', false], ['test_' + field, 'test', true]].map(([key, name, second]) =>
      ({name, second, dots: true, points: epochs.filter(epoch => epoch[key] !== null && epoch[key] !== undefined).map(epoch => [epoch.epoch, epoch[key]])})).filter(one => one.points.length);
    if (series.length) charts.push(curves(title, series, {xTitle: 'epoch', words}));
  };
  byEpoch('loss', 'Loss by epoch', short);
  byEpoch('accuracy', 'Accuracy by epoch', percent);
  charts.push(curves('Samples per second', [{name: 'samples/s', points: of('samples_per_second')}], {xTitle: 'step'}));
  return html('div', {}, doc.diverged ? html('p', {class: 'bad'}, 'The training diverged: losses or parameters are no longer finite.') : null,
    doc.overflowed ? html('p', {class: 'soft'}, `The last skipped step overflowed in ${doc.overflowed}.`) : null, html('div', {class: 'charts'}, charts));
}

//===----------------------------------------------------------------------===//
// All pages
//===----------------------------------------------------------------------===//

// Key figures of the command.
function figures() {
  const shown = [];
  const add = (text, name) => { if (text !== null && text !== undefined && text !== '') shown.push([text, name]); };
  if (data.command === 'bench') add(time(doc.median_ms), `median of ${doc.runs} runs`);
  if (data.command === 'bench') add(short(doc.gflops), 'GFLOP/s');
  if (data.command === 'tune' && doc.chosen) {
    add(doc.objective === 'time' ? time(doc.chosen.cost * 1000) : bytes(doc.chosen.cost), `${doc.objective}, chosen`);
    add(short(doc.chosen.held_back ?? doc.chosen.measured), `error, budget ${doc.budget}`);
  }
  if (data.command === 'train') {
    add(short(doc.steps), 'steps');
    add(short(doc.train_loss), 'training loss');
    add(doc.test_accuracy !== null && doc.test_accuracy !== undefined ? percent(doc.test_accuracy) : '', 'test accuracy');
    add(String(doc.skipped_steps), 'skipped');
  }
  if (explained) {
    const narrow = ops.filter(op => ['f16', 'bf16', 'f8'].includes(tint(op.compute))).length;
    add(`${narrow} of ${ops.length}`, 'ops in 16 bits or less');
    add(String(kernels.length), 'kernel launches');
    if (data.command !== 'bench' && hasTimes) add(time(wholeTime), measured ? 'measured' : 'roofline estimate');
    if (data.command !== 'tune' && data.command !== 'train') add(bytes(kernels.reduce((sum, kernel) => sum + kernel.bytes, 0)), 'moved');
    if (explained.error && data.command !== 'tune') add(short(explained.error.predicted), `predicted ${explained.error.measure} error`);
    if (explained.warnings.length) add(String(explained.warnings.length), 'findings');
  }
  byId('figures').append(...shown.map(([text, name]) => html('li', {}, html('b', {}, text), html('span', {}, name))));
}

const pages = [];

function openPage(name) {
  for (const page of pages) {
    const isOpen = page.name === name;
    page.tab.setAttribute('aria-selected', String(isOpen));
    page.tab.tabIndex = isOpen ? 0 : -1;
    page.panel.hidden = !isOpen;
    if (isOpen && !page.made) {
      page.made = true;
      page.panel.append(page.make());
      if (page.name === 'Graph') {
        graph.arrangeWell();
        byId('columns').checked = graph.isWrapped;
      }
    }
  }
}

function addPage(name, make) {
  const id = name.toLowerCase().replace(/\W/g, '');
  const tab = html('button', {type: 'button', role: 'tab', id: 'tab-' + id, 'aria-controls': 'page-' + id}, name);
  const panel = html('div', {class: 'page' + (name === 'Graph' ? ' graph-page' : ''), role: 'tabpanel', id: 'page-' + id, 'aria-labelledby': 'tab-' + id, hidden: true});
  byId('tabs').append(tab);
  byId('pages').append(panel);
  pages.push({name, tab, panel, make, made: false});
}

byId('tabs').addEventListener('click', event => {
  const page = pages.find(each => each.tab === target(event, '[role="tab"]'));
  if (page) openPage(page.name);
});
byId('tabs').addEventListener('keydown', event => {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  const at = pages.findIndex(page => page.tab === document.activeElement);
  if (!step || at < 0) return;
  event.preventDefault();
  const next = pages[(at + step + pages.length) % pages.length];
  openPage(next.name);
  next.tab.focus();
});
document.addEventListener('keydown', event => {
  const isTyping = event.target instanceof Element && event.target.matches('input[type="text"], textarea');
  if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey || !drawing) return;
  event.preventDefault();
  openPage('Graph');
  search.input.focus();
  search.input.select();
});

function begin() {
  const model = doc.model || explained?.model || '';
  document.title = `${model} \u2013 mpc ${data.command}`;
  byId('subject').textContent = model;
  const policy = data.command === 'tune' ? doc.ok ? 'tuned policy' : 'no policy' : `policy ${doc.policy || explained?.policy || ''}`;
  byId('how').textContent = [`mpc ${data.command}`, policy, doc.target || explained?.target || doc.isa, doc.device, doc.threads ? `${doc.threads} ${doc.threads === 1 ? 'thread' : 'threads'}` : ''].filter(Boolean).join(' \u00b7 ');
  if (data.command === 'tune') addPage('Front', frontPage);
  if (data.command === 'train') addPage('Curves', curvesPage);
  if (drawing) addPage('Graph', graphPage);
  if (kernels.length) addPage('Kernels', kernelTable);
  if (!explained && doc.kernels) addPage('Kernels', benchTable);
  if (ops.length) addPage('Ops', opTable);
  if (explained && explained.quantized_operands) addPage('Operands', operandTable);
  if (explained && explained.warnings.length)
    addPage('Findings', () => html('div', {}, explained.warnings.map(finding)));
  figures();
  openPage(pages[0].name);
  showTheme();
}

// For a model without a graph: the timed kernels.
function benchTable() {
  const whole = doc.kernels.reduce((sum, kernel) => sum + kernel.median_ms, 0) || 1;
  return table('Kernels', [
    {name: 'kernel', of: row => row.name}, {name: 'kind', of: row => row.kind}, {name: 'launches', of: row => row.count, number: true},
    {name: 'time', of: row => row.median_ms, number: true, cell: row => withBar(row.median_ms / whole, `${time(row.median_ms)}, ${percent(row.median_ms / whole)}`, 'var(--time4)')},
    {name: 'flops', of: row => row.flops, number: true, cell: row => flops(row.flops)}, {name: 'moves', of: row => row.bytes, number: true, cell: row => bytes(row.bytes)},
    {name: 'of ceiling', of: row => row.fraction_of_ceiling, number: true, cell: row => row.fraction_of_ceiling === null ? '' : percent(row.fraction_of_ceiling)}], doc.kernels);
}

begin();
