// Small parts that the views share.

import { h } from './dom.js';
import { count, number } from './format.js';
import { link } from './router.js';

// badge is a word on a coloured ground. Kinds: good, warn, bad, info, plain.
export function badge(kind, text) {
  return h('span', { class: `badge ${kind}` }, text);
}

// code is a name or id, which is shown in letters of equal width.
export function code(text) {
  return h('code', null, text);
}

// named is a name within a sentence. Its letters do not change the order of the
// words around it, whatever their direction.
export function named(text) {
  return h('bdi', null, text);
}

// to is a link to a view.
export function to(text, view, args, query) {
  return h('a', { href: link(view, args, query) }, text);
}

// tile is a figure with its name. Kind is "", warn or bad.
export function tile(label, value, detail, kind = '') {
  return h('div', { class: `tile ${kind}` },
    h('dt', null, label),
    h('dd', null, h('span', { class: 'value' }, value), detail && h('span', { class: 'detail' }, detail)));
}

export function tiles(...all) {
  return h('dl', { class: 'tiles' }, all);
}

// facts is a list of names and values; pairs without a value are left out.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value))));
}

// section is a part of a view with a heading. Beside the heading are its tools.
export function section(title, tools, ...children) {
  return h('section', { 'aria-label': title }, h('div', { class: 'head' }, h('h2', null, title), h('div', { class: 'tools' }, tools)), children);
}

// toolbar is the line above a list: its size, and its tools.
export function toolbar(text, ...tools) {
  return h('div', { class: 'head' }, h('p', { class: 'quiet' }, text), h('div', { class: 'tools' }, tools));
}

// empty replaces an empty list, with advice.
export function empty(title, ...advice) {
  return h('div', { class: 'empty' }, h('p', { class: 'title' }, title), advice.length ? h('p', null, advice) : null);
}

// command is a line for a terminal.
export function command(text) {
  return h('code', { class: 'command' }, text);
}

// note is a remark of a kind: info, warn, bad or good.
export function note(kind, ...children) {
  return h('div', { class: `note ${kind}`, role: kind === 'bad' ? 'alert' : null }, children);
}

// leftOut warns that a page of a list lacks rows.
export function leftOut(value, one, many) {
  return value.leftOut ? note('warn', h('p', null, `${count(value.leftOut, one, many)} of this page cannot be read and ${value.leftOut === 1 ? 'is' : 'are'} left out; the log names the first one.`)) : null;
}

// failure shows why a call failed, with the id under which the log has it.
export function failure(error, kind = 'bad') {
  return note(kind,
    h('p', null, error.message),
    error.items?.length ? h('ul', { class: 'lines', tabindex: '0', 'aria-label': 'Invalid items' }, error.items.map((item) => h('li', { key: item.line }, h('strong', null, `Line ${number(item.line)}: `), item.message))) : null,
    error.requestId && h('p', { class: 'small' }, 'Code ', code(error.code), ' · request ', code(error.requestId)));
}

// partial states that an answer lacks the instances that could not be read.
export function partial(value) {
  return value.partial ? note('warn', 'The reports of the other instances could not be read, so this covers one instance only.') : null;
}

// button does an action. What a Reader must not do is shown and cannot be
// chosen; may has the reason why not, or is "".
export function button(label, onclick, { kind = '', may = '', describe, busy = false } = {}) {
  return h('button', {
    type: 'button', class: kind, title: may || null, 'aria-label': describe ?? null,
    'aria-disabled': may || busy ? 'true' : null,
    onclick: may || busy ? null : onclick,
  }, label);
}

// bar shows parts of a whole; parts are {value, kind, label}.
export function bar(parts, whole, label) {
  return h('div', { class: 'bar', role: 'img', 'aria-label': label },
    parts.map((p) => h('span', { key: p.kind, class: p.kind, vars: { '--part': whole ? p.value / whole : 0 } })));
}

// shares describes parts in words.
export function shares(parts) {
  return parts.filter((p) => p.value).map((p) => `${number(p.value)} ${p.label}`).join(', ');
}

// field is a labelled input.
export function field(label, input, hint, ...more) {
  return h('label', { class: 'field' }, h('span', null, label), input, hint && h('small', null, hint), more);
}

// opener opens the item of a view whose name is typed.
export function opener(view, label) {
  return h('form', {
    class: 'filter', role: 'search', onsubmit: (event) => {
      event.preventDefault();
      const name = event.target.elements.name.value.trim();
      if (name) location.hash = link(view, [name]);
    },
  }, h('input', { name: 'name', type: 'search', placeholder: label, 'aria-label': label, autocomplete: 'off', spellcheck: 'false', required: true }), h('button', null, 'Open'));
}
