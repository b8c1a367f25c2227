// Gates: their states, who waits where, and releases.

import { api, change } from '../api.js';
import { act } from '../dialog.js';
import { h } from '../dom.js';
import { count, exact, none, number, since } from '../format.js';
import { badge, button, code, command, empty, facts, named, opener, partial, section, to, toolbar } from '../parts.js';
import { pageQuery, pager, slice, table } from '../table.js';

const view = 'gates';

export default {
  sources(ctx) {
    const [name] = ctx.args;
    if (name) return { gate: { path: api`gates/${name}`, every: 2 }, waiters: { path: api`gates/${name}/waiters`, every: 4 } };
    return { list: { path: api`gates` + pageQuery(ctx), every: 2 } };
  },

  render(data, ctx) {
    return ctx.args.length ? one(data, ctx) : list(data.list.value, ctx);
  },
};

function list(value, ctx) {
  if (!value) return null;
  const columns = [
    { label: 'Gate', cell: (g) => to(code(g.gate), view, [g.gate]) },
    { label: 'State', cell: (g) => (g.generation === null ? badge('bad', 'Unreadable') : state(g.released)) },
    { label: 'Waiters', num: true, cell: (g) => (g.waiters ? h('strong', null, number(g.waiters)) : '0') },
    { label: 'Changed', num: true, cell: (g) => since(g.changedAt) },
    { label: 'Last release', num: true, cell: (g) => (g.generation ? since(new Date(g.generation).toISOString()) : none) },
    { label: '', kind: 'actions', cell: (g) => turn(ctx, g.gate, g.released, g.waiters, '') },
  ];
  return h('div', { class: 'list' },
    toolbar('Every gate that was released at least once, in the order of their names.', opener(view, 'Name of a gate')),
    partial(value),
    value.items.length
      ? table({ label: 'Gates', columns, rows: value.items, key: (g) => g.gate, mark: (g) => (g.generation === null ? 'wrong' : ''), more: pager(ctx, view, [], value) })
      : empty('No gate was released yet.', 'A gate appears here with its first release. Until then, open it by its name above, or wait at it: ', command('kennel gate wait hounds')));
}

function one({ gate, waiters }, ctx) {
  const [name] = ctx.args;
  const g = gate.value;
  if (!g) {
    const replace = gate.error?.code === 'gate_corrupt' ? button('Replace and close…', () => ask(ctx, name, 'close', 0, true), { may: ctx.may }) : null;
    return section('State', replace, empty('There is no state to show.', 'The gate counts as closed while its state cannot be read. ',
      replace && 'Its stored state is invalid, and a forced change replaces it. ', to('All gates', view)));
  }
  const waiting = waiters.value?.items ?? [];
  const all = waiting.reduce((total, w) => total + w.waiters, 0);
  const page = slice(ctx, 'waitersPage', waiting);
  const history = (g.history ?? []).toReversed();
  return [
    section('State', [turn(ctx, name, g.released, all, 'primary', g.generation), g.released ? button('Release again…', () => ask(ctx, name, 'release', all), { may: ctx.may }) : null],
      facts([
        ['State', state(g.released)],
        ['Waiters', waiters.value ? number(all) : none],
        ['Releases', number(g.releases)],
        ['Last change', since(g.changedAt)],
        ['By', g.by],
        ['Reason', g.reason],
        ['Generation', g.generation ? h('span', { title: exact(new Date(g.generation).toISOString()) }, code(String(g.generation))) : 'never released'],
      ])),
    section('Who waits where', [], waiters.value ? [partial(waiters.value), waiting.length
      ? table({
        label: `Waiters at ${name} by instance`, rows: page.rows, key: (w) => w.instance, more: page.more,
        columns: [{ label: 'Instance', cell: (w) => code(w.instance) }, { label: 'Waiters', num: true, cell: (w) => number(w.waiters) }],
      })
      : empty('Nothing waits at this gate.', command(`kennel gate wait ${name}`), ' waits here.')] : null),
    section('History', h('span', { class: 'small quiet' }, history.length ? `the last ${count(history.length, 'change')}` : null), history.length
      ? table({
        label: `History of ${name}`, rows: history, key: (t) => t.operation,
        columns: [
          { label: 'Change', cell: (t) => state(t.change === 'release', t.change === 'release' ? 'Release' : 'Close') },
          { label: 'When', cell: (t) => since(t.at) },
          { label: 'By', cell: (t) => t.by },
          { label: 'Reason', kind: 'wide', cell: (t) => [t.reason || none, t.replaced ? h('p', { class: 'small quiet' }, 'Replaced: ', code(t.replaced)) : null] },
          { label: 'Generation', num: true, cell: (t) => code(String(t.generation)) },
        ],
      })
      : empty('This gate was never changed.', 'Each release and close is recorded here with who made it, and why.')),
  ];
}

function state(released, text) {
  return badge(released ? 'good' : 'warn', text ?? (released ? 'Released' : 'Closed'));
}

// turn is the button that changes the state of a gate.
function turn(ctx, name, released, waiters, kind = 'primary', generation = true) {
  return released
    ? button('Close…', () => ask(ctx, name, 'close', waiters), { may: ctx.may, describe: `Close ${name}` })
    : button('Release…', () => ask(ctx, name, 'release', waiters, false, generation), { kind, may: ctx.may, describe: `Release ${name}` });
}

// ask asks for the reason of a change and makes it. A forced one replaces a
// stored state that is invalid. A gate without a generation was never released.
function ask(ctx, name, what, waiters, force = false, generation = true) {
  const release = what === 'release';
  act({
    title: [release ? 'Release ' : 'Close ', named(name)],
    text: release && !generation && !waiters ? 'This gate was never released. If its name is misspelt, no waiter continues, and a new gate is made. Release it anyway?' : force ? 'The gate is closed. Its stored state, which is invalid, is replaced, and its history is lost.' : release
      ? `All that wait at the gate continue at once${waiters ? `: ${count(waiters, 'waiter')} now` : ''}. It stays open until it is closed.`
      : 'All that arrive from now on wait until the gate is released. Those that have passed are not stopped.',
    reason: true,
    confirm: release ? 'Release' : 'Close',
    async run({ reason }) {
      const options = { body: { reason, force, by: ctx.me.local ? 'console' : '' }, reason };
      const done = await (release ? change('POST', api`gates/${name}/release`, options) : change('POST', api`gates/${name}/close`, options));
      ctx.reload();
      return [named(name), release ? ' is released.' : ' is closed.',
        done.signalled === false ? ' The signal could not be sent, so other instances see it when they poll.' : null];
    },
  });
}
