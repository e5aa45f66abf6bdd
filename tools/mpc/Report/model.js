// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The page's data and derived tables.
'use strict';

const data = JSON.parse(byId('data').textContent);
const doc = data.document, drawing = data.drawing;
const explained = doc.explanation || (doc.ops && doc.edges ? doc : null);
const ops = explained ? explained.ops : [];
const kernels = explained ? explained.kernels : [];
const ranges = explained && explained.ranges || {};

// Own property of an object keyed by model names; "__proto__" is a valid name.
const own = (object, name) => object && Object.prototype.hasOwnProperty.call(object, name) ? object[name] : undefined;

// The colour class of a type.
function tint(type) {
  for (const known of ['bf16', 'f16', 'tf32', 'f32', 'f64', 'f8'])
    if ((type || '').startsWith(known)) return known;
  return 'int';
}
const typeOf = op => op.accumulate && op.accumulate !== op.compute ? op.compute + '+' + op.accumulate : op.compute || '';
const chip = type => {
  const element = html('span', {class: 'chip'}, type);
  element.style.background = `var(--${tint(type)})`;
  element.style.borderColor = `var(--${tint(type)}-line)`;
  return element;
};

// Milliseconds of launches: measured if available, otherwise modelled.
const measured = doc.launches && doc.launches.length === kernels.length
  && doc.launches.every((launch, i) => launch.kernel === kernels[i].name);
const timeOf = kernels.map((kernel, i) => measured ? doc.launches[i].median_ms : kernel.model_ms ?? null);
const wholeTime = timeOf.reduce((sum, ms) => sum + (ms || 0), 0);
const hasTimes = wholeTime > 0;
const timeShare = launch => hasTimes && timeOf[launch] ? timeOf[launch] / wholeTime : 0;
const timeWord = measured ? 'measured' : 'roofline estimate';

const hasErrors = ops.some(op => op.error_share !== undefined);
const errorShare = op => op.error_share || 0;

// Level thresholds, the same for errors and times.
const LEVELS = [0.001, 0.01, 0.03, 0.1, 0.3];
const level = share => LEVELS.filter(least => share >= least).length;
const LEVEL_WORDS = ['below 0.1 %', '0.1 \u2013 1 %', '1 \u2013 3 %', '3 \u2013 10 %', '10 \u2013 30 %', '30 % and more'];

const opsOfLaunch = kernels.map(() => []);
ops.forEach((op, i) => { if (op.launch !== null && op.launch !== undefined) opsOfLaunch[op.launch].push(i); });

const errorOfLaunch = launch => opsOfLaunch[launch].reduce((sum, i) => sum + errorShare(ops[i]), 0);

// The type in which most products of a launch, or else most ops, compute.
function typeOfLaunch(launch) {
  const members = opsOfLaunch[launch].map(i => ops[i]);
  const products = members.filter(op => op.accumulate);
  const counts = new Map();
  for (const op of products.length ? products : members) counts.set(op.compute, (counts.get(op.compute) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([type]) => type)[0] || '';
}

// Incoming and outgoing edges by op number.
const reads = ops.map(() => []), feeds = ops.map(() => []);
for (const edge of explained ? explained.edges : []) {
  if (typeof edge.to === 'number') reads[edge.to].push(edge);
  if (typeof edge.from === 'number') feeds[edge.from].push(edge);
}

const warningsOf = name => (explained ? explained.warnings : []).filter(warning => warning.op === name || warning.value === name);

// The alternative compute type for a flag.
function otherType(op) {
  const narrow = (explained.policy || '').includes('float16') && !(explained.policy || '').includes('bfloat16') ? 'float16' : 'bfloat16';
  return tint(op.compute) === 'f32' || tint(op.compute) === 'f64' ? narrow : 'float32';
}
