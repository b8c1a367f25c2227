// Queues and scale: how many messages wait and for how long, over time; how many
// instances and hands the queues need, and why; and the rules for that.

import { api } from '../api.js';
import { lineChart, sparkline } from '../chart.js';
import { h } from '../dom.js';
import { count, decimal, duration, exact, none, now, number, percent, since } from '../format.js';
import { History } from '../history.js';
import { badge, code, empty, facts, note, section, to } from '../parts.js';
import { link } from '../router.js';
import { table } from '../table.js';
import { rules } from './rules.js';

const view = 'queues';
const ranges = { '1h': ['1 hour', 60], '6h': ['6 hours', 360], '1d': ['1 day', 1440] }; // in minutes
const off = ['scale_off'];

export default {
  sources(ctx) {
    const [queue] = ctx.args;
    const history = ctx.state.history = new History(queue ? ranges[rangeOf(ctx)][1] : 60);
    return {
      scale: { path: api`scale`, every: 10, expects: ['scale_not_checked', ...off] },
      status: { path: api`status`, every: 4 },
      history: { ...history.source(), expects: off },
      ...(!queue && { rules: { path: api`scale/rules`, every: 30, expects: off } }),
    };
  },

  render(data, ctx) {
    const state = {
      check: data.scale.error?.code === 'scale_not_checked' ? undefined : data.scale.value,
      depths: data.status.value?.queues ?? {},
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
    data.status.value ? section('Queues', check ? h('span', { class: 'small quiet' }, 'rates are those of the last check') : null, queues(state)) : null,
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

function queues({ check, depths, history }) {
  const names = [...new Set([...Object.keys(depths), ...(check?.samples ?? []).map((s) => s.queue)])].sort();
  if (!names.length) return empty('No queue was used yet.', 'Queues appear here when a channel is deleted or a batch is submitted. ', to('Submit a batch', 'batches'));
  const rows = names.map((queue) => ({ queue, depth: depths[queue] ?? {}, ...sampleOf(check, queue) }));
  const columns = [
    { label: 'Queue', kind: 'name', cell: (q) => [to(code(q.queue), view, [q.queue]), q.sample.held ? [' ', badge('warn', 'Held')] : null] },
    { label: 'Ready, last hour', kind: 'graph', cell: (q) => sparkline(history.points(q.queue, 'ready').map(([, v]) => v), `Ready messages of ${q.queue} in the last hour`) },
    { label: 'Ready', num: true, cell: (q) => number(q.depth.ready ?? q.sample.ready) },
    { label: 'In flight', num: true, cell: (q) => number(q.depth.inFlight ?? q.sample.inFlight) },
    { label: 'Delayed', num: true, cell: (q) => number(q.depth.delayed ?? q.sample.delayed) },
    { label: 'Oldest', num: true, cell: (q) => (q.depth.ready ? duration(q.depth.oldestSeconds) : none) },
    { label: 'Forecast/s', num: true, cell: (q) => decimal(q.sample.arrivalsPerSecond) },
    { label: 'Done/s', num: true, cell: (q) => decimal(q.sample.completionsPerSecond) },
    { label: '95 % within', num: true, cell: (q) => (q.sample.p95LatencySeconds ? duration(q.sample.p95LatencySeconds) : none) },
    { label: 'Hands', num: true, cell: (q) => h('span', { title: q.advice?.reason ?? null }, number(q.advice?.hands)) },
  ];
  return table({ label: 'Queues', columns, rows, key: (q) => q.queue });
}

function sampleOf(check, queue) {
  return { sample: check?.samples.find((s) => s.queue === queue) ?? {}, advice: check?.advice.find((a) => a.queue === queue) };
}

function rangeOf(ctx) {
  return ranges[ctx.query.get('range')] ? ctx.query.get('range') : '1h';
}

// one shows a queue over time.
function one({ check, depths, history }, data, ctx) {
  const [queue] = ctx.args;
  const { sample, advice } = sampleOf(check, queue);
  const depth = depths[queue];
  if (!depth && !advice && !history.points(queue, 'ready').length) {
    if (!history.isComplete() && !data.history.error) return h('p', { role: 'status' }, 'Reading…');
    return empty(`No check has found a queue ${queue}.`, to('All queues', view));
  }
  return [
    section('Now', depth?.poison ? to(count(depth.poison, 'dead letter'), 'deadletters', [`${queue}-poison`]) : null,
      sample.held ? note('warn', h('p', null, 'Its messages wait at a closed gate, so they are not late. ', to('Gates', 'gates'))) : null,
      facts([
        ['Ready', number(depth?.ready ?? sample.ready)],
        ['In flight', number(depth?.inFlight ?? sample.inFlight)],
        ['Delayed', number(depth?.delayed ?? sample.delayed)],
        ['Oldest ready message', depth?.ready ? duration(depth.oldestSeconds) : none],
        ['Arrive a second, as forecast', decimal(sample.arrivalsPerSecond)],
        ['Done a second', decimal(sample.completionsPerSecond)],
        ['Worked on now', number(sample.working)],
        ['Each takes', sample.responseSeconds ? duration(sample.responseSeconds) : none],
        ['95 % done within', sample.p95LatencySeconds ? duration(sample.p95LatencySeconds) : none],
        ['Processors in use', sample.cpu ? percent(sample.cpu) : none],
      ]),
      advice ? h('p', { class: 'small quiet' }, h('strong', null, 'Advice: '), advice.reason) : null),
    section('Over time', [
      history.isComplete() || data.history.error ? null : h('span', { class: 'small quiet', role: 'status' }, history.from ? `Reading; since ${exact(new Date(history.from).toISOString())} so far` : 'Reading…'),
      choice(queue, ctx),
    ], charts(queue, history)),
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
