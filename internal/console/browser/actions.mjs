// Every button of the page and the call that it leads to; what a Reader must not
// do. A new button or call that is not here fails.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { functions, go, says, used, views, visit } from './page.mjs';

// The buttons by module, and what they call: "" changes nothing.
const buttons = {
  'dialog.js': { '×': '' },
  'repeat.js': { Continue: '', Stop: '', Dismiss: '' }, // of a run that an Operator began
  'table.js': { '← Previous': '', 'Next →': '' },
  'views/batches.js': { 'Submit a file…': 'POST batches', 'Report as CSV': '', 'Report as JSON': '' },
  'views/channels.js': { 'Delete…': 'DELETE channels/${name}', Read: '' },
  'views/deadletters.js': {
    'Show all': '', 'Show only these': '', Select: '',
    'Redrive ${selected}…': 'POST deadletters/${queue}/redrive', 'Redrive all…': 'POST deadletters/${queue}/redrive',
    'Delete ${selected}…': 'POST deadletters/${queue}/delete', 'Delete all…': 'POST deadletters/${queue}/delete',
  },
  'views/gates.js': {
    'Close…': 'POST gates/${name}/close', 'Replace and close…': 'POST gates/${name}/close',
    'Release…': 'POST gates/${name}/release', 'Release again…': 'POST gates/${name}/release',
  },
  'views/queues.js': { 'Send a message…': 'POST queues/${queue}/messages', 'Pause…': 'POST queues/${queue}/pause', 'Resume…': 'POST queues/${queue}/resume' },
  'views/timers.js': { 'Run now…': 'POST timers/${timer}/run', 'Pause…': 'POST timers/${timer}/pause', 'Resume…': 'POST timers/${timer}/resume' },
  'views/relay.js': { 'Move the backlog now…': 'POST relay/syphon' },
  'views/rules.js': { 'Edit…': 'PUT scale/rules', Check: 'PUT scale/rules?dryRun=true', 'Save…': 'PUT scale/rules', Cancel: '' },
  'views/sequences.js': { 'Begin a sequence…': 'POST sequences/${sequence}/raise', 'Raise…': 'POST sequences/${sequence}/raise' },
};

// hidden are behind a button that a Reader cannot press.
const hidden = ['Check', 'Save…'];

const all = Object.values(buttons).flatMap(Object.entries);
const calls = [...new Set(all.map(([, call]) => call).filter(Boolean))];

// patternOf matches a text in which ${…} stands for something.
const patternOf = (text, something = '.*') => new RegExp(`^${text.split(/\$\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join(something)}$`);

// labelOf returns the label of a button with this text.
const labelOf = (text) => (all.find(([label]) => label === text) ?? all.find(([label]) => patternOf(label).test(text)))?.[0];

test('every button and call of the page is known', () => {
  const found = {};
  const called = new Set();
  for (const file of readdirSync(process.env.PAGE, { recursive: true }).filter((name) => name.endsWith('.js'))) {
    const text = readFileSync(join(process.env.PAGE, file), 'utf8').replace(/^ *\/\/.*/gm, '');
    for (const [, label] of text.matchAll(/(?<!function )\bbutton\(\s*([^,]+),/g)) (found[file] ??= new Set()).add(label.replace(/^['`]|['`]$/g, ''));
    for (const [, method, path] of text.matchAll(/\b(?:call|change)\(\s*'((?!GET)\w+)', api`([^`]+)`/g)) called.add(`${method} ${path}`);
    assert.equal(text.match(/\bchange\(|\bcall\(\s*'(?!GET)/g)?.length ?? 0, (text.match(/\bchange\(\s*'\w+', api`/g)?.length ?? 0) + (file === 'api.js' ? 1 : 0), `${file}: write the method and the address where change is called`);
  }
  assert.deepEqual(Object.fromEntries(Object.entries(found).map(([file, labels]) => [file, [...labels].sort()])), Object.fromEntries(Object.entries(buttons).map(([file, of]) => [file, Object.keys(of).sort()])));
  assert.deepEqual([...called].sort(), calls.toSorted());
});

test('every view is visited', () => {
  const names = [...readFileSync(join(process.env.PAGE, 'app.js'), 'utf8').matchAll(/import\('\.\/views\/(\w+)\.js'\)/g)].map(([, name]) => name);
  assert.deepEqual([...new Set(views.map((hash) => hash.split('/')[1]))].sort(), names.sort());
});

test('a Reader sees each action, with the reason why not', () => visit('Reader', '#/bill', async (page) => {
  const seen = new Set();
  for (const style of ['full', 'other', 'gone']) {
    for (const hash of views) {
      await page.evaluate((style) => { globalThis.app.style = style; }, style);
      await go(page, hash === '#/bill' ? '#/relay' : '#/bill');
      await go(page, hash);
      await says(page, 'You have the role Reader');
      // Each button, also those that are not shown yet, is pressed.
      const pressed = await page.evaluate(() => [...document.querySelectorAll('.view button')].map((b) => {
        b.click();
        return [b.textContent, b.title, b.getAttribute('aria-disabled'), Boolean(document.querySelector('dialog [type=submit], dialog .danger'))];
      }));
      for (const [text, title, disabled, asked] of pressed) {
        assert.ok(!asked, `${hash}: ${text} asks a Reader`);
        const label = labelOf(text);
        if (!all.find(([l]) => l === label)?.[1]) continue;
        seen.add(label);
        assert.equal(disabled, 'true', `${hash}: ${text}`);
        assert.match(title, /needs the app role Operator/, `${hash}: ${text}`);
      }
      await page.evaluate(() => document.querySelector('dialog')?.close());
    }
  }
  assert.deepEqual([...seen].sort(), [...new Set(all.filter(([label, call]) => call && !hidden.includes(label)).map(([label]) => label))].sort());
  assert.deepEqual(await page.evaluate(() => globalThis.app.log.filter((request) => request.method !== 'GET')), []);
}, { fake: { name: 'bob', roles: ['Reader'], local: false, functions } }));

test('the app rejects each call of a Reader', () => visit('Reader', '#/bill', async (page) => {
  for (const call of calls) {
    const [method, path] = call.replace(/\$\{\w+\}/, 'orders').split(' ');
    const [status, code] = await page.evaluate(async ([method, path]) => {
      const answer = await fetch(`/api/console/api/${path}`, { method, headers: { 'X-Kennel-Console': '1', 'Content-Type': 'application/json' }, body: '{}' });
      return [answer.status, (await answer.json()).error.code];
    }, [method, path]);
    assert.deepEqual([status, code], [403, 'role_required'], call);
  }
}));

// It comes last: the other tests use the page as an Operator.
export function everythingIsUsed() {
  test('an Operator has pressed each button and made each call', () => {
    const pressed = new Set([...used.pressed].map(labelOf));
    assert.deepEqual(all.map(([label]) => label).filter((label) => !pressed.has(label)), [], 'buttons that were not pressed');
    assert.deepEqual(calls.filter((call) => ![...used.made].some((request) => patternOf(call.replace(/\?.*/, ''), '[^/]+').test(request))), [], 'calls that were not made, or failed');
  });
}
