// Timers: their schedules, how the last slot of each ended, and runs by hand.

import { api, change } from '../api.js';
import { act } from '../dialog.js';
import { h } from '../dom.js';
import { duration, exact, none, since } from '../format.js';
import { badge, button, code, empty, named, toolbar } from '../parts.js';
import { slice, table } from '../table.js';

export default {
  sources: () => ({ list: { path: api`timers`, every: 5 } }),

  render({ list }, ctx) {
    if (!list.value) return null;
    const { items } = list.value;
    if (!items.length) return empty('This program declares no timers.', 'In Go, ', code('a.Timer'), ' declares one.');
    const columns = [
      { label: 'Timer', kind: 'name', cell: (t) => [code(t.timer), state(t)] },
      { label: 'Schedule', cell: (t) => [code(t.schedule), h('p', { class: 'small quiet' }, t.zone)] },
      { label: 'Next', num: true, cell: (t) => (t.paused ? none : since(t.nextAt)) },
      { label: 'Last slot', num: true, cell: (t) => (t.last ? h('span', { title: `Its time was ${exact(t.last.slot)}` }, since(t.last.at)) : none) },
      { label: 'Outcome', cell: (t) => (t.last ? badge(t.last.outcome === 'done' ? 'good' : 'bad', t.last.outcome === 'done' ? 'Done' : 'Failed') : none) },
      { label: 'Took', num: true, cell: (t) => (t.last ? duration(t.last.seconds) : none) },
      { label: 'Last done', num: true, cell: (t) => since(t.lastOkAt) },
      { label: 'Error', kind: 'wide', cell: (t) => t.last?.error || none },
      { label: '', kind: 'actions', cell: (t) => button('Run now…', () => run(t.timer, ctx), { may: ctx.may || (t.runningSince ? 'A slot runs now' : ''), describe: `Run now: ${t.timer}` }) },
    ];
    const page = slice(ctx, 'timersPage', items);
    return h('div', { class: 'list' }, toolbar('The timers of the program. Each slot is done once, not once an instance.'),
      table({ label: 'Timers', columns, rows: page.rows, key: (t) => t.timer, mark: (t) => (t.last?.outcome === 'failed' ? 'wrong' : ''), more: page.more }));
  },
};

function state(t) {
  return [
    t.paused ? [' ', h('span', { title: `Paused by ${t.paused.by?.name ?? t.paused.by}. ${t.paused.reason}` }, badge('warn', 'Paused'))] : null,
    t.runningSince ? [' ', badge('info', ['Runs, since ', since(t.runningSince, '')])] : null,
  ];
}

function run(timer, ctx) {
  act({
    title: ['Run ', named(timer), ' now'],
    text: 'One slot more, whose time is now. The slots of the schedule stay as they are.',
    reason: true,
    confirm: 'Run now',
    async run({ reason }) {
      await change('POST', api`timers/${timer}/run`, { reason });
      ctx.reload();
      return [named(timer), ' is about to run.'];
    },
  });
}
