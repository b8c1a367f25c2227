// The bill: the app's requests to storage and Service Bus, by job, and their
// cost.

import { api } from '../api.js';
import { h } from '../dom.js';
import { count, money, none, now, number, percent } from '../format.js';
import { badge, bar, empty, facts, note, section, tile, tiles } from '../parts.js';
import { sortable, table } from '../table.js';

// What the jobs are.
const jobs = {
  batches: 'parcels, results and reports',
  bill: 'the bill itself',
  channels: 'with blogs and deletions',
  deadletters: 'lists, redrives and deletions',
  doctor: 'checks by the doctor',
  gates: 'reads, releases and closes',
  host: 'receives and polls',
  instances: 'their reports, for the status',
  numbers: 'order numbers',
  other: 'what belongs to no job',
  relay: 'messages and their backlog',
  scale: 'checks of scaling',
  signals: 'Service Bus, base charge',
  status: 'probes of storage',
};

export default {
  sources: () => ({ status: { path: api`status`, every: 30 } }),

  render({ status }, ctx) {
    if (!status.value) return null;
    const { bill } = status.value;
    if (!bill) return empty('There is no bill yet.', 'It is read from storage with the status, and appears within a minute. An app without tables has none.');
    return [
      summary(bill),
      section('By job', h('span', { class: 'small quiet' }, 'of this month, in UTC'), byJob(bill, ctx)),
      bill.leftOut ? note('warn', h('p', null, `${count(bill.leftOut, 'row')} of the bill cannot be read and ${bill.leftOut === 1 ? 'is' : 'are'} left out.`)) : null,
      section('Prices', [], facts([
        ['Table', bill.prices.name],
        ['Of', bill.prices.date],
        ['Region', bill.prices.region],
        ['Redundancy', bill.prices.redundancy],
        ['Currency', bill.currency],
      ]), h('p', { class: 'small quiet' }, 'Not in the bill: compute, storage of data, traffic, Application Insights, and requests of other programs.')),
    ];
  },
};

function summary(bill) {
  const operations = Object.values(bill.jobs).reduce((sum, j) => sum + j.operations, 0);
  const share = shareOfMonth();
  return tiles(
    tile('Today', money(bill.today, bill.currency), 'since midnight UTC'),
    tile('This month', money(bill.month, bill.currency), 'since the first, UTC'),
    tile('A whole month', money(Number(bill.month) / share, bill.currency), 'if it goes on like this'),
    tile('Operations', number(operations), 'this month'));
}

// shareOfMonth returns which share of the month has passed, at least an hour.
function shareOfMonth() {
  const at = new Date(now());
  const begin = Date.UTC(at.getUTCFullYear(), at.getUTCMonth());
  const end = Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1);
  return Math.max(at - begin, 3600000) / (end - begin);
}

function byJob(bill, ctx) {
  const all = Object.entries(bill.jobs).map(([name, j]) => ({ name, ...j, amount: Number(j.amount), text: j.amount }))
    .sort((a, b) => b.amount - a.amount || a.name.localeCompare(b.name));
  if (!all.length) return empty('The app has sent no request this month.');
  const total = Number(bill.month);
  const share = (j) => (total ? j.amount / total : 0);
  const digits = total < 100 ? 4 : 2;
  const columns = [
    { label: 'Job', kind: 'short', by: (j) => j.name, cell: (j) => h('strong', null, j.name) },
    { label: 'For', kind: 'wide', cell: (j) => [h('span', { class: 'small quiet' }, jobs[j.name] ?? none), j.modelled ? [' ', badge('plain', 'Estimate')] : null] },
    { label: 'Operations today', num: true, by: (j) => j.today.operations, cell: (j) => number(j.today.operations) },
    { label: 'Today', num: true, by: (j) => Number(j.today.amount), cell: (j) => money(j.today.amount, bill.currency, digits) },
    { label: 'Operations', num: true, by: (j) => j.operations, cell: (j) => number(j.operations) },
    { label: 'This month', num: true, by: (j) => j.amount, cell: (j) => money(j.text, bill.currency, digits) },
    { label: 'Share', kind: 'wide', by: (j) => j.amount, cell: (j) => h('div', { class: 'progress' }, bar([{ value: j.amount, kind: 'plain', label: j.name }], total, `${j.name}: ${percent(share(j))} of the bill`), h('span', { class: 'small' }, `${Math.round(share(j) * 100)} %`)) },
  ];
  const sorted = sortable(ctx, 'jobs', columns, all);
  return table({ label: 'Bill by job', columns: sorted.columns, rows: sorted.rows, key: (j) => j.name });
}
