// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sortable tables.
'use strict';

// `columns`: {name, of(row): number or text, cell(row): content, number, wrap}.
function table(caption, columns, rows) {
  const body = html('tbody');
  const heads = columns.map((column, i) => html('th', {scope: 'col', class: column.number ? 'number' : ''},
    html('button', {type: 'button', 'data-column': i}, column.name)));
  const lines = rows.map(row => ({row, line: html('tr', {}, columns.map(column =>
    html('td', {class: column.number ? 'number' : column.wrap ? 'wrap' : ''}, column.cell ? column.cell(row) : column.of(row))))}));
  body.append(...lines.map(each => each.line));
  const head = html('thead', {}, html('tr', {}, heads));
  head.addEventListener('click', event => {
    const button = target(event, 'button');
    if (!button) return;
    const i = Number(button.dataset.column), column = columns[i];
    const up = heads[i].getAttribute('aria-sort') === (column.number ? 'descending' : 'ascending') ? !column.number : !!column.number;
    heads.forEach(each => each.removeAttribute('aria-sort'));
    // Numbers sort in descending order first.
    heads[i].setAttribute('aria-sort', up ? 'descending' : 'ascending');
    const sign = up ? -1 : 1;
    lines.sort((a, b) => {
      const x = column.of(a.row), y = column.of(b.row);
      return sign * (column.number ? (x ?? -1) - (y ?? -1) : String(x ?? '').localeCompare(String(y ?? '')));
    });
    body.append(...lines.map(each => each.line));
  });
  return html('table', {}, html('caption', {class: 'unseen'}, caption), head, body);
}

const withBar = (share, text, colour) => {
  const cell = html('div', {}, text);
  const strip = bar(share, colour);
  strip.style.width = '110px';
  cell.append(strip);
  return cell;
};

function kernelTable() {
  return table('Kernels', [
    {name: '#', of: i => i + 1, number: true},
    {name: 'kernel', of: i => kernels[i].name, cell: i => drawing ? kernelLink(i) : kernels[i].name},
    {name: 'kind', of: i => kernels[i].kind},
    {name: 'type', of: typeOfLaunch, cell: i => typeOfLaunch(i) ? chip(typeOfLaunch(i)) : ''},
    ...(hasTimes ? [{name: `time (${timeWord})`, of: i => timeOf[i], number: true, cell: i => withBar(timeShare(i), `${time(timeOf[i] || 0)}, ${percent(timeShare(i))}`, 'var(--time4)')}] : []),
    ...(hasErrors ? [{name: 'error share', of: errorOfLaunch, number: true, cell: i => withBar(errorOfLaunch(i), percent(errorOfLaunch(i)), 'var(--error4)')}] : []),
    {name: 'flops', of: i => kernels[i].flops, number: true, cell: i => flops(kernels[i].flops)},
    {name: 'moves', of: i => kernels[i].bytes, number: true, cell: i => bytes(kernels[i].bytes)},
    {name: 'conversions', of: i => kernels[i].casts, number: true},
    {name: 'ops', of: i => kernels[i].ops.join(' '), wrap: true, cell: i => shortList(kernels[i].ops)},
  ], kernels.map((_, i) => i));
}
const shortList = names => names.length <= 6 ? names.join(', ') : names.slice(0, 6).join(', ') + ` and ${names.length - 6} more`;

// Scales of quantized operands, and the shares of their elements that are lost.
function operandTable() {
  return table('Operands', [
    {name: 'op', of: row => row.op, wrap: true},
    {name: 'operand', of: row => ['left', 'right'][row.operand]},
    {name: 'format', of: row => row.format},
    {name: 'least scale', of: row => row.least_scale, number: true, cell: row => short(row.least_scale)},
    {name: 'largest scale', of: row => row.largest_scale, number: true, cell: row => short(row.largest_scale)},
    {name: 'saturated', of: row => row.saturated, number: true, cell: row => percent(row.saturated)},
    {name: 'to zero', of: row => row.flushed, number: true, cell: row => percent(row.flushed)},
  ], explained.quantized_operands);
}

function opTable() {
  const rangeOf = i => own(ranges, ops[i].name);
  return table('Ops', [
    {name: '#', of: i => i + 1, number: true},
    {name: 'op', of: i => ops[i].name, wrap: true, cell: i => drawing ? opLink(i) : ops[i].name},
    {name: 'kind', of: i => ops[i].kind},
    {name: 'layer', of: i => ops[i].layer, wrap: true},
    {name: 'computes in', of: i => typeOf(ops[i]), cell: i => chip(typeOf(ops[i]))},
    {name: 'stored as', of: i => ops[i].storage.join(' '), cell: i => ops[i].storage.map(chip)},
    {name: 'rule', of: i => ops[i].override || ops[i].rule},
    ...(hasErrors ? [{name: 'error share', of: i => errorShare(ops[i]), number: true, cell: i => withBar(errorShare(ops[i]), percent(errorShare(ops[i])), 'var(--error4)')}] : []),
    ...(Object.keys(ranges).length ? [{name: 'largest', of: i => rangeOf(i)?.largest, number: true, cell: i => short(rangeOf(i)?.largest)}] : []),
    {name: 'decision', of: i => ops[i].reason, wrap: true, cell: i => ops[i].reason || ''},
  ], ops.map((_, i) => i));
}
