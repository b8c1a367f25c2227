// Dialogs in which a person confirms an action, and the short messages after it.

import { h, patch, printable } from './dom.js';
import { bytes } from './format.js';
import { button, failure, field } from './parts.js';

// act asks for the values that an action needs, runs it, and shows its failure
// in the dialog, where it can be repeated.
//
//   title, text   the effect; text may be nodes
//   confirm       the label of the button
//   danger        the button is red
//   typed         the text that must be typed, as the name of the deleted item,
//                 as it is or as it is shown; both may be functions of the values
//   reason        asks for a reason: true, or 'required'
//   fields        of {name, label, hint, type, value, required, choices, min, max};
//                 code is for text in letters of equal width
//   trial         {label, run(values)}: a button that tries it without effect, and
//                 shows the nodes that run returns in the form
//   run(values)   does it; values has reason and the fields. It returns the
//                 message to show afterwards, text or nodes, or "". An error with
//                 the name of a field in its member field is shown below that
export function act(options) {
  const box = document.getElementById('dialogs');
  const caller = document.activeElement;
  const state = { values: {}, busy: false, error: undefined, tried: undefined, closed: false };
  for (const f of options.fields ?? []) state.values[f.name] = f.value ?? (f.type === 'checkbox' ? false : '');
  if (options.reason) state.values.reason = '';
  const element = () => box.querySelector('dialog');
  const close = () => {
    if (!state.closed) element()?.close(); // else it is that of another action
  };
  const closed = () => {
    state.closed = true;
    patch(box);
    giveBack(caller);
  };
  const set = (name, value) => {
    state.values[name] = value;
    draw();
  };
  const submit = (event) => {
    event.preventDefault();
    if (missing()) return;
    attempt(options.run, (message) => {
      close();
      toast(message);
    });
  };
  const attempt = async (run, then) => {
    if (state.busy) return;
    Object.assign(state, { busy: true, error: undefined, tried: undefined });
    draw();
    try {
      const result = await run(state.values);
      state.busy = false;
      then(result);
    } catch (error) {
      Object.assign(state, { busy: false, error });
      if (state.closed) toastFailure(error); // else it would be lost
    }
    if (!state.closed) draw();
  };
  const given = (option) => (typeof option === 'function' ? option(state.values) : option);
  // No name holds a backslash, so no two names are shown alike.
  const isTyped = (name) => [name, printable(name)].includes(state.values.typed);
  const mismatch = () => (state.values.typed && !isTyped(given(options.typed)) ? 'This does not match. Type it exactly as it is shown above.' : '');
  const missing = () => {
    const typed = given(options.typed);
    if (typed !== undefined && !isTyped(typed)) return `Type ${typed} first`;
    const empty = allFields().find((f) => f.required && String(state.values[f.name]).trim() === '');
    return empty ? `${empty.label} is required` : '';
  };
  const allFields = () => [
    ...(options.fields ?? []),
    ...(options.reason ? [{ name: 'reason', label: 'Reason', type: 'textarea', required: options.reason === 'required', hint: 'It is recorded with your name.', maxlength: 1000 }] : []),
    ...(given(options.typed) !== undefined ? [{ name: 'typed', label: ['Type ', h('code', null, given(options.typed)), ' to confirm'], type: 'text', required: true, wrong: mismatch() }] : []),
  ];
  const blamed = (f) => (state.error?.field === f.name ? { ...f, wrong: state.error.message } : f);
  const draw = () => patch(box, h('dialog', { 'aria-labelledby': 'dialog-title', 'aria-describedby': options.text ? 'dialog-text' : null, onclose: closed, oncancel: (event) => { if (state.busy) event.preventDefault(); } },
    h('form', { method: 'dialog', onsubmit: submit, novalidate: false },
      h('h2', { id: 'dialog-title' }, options.title),
      h('div', { class: 'body' },
        h('div', { key: 'form' },
          options.text && h('div', { class: 'text', id: 'dialog-text' }, options.text),
          allFields().map((f) => h('div', { key: f.name }, inputOf(blamed(f), state.values[f.name] ?? '', (value) => set(f.name, value), state.busy))),
          state.tried && h('div', { role: 'status' }, state.tried)),
        state.error && !state.error.field && failure(state.error)),
      h('div', { class: 'actions' },
        options.trial && h('button', { type: 'button', key: 'trial', class: 'trial', 'aria-disabled': state.busy ? 'true' : null, onclick: () => attempt(options.trial.run, (nodes) => { state.tried = nodes; }) }, options.trial.label),
        h('button', { type: 'button', key: 'cancel', onclick: close }, 'Cancel'),
        h('button', { type: 'submit', key: 'ok', class: given(options.danger) ? 'danger' : 'primary', 'aria-disabled': missing() || state.busy ? 'true' : null, title: missing() || null },
          state.busy ? 'Working…' : options.confirm)))));
  draw();
  element().showModal();
  (element().querySelector('input, textarea') ?? element().querySelector('button')).focus();
}

// giveBack moves the focus to the element that had it before a dialog, or to
// the content if that is gone, such as the row of a deleted item.
function giveBack(caller) {
  (caller?.isConnected ? caller : document.getElementById('main'))?.focus();
}

function inputOf(f, value, set, busy) {
  const props = { name: f.name, required: f.required ?? null, disabled: busy, oninput: (event) => set(event.target.value) };
  const label = f.required ? f.label : [f.label, h('span', { class: 'quiet' }, ' (optional)')];
  switch (f.type) {
    case 'checkbox':
      return h('label', { class: 'check' }, h('input', { type: 'checkbox', name: f.name, checked: value, disabled: busy, onchange: (event) => set(event.target.checked) }),
        h('span', null, f.label, f.hint && h('small', null, f.hint)));
    case 'textarea':
      return field(label, h('textarea', { ...props, class: f.code ? 'code' : null, spellcheck: f.code ? 'false' : null, rows: f.rows ?? 2, maxlength: f.maxlength ?? null, ...wrongOf(f), value: f.value ?? '' }), f.hint, wrongText(f));
    case 'file':
      return fileInput(f, value, set, busy);
    default:
      return field(label, h('input', {
        ...props, type: f.type ?? 'text', min: f.min ?? null, max: f.max ?? null, step: f.step ?? null, autocomplete: 'off', spellcheck: 'false',
        inputmode: f.inputmode ?? null, ...wrongOf(f), maxlength: f.maxlength ?? null, value: f.value ?? '', list: f.choices ? `${f.name}-choices` : null,
      }), f.hint, wrongText(f), f.choices && h('datalist', { id: `${f.name}-choices` }, f.choices.map((c) => h('option', { key: c, value: c }))));
  }
}

// wrongOf and wrongText mark an input whose value is wrong, and state why.
function wrongOf(f) {
  return { 'aria-invalid': f.wrong ? 'true' : null, 'aria-describedby': f.wrong !== undefined ? `${f.name}-wrong` : null };
}

function wrongText(f) {
  return f.wrong !== undefined && h('small', { id: `${f.name}-wrong`, class: 'wrong', role: 'status' }, f.wrong);
}

// fileInput takes a file that is chosen or dropped.
function fileInput(f, file, set, busy) {
  const mark = (over) => (event) => {
    event.preventDefault();
    event.currentTarget.classList.toggle('over', over);
  };
  return h('div', {
    class: 'drop', ondragover: mark(true), ondragleave: mark(false), ondrop: (event) => {
      mark(false)(event);
      if (busy || !event.dataTransfer.files.length) return;
      event.currentTarget.querySelector('input').files = event.dataTransfer.files;
      set(event.dataTransfer.files[0]);
    },
  },
  h('label', { class: 'field' }, h('span', null, 'Drop a file here, or choose one'),
    h('input', { type: 'file', name: f.name, accept: f.accept ?? null, disabled: busy, onchange: (event) => set(event.target.files[0] ?? '') })),
  h('small', { class: 'quiet' }, file ? `${bytes(file.size)}. ` : null, f.hint));
}

// inform shows something without an action.
export function inform(title, ...content) {
  const box = document.getElementById('dialogs');
  const caller = document.activeElement;
  patch(box, h('dialog', { 'aria-labelledby': 'dialog-title', onclose: () => { patch(box); giveBack(caller); } },
    h('form', { method: 'dialog' }, h('h2', { id: 'dialog-title' }, title), h('div', { class: 'body' }, content),
      h('div', { class: 'actions' }, h('button', { class: 'primary' }, 'Close')))));
  box.querySelector('dialog').showModal();
}

let messages = [];
let nextMessage = 0;

// toast shows a message for some seconds; a screen reader reads it out.
export function toast(text, kind = 'good') {
  if (!text) return;
  const message = { id: nextMessage++, text, kind, at: Date.now() };
  messages = [...messages.slice(-2), message];
  drawMessages();
  setTimeout(() => dismiss(message), kind === 'bad' ? 15000 : 6000);
}

// toastFailure shows why a call failed where no dialog is open.
export function toastFailure(error) {
  toast(`${error.message}${error.requestId ? ` Request ${error.requestId}.` : ''}`, 'bad');
}

// clearToasts removes the messages of a view that is left, but for one of an
// action that led to the next view.
export function clearToasts() {
  messages = messages.filter((m) => Date.now() - m.at < 1000);
  drawMessages();
}

function dismiss(message) {
  messages = messages.filter((m) => m !== message);
  drawMessages();
}

function drawMessages() {
  patch(document.getElementById('toasts'), messages.map((m) => h('div', { key: m.id, class: `toast ${m.kind}` },
    h('span', null, m.text), button('×', () => dismiss(m), { describe: 'Dismiss this message' }))));
}
