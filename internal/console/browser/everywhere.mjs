// What holds for all views, in the app itself.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, hostile, isAccessible, says, views, visit } from './page.mjs';

for (const role of ['Operator', 'Reader']) {
  test(`every view opens: ${role}`, () => visit(role, '', async (page) => {
    const changes = [];
    page.on('request', (request) => request.method() !== 'GET' && changes.push(request.url()));
    for (const hash of views) {
      await go(page, hash);
      assert.equal(await page.getByText('You have the role Reader').count(), role === 'Reader' ? 1 : 0);
    }
    assert.deepEqual(changes, []);
  }));
}

test('a stranger is shown where to sign in', () => visit('stranger', '#/gates', async (page) => {
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  assert.match(await page.getByRole('link', { name: 'Sign in' }).getAttribute('href'), /^\/\.auth\/login\/aad\?post_login_redirect_uri=/);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  await isAccessible(page, 'the sign-in');
}));

test('an error is shown with the id of its request', () => visit('Operator', '#/batches/nothing', async (page) => {
  assert.match(await page.locator('.note').filter({ hasText: 'batch_not_found' }).first().innerText(), /request [0-9a-f-]{36}/);
}));

test('the name of who is signed in is text', () => visit('Operator', '', async (page) => {
  await says(page.locator('.who'), hostile);
}));

test('a theme is chosen, and kept', () => visit('Operator', '', async (page) => {
  const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await colour();
  await page.getByLabel('Theme').selectOption('dark');
  const dark = await colour();
  assert.notEqual(dark, light);
  await page.reload();
  await page.getByLabel('Theme').waitFor();
  assert.equal(await colour(), dark);
  assert.equal(await page.getByLabel('Theme').inputValue(), 'dark');
  await page.getByLabel('Theme').selectOption('system');
  assert.equal(await colour(), light);
}));
