// Characters that are not seen, and text from right to left, in what clients
// name and write.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialog, go, says, visit } from './page.mjs';

// What is stored, and how it is shown.
const lookalikes = {
  'pups': 'pups',
  'pups\u200b': 'pups\\u200b',
  'pu\u2060ps': 'pu\\u2060ps',
  'pu\u00adps': 'pu\\u00adps',
  '\ufeffpups': '\\ufeffpups',
  'pups\u2066': 'pups\\u2066',
  'pups\u3164': 'pups\\u3164',
  'pups\ufe0f': 'pups\\ufe0f',
  'pups\u{e0041}': 'pups\\U000e0041',
};
const reversed = '\u202egnp.exe'; // looks like exe.png

async function call(method, path, body) {
  const answer = await fetch(`${process.env.STRANGER}/api/${path}`, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.text()}`);
}

const create = (name) => call('PUT', `channels/${encodeURIComponent(name)}`, { owner: `ann${reversed}` });

// isReadable fails if an invisible character is anywhere in the page.
async function isReadable(page) {
  const found = await page.evaluate(() => {
    const unseen = /[\p{Cf}\p{DI}]/u;
    const texts = [document.title];
    for (let node, all = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT); (node = all.nextNode());) texts.push(node.data);
    for (const element of document.querySelectorAll('*')) {
      for (const { name, value } of element.attributes) if (name !== 'href') texts.push(value);
    }
    return texts.filter((text) => unseen.test(text)).map((text) => escape(text));
  });
  assert.deepEqual(found, []);
}

// isIsolated fails if letters of a text change the order of the words beside it.
async function isIsolated(text) {
  const found = await text.evaluate((element) => {
    for (; element; element = element.parentElement) {
      const { unicodeBidi, display } = getComputedStyle(element);
      if (unicodeBidi === 'isolate' && display === 'inline') return true;
      if (display !== 'inline') return false;
    }
  });
  assert.ok(found, 'the text is not isolated from the words beside it');
}

test('names that look alike are shown differently', () => visit('Operator', '#/bill', async (page) => {
  for (const name of Object.keys(lookalikes)) await create(name);
  await go(page, '#/channels');
  for (const shown of Object.values(lookalikes)) await page.getByRole('link', { name: shown, exact: true }).waitFor();
  await isReadable(page);
}));

test('the name of a look-alike is not typed by mistake', () => visit('Operator', '#/bill', async (page) => {
  await create('pups');
  await create('pups\u200b');
  await go(page, '#/channels');
  await page.getByRole('button', { name: 'Delete pups\\u200b', exact: true }).click();
  const box = await dialog(page, 'Delete pups\\u200b');
  await says(box, 'Type pups\\u200b to confirm');
  await isReadable(page);
  const wrong = box.getByText('This does not match');
  assert.equal(await wrong.count(), 0);
  await box.getByLabel('Type').fill('pups');
  await wrong.waitFor();
  assert.equal(await box.getByLabel('Type').getAttribute('aria-invalid'), 'true');
  await box.getByRole('button', { name: 'Delete', exact: true }).click({ force: true });
  assert.ok(await box.isVisible(), 'another name is typed');
  await box.getByLabel('Type').fill('pups\\u200b'); // as it is shown
  await wrong.waitFor({ state: 'detached' });
  await box.getByRole('button', { name: 'Delete', exact: true }).click();
  await says(page.locator('#toasts'), 'pups\\u200b');
  await isReadable(page);
  await go(page, '#/channels');
  await page.getByRole('link', { name: 'pups\\u200b', exact: true }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'pups', exact: true }).waitFor();
}));

test('a name does not reverse the words around it', () => visit('Operator', '#/bill', async (page) => {
  await create(reversed);
  await create('כלב');
  await go(page, '#/channels');
  await says(page, 'ann\\u202egnp.exe'); // the owner
  await page.getByRole('button', { name: 'Delete \\u202egnp.exe', exact: true }).click();
  await says(await dialog(page, 'Delete \\u202egnp.exe'), 'Type \\u202egnp.exe to confirm');
  await isReadable(page);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Delete כלב' }).click();
  const box = await dialog(page, 'Delete כלב');
  await isIsolated(box.getByRole('heading').getByText('כלב'));
  await isIsolated(box.getByText('כלב', { exact: true }).last());
  await page.keyboard.press('Escape');
  await go(page, `#/channels/${encodeURIComponent('כלב')}`);
  await isIsolated(page.getByRole('heading', { level: 1 }).getByText('כלב'));
  await go(page, `#/channels/${encodeURIComponent(reversed)}`);
  await isReadable(page);
}));

test('the history of a gate shows what was written', () => visit('Operator', '#/bill', async (page) => {
  await call('POST', 'gates/mirror/release', { by: 'nna\u202e', reason: '\u202edetrever' });
  await go(page, '#/gates/mirror');
  await says(page.getByRole('table', { name: 'History of mirror' }), '\\u202edetrever');
  await says(page.getByRole('table', { name: 'History of mirror' }), 'nna\\u202e');
  await says(page.locator('.facts').first(), '\\u202edetrever');
  await isReadable(page);
}));

test('a blog shows what was written', () => visit('Operator', '#/bill', async (page) => {
  await create('mirror');
  await call('POST', 'channels/mirror/blogs', { title: '\u202eeltit', text: 'one\r\ntwo\u2028three\u0007\u202e', userId: 'bob\u200b' });
  await go(page, '#/channels/mirror');
  await page.getByRole('button', { name: 'Read \\u202eeltit' }).click();
  const text = await (await dialog(page, '\\u202eeltit')).locator('pre').textContent();
  assert.equal(text, 'one\r\ntwo\\u2028three\ufffd\\u202e');
  await isReadable(page);
}));
