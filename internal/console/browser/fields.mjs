// Text of strangers in every field that a client of the API can set: the app
// refuses it, or the page shows it as text. The fields are those of the
// description of the API; a new one that is not here fails.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, isText, spec, visit } from './page.mjs';

const texts = JSON.parse(process.env.STRANGE);

const refused = 'refused'; // with a 4xx
const kept = 'kept'; // if it is valid; no view shows it
const channel = '#/channels/fields';
const gate = '#/gates/fields';

// What becomes of each field: refused, kept, or the address of a view that shows
// it, which may be made from the answer.
const fields = {
  'POST /sequences/{sequence}/next': { sequence: refused, lease: refused },
  'POST /sequences/{sequence}/next/return': { sequence: refused, 'body.lease': kept }, // an unknown lease returns nothing
  'GET /sequences': { continuation: kept },
  'GET /sequences/{sequence}': { sequence: refused },
  'POST /sequences/{sequence}/raise': { sequence: refused, 'body.reason': kept },
  'GET /gates': { continuation: kept },
  'GET /gates/{gate}': { gate: refused },
  'GET /gates/{gate}/waiters': { gate: refused },
  'POST /gates/{gate}/release': { gate: refused, 'body.by': gate, 'body.reason': gate },
  'POST /gates/{gate}/close': { gate: refused, 'body.by': gate, 'body.reason': gate },
  'GET /gates/{gate}/wait': { gate: refused, timeout: refused },
  'GET /channels': { continuation: refused },
  'PUT /channels/{channel}': { channel: '#/channels', 'If-None-Match': refused, 'body.owner': ({ channel }) => `#/channels/${encodeURIComponent(channel)}` },
  'GET /channels/{channel}': { channel: refused },
  'DELETE /channels/{channel}': { channel: refused, 'If-Match': refused },
  'GET /channels/{channel}/deletion': { channel: refused, incarnation: refused },
  'GET /channels/{channel}/blogs': { channel: refused, order: refused, after: refused, continuation: refused },
  'POST /channels/{channel}/blogs': { channel: refused, 'If-Match': refused, 'Idempotency-Key': kept, 'body.title': channel, 'body.text': channel, 'body.userId': channel },
  'GET /channels/{channel}/blogs/{blog}': { channel: refused, blog: refused },
  'PUT /channels/{channel}/blogs/{blog}': { channel: refused, blog: refused, 'If-Match': refused, 'body.title': kept, 'body.text': kept, 'body.userId': kept }, // replaced by the next one
  'DELETE /channels/{channel}/blogs/{blog}': { channel: refused, blog: refused, 'If-Match': refused },
  'GET /batches': { order: refused, continuation: refused },
  'POST /batches': { processor: refused, name: '#/batches', 'Idempotency-Key': kept, body: refused, 'body[].*': ({ batch }) => `#/batches/${batch}` },
  'GET /batches/{batch}': { batch: refused },
  'GET /batches/{batch}/results': { batch: refused, outcome: refused, continuation: refused },
  'GET /batches/{batch}/report': { batch: refused, safe: refused },
  'GET /queues/{queue}': { queue: refused },
  'POST /queues/{queue}/messages': { queue: refused, delay: refused },
  'POST /queues/{queue}/pause': { queue: refused, 'body.by': refused, 'body.reason': refused }, // the app declares no queue
  'POST /queues/{queue}/resume': { queue: refused, 'body.by': refused, 'body.reason': refused },
  'GET /timers/{timer}': { timer: refused },
  'POST /timers/{timer}/run': { timer: refused },
  'POST /timers/{timer}/pause': { timer: refused, 'body.by': refused, 'body.reason': refused }, // the app declares no timer
  'POST /timers/{timer}/resume': { timer: refused, 'body.by': refused, 'body.reason': refused },
  'GET /deadletters/{queue}': { queue: refused },
  'POST /deadletters/{queue}/redrive': { queue: refused, 'body.ids[]': kept, 'body.before': refused }, // no letter has it
  'POST /deadletters/{queue}/delete': { queue: refused, 'body.ids[]': kept, 'body.before': refused },
  'POST /messages/{entity}': { entity: refused, BrokerProperties: refused, 'Kennel-Properties': refused },
  'GET /scale/history': { from: refused, to: refused, continuation: refused },
  'PUT /scale/rules': {
    dryRun: refused, 'body.coolDown': refused, 'body.startUp': refused, 'body.windows[].days[]': refused, 'body.windows[].from': refused,
    'body.windows[].to': refused, 'body.windows[].zone': refused, 'body.windows[].lead': refused,
  },
};

// Valid requests, in which one field is replaced.
const blog = { title: 'Title', text: 'Text', userId: 'ann' };
const item = { id: 't1', account: 'ann', sku: 'call', quantity: 3, unitPrice: '0.25', currency: 'EUR' };
const bodies = {
  'POST /sequences/{sequence}/next/return': { lease: 'x', first: 1 },
  'POST /sequences/{sequence}/raise': { atLeast: 1 },
  'POST /gates/{gate}/release': { by: 'ann', reason: 'none' },
  'POST /gates/{gate}/close': { by: 'ann', reason: 'none' },
  'PUT /channels/{channel}': { owner: 'ann' },
  'POST /channels/{channel}/blogs': blog,
  'PUT /channels/{channel}/blogs/{blog}': blog,
  'POST /batches': [item],
  'POST /deadletters/{queue}/redrive': { ids: ['none'] },
  'POST /deadletters/{queue}/delete': { ids: ['none'] },
  'POST /messages/{entity}': {},
  'POST /queues/{queue}/messages': {},
  'POST /queues/{queue}/pause': { by: 'ann', reason: 'none' },
  'POST /queues/{queue}/resume': { by: 'ann', reason: 'none' },
  'POST /timers/{timer}/pause': { by: 'ann', reason: 'none' },
  'POST /timers/{timer}/resume': { by: 'ann', reason: 'none' },
  'PUT /scale/rules': { version: 1, depth: [{ from: 0, hands: 8 }], windows: [{ days: ['mon'], from: '08:00', to: '09:00', zone: 'UTC', instances: 1, lead: '1m' }] },
};
const values = { sequence: 'fields', gate: 'fields', channel: 'fields', blog: '20260102T030405.000000006Z-0123abcd', batch: '20260102030405678-abcdefgh', queue: 'strange-poison', timer: 'fields', entity: 'fields', processor: 'billing' };
const conditions = { 'PUT /channels/{channel}/blogs/{blog}': { 'If-Match': '*' }, 'DELETE /channels/{channel}/blogs/{blog}': { 'If-Match': '*' } };

const of = (v) => (v?.$ref ? of(v.$ref.split('/').slice(1).reduce((o, name) => o[name], spec)) : v);

// textsOf yields the places of texts in a schema.
function* textsOf(schema, place) {
  const s = of(schema);
  if ([s.type].flat().includes('string')) yield place;
  for (const part of s.allOf ?? []) yield* textsOf(part, place);
  for (const [name, member] of Object.entries(s.properties ?? {})) yield* textsOf(member, `${place}.${name}`);
  if (s.items) yield* textsOf(s.items, `${place}[]`);
  if (s.additionalProperties && !s.properties) yield `${place}.*`;
}

// operations are those of the API: {name, method, path, parameters, fields}.
const operations = Object.entries(spec.paths).flatMap(([path, known]) => Object.entries(known).filter(([, o]) => o.responses).map(([method, o]) => {
  const parameters = [...(known.parameters ?? []), ...(o.parameters ?? [])].map(of);
  const inParameters = parameters.filter((p) => [...textsOf(p.schema, '')].length).map((p) => p.name);
  const inBody = Object.values(of(o.requestBody)?.content ?? {}).flatMap(({ schema }) => [...textsOf(schema ?? {}, 'body')]);
  return { name: `${method.toUpperCase()} ${path}`, method: method.toUpperCase(), path, parameters, fields: [...inParameters, ...inBody] };
}));

test('every field that a client can set is known', () => {
  const known = Object.fromEntries(operations.filter((o) => o.fields.length).map((o) => [o.name, o.fields.toSorted()]));
  assert.deepEqual(known, Object.fromEntries(Object.entries(fields).map(([name, of]) => [name, Object.keys(of).sort()])));
});

// send makes a request whose field has a text, as a program does.
async function send({ name, method, path, parameters }, field, text) {
  if (field === 'body.owner') values.channel = `owned ${texts.findIndex((t) => text.startsWith(t))}`; // a channel keeps its owner
  else values.channel = 'fields';
  const valueOf = (p) => (p === field ? text : values[p]);
  const query = new URLSearchParams();
  const headers = { ...conditions[name] };
  for (const p of parameters) {
    const value = valueOf(p.name);
    if (value === undefined) continue;
    if (p.in === 'query') query.set(p.name, value);
    if (p.in === 'header') headers[p.name] = value;
  }
  let body;
  if (bodies[name]) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(bodies[name]);
    if (field === 'body') body = text;
    if (field.startsWith('body.') || field.startsWith('body[')) body = JSON.stringify(replaced(bodies[name], field.slice(4), text));
  }
  // A gate changes only if it is not so already.
  if (/ \/gates\/.*(release|close)$/.test(name)) await fetch(`${process.env.STRANGER}/api/gates/fields/${name.endsWith('close') ? 'release' : 'close'}`, { method: 'POST' });
  const address = path.replace(/\{(\w+)\}/g, (_, p) => encodeURIComponent(valueOf(p)));
  const answer = await fetch(`${process.env.STRANGER}/api${address}?${query}`, { method, headers, body });
  return { status: answer.status, text: await answer.text() };
}

// replaced returns a value in which what is at a place is a text: .windows[].from
function replaced(value, place, text) {
  if (place === '') return text;
  if (place === '.*') return { ...value, id: text, account: text, sku: text };
  if (place.startsWith('[]')) return value.map((v) => replaced(v, place.slice(2), text));
  const [, name, rest] = /^\.(\w+)(.*)$/.exec(place);
  return { ...value, [name]: replaced(value[name], rest, text) };
}

// shows waits until a view has a text, also where it has to be opened.
function shows(page, text) {
  return page.waitForFunction((text) => document.querySelector('.view').textContent.includes(text), text);
}

test('text of strangers in every field is refused, or shown as text', () => visit('Operator', '#/bill', async (page) => {
  await fetch(`${process.env.STRANGER}/api/channels/fields`, { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: '{"owner":"ann"}' });
  const shown = new Map(); // the texts by view
  const wrong = [];
  for (const operation of operations) {
    for (const field of operation.fields) {
      for (const text of texts) {
        // Each place has its own text; a title is long enough to be cut.
        const sent = `${text} ${operation.method} ${operation.path.replace(/\W+/g, ' ')} ${field.replace(/\W+/g, ' ')}`;
        const fate = fields[operation.name][field];
        const { status, text: answer } = await send(operation, field, sent);
        const isRight = { [refused]: status >= 400 && status < 500, [kept]: status < 500 }[fate] ?? status < 300;
        if (!isRight) wrong.push(`${operation.name}, ${field}: ${sent}: ${status} ${answer}`);
        if (!isRight || fate === refused || fate === kept) continue;
        const view = typeof fate === 'function' ? fate(JSON.parse(answer)) : fate;
        shown.set(view, [...(shown.get(view) ?? []), sent]);
      }
    }
  }
  assert.deepEqual(wrong, []);
  for (const [hash, sent] of shown) {
    await go(page, hash);
    for (const text of sent) await shows(page, text);
    await isText(page);
  }
}));

test('dead letters of strangers are shown as text', () => visit('Operator', '#/deadletters/strange-poison', async (page) => {
  for (const text of texts) {
    await shows(page, text);
    await shows(page, `"customer": ${JSON.stringify(text)}`);
  }
  await isText(page);
}));
