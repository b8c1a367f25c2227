// The relay: where messages for Service Bus go, and the backlog.

import { api, change } from '../api.js';
import { act } from '../dialog.js';
import { count, duration, none, number, since } from '../format.js';
import { badge, button, code, command, empty, partial, section, tile, tiles } from '../parts.js';
import { isRunning, progress, repeat } from '../repeat.js';
import { slice, sortable, table } from '../table.js';

const run = 'relay'; // the key of its run
const noun = ['message', 'messages'];

const states = {
  healthy: ['good', 'Healthy', 0],
  suspect: ['warn', 'Suspect', 1],
  failedOver: ['bad', 'Failed over', 2],
};

export default {
  sources: () => ({ relay: { path: api`relay`, every: 3, expects: ['bus_off'] } }),

  render({ relay }, ctx) {
    if (relay.error?.code === 'bus_off') return empty('This app has no Service Bus, so it sends no messages.', relay.error.message);
    const value = relay.value;
    if (!value) return null;
    return [
      progress(run),
      partial(value),
      summary(value.items),
      section('Queues and topics', button('Move the backlog now…', () => syphon(value.items, ctx), { may: ctx.may || (isRunning(run) ? 'The backlog is being moved' : '') }),
        value.items.length ? entities(value.items, ctx)
          : empty('No message was sent in the last hour, and none waits.', 'Queues and topics appear here when a program sends to them: ', command('POST /api/messages/{entity}'))),
    ];
  },
};

// sampleOf returns the backlog of a queue or topic. A zero that was counted
// before it failed over is outdated.
function sampleOf({ state, since, backlog }) {
  const outdated = state === 'failedOver' && backlog && !backlog.messages && Date.parse(backlog.at) < Date.parse(since);
  return outdated ? undefined : backlog;
}

// backlogOf adds up the backlog. It is undefined if it was not sampled.
function backlogOf(items) {
  const samples = items.map(sampleOf).filter(Boolean);
  const messages = samples.reduce((sum, s) => sum + s.messages, 0);
  const outdated = items.some((e) => e.backlog && !sampleOf(e));
  if (!samples.length || (outdated && !messages)) return undefined;
  return {
    messages,
    oldestSeconds: Math.max(...samples.map((s) => s.oldestSeconds)),
    more: outdated || samples.some((s) => s.more),
    at: samples[0].at,
  };
}

function summary(items) {
  const backlog = backlogOf(items);
  const is = (state) => items.filter((e) => e.state === state).length;
  return tiles(
    tile('Failed over', number(is('failedOver')), 'sent to the backlog', is('failedOver') ? 'bad' : ''),
    tile('Suspect', number(is('suspect')), 'sends fail', is('suspect') ? 'warn' : ''),
    tile('In the backlog', amount(backlog), backlog ? ['counted ', since(backlog.at)] : 'not counted lately', backlog?.messages ? 'warn' : ''),
    tile('Oldest of them', backlog?.messages ? duration(backlog.oldestSeconds) : none, 'since it was sent', backlog?.oldestSeconds > 300 ? 'bad' : ''));
}

function amount(backlog) {
  return backlog ? `${backlog.more ? '≥ ' : ''}${number(backlog.messages)}` : none;
}

function entities(items, ctx) {
  const rank = (e) => states[e.state]?.[2] ?? 3;
  const columns = [
    { label: 'Queue or topic', by: (e) => e.entity, cell: (e) => code(e.entity) },
    { label: 'State', by: rank, cell: (e) => [stateOf(e), e.throttled ? [' ', badge('warn', 'Throttled')] : null] },
    { label: 'Since', num: true, by: (e) => (e.since ? -Date.parse(e.since) : undefined), cell: (e) => (e.since ? since(e.since) : 'nothing is sent') },
    { label: 'Backlog', num: true, by: (e) => sampleOf(e)?.messages, cell: (e) => amount(sampleOf(e)) },
    { label: 'Oldest', num: true, by: (e) => sampleOf(e)?.oldestSeconds, cell: (e) => (e.backlog?.messages ? duration(e.backlog.oldestSeconds) : none) },
    { label: 'Last error', kind: 'wide', cell: (e) => e.lastError ?? none },
  ];
  const sorted = sortable(ctx, 'entities', columns, items.toSorted((a, b) => rank(b) - rank(a))); // failing entities first
  const page = slice(ctx, 'entitiesPage', sorted.rows);
  return table({ label: 'Queues and topics', columns: sorted.columns, rows: page.rows, key: (e) => e.entity, mark: (e) => (e.state === 'failedOver' ? 'wrong' : ''), more: page.more });
}

function stateOf(e) {
  const [kind, text] = states[e.state] ?? ['plain', e.state];
  return badge(kind, text);
}

function syphon(items, ctx) {
  const total = backlogOf(items)?.messages;
  act({
    title: 'Move the backlog now',
    text: ['Messages that wait in the secondary namespace go to their queues and topics. The app does this by itself, each minute or all the time; this does not wait for it. Messages whose queue or topic still does not work stay.'],
    reason: true,
    confirm: 'Move',
    async run({ reason }) {
      const call = () => change('POST', api`relay/syphon`, { reason });
      const first = await call(); // its failure is shown in the dialog
      repeat(run, {
        title: 'Backlog:', verb: 'moved', noun, total, refresh: () => ctx.refresh(),
        call: async (last) => ended(last ? await call() : first, ctx),
      });
      return '';
    },
  });
}

// ended describes a call as part of a run.
function ended(answer, ctx) {
  if (!answer.more) ctx.reload();
  const lines = [
    answer.expired && `${count(answer.expired, ...noun)} expired in the backlog.`,
    answer.deadLettered && `${count(answer.deadLettered, ...noun)} cannot be sent and became dead letters of the backlog.`,
    answer.held && `${count(answer.held, ...noun)} stay, because their queue or topic does not take them now.`,
    answer.unreadable && `${count(answer.unreadable, 'group')} of messages cannot be decoded and stay.`,
  ].filter(Boolean);
  const note = answer.more && !answer.moved ? 'No other message can be moved now. The app tries again by itself.' : '';
  return { done: answer.moved, more: answer.more, lines, note };
}
