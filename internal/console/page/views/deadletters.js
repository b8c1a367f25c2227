// Dead letters: messages that could not be processed, by queue and reason. They
// are put back or deleted. Any program may have written their content.

import { api, change } from '../api.js';
import { act } from '../dialog.js';
import { h } from '../dom.js';
import { bytes, count, number, since } from '../format.js';
import { button, code, empty, note, section, to, toolbar } from '../parts.js';
import { isRunning, progress, repeat } from '../repeat.js';
import { slice, table } from '../table.js';

const view = 'deadletters';
const noun = ['dead letter', 'dead letters'];
const maxMoved = 1000; // of one call
const turn = 2; // seconds of one call with a rate, so that the progress is live
const shownBytes = 2048; // of a body that is not text

export default {
  sources(ctx) {
    const [queue] = ctx.args;
    const list = { path: api`deadletters`, every: 5 };
    if (!queue) return { list };
    return { letters: { path: api`deadletters/${queue}`, every: () => (isRunning(queue) ? 2 : 5) }, list };
  },

  render(data, ctx) {
    return ctx.args.length ? one(data, ctx) : queues(data.list.value, ctx);
  },
};

function queues(value, ctx) {
  if (!value) return null;
  if (!value.items.length) return empty('There are no dead letters.', 'A message that cannot be processed appears here, with the reason.');
  const columns = [
    { label: 'Queue', cell: (q) => to(code(q.queue), view, [q.queue]) },
    { label: 'Came from', cell: (q) => code(q.source) },
    { label: 'Dead letters', num: true, cell: (q) => h('strong', null, number(q.messages)) },
  ];
  const page = slice(ctx, 'queuesPage', value.items);
  return h('div', { class: 'list' }, toolbar('All queues of the storage account that have dead letters, also those of other programs.'),
    table({ label: 'Queues with dead letters', columns, rows: page.rows, key: (q) => q.queue, more: page.more }));
}

function one({ letters, list }, ctx) {
  const [queue] = ctx.args;
  const all = list.value?.items.find((q) => q.queue === queue)?.messages ?? 0;
  if (!letters.value) return progress(queue);
  const groups = groupsOf(letters.value.items);
  const group = groups.find((g) => g.name === ctx.state.group);
  const rows = group?.letters ?? letters.value.items;
  const chosen = ctx.state.chosen ??= new Set();
  for (const id of chosen) {
    if (!letters.value.items.some((l) => l.id === id)) chosen.delete(id);
  }
  return [
    progress(queue),
    rows.length ? null : all
      ? empty(`No dead letter in ${queue} can be shown now.`, `Storage counts about ${number(all)}. An action may hold them, for two minutes at most. `, to('All queues', view))
      : empty(`There are no dead letters in ${queue}.`, to('All queues', view)),
    groups.length > 1 ? section('Reasons', h('span', { class: 'small quiet' }, 'of those shown; numbers in them are left out'), reasons(groups, group, ctx)) : null,
    rows.length ? section('Dead letters', actions(queue, chosen, all, ctx),
      letters.value.more ? note('info', h('p', null, `Below are the ${number(letters.value.items.length)} at the front of about ${number(all)}. Storage shows no more; others follow when these are gone. An action on all of them includes those that are not shown.`)) : null,
      shown(rows, chosen, ctx)) : null,
  ];
}

// firstLine returns a reason without the stack of a panic that follows it.
function firstLine(reason) {
  return reason.split('\n', 1)[0];
}

// groupsOf groups letters by the common part of their reasons: all but numbers
// and ids.
function groupsOf(letters) {
  const groups = new Map();
  for (const l of letters) {
    const name = firstLine(l.reason).replace(/[0-9a-f]{8}[0-9a-f-]*|\d+/gi, '…');
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(l);
  }
  return [...groups].map(([name, of]) => ({ name, letters: of })).sort((a, b) => b.letters.length - a.letters.length);
}

function reasons(groups, shownGroup, ctx) {
  const show = (g) => {
    ctx.state.group = g;
    ctx.state.chosen = new Set(); // an action includes no letter that is not shown
    ctx.refresh();
  };
  const choose = (g) => {
    ctx.state.chosen = new Set(g.letters.map((l) => l.id));
    if (shownGroup) ctx.state.group = g.name;
    ctx.refresh();
  };
  const columns = [
    { label: 'Reason', cell: (g) => g.name },
    { label: 'Dead letters', num: true, cell: (g) => number(g.letters.length) },
    {
      label: '', kind: 'actions', cell: (g) => [
        g === shownGroup ? button('Show all', () => show(), { kind: 'plain' }) : button('Show only these', () => show(g.name), { kind: 'plain', describe: `Show only these: ${g.name}` }),
        button('Select', () => choose(g), { describe: `Select ${count(g.letters.length, ...noun)}: ${g.name}` }),
      ],
    },
  ];
  return table({ label: 'Reasons', columns, rows: groups, key: (g) => g.name, mark: (g) => (g === shownGroup ? 'chosen' : '') });
}

function actions(queue, chosen, all, ctx) {
  const ids = [...chosen];
  const may = ctx.may || (isRunning(queue) ? 'Another action on this queue is under way' : '');
  const selected = ids.length ? `${number(ids.length)} selected` : 'selected';
  const some = may || (ids.length ? '' : 'Select dead letters first');
  return [
    button(`Redrive ${selected}…`, () => redrive(queue, ids, ids.length, ctx), { kind: ids.length ? 'primary' : '', may: some }),
    button(`Delete ${selected}…`, () => remove(queue, ids, ids.length, ctx), { may: some }),
    button('Redrive all…', () => redrive(queue, undefined, all, ctx), { may }),
    button('Delete all…', () => remove(queue, undefined, all, ctx), { may }),
  ];
}

function shown(rows, chosen, ctx) {
  const count = rows.filter((l) => chosen.has(l.id)).length;
  const choose = (letters, on) => {
    for (const l of letters) {
      if (on) chosen.add(l.id);
      else chosen.delete(l.id);
    }
    ctx.refresh();
  };
  const columns = [
    {
      label: 'Dead letter',
      head: h('label', { class: 'check' }, h('input', {
        type: 'checkbox', 'aria-label': 'Select all that are shown', checked: count === rows.length, indeterminate: count > 0 && count < rows.length,
        onchange: (event) => choose(rows, event.target.checked),
      }), 'Dead letter'),
      cell: (l) => [
        h('label', { class: 'check' }, h('input', { type: 'checkbox', 'aria-label': `Select ${l.id}`, checked: chosen.has(l.id), onchange: (event) => choose([l], event.target.checked) }), code(l.id)),
      ],
    },
    { label: 'Reason', kind: 'wide', cell: (l) => [l.movedBy === 'kennel' ? firstLine(l.reason) : h('span', { class: 'quiet' }, firstLine(l.reason)), stack(l), body(l)] },
    { label: 'Attempts', num: true, cell: (l) => (l.attempts === null ? 'unknown' : number(l.attempts)) },
    { label: 'Since', num: true, cell: (l) => since(l.insertedAt) },
    { label: 'Expires', num: true, cell: (l) => since(l.expiresAt) },
  ];
  return table({ label: 'Dead letters', columns, rows, key: (l) => l.id, mark: (l) => (chosen.has(l.id) ? 'chosen' : '') });
}

// stack shows the lines of a reason after its first one: the stack of a panic.
function stack(l) {
  const lines = l.reason.slice(firstLine(l.reason).length + 1);
  return lines ? h('details', { class: 'content' }, h('summary', null, 'Stack'), h('pre', { tabindex: '0', 'aria-label': `Stack of ${l.id}` }, lines)) : null;
}

function body(l) {
  return h('details', { class: 'content' }, h('summary', null, `Body, ${bytes(l.size)}`),
    l.problem ? note('warn', h('p', null, l.problem)) : null,
    l.sha256 ? h('p', { class: 'small quiet' }, 'SHA-256 ', code(l.sha256)) : null,
    l.cut ? h('p', { class: 'small quiet' }, 'This is its beginning; the whole body is longer.') : null,
    l.body ? h('pre', { tabindex: '0', class: l.encoding === 'base64' ? 'dump' : null, 'aria-label': `Body of ${l.id}` }, l.encoding === 'base64' ? dump(l.body) : readable(l.body)) : null,
    l.traceparent ? h('p', { class: 'small quiet' }, 'Trace ', code(l.traceparent)) : null);
}

// readable indents a body that is JSON.
function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// dump shows bytes that are not text, 16 a line.
function dump(base64) {
  const octets = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const lines = [];
  for (let i = 0; i < Math.min(octets.length, shownBytes); i += 16) {
    const part = [...octets.slice(i, Math.min(i + 16, shownBytes))];
    const hex = part.map((b) => b.toString(16).padStart(2, '0')).join(' ');
    lines.push(`${i.toString(16).padStart(4, '0')}  ${hex.padEnd(47)}  ${part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join('')}`);
  }
  if (octets.length > shownBytes) lines.push('…');
  return lines.join('\n');
}

function redrive(queue, ids, total, ctx) {
  const what = ids ? count(ids.length, ...noun) : 'all dead letters';
  act({
    title: `Redrive ${what}`,
    text: [`They go back into the queue ${queue.replace(/-poison$/, '')}, with no attempts. Correct the cause first, and try with one: those that fail again come back here.`, others(ids, ctx)],
    fields: [
      { name: 'rate', label: 'At most so many a second', type: 'number', min: 0.1, max: 10000, step: 'any', value: ids ? '' : '50', hint: 'Empty for no limit.' },
    ],
    reason: true,
    confirm: 'Redrive',
    trial: trial('would be put back', (body) => change('POST', api`deadletters/${queue}/redrive`, { body }), ids),
    async run({ rate, reason }) {
      const selection = { ...selected(ids), ...(rate && { ratePerSecond: Number(rate) }) };
      const call = (body) => change('POST', api`deadletters/${queue}/redrive`, { body, reason });
      start(queue, { title: `Redrive of ${what}:`, verb: 'put back', total, selection, call }, ctx);
      return '';
    },
  });
}

function remove(queue, ids, total, ctx) {
  const what = ids ? count(ids.length, ...noun) : 'all dead letters';
  act({
    title: `Delete ${what}`,
    text: ['They are deleted for good: what they ask for will not be done.', others(ids, ctx)],
    typed: ids ? undefined : queue,
    reason: true,
    danger: true,
    confirm: 'Delete',
    trial: trial('would be deleted', (body) => change('POST', api`deadletters/${queue}/delete`, { body }), ids),
    async run({ reason }) {
      const call = (body) => change('POST', api`deadletters/${queue}/delete`, { body, reason });
      start(queue, { title: `Deletion of ${what}:`, verb: 'deleted', total, selection: selected(ids), call }, ctx);
      return '';
    },
  });
}

// others states that an action on all is not limited to the reason that is shown.
function others(ids, ctx) {
  return !ids && ctx.state.group ? ' Dead letters with other reasons than the one shown are included.' : null;
}

function selected(ids) {
  return ids ? { ids } : { all: true };
}

// trial counts the messages that an action would change, and changes nothing.
function trial(verb, call, ids) {
  return {
    label: 'Dry run',
    async run() {
      const answer = await call({ ...selected(ids), dryRun: true });
      return note('info', h('p', null, h('strong', null, `${answer.more ? 'At least ' : ''}${count(answer.matched, ...noun)} `), `${verb}. Nothing was changed.`));
    },
  };
}

// start begins a run of calls. The time "before" of the first one excludes
// messages that fail again meanwhile.
function start(queue, { title, verb, total, selection, call }, ctx) {
  const limit = selection.ratePerSecond ? Math.min(maxMoved, Math.ceil(selection.ratePerSecond * turn)) : maxMoved;
  repeat(queue, {
    title, verb, noun, total,
    refresh: () => ctx.refresh(),
    async call(last) {
      const answer = await call({ ...selection, limit, ...(last && { before: last.before }) });
      const done = answer.moved ?? answer.deleted;
      if (!answer.more || !done) ctx.reload();
      return {
        done, more: answer.more, before: answer.before,
        lines: (answer.left ?? []).map((l) => `${l.id} stays: ${l.reason}`),
        note: answer.more && !done ? 'There may be others, which another call holds or which cannot be moved. Try again in two minutes.' : '',
      };
    },
  });
}
