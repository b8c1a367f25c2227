// Batches: their progress, results and reports, and the submission of a file.

import { api, call, change } from '../api.js';
import { act, toast, toastFailure } from '../dialog.js';
import { h } from '../dom.js';
import { age, bytes, count, duration, none, now, number, since } from '../format.js';
import { badge, bar, button, code, command, empty, facts, leftOut, note, opener, section, shares, to, toolbar } from '../parts.js';
import { link } from '../router.js';
import { pageQuery, pager, table } from '../table.js';

const view = 'batches';
const maxFile = 1 << 20; // the limit of an envelope of the Functions host
const outcomes = ['done', 'rejected', 'failed'];

const states = {
  submitting: ['info', 'Submitting'],
  running: ['info', 'Running'],
  held: ['warn', 'Held'],
  gathering: ['info', 'Gathering'],
  done: ['good', 'Done'],
  failed: ['bad', 'Failed'],
};

export default {
  sources(ctx) {
    const [id] = ctx.args;
    if (!id) return { list: { path: api`batches` + pageQuery(ctx, { order: 'newest' }), every: 2 } };
    const outcome = ctx.query.get('outcome');
    return {
      batch: { path: api`batches/${id}`, every: 2 },
      results: { path: api`batches/${id}/results` + pageQuery(ctx, outcome ? { outcome } : {}), every: 10, expects: ['batch_not_found'] },
    };
  },

  render(data, ctx) {
    return ctx.args.length ? one(data, ctx) : list(data.list.value, ctx);
  },
};

function list(value, ctx) {
  if (!value) return null;
  for (const id in ctx.state.seen) {
    if (!value.items.some((b) => b.batch === id)) delete ctx.state.seen[id];
  }
  const columns = [
    { label: 'Batch', cell: (b) => [to(b.name || code(b.batch), view, [b.batch]), b.name ? h('span', { class: 'under' }, code(b.batch)) : null] },
    { label: 'Processor', cell: (b) => b.processor },
    { label: 'State', cell: stateOf },
    { label: 'Progress', kind: 'wide', cell: progress },
    { label: 'Items', num: true, cell: (b) => number(b.items) },
    { label: 'Time left', num: true, cell: (b) => left(b, ctx) },
    { label: 'Late by', num: true, cell: (b) => (b.lateBy ? h('strong', { class: 'late' }, duration(b.lateBy)) : none) },
    { label: 'Submitted', num: true, cell: (b) => since(b.submittedAt) },
  ];
  return h('div', { class: 'list' },
    toolbar('All batches that are kept, the newest first.', opener(view, 'Id of a batch'), button('Submit a file…', submit, { kind: 'primary', may: ctx.may })),
    leftOut(value, 'batch', 'batches'),
    value.items.length
      ? table({ label: 'Batches, newest first', columns, rows: value.items, key: (b) => b.batch, mark: (b) => (b.state === 'failed' || (b.lateBy && !b.finishedAt) ? 'wrong' : ''), more: pager(ctx, view, [], value) })
      : empty('No batch was submitted yet.', 'Submit a file here, or ', command('kennel sample billing -n 2000 | kennel submit - --watch')));
}

function stateOf(b) {
  const [kind, text] = states[b.state] ?? ['plain', b.state];
  return badge(kind, text);
}

function ended(b) {
  return b.done + b.rejected + b.failed;
}

function partsOf(b) {
  return [{ value: b.done, kind: 'good', label: 'done' }, { value: b.rejected, kind: 'warn', label: 'rejected' }, { value: b.failed, kind: 'bad', label: 'failed' }];
}

function progress(b) {
  const text = `${number(ended(b))} of ${count(b.items, 'item')}`;
  const part = b.items ? Math.floor((ended(b) / b.items) * 100) : 100;
  const bad = shares(partsOf(b).slice(1));
  return h('div', { class: 'progress' },
    bar(partsOf(b), b.items, `${text}: ${shares(partsOf(b)) || 'none done'}`), h('span', { class: 'small' }, `${part} %`),
    bad && h('span', { class: b.failed ? 'small bad' : 'small warn' }, bad));
}

// left estimates the time left of a batch that runs from its progress in the
// last half minute in which this page saw it, or else since its submission.
function left(b, ctx) {
  if (b.state !== 'running' && b.state !== 'submitting') return none;
  ctx.state.seen ??= {};
  const seen = ctx.state.seen[b.batch] ??= [];
  const at = now();
  if (seen.at(-1)?.done !== ended(b)) seen.push({ at, done: ended(b) });
  while (seen.length > 1 && seen[0].at < at - 30000) seen.shift();
  const begin = seen[0].done < ended(b) ? seen[0] : { at: Date.parse(b.submittedAt), done: 0 };
  const rate = (ended(b) - begin.done) / (at - begin.at);
  return rate > 0 ? duration((b.items - ended(b)) / rate / 1000) : 'unknown';
}

function one({ batch, results }, ctx) {
  const [id] = ctx.args;
  const b = batch.value;
  if (!b) return empty('There is nothing to show.', to('All batches', view));
  const notDone = b.state === 'done' ? '' : 'There is a report when the batch is done';
  return [
    section(b.name || 'State', [
      button('Report as CSV', () => download(id, 'text/csv', 'csv'), { may: notDone }),
      button('Report as JSON', () => download(id, 'application/json', 'json'), { may: notDone }),
    ],
    b.error ? note('bad', h('p', null, b.error)) : null,
    b.state === 'held' ? note('warn', h('p', null, 'The gate of the work queues is closed, so the items wait. ', to('Gates', 'gates'))) : null,
    b.retrying ? note('warn', h('p', null, `${count(b.retrying.items, 'item')}${b.retrying.more ? ' or more' : ''} failed or put off, and tried again. Item `, code(b.retrying.item), ` had ${number(b.retrying.attempts)} of ${count(b.retrying.maxAttempts, 'attempt')}. Its last error: ${b.retrying.error}`)) : null,
    h('div', { class: 'big' }, progress(b)),
    facts([
      ['State', stateOf(b)],
      ['Items', number(b.items)],
      ['Done', number(b.done)],
      ['Rejected', number(b.rejected)],
      ['Failed', number(b.failed)],
      ['Time left', left(b, ctx)],
      ['Next attempt', b.retrying ? since(b.retrying.nextAt) : null],
      ['Late by', b.lateBy ? duration(b.lateBy) : 'not late'],
      ['Submitted', since(b.submittedAt)],
      ['Finished', b.finishedAt ? since(b.finishedAt) : 'not yet'],
      ['Took', b.finishedAt ? duration((Date.parse(b.finishedAt) - Date.parse(b.submittedAt)) / 1000) : duration(age(b.submittedAt)) + ' so far'],
      ['Processor', b.processor],
      ['Parcels', number(b.parcels)],
      ['Storage requests', number(b.storageOperations) + (b.modelled ? ', in part estimated' : '')],
    ])),
    section('Results', choice(id, b, ctx.query.get('outcome')), results.value ? resultsOf(id, results.value, ctx) : null),
  ];
}

function choice(id, b, chosen) {
  return h('nav', { class: 'choice', 'aria-label': 'Outcome' }, [null, ...outcomes].map((o) =>
    h('a', { key: o ?? 'all', href: linkTo(id, o), 'aria-current': (chosen ?? null) === o ? 'true' : null }, o ? `${o[0].toUpperCase()}${o.slice(1)} ${number(b[o])}` : `All ${number(ended(b))}`)));
}

function linkTo(id, outcome) {
  return link(view, [id], { outcome });
}

function resultsOf(id, value, ctx) {
  if (!value.items.length && !value.continuation) {
    return empty('No item has ended so yet.', 'Results appear here as items are processed.');
  }
  const columns = [
    { label: 'Item', cell: (r) => code(r.id) },
    { label: 'Outcome', cell: (r) => (r.outcome === 'done' ? r.outcome : badge(r.outcome === 'rejected' ? 'warn' : 'bad', r.outcome)) },
    { label: 'Result', kind: 'wide', cell: (r) => r.error ?? (r.result === undefined ? none : code(JSON.stringify(r.result))) },
  ];
  const more = pager(ctx, view, [id], value);
  if (!value.items.length) return [empty('No such result was found so far.', 'The search goes on with the next page.'), more];
  return table({ label: 'Results', columns, rows: value.items, key: (r) => r.id, more });
}

async function download(id, accept, extension) {
  try {
    const { text } = await call('GET', api`batches/${id}/report` + (extension === 'csv' ? '?safe=1' : ''), { accept });
    const address = URL.createObjectURL(new Blob([text], { type: accept }));
    const anchor = document.createElement('a');
    anchor.href = address;
    anchor.download = `${id}.${extension}`;
    anchor.click();
    URL.revokeObjectURL(address);
    toast(`The report was saved as ${anchor.download}.`);
  } catch (error) {
    toastFailure(error);
  }
}

// submit asks for a file and submits it. A repeated submission of the same has
// the same key, so that it makes no second batch.
function submit() {
  let key;
  let last;
  act({
    title: 'Submit a batch',
    fields: [
      { name: 'file', label: 'Items', type: 'file', accept: '.ndjson,.jsonl,.json,.txt', required: true, hint: 'One item on each line, or one JSON array, of up to 1 MiB and not compressed.' },
      { name: 'processor', label: 'Processor', required: true, value: 'billing', choices: ['billing', 'webhook'], hint: 'What is done with each item.' },
      { name: 'name', label: 'Name', hint: 'For people, in the list of batches.', maxlength: 200 },
    ],
    reason: true,
    confirm: 'Submit',
    async run({ file, processor, name, reason }) {
      if (file.size > maxFile) throw new Error(`${file.name} has ${bytes(file.size)}. The console takes up to 1 MiB; submit a larger file with: kennel submit ${file.name} --processor ${processor}`);
      const text = await file.text();
      if (text.startsWith('\u001f')) throw new Error(`${file.name} is compressed. Decompress it first, or use: kennel submit ${file.name} --processor ${processor}`);
      const same = JSON.stringify([file.name, file.size, file.lastModified, processor, name]);
      if (same !== last) key = crypto.randomUUID();
      last = same;
      const query = new URLSearchParams({ processor: processor.trim(), ...(name.trim() && { name: name.trim() }) });
      const batch = await change('POST', api`batches` + `?${query}`, {
        body: text, type: /^\s*\[/.test(text) ? 'application/json' : 'application/x-ndjson', headers: { 'Idempotency-Key': key }, reason,
      });
      location.hash = linkTo(batch.batch);
      return `${count(batch.items, 'item')} submitted.`;
    },
  });
}
