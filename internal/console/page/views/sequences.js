// Order numbers: the sequences, and the share of each instance in one of them.

import { api, change } from '../api.js';
import { act } from '../dialog.js';
import { h } from '../dom.js';
import { decimal, duration, none, number, since } from '../format.js';
import { button, code, command, empty, facts, named, opener, partial, section, to, toolbar } from '../parts.js';
import { pageQuery, pager, slice, table } from '../table.js';

const view = 'sequences';

export default {
  sources(ctx) {
    // Instances report every half minute, and an answer may take the reports of
    // hundreds of them.
    const [name] = ctx.args;
    if (name) return { sequence: { path: api`sequences/${name}`, every: 5 } };
    return { list: { path: api`sequences` + pageQuery(ctx), every: 10 } };
  },

  render(data, ctx) {
    return ctx.args.length ? one(data.sequence.value, ctx) : list(data.list.value, ctx);
  },
};

function list(value, ctx) {
  if (!value) return null;
  const columns = [
    { label: 'Sequence', cell: (s) => to(code(s.sequence), view, [s.sequence]) },
    { label: 'Next number', num: true, cell: (s) => (s.next === null ? 'unreadable' : number(s.next)) },
    { label: 'Numbers per second', num: true, cell: (s) => decimal(s.perSecond) },
    { label: 'Given up', num: true, cell: (s) => number(s.lost) },
    { label: 'Reserved', num: true, cell: (s) => since(s.updatedAt) },
    { label: '', kind: 'actions', cell: (s) => button('Raise…', () => raise(ctx, s.sequence, s.next), { may: ctx.may, describe: `Raise ${s.sequence}` }) },
  ];
  return h('div', { class: 'list' },
    toolbar('The next free number of each sequence, in the order of their names.',
      opener(view, 'Name of a sequence'), button('Begin a sequence…', () => raise(ctx), { may: ctx.may })),
    partial(value),
    value.items.length
      ? table({ label: 'Sequences', columns, rows: value.items, key: (s) => s.sequence, mark: (s) => (s.next === null ? 'wrong' : ''), more: pager(ctx, view, [], value) })
      : empty('No number was drawn yet.', 'A sequence begins with its first number: ', command('kennel next --sequence orders'), ', or begin one above a number that another system has issued.'));
}

function one(value, ctx) {
  const [name] = ctx.args;
  const tools = button('Raise…', () => raise(ctx, name, value?.next), { may: ctx.may });
  if (!value) {
    return section('State', tools, empty('There is no state to show.', 'Raise the sequence to begin it, or to repair its stored number, above every number that was issued. ', to('All sequences', view)));
  }
  const instances = value.instances;
  const sum = (member) => instances.reduce((total, i) => total + (i[member] ?? 0), 0);
  const columns = [
    { label: 'Instance', cell: (i) => code(i.instance) },
    { label: 'Available', num: true, cell: (i) => number(i.available) },
    { label: 'Lasts', num: true, cell: (i) => duration(i.secondsAvailable) },
    { label: 'Highest reserved', num: true, cell: (i) => number(i.highest) },
    { label: 'Per second', num: true, cell: (i) => decimal(i.perSecond) },
    { label: 'Given up', num: true, cell: (i) => number(i.lost) },
    { label: 'Last error', kind: 'wide', cell: (i) => (i.lastError ? [i.lastError, ' ', since(i.lastErrorAt)] : none) },
  ];
  const page = slice(ctx, 'instancesPage', instances);
  return [
    section('State', tools, partial(value), facts([
      ['Next number', number(value.next)],
      ['Numbers per second', decimal(sum('perSecond'))],
      ['Available in all instances', number(sum('available'))],
      ['Given up', number(sum('lost'))],
      ['Last reserved', since(value.updatedAt)],
    ])),
    section('Instances', [], instances.length
      ? table({ label: `Instances that use ${name}`, columns, rows: page.rows, key: (i) => i.instance, mark: (i) => (i.lastError ? 'wrong' : ''), more: page.more })
      : empty('No instance uses this sequence now.', 'Instances appear here when they reserve numbers.')),
  ];
}

// raise asks for the number; without a name also for that.
function raise(ctx, name, next) {
  const asked = name === undefined;
  act({
    title: asked ? 'Begin a sequence' : ['Raise ', named(name)],
    text: next === undefined || next === null
      ? 'The sequence begins at the number, or continues there if it exists. Choose one above every number that was issued.'
      : `The next free number is ${number(next)}. It becomes at least the number that you name, and is never lowered. The numbers in between are not issued.`,
    fields: [
      ...(asked ? [{ name: 'sequence', label: 'Sequence', required: true, hint: 'Lower-case letters, digits, and inner hyphens and dots.', maxlength: 63 }] : []),
      { name: 'atLeast', label: 'Next number, at least', required: true, inputmode: 'numeric' },
      { name: 'force', label: 'Even if instances have reserved higher numbers', type: 'checkbox', hint: 'Also replaces a stored text that is not a number. Numbers may then be issued twice.' },
    ],
    reason: 'required',
    danger: ({ force }) => force,
    typed: ({ force, sequence }) => (force ? name ?? (sequence.trim() || undefined) : undefined),
    confirm: asked ? 'Begin' : 'Raise',
    async run(values) {
      const text = values.atLeast.replace(/\s/g, '');
      const atLeast = /^(\d+|\d{1,3}(,\d{3})+)$/.test(text) ? Number(text.replaceAll(',', '')) : NaN; // 1.000 is 1 to Number
      if (!Number.isSafeInteger(atLeast)) throw new Error('The number must be a whole number from 0 to 9,007,199,254,740,991.');
      const sequence = name ?? values.sequence.trim();
      const state = await change('POST', api`sequences/${sequence}/raise`, { body: { atLeast, reason: values.reason, force: values.force }, reason: values.reason });
      ctx.reload();
      return state.changed ? [named(sequence), `: the next number is ${number(state.next)}.`] : ['Nothing was changed: the next number of ', named(sequence), ` is ${number(state.next)} already.`];
    },
  });
}
