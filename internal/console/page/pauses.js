// Pauses of queues and timers: who paused them, when and why, and the dialogs
// that begin and end a pause.

import { act } from './dialog.js';
import { h } from './dom.js';
import { since } from './format.js';
import { badge, named, note } from './parts.js';

// by is who paused something. A name that the platform has not confirmed is what
// the caller said.
function by({ by }) {
  return by.verified ? by.name : `${by.name} (not verified)`;
}

// pauseMark marks an item that is paused.
export function pauseMark({ paused }) {
  return paused ? [' ', h('span', { title: `Paused by ${by(paused)}. ${paused.reason}` }, badge('warn', 'Paused'))] : null;
}

// pauseNote tells of an item that is paused.
export function pauseNote(paused) {
  return paused ? note('warn', h('p', null, h('strong', null, 'Paused '), since(paused.at), ' by ', named(by(paused)), paused.reason ? [': ', paused.reason] : null)) : null;
}

// askPause asks for the reason of a pause, or of its end, and makes the change
// by call, which gets the options of the request.
export function askPause(ctx, name, { resume, text, call }) {
  act({
    title: [resume ? 'Resume ' : 'Pause ', named(name)],
    text,
    reason: true,
    confirm: resume ? 'Resume' : 'Pause',
    async run({ reason }) {
      await call({ body: { reason, by: ctx.me.local ? 'console' : '' }, reason });
      ctx.reload();
      return [named(name), resume ? ' is resumed.' : ' is paused.'];
    },
  });
}
