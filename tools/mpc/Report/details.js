// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The side panel: a summary at first, then the selection.
'use strict';

const facts = rows => html('dl', {class: 'facts'}, rows.filter(row => row && row[1] !== null && row[1] !== undefined && row[1] !== '')
  .map(([name, ...content]) => [html('dt', {}, name), html('dd', {}, content)]));
const heading = text => html('h3', {}, text);
const opLink = (number, text) => html('button', {type: 'button', class: 'link', 'data-op': number}, text ?? ops[number].name);
const kernelLink = number => html('button', {type: 'button', class: 'link', 'data-kernel': number}, kernels[number].name);

function largest(values, most) {
  return values.map((share, i) => [share, i]).filter(([share]) => share > 0).sort((a, b) => b[0] - a[0]).slice(0, most);
}

function overview() {
  const byType = new Map();
  for (const op of ops) byType.set(op.compute, (byType.get(op.compute) || 0) + 1);
  const parts = [html('h2', {id: 'details', tabindex: -1}, 'Overview'),
    heading('Ops by the type they compute in'),
    bars([...byType].sort((a, b) => b[1] - a[1]).map(([type, count]) => ({name: type, share: count / ops.length, text: String(count), fill: `var(--${tint(type)}-line)`})))];
  if (hasErrors) {
    const rows = largest(ops.map(errorShare), 8).map(([share, i]) =>
      ({name: ops[i].name, share, text: percent(share), fill: 'var(--error4)', attributes: {'data-op': i}}));
    for (const [name, share] of Object.entries(explained.error.inputs)) rows.push({name: `input ${name}`, share, text: percent(share), fill: 'var(--error4)'});
    rows.sort((a, b) => b.share - a.share);
    parts.push(heading('Where the error comes from'), rows.length ? bars(rows.slice(0, 8)) : html('p', {class: 'soft'}, 'Nothing is rounded.'),
      html('p', {class: 'soft'}, `shares of the square of the predicted ${explained.error.measure} error, over ${explained.error.samples} sample${explained.error.samples === 1 ? '' : 's'}`));
  }
  if (hasTimes)
    parts.push(heading(`Where the time goes, ${timeWord}`), bars(largest(kernels.map((_, i) => timeShare(i)), 8).map(([share, i]) =>
      ({name: kernels[i].name, share, text: time(timeOf[i]), fill: 'var(--time4)', attributes: {'data-kernel': i}}))));
  const warnings = explained.warnings;
  if (warnings.length) parts.push(heading('Findings'), warnings.slice(0, 3).map(finding), warnings.length > 3 ? html('p', {class: 'soft'}, `and ${warnings.length - 3} more`) : null);
  parts.push(heading('Keys'), html('p', {class: 'soft'}, '/ searches; arrows or Enter walk through matches, Esc clears. In the graph arrows follow values, + and \u2212 zoom, 0 shows all. Drag or scroll moves, Ctrl and the wheel zooms.'));
  return parts;
}

function finding(warning) {
  const number = ops.findIndex(op => op.name === warning.op);
  return html('div', {class: 'finding'}, html('b', {}, warning.code), ' ', number >= 0 ? opLink(number) : warning.op || '',
    html('div', {}, warning.text), warning.fix ? html('div', {}, html('span', {class: 'soft'}, 'fix: '), warning.fix) : null,
    warning.location ? html('div', {class: 'soft mono'}, warning.location) : null);
}

function rangeParts(name) {
  const range = own(ranges, name);
  if (!range) return [];
  const lost = losses => {
    if (!losses) return null;
    const counted = Math.max(1, range.elements - range.zeros);
    const found = [['overflow', losses.overflowed], ['lose bits', losses.subnormal], ['become 0', losses.flushed]].filter(([, count]) => count);
    return found.length ? html('span', {class: losses.overflowed ? 'bad' : ''}, found.map(([what, count]) => `${percent(count / counted)} ${what}`).join(', ')) : html('span', {class: 'good'}, 'holds all');
  };
  return [heading('Range over samples'), facts([
    ['magnitudes', range.least !== undefined ? `${short(range.least)} \u2026 ${short(range.largest)}` : `up to ${short(range.largest)}`],
    ['largest in', range.largest_sample],
    ['not finite', range.not_finite ? html('span', {class: 'bad'}, `${range.not_finite} elements, ${range.not_finite_sample || ''}`) : null],
    ['zeros', range.zeros ? percent(range.zeros / range.elements) : null],
    ['f16', lost(range.f16)], ['bf16', lost(range.bf16)]]), range.exponents ? histogram(range.exponents) : null];
}

function edgeList(edges, side) {
  const seen = new Set();
  return html('div', {}, edges.filter(edge => {
    const key = `${edge[side]}|${edge.type}`;
    return !seen.has(key) && seen.add(key);
  }).slice(0, 30).map(edge => html('div', {}, typeof edge[side] === 'number' ? opLink(edge[side]) : edge[side], ' ',
    chip(edge.type), html('span', {class: 'soft'}, ' ' + (edge.shape.join('\u00d7') || 'scalar')))));
}

// The command that explains a value, if the page has all of its flags: not those of a training, nor
// a tuned policy that was not saved.
function why(name) {
  if (data.command === 'train' || (data.command === 'tune' && explained.policy === 'tuned')) return [];
  const step = doc.training ? ` --training ${quoted(doc.training)}` : '';
  return [heading('What would change how it is stored'),
    command(`mpc explain ${quoted(explained.model)}${step} --policy ${quoted(explained.policy)} --target ${explained.target} --why ${quoted(name)}`)];
}

function opParts(number) {
  const op = ops[number], launch = op.launch ?? null;
  const parts = [html('h2', {id: 'details', tabindex: -1}, op.name), facts([
    ['kind', op.kind], ['layer', op.layer ? html('span', {class: 'mono'}, op.layer) : null],
    ['computes in', chip(op.compute)], ['sums in', op.accumulate ? chip(op.accumulate) : null],
    ['results', ...op.results.map(chip)], ['stored as', ...op.storage.map(chip)],
    ['kernel', launch !== null ? kernelLink(launch) : null],
    ['time of the kernel', launch !== null && timeOf[launch] !== null ? `${time(timeOf[launch])}, ${percent(timeShare(launch))}` : null],
    ['location', op.location ? html('span', {class: 'mono soft'}, op.location) : null]])];
  if (op.reason)
    parts.push(heading('Decision'), html('p', {class: 'reason'}, op.reason), facts([
      ['rule', op.rule], ['override', op.override ? html('code', {}, op.override) : null],
      ['saves', op.cost ? `${bytes(op.cost)} each time the result passes memory` : null]]));
  // An unnamed op is identified by its kind.
  const key = op.name === op.kind ? `op:${op.kind}` : `name:${op.name}`;
  parts.push(heading(op.override ? 'Its flag' : 'A flag that sets what it computes in'), command('--set ' + quoted(op.override || `${key}=${otherType(op)}`)),
    why(op.name));
  if (op.error_share !== undefined)
    parts.push(heading('Share of the error'), bars([
      {name: 'all', share: op.error_share, text: percent(op.error_share), fill: 'var(--error5)'},
      {name: 'results as stored', share: op.error_share - op.error_share_operands, text: percent(op.error_share - op.error_share_operands), fill: 'var(--error4)'},
      {name: 'operands as read', share: op.error_share_operands, text: percent(op.error_share_operands), fill: 'var(--error4)'}]));
  parts.push(...rangeParts(op.name));
  const casts = explained.cast_list.filter(cast => cast.of === op.name);
  if (casts.length)
    parts.push(heading('Conversions'), casts.map(cast => html('div', {}, chip(cast.from), ' \u2192 ', chip(cast.to), ' in ', kernelLink(cast.launch),
      cast.stands_alone ? html('span', {class: 'bad'}, ' a pass through memory of its own') : null)));
  if (reads[number].length) parts.push(heading('Reads'), edgeList(reads[number], 'from'));
  if (feeds[number].length) parts.push(heading('Is read by'), edgeList(feeds[number], 'to'));
  const found = warningsOf(op.name);
  if (found.length) parts.push(heading('Findings'), found.map(finding));
  return parts;
}

function kernelParts(number) {
  const kernel = kernels[number], measuredHere = measured ? doc.launches[number] : null;
  const parts = [html('h2', {id: 'details', tabindex: -1}, kernel.name), facts([
    ['launch', `${number + 1} of ${kernels.length}`], ['kind', kernel.kind],
    ['time', timeOf[number] !== null ? `${time(timeOf[number])}, ${percent(timeShare(number))} (${timeWord})` : null],
    ['roofline estimate', measuredHere && kernel.model_ms !== undefined ? time(kernel.model_ms) : null],
    ['moves', bytes(kernel.bytes)], ['computes', flops(kernel.flops) + ' flops'],
    ['conversions', kernel.casts || null],
    ['error share', hasErrors ? percent(errorOfLaunch(number)) : null]])];
  if (kernel.sass)
    parts.push(heading('Machine code'), facts([['bound by', kernel.sass.bound_by], ['predicted', time(kernel.sass.microseconds / 1000)],
      ['of the floor', percent(kernel.sass.share_of_floor)], ['blocks', `${kernel.sass.blocks} of ${kernel.sass.threads} threads`],
      ['registers', kernel.sass.registers], ['spills', kernel.sass.spill_bytes ? bytes(kernel.sass.spill_bytes) : null]]));
  parts.push(heading('Ops'), html('div', {}, opsOfLaunch[number].map(i => html('div', {}, opLink(i), ' ', chip(typeOf(ops[i])), html('span', {class: 'soft'}, ' ' + ops[i].kind)))));
  return parts;
}

function valueParts(name, isInput) {
  const edges = explained.edges.filter(edge => (isInput ? edge.from : edge.to) === name);
  const share = isInput ? own(explained.error?.inputs, name) : undefined;
  return [html('h2', {id: 'details', tabindex: -1}, name), facts([['what', isInput ? 'an input of the model' : 'a result of the model'],
    ['error share', share === undefined ? null : percent(share)]]), ...(isInput ? rangeParts(name) : []),
  heading(isInput ? 'Is read by' : 'Comes from'), edgeList(edges, isInput ? 'to' : 'from')];
}

function detailsOf(what) {
  if (!what) return overview();
  if (what.op !== undefined) return opParts(what.op);
  if (what.kernel !== undefined) return kernelParts(what.kernel);
  return what.input !== undefined ? valueParts(what.input, true) : valueParts(what.result, false);
}
