// Timers: their schedules, how the last slot of each ended, and runs by hand.

import { api, change } from '../api.js';
import { act } from '../dialog.js';
import { h } from '../dom.js';
import { duration, exact, none, since } from '../format.js';
import { badge, button, code, empty, named, toolbar } from '../parts.js';
import { askPause, pauseMark } from '../pauses.js';
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
      { label: '', kind: 'actions', cell: (t) => actions(t, ctx) },
    ];
    const page = slice(ctx, 'timersPage', items);
    return h('div', { class: 'list' }, toolbar('The timers of the program. Each slot is done once, not once an instance.'),
      table({ label: 'Timers', columns, rows: page.rows, key: (t) => t.timer, mark: (t) => (t.last?.outcome === 'failed' ? 'wrong' : ''), more: page.more }));
  },
};

function state(t) {
  return [
    pauseMark(t),
    t.runningSince ? [' ', badge('info', ['Runs, since ', since(t.runningSince, '')])] : null,
  ];
}

function actions(t, ctx) {
  return [
    button('Run now…', () => run(t.timer, ctx), { may: ctx.may || (t.runningSince ? 'A slot runs now' : ''), describe: `Run now: ${t.timer}` }),
    t.paused
      ? button('Resume…', () => resume(t.timer, ctx), { may: ctx.may, describe: `Resume ${t.timer}` })
      : button('Pause…', () => pause(t.timer, ctx), { may: ctx.may, describe: `Pause ${t.timer}` }),
  ];
}

function pause(timer, ctx) {
  askPause(ctx, timer, {
    text: 'No slot of its schedule is done until it is resumed. One that runs now goes on, and it can still be run by hand.',
    call: (options) => change('POST', api`timers/${timer}/pause`, options),
  });
}

function resume(timer, ctx) {
  askPause(ctx, timer, {
    resume: true,
    text: 'The slots that began meanwhile are left out, unless the program declares that the timer catches up.',
    call: (options) => change('POST', api`timers/${timer}/resume`, options),
  });
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
