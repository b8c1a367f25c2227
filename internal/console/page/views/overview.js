// The overview: the problems, the processes, and the rates of work.

import { api } from '../api.js';
import { sparkline } from '../chart.js';
import { h } from '../dom.js';
import { age, bytes, count, decimal, duration, money, none, now, number, since } from '../format.js';
import { badge, code, command, empty, note, section, tile, tiles, to } from '../parts.js';
import { slice, sortable, table } from '../table.js';

const minutes = 60; // that the charts show
const maxAge = 180; // seconds for which a check, one of each minute, counts as now

export default {
  sources: () => ({
    status: { path: api`status`, every: 2 },
    history: { path: () => api`scale/history?from=${new Date(now() - minutes * 60000).toISOString()}&top=${minutes + 5}`, every: 60, expects: ['scale_off'] },
  }),

  render({ status, history }, ctx) {
    const s = status.value;
    if (!s) return null;
    return [
      status.error ? null : verdict(s), // that of the last answer may be wrong by now
      s.problems.length ? h('ul', { class: 'problems', 'aria-label': 'Problems' }, s.problems.map(problem)) : null,
      summary(s),
      section('Work per minute', [], work(s, history.value?.items ?? [])),
      section('Instances', h('span', { class: 'small quiet' }, count(s.instanceCount, 'instance')), instances(s, ctx)),
    ];
  },
};

// verdict is the state of the app in one sentence.
function verdict(s) {
  const silent = services(s).filter(([, service]) => service && !service.reachable);
  if (s.status === 'ok') return note('good', h('p', null, h('strong', null, 'Everything works. '), `${count(s.instanceCount, 'instance')} reported in the last two minutes.`));
  return note('bad', h('p', null, h('strong', null, 'Degraded. '),
    s.problems.length ? `${count(s.problemCount, 'problem')}; what to do is below. ` : null,
    silent.length ? `Storage does not answer for ${silent.map(([name]) => name).join(', ')}.` : null));
}

function services(s) {
  return [['blobs', s.storage], ['tables', s.storage.tables], ['queues', s.storage.queues]];
}

// Where a problem can be seen, by the beginning of its code.
const places = [['sequence', 'sequences'], ['gate', 'gates'], ['batch', 'batches'], ['dead_letters', 'deadletters'], ['queue', 'queues'], ['timer', 'timers'], ['backlog', 'relay'], ['rules', 'queues'], ['scale', 'queues'], ['bus', 'relay']];

// problem shows a problem, its description first: an operator who was woken up
// reads from the left.
function problem(p) {
  const place = places.find(([begin]) => p.code.startsWith(begin))?.[1];
  const subject = p.code === 'dead_letters' && p.subject && !p.subject.endsWith('-poison') ? p.subject + '-poison' : p.subject;
  const named = ['sequences', 'gates', 'deadletters'].includes(place) || p.code.startsWith('queue');
  return h('li', { key: `${p.code} ${p.subject}`, class: 'problem' },
    h('p', { class: 'what' }, p.subject ? [place ? to(p.subject, place, named ? [subject] : []) : code(p.subject), ' '] : null, p.what),
    h('p', null, withCommands(p.help)),
    h('p', { class: 'small quiet' }, code(p.code), ' · since ', since(p.since, ''), ` · ${count(p.count, 'time')} · in `, h('span', { title: p.instances.join(', ') }, p.instanceCount > 3 ? count(p.instanceCount, 'instance') : p.instances.join(', '))));
}

// withCommands shows text between backquotes as a command.
function withCommands(text) {
  return text.split('`').map((part, i) => (i % 2 ? command(part) : part));
}

function summary(s) {
  const queues = Object.values(s.queues);
  const sum = (member) => queues.reduce((total, q) => total + q[member], 0);
  const dead = sum('poison');
  const silent = services(s).filter(([, service]) => service && !service.reachable).map(([name]) => name);
  return tiles(
    tile('Messages', number(sum('ready') + sum('inFlight') + sum('delayed')), `${number(sum('inFlight'))} in work`),
    tile('Oldest message', queues.length ? duration(Math.max(...queues.map((q) => q.oldestSeconds))) : '–', 'of those ready'),
    tile('Dead letters', number(dead), dead ? to('Reasons', 'deadletters') : 'in all queues', dead ? 'warn' : ''),
    tile('Storage', silent.length ? 'Silent' : 'Answers', silent.length ? silent.join(', ') : h('span', { title: s.storage.account }, /\/\/([^./]+)\.blob\./.exec(s.storage.account)?.[1] ?? s.storage.account.replace('storage ', '')), silent.length ? 'bad' : ''),
    tile('Signals', s.signals.bus ? (s.signals.received ? 'Received' : 'Polling') : 'Off', s.signals.bus ? (s.signals.received ? 'of gates' : 'no answer') : 'gates are polled', s.signals.bus && !s.signals.received ? 'warn' : ''),
    relay(s.relay),
    s.bill ? tile('Bill today', money(s.bill.today, s.bill.currency), [money(s.bill.month, s.bill.currency), ' this month']) : null);
}

// relay is the tile of an outage of Service Bus: messages wait, or new ones will.
function relay(r) {
  if (!r?.failedOver && !r?.backlog?.messages) return null;
  return tile('Backlog', r.backlog ? `${r.backlog.more ? '≥ ' : ''}${number(r.backlog.messages)}` : none, [to(r.failedOver ? `${number(r.failedOver)} failed over` : 'Relay', 'relay'), r.backlog && [', counted ', since(r.backlog.at)]], r.failedOver ? 'bad' : 'warn');
}

function work(s, checks) {
  const names = [...new Set([...Object.keys(s.queues), ...checks.flatMap((c) => c.samples.map((q) => q.queue))])].sort();
  if (!names.length) {
    return empty('No queue was used yet.', 'Work appears here when a channel is deleted or a batch is submitted. ', to('Submit a batch', 'batches'), '.');
  }
  const perMinute = (queue, member) => checks.map((c) => {
    const value = c.samples.find((q) => q.queue === queue)?.[member];
    return value === undefined ? null : value * 60;
  });
  const isRecent = checks.length > 0 && age(checks.at(-1).at) < maxAge;
  const columns = [
    { label: 'Queue', cell: (q) => code(q) },
    { label: 'Done per minute', kind: 'graph', cell: (q) => sparkline(perMinute(q, 'completionsPerSecond'), `Messages of ${q} done per minute in the last hour`) },
    { label: 'Now', num: true, cell: (q) => decimal(isRecent ? perMinute(q, 'completionsPerSecond').at(-1) : undefined) },
    { label: 'Ready', num: true, cell: (q) => number(s.queues[q]?.ready ?? 0) },
    { label: 'In work', num: true, cell: (q) => number(s.queues[q]?.inFlight ?? 0) },
    { label: 'Delayed', num: true, cell: (q) => number(s.queues[q]?.delayed ?? 0) },
    { label: 'Oldest', num: true, cell: (q) => (s.queues[q]?.ready ? duration(s.queues[q].oldestSeconds) : '–') },
    { label: 'Dead letters', num: true, cell: (q) => (s.queues[q]?.poison ? to(number(s.queues[q].poison), 'deadletters', [`${q}-poison`]) : '0') },
  ];
  return table({ label: 'Work per minute by queue', columns, rows: names, key: (q) => q });
}

function instances(s, ctx) {
  const usual = mostFrequent(s.instances.map((i) => i.version));
  const all = [
    { label: 'Instance', by: (i) => i.instance, cell: (i) => [code(i.instance), i.instance === s.instance ? badge('plain', 'answered') : null] },
    { label: 'Kind', by: (i) => i.kind, cell: (i) => i.kind },
    { label: 'Version', by: (i) => i.version, cell: (i) => (i.version === usual ? i.version : badge('info', i.version)) },
    { label: 'Age', num: true, by: (i) => age(i.startedAt), cell: (i) => since(i.startedAt, '') },
    { label: 'Report', num: true, by: (i) => age(i.seenAt), cell: (i) => since(i.seenAt) },
    { label: 'CPU', num: true, by: (i) => i.cpu, cell: (i) => decimal(i.cpu) },
    { label: 'Memory', num: true, by: (i) => i.memory, cell: (i) => bytes(i.memory) },
    { label: 'Hands', num: true, by: (i) => i.hands, cell: (i) => number(i.hands) },
  ];
  const sorted = sortable(ctx, 'instances', all, s.instances);
  const page = slice(ctx, 'instancesPage', sorted.rows);
  return [
    table({ label: 'Instances', columns: sorted.columns, rows: page.rows, key: (i) => i.instance, more: page.more }),
    s.instanceCount > s.instances.length ? note('info', h('p', null, `The list does not show ${count(s.instanceCount - s.instances.length, 'more instance')}; those with problems come first.`)) : null,
    s.leftOut ? note('warn', h('p', null, `${count(s.leftOut, 'more instance')} cannot be shown: their reports are those of another version.`)) : null,
  ];
}

function mostFrequent(texts) {
  const counts = new Map();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0])[0];
}
