// The rules of scaling, as a part of a view: a table, and an editor that checks
// them before they are stored.

import { api, change } from '../api.js';
import { act } from '../dialog.js';
import { h } from '../dom.js';
import { none, number, percent } from '../format.js';
import { button, code, facts, failure, note, section } from '../parts.js';
import { table } from '../table.js';

// draft is the open editor, or undefined. It outlives the view, so that rules
// that are not saved are still there after a look at another one.
let draft;

// rules shows rules, or their editor.
export function rules(value, ctx) {
  const editor = draft;
  if (editor && editor.view !== ctx.state) Object.assign(editor, { view: ctx.state, begunText: editor.text }); // the view was left
  return section('Rules',
    editor ? null : button('Edit…', () => edit(value, ctx), { may: ctx.may, describe: 'Edit the rules' }),
    editor ? form(editor, value, ctx) : shown(value));
}

function shown(value) {
  return [
    facts([
      ['Instances', `${number(value.instances.min)} to ${number(value.instances.max)}`],
      ['Added at once', `at most ${number(value.instances.step)}`],
      ['Removed after', spaced(value.coolDown)],
      ['Start of an instance', spaced(value.startUp)],
      ['Done within', `${percent(value.finish)} of the latency target`],
      ['An instance is full', `above ${percent(value.cpu)} of its processors`],
    ]),
    rows('Messages of a queue', value.depth, number),
    rows('Age of the oldest message', value.ageSeconds, (s) => `${number(s)} s`),
    value.windows.length ? table({
      label: 'Times', rows: value.windows, key: (w) => JSON.stringify(w), columns: [
        { label: 'Times', cell: (w) => `${w.from} to ${w.to}` },
        { label: 'Days', cell: (w) => (w.days ? w.days.join(', ') : 'each day') },
        { label: 'Zone', cell: (w) => w.zone },
        { label: 'Instances at least', num: true, cell: (w) => number(w.instances) },
        { label: 'Ready before', num: true, cell: (w) => (w.lead ? spaced(w.lead) : none) },
      ],
    }) : null,
  ];
}

// spaced shows a duration as the rules have it, such as 1m30s, as 1 min 30 s.
function spaced(text) {
  return text.replace(/([a-z]+)/g, (unit) => ` ${unit === 'm' ? 'min' : unit} `).trim();
}

function rows(label, list, format) {
  if (!list.length) return null;
  return table({
    label, rows: list, key: (r) => r.from, columns: [
      { label, cell: (r) => (r.below === undefined ? `${format(r.from)} and more` : `${format(r.from)} to below ${format(r.below)}`) },
      { label: 'Hands at least', num: true, cell: (r) => (r.hands ? number(r.hands) : none) },
      { label: 'Instances at least', num: true, cell: (r) => (r.instances ? number(r.instances) : none) },
    ],
  });
}

function edit(value, ctx) {
  const text = textOf(value);
  draft = { view: ctx.state, text, begunText: text, rows: Math.min(text.split('\n').length + 2, 30), begun: JSON.stringify(value), checked: undefined, error: undefined, busy: false };
  ctx.refresh();
  document.getElementById('rules').focus();
}

// textOf returns rules as JSON with a line for each row.
function textOf(value) {
  const members = Object.entries(value).map(([name, v]) => {
    const text = Array.isArray(v) && v.length ? `[\n${v.map((row) => '    ' + oneLine(row)).join(',\n')}\n  ]` : oneLine(v);
    return `  "${name}": ${text}`;
  });
  return `{\n${members.join(',\n')}\n}\n`;
}

function oneLine(v) {
  return JSON.stringify(v, null, 1).replace(/\n\s*/g, ' ').replace(/([{[]) /g, '$1').replace(/ ([}\]])/g, '$1');
}

// form is the editor. Rules can be stored when the app has accepted just this
// text.
function form(editor, value, ctx) {
  const valid = editor.checked?.text === editor.text ? editor.checked : undefined;
  const leave = () => {
    draft = undefined;
    ctx.refresh();
  };
  const typed = (event) => {
    editor.text = event.target.value;
    editor.error = undefined;
    ctx.refresh();
  };
  return h('div', { class: 'editor' },
    JSON.stringify(value) === editor.begun ? null : note('warn', h('p', null, 'The stored rules were changed since you began. If you save yours, they replace them.')),
    h('label', { class: 'field' }, h('span', null, 'Rules in JSON'),
      h('textarea', { id: 'rules', class: 'code', rows: editor.rows, spellcheck: 'false', autocomplete: 'off', value: editor.begunText, oninput: typed }),
      h('small', null, 'A member that is left out has its default.')),
    editor.error ? faults(editor.error) : null,
    valid ? differences(valid.changes) : null,
    h('div', { class: 'tools' },
      button('Check', () => check(editor, value, ctx), { kind: valid ? '' : 'primary', busy: editor.busy, may: ctx.may }),
      button('Save…', () => save(editor, valid, ctx), { kind: valid?.changes.length ? 'primary' : '', may: ctx.may || (valid ? (valid.changes.length ? '' : 'Nothing is changed') : 'Check the rules first') }),
      button('Cancel', leave)));
}

async function check(editor, value, ctx) {
  const { text } = editor;
  Object.assign(editor, { busy: true, error: undefined });
  ctx.refresh();
  try {
    const accepted = await change('PUT', api`scale/rules?dryRun=true`, { body: text, type: 'application/json' });
    editor.checked = { text, changes: compare(value, accepted) };
  } catch (error) {
    editor.error = error;
  }
  editor.busy = false;
  ctx.refresh();
}

// faults shows each fault of invalid rules in a line of its own.
function faults(error) {
  if (error.code !== 'bad_rules') return failure(error);
  const lines = error.items.map((fault) => (fault.row ? `row ${fault.row} of ${fault.member}: ${fault.message}` : fault.message));
  return note('bad', h('p', null, 'These rules are invalid:'), h('ul', { class: 'lines' }, lines.map((line, i) => h('li', { key: i }, line))),
    h('p', { class: 'small' }, 'Code ', code(error.code), ' · request ', code(error.requestId)));
}

// compare returns the members that differ: [name, before, after].
function compare(before, after) {
  const [a, b] = [flat(before), flat(after)];
  return [...new Set([...a.keys(), ...b.keys()])].filter((name) => a.get(name) !== b.get(name)).map((name) => [name, a.get(name) ?? none, b.get(name) ?? none]);
}

function flat(value) {
  const members = new Map();
  for (const [name, v] of Object.entries(value)) {
    if (Array.isArray(v)) v.forEach((row, i) => members.set(`${name}, row ${i + 1}`, oneLine(row)));
    else if (typeof v === 'object') Object.entries(v).forEach(([inner, x]) => members.set(`${name}.${inner}`, oneLine(x)));
    else members.set(name, oneLine(v));
  }
  return members;
}

function differences(changes) {
  if (!changes.length) return note('info', h('p', { role: 'status' }, 'These rules are valid, and the same as those in use.'));
  return [
    note('good', h('p', { role: 'status' }, 'These rules are valid. They change:')),
    table({
      label: 'Changes', rows: changes, key: ([name]) => name, columns: [
        { label: 'Member', kind: 'name', cell: ([name]) => code(name) },
        { label: 'In use', kind: 'wide', cell: ([, before]) => code(before) },
        { label: 'New', kind: 'wide', cell: ([, , after]) => code(after) },
      ],
    }),
  ];
}

function save(editor, { text, changes }, ctx) {
  act({
    title: 'Save the rules',
    text: [h('p', null, 'The next check uses them, within a minute.'),
      h('ul', { class: 'lines' }, changes.map(([name, before, after]) => h('li', { key: name }, `${name}: ${before} → ${after}`)))],
    reason: true,
    confirm: 'Save',
    async run({ reason }) {
      await change('PUT', api`scale/rules`, { body: text, type: 'application/json', reason });
      draft = undefined;
      await ctx.reload('rules');
      ctx.refresh();
      return 'The rules are saved.';
    },
  });
}
