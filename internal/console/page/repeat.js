// Actions that take many calls, one after the other: their progress, which a
// person can stop. They go on while another view is open, and end with the page;
// each call is complete by itself, so nothing is lost then.

import { h } from './dom.js';
import { count, number } from './format.js';
import { bar, button, failure, note } from './parts.js';

const runs = new Map(); // by key

// repeat begins a run; one of the same key that has ended is replaced.
//
//   title     the action, as a title
//   verb      the action in the past: "put back"
//   noun      [one, many] of the items
//   total     about how many they are, if that is known
//   call      sends a request; it gets the answer of the last one, undefined at
//             first, and returns {done, more}: how many it has done, and whether
//             another call may do more. It may have lines, which are shown at the
//             end, and note
//   refresh   draws the view
export function repeat(key, options) {
  const run = { ...options, done: 0, state: 'running', lines: [], note: '', last: undefined, error: undefined };
  runs.set(key, run);
  advance(run);
}

// isRunning reports whether a run of this key is under way.
export function isRunning(key) {
  return ['running', 'stopping'].includes(runs.get(key)?.state);
}

async function advance(run) {
  run.state = 'running';
  run.error = undefined;
  do {
    run.refresh();
    try {
      run.last = await run.call(run.last);
    } catch (error) {
      run.state = 'failed';
      run.error = error;
      break;
    }
    run.done += run.last.done;
    run.lines = run.last.lines ?? [];
    run.note = run.last.note ?? '';
    if (!run.last.more || !run.last.done) run.state = 'done';
    else if (run.state === 'stopping') run.state = 'stopped';
  } while (run.state === 'running');
  run.refresh();
}

// progress shows the run of a key, or nothing.
export function progress(key) {
  const run = runs.get(key);
  if (!run) return null;
  const going = isRunning(key);
  const total = Math.max(run.total ?? 0, run.done);
  const text = run.total && going ? `${number(run.done)} of about ${count(total, ...run.noun)} ${run.verb}` : `${count(run.done, ...run.noun)} ${run.verb}`;
  const states = { running: '', stopping: ' Stopping after this call.', stopped: ' Stopped.', done: run.last?.more ? '' : ' Done.', failed: '' };
  const refresh = run.refresh;
  return h('div', { key: `run ${key}`, class: `note run ${run.state === 'done' ? 'good' : 'info'}`, role: 'status' },
    h('div', { class: 'head' },
      h('p', null, h('strong', null, run.title), ` ${text}.${states[run.state]}`),
      h('div', { class: 'tools' },
        run.state === 'failed' || run.state === 'stopped' ? button('Continue', () => advance(run), { kind: 'primary' }) : null,
        going
          ? button('Stop', () => { run.state = 'stopping'; refresh(); }, { busy: run.state === 'stopping' })
          : button('Dismiss', () => { runs.delete(key); refresh(); }))),
    run.total && going ? bar([{ value: run.done, kind: 'good', label: run.verb }], total, text) : null,
    run.note ? h('p', null, run.note) : null,
    run.lines.length ? h('ul', { class: 'lines' }, run.lines.map((line) => h('li', { key: line }, line))) : null,
    run.error ? failure(run.error) : null);
}
