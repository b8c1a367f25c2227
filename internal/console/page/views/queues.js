// Queues and scale: how many messages wait and for how long, now and over time;
// messages for the queues of the program; how many instances and hands the queues
// need, and why; and the rules for that.

import { api, change } from '../api.js';
import { lineChart, sparkline } from '../chart.js';
import { act } from '../dialog.js';
import { h } from '../dom.js';
import { count, decimal, duration, exact, none, now, number, percent, since } from '../format.js';
import { History } from '../history.js';
import { badge, button, code, empty, facts, named, note, section, to } from '../parts.js';
import { askPause, pauseMark, pauseNote } from '../pauses.js';
import { link } from '../router.js';
import { table } from '../table.js';
import { rules } from './rules.js';

const view = 'queues';
const ranges = { '1h': ['1 hour', 60], '6h': ['6 hours', 360], '1d': ['1 day', 1440] }; // in minutes
const off = ['scale_off', 'not_found']; // a program of one's own has no scaling

export default {
  sources(ctx) {
    const [queue] = ctx.args;
    const history = ctx.state.history = new History(queue ? ranges[rangeOf(ctx)][1] : 60);
    return {
      // Each read samples all queues.
      ...(queue ? { queue: { path: api`queues/${queue}`, every: 10, expects: ['queue_not_found'] } } : { list: { path: api`queues`, every: 10 } }),
      scale: { path: api`scale`, every: 10, expects: ['scale_not_checked', ...off] },
      history: { ...history.source(), expects: off },
      ...(!queue && { rules: { path: api`scale/rules`, every: 30, expects: off } }),
    };
  },

  render(data, ctx) {
    const state = {
      check: data.scale.error?.code === 'scale_not_checked' ? undefined : data.scale.value,
      history: ctx.state.history,
    };
    return ctx.args.length ? one(state, data, ctx) : all(state, data, ctx);
  },
};

function all(state, data, ctx) {
  const { check } = state;
  return [
    data.scale.error?.code === 'scale_off' ? note('info', h('p', null, data.scale.error.message)) : null,
    data.scale.error?.code === 'scale_not_checked' ? note('info', h('p', null, 'Scaling was not checked yet. The first check comes within a minute of the start.')) : null,
    check ? advice(check) : null,
    data.list.value ? section('Queues', h('span', { class: 'small quiet' }, data.list.value.items.some((q) => q.own) && !data.list.value.items.every((q) => q.own) ? 'also those of built-in parts, which alone put messages into them' : null), queues(state, data.list.value.items, ctx)) : null,
    check?.samples.length ? section('Load and hands', h('span', { class: 'small quiet' }, 'those of the last check'), loads(state)) : null,
    data.rules.value ? rules(data.rules.value, ctx) : null,
  ];
}

const outcomes = {
  unchanged: ['good', 'Unchanged', 'The target has as many already.'],
  dryRun: ['info', 'Dry run', 'Nothing is changed, because KENNEL_SCALE_APPLY is not true.'],
  applied: ['good', 'Applied', 'The target was changed.'],
  denied: ['bad', 'Denied', 'Azure denied the change. Assign the role.'],
  busy: ['warn', 'Busy', 'Another change is under way. A later check tries again.'],
  failed: ['bad', 'Failed', 'The change failed. A later check tries again.'],
};

// advice shows how many instances the last check advises, and why.
function advice(check) {
  const [together] = check.advice;
  const short = together.instances - check.running;
  const outcome = check.outcome;
  const [kind, word, text] = outcomes[outcome?.state] ?? ['plain', outcome?.state];
  return section('Advice', h('span', { class: 'small quiet' }, 'checked once a minute, ', since(check.at)),
    h('div', { class: 'panel' },
      h('p', { class: 'advice' },
        h('strong', { class: short > 0 && check.running ? 'warn' : null }, number(together.instances)),
        `${together.instances === 1 ? 'instance' : 'instances'} advised, ${short > 0 ? `${number(short)} more than work now` : short < 0 ? `${number(-short)} fewer than work now` : 'as many as work now'}`),
      h('p', null, together.reason),
      outcome ? facts([
        ['Target', together.target],
        ['Outcome', [badge(kind, word), h('p', { class: 'small quiet' }, text)]],
        ['Compared', [since(outcome.at), h('p', { class: 'small quiet' }, `advice ${number(outcome.instances)}, minimum ${number(outcome.minimum)}`)]],
        ['Error', outcome.error],
      ]) : null));
}

function queues({ check }, items, ctx) {
  // A check may know a queue that was not used since the start.
  const storage = new Set(items.map((q) => q.storageQueue));
  const rows = [...items, ...(check?.samples ?? []).filter((s) => !storage.has(s.queue)).map((s) => ({ ...s, storageQueue: s.queue }))];
  if (!rows.length) return empty('No queue was used yet.', 'Queues appear here when a channel is deleted or a batch is submitted. ', to('Submit a batch', 'batches'));
  const columns = [
    { label: 'Queue', kind: 'name', cell: (q) => [to(code(q.queue), view, [q.queue]), marks(q, check)] },
    { label: 'Ready', num: true, cell: (q) => number(q.ready) },
    { label: 'In flight', num: true, cell: (q) => number(q.inFlight) },
    { label: 'Delayed', num: true, cell: (q) => number(q.delayed) },
    { label: 'Oldest', num: true, cell: (q) => oldest(q) },
    { label: 'Dead letters', num: true, cell: (q) => letters(q, number(q.deadLetters)) },
    ...(items.some((q) => q.own) ? ofOwn(ctx) : []),
  ];
  return table({ label: 'Queues', columns, rows, key: (q) => q.queue });
}

// ofOwn are the columns with values of queues that the program declares.
function ofOwn(ctx) {
  return [
    { label: 'Concurrency', num: true, cell: (q) => (q.concurrency ? number(q.concurrency) : none) },
    { label: 'Last done', num: true, cell: (q) => since(q.lastOkAt) },
    { label: '', kind: 'actions', cell: (q) => actions(q, ctx) },
  ];
}

// marks are what holds the messages of a queue back.
function marks(q, check) {
  const { sample } = sampleOf(check, q.storageQueue);
  return [
    pauseMark(q),
    q.drainedBy ? [' ', badge('info', 'Former name')] : null,
    sample.held ? [' ', badge('warn', 'Held')] : null,
  ];
}

function oldest(q) {
  return q?.ready ? duration(q.oldestSeconds) : none;
}

// letters is a link to the dead letters of a queue, if it has any.
function letters(q, text) {
  return q.deadLetters ? to(text, 'deadletters', [`${q.storageQueue}-poison`]) : text;
}

function actions(q, ctx) {
  return q.own ? [
    button('Send a message…', () => send(q.queue, ctx), { may: ctx.may, describe: `Send a message to ${q.queue}` }),
    q.paused
      ? button('Resume…', () => resume(q.queue, ctx), { may: ctx.may, describe: `Resume ${q.queue}` })
      : button('Pause…', () => pause(q.queue, ctx), { may: ctx.may, describe: `Pause ${q.queue}` }),
  ] : null;
}

function pause(queue, ctx) {
  askPause(ctx, queue, {
    text: 'No other message of it is worked on until it is resumed. Those that are worked on now go on, and messages can still be sent to it.',
    call: (options) => change('POST', api`queues/${queue}/pause`, options),
  });
}

function resume(queue, ctx) {
  askPause(ctx, queue, {
    resume: true,
    text: 'Workers go on at once. Behind a Functions host, messages that were put back come after their delay, of up to ten minutes.',
    call: (options) => change('POST', api`queues/${queue}/resume`, options),
  });
}

// The fields of the dialog to which the errors of a message belong.
const fieldOf = { bad_delay: 'delay', bad_message: 'body', message_too_large: 'body' };

function send(queue, ctx) {
  act({
    title: ['Send a message to ', named(queue)],
    text: 'The queue takes what the program declares, usually JSON.',
    fields: [
      { name: 'body', label: 'Message', type: 'textarea', required: true, rows: 8, code: true },
      { name: 'delay', label: 'Delay', hint: 'It is not received before, such as 30s or 1h30m; less than 7 days.' },
    ],
    confirm: 'Send',
    async run({ body, delay }) {
      const query = delay.trim() && '?' + new URLSearchParams({ delay: delay.trim() });
      let sent;
      try {
        sent = await change('POST', api`queues/${queue}/messages` + query, { body, type: 'application/json' });
      } catch (error) {
        throw Object.assign(error, { field: fieldOf[error.code] });
      }
      ctx.reload();
      return ['Message ', code(sent.id), ' is in ', named(queue), '.'];
    },
  });
}

// loads shows what the last check has found of each queue.
function loads({ check, history }) {
  const rows = check.samples.map((s) => ({ queue: s.queue, ...sampleOf(check, s.queue) }));
  const columns = [
    { label: 'Queue', kind: 'name', cell: (q) => code(q.queue) },
    { label: 'Ready, last hour', kind: 'graph', cell: (q) => sparkline(history.points(q.queue, 'ready').map(([, v]) => v), `Ready messages of ${q.queue} in the last hour`) },
    { label: 'Forecast/s', num: true, cell: (q) => decimal(q.sample.arrivalsPerSecond) },
    { label: 'Done/s', num: true, cell: (q) => decimal(q.sample.completionsPerSecond) },
    { label: '95 % within', num: true, cell: (q) => (q.sample.p95LatencySeconds ? duration(q.sample.p95LatencySeconds) : none) },
    { label: 'Hands', num: true, cell: (q) => h('span', { title: q.advice?.reason ?? null }, number(q.advice?.hands)) },
  ];
  return table({ label: 'Load and hands', columns, rows, key: (q) => q.queue });
}

function sampleOf(check, queue) {
  return { sample: check?.samples.find((s) => s.queue === queue) ?? {}, advice: check?.advice.find((a) => a.queue === queue) };
}

function rangeOf(ctx) {
  return ranges[ctx.query.get('range')] ? ctx.query.get('range') : '1h';
}

// one shows a queue now and over time.
function one({ check, history }, data, ctx) {
  const [name] = ctx.args;
  const q = data.queue.value;
  const queue = q?.storageQueue ?? name;
  const isScaled = !off.includes(data.history.error?.code);
  const { sample, advice } = sampleOf(check, queue);
  if (!q && !advice && !history.points(queue, 'ready').length) {
    if (!history.isComplete() && !data.history.error) return h('p', { role: 'status' }, 'Reading…');
    return empty(`No check has found a queue ${name}.`, to('All queues', view));
  }
  return [
    section('Now', [q?.deadLetters ? letters(q, count(q.deadLetters, 'dead letter')) : null, q ? actions(q, ctx) : null],
      pauseNote(q?.paused),
      sample.held ? note('warn', h('p', null, 'Its messages wait at a closed gate, so they are not late. ', to('Gates', 'gates'))) : null,
      facts([
        ['Ready', number(q?.ready ?? sample.ready)],
        ['In flight', number(q?.inFlight ?? sample.inFlight)],
        ['Delayed', number(q?.delayed ?? sample.delayed)],
        ['Oldest ready message', oldest(q)],
        ['Last done', since(q?.lastOkAt)],
        ...(q?.drainedBy ? [['Former name of', q.drainedBy.map((name) => [to(code(name), view, [name]), ' '])]] : []),
        ...(q?.own ? own(q) : []),
        ...(isScaled ? load(sample) : []),
      ]),
      advice ? h('p', { class: 'small quiet' }, h('strong', null, 'Advice: '), advice.reason) : null),
    isScaled ? section('Over time', [
      history.isComplete() || data.history.error ? null : h('span', { class: 'small quiet', role: 'status' }, history.from ? `Reading; since ${exact(new Date(history.from).toISOString())} so far` : 'Reading…'),
      choice(name, ctx),
    ], charts(queue, history)) : null,
  ];
}

// load is what the last check has found of a queue.
function load(sample) {
  return [
    ['Arrive a second, as forecast', decimal(sample.arrivalsPerSecond)],
    ['Done a second', decimal(sample.completionsPerSecond)],
    ['Worked on now', number(sample.working)],
    ['Each takes', sample.responseSeconds ? duration(sample.responseSeconds) : none],
    ['95 % done within', sample.p95LatencySeconds ? duration(sample.p95LatencySeconds) : none],
    ['Processors in use', sample.cpu ? percent(sample.cpu) : none],
  ];
}

// own is what the program declares of its queue.
function own(q) {
  return [
    ['Storage queue', q.storageQueue === q.queue ? '' : code(q.storageQueue)],
    ['Messages done a second', decimal(q.donePerSecond)],
    ['Attempts failed a second', decimal(q.failedPerSecond)],
    ...(q.handled ? [
      ['Attempts at a time', h('span', { title: 'In each process.' }, number(q.concurrency))],
      ['Attempts of a message', h('span', { title: 'Then it becomes a dead letter.' }, number(q.maxAttempts))],
      ['Limit of an attempt', duration(q.timeoutSeconds)],
    ] : [['Worked on', 'by another program']]),
  ];
}

function choice(queue, ctx) {
  return h('nav', { class: 'choice', 'aria-label': 'Time shown' }, Object.entries(ranges).map(([range, [text]]) =>
    h('a', { key: range, href: link(view, [queue], { range }), 'aria-current': range === rangeOf(ctx) ? 'true' : null }, text)));
}

function charts(queue, history) {
  const from = now() - history.range;
  const to = now();
  const chart = (label, format, series) => h('div', { key: label }, lineChart({
    label, format, from, to, series: Object.entries(series).map(([name, member]) => ({ name, points: history.points(queue, member) })),
  }));
  return h('div', { class: 'charts' },
    chart('Messages', number, { Ready: 'ready', 'In flight': 'inFlight', Delayed: 'delayed' }),
    chart('Age of the oldest ready message', duration, { Oldest: 'oldestSeconds' }),
    chart('Messages a second', decimal, { Arrive: 'arrivalsPerSecond', Done: 'completionsPerSecond' }),
    chart('From the put until done', duration, { '95 % within': 'p95LatencySeconds', 'Work alone': 'responseSeconds' }));
}
