// What holds for all views.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostile, isAccessible, says, visit } from './page.mjs';

// Each view, and the actions that need an Operator.
const actions = {
  '': [],
  '#/sequences': ['Begin a sequence…', 'Raise orders'],
  '#/sequences/orders': ['Raise…'],
  '#/gates': ['Close hounds'],
  '#/gates/hounds': ['Close hounds', 'Release again…'],
  '#/batches': ['Submit a file…'],
  '#/channels': ['Delete news'],
  '#/channels/news': ['Delete news'],
  '#/deadletters': [],
  '#/deadletters/delete-channel-and-blogs-poison': ['Redrive selected…', 'Delete selected…', 'Redrive all…', 'Delete all…'],
  '#/queues': ['Edit the rules'],
  '#/relay': ['Move the backlog now…'],
  '#/bill': [],
};

for (const [hash, names] of Object.entries(actions)) {
  test(`a Reader sees ${hash || 'the overview'} and changes nothing`, () => visit('Reader', hash, async (page) => {
    const changes = [];
    page.on('request', (request) => request.method() !== 'GET' && changes.push(request.url()));
    await says(page, 'You have the role Reader');
    for (const name of names) {
      const button = page.getByRole('button', { name, exact: true }).first();
      assert.equal(await button.getAttribute('aria-disabled'), 'true', name);
      assert.match(await button.getAttribute('title'), /role Operator/, name);
      await button.click({ force: true });
      assert.equal(await page.getByRole('dialog').count(), 0, name);
    }
    // The API rejects the same.
    for (const [method, path] of [['POST', 'gates/hounds/close'], ['POST', 'sequences/orders/raise'], ['DELETE', 'channels/news'], ['PUT', 'scale/rules'], ['PUT', 'scale/rules?dryRun=true']]) {
      const [status, code] = await page.evaluate(async ([method, path]) => {
        const answer = await fetch(`/api/console/api/${path}`, { method, headers: { 'X-Kennel-Console': '1' } });
        return [answer.status, (await answer.json()).error.code];
      }, [method, path]);
      assert.deepEqual([status, code], [403, 'role_required'], `${method} ${path}`);
    }
    assert.equal(changes.length, 5, `changes: ${changes}`);
    await isAccessible(page);
  }));
}

test('views fit on a narrow screen', async () => {
  for (const hash of Object.keys(actions)) {
    await visit('Operator', hash, async (page) => {
      const [wide, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= screen, `${hash} is ${wide} px wide on ${screen} px`);
      await isAccessible(page, ['light']);
    }, { width: 400 });
  }
});

test('a stranger is shown where to sign in', () => visit('stranger', '#/gates', async (page) => {
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  assert.match(await page.getByRole('link', { name: 'Sign in' }).getAttribute('href'), /^\/\.auth\/login\/aad\?post_login_redirect_uri=/);
  await isAccessible(page);
}));

test('an error is shown with the id of its request', () => visit('Operator', '#/batches/nothing', async (page) => {
  assert.match(await page.locator('.note').filter({ hasText: 'batch_not_found' }).first().innerText(), /request [0-9a-f-]{36}/);
}));

test('the name of who is signed in is text', () => visit('Operator', '', async (page) => {
  await page.locator('.who').getByText(hostile).waitFor();
}));

test('a page sends at most one request in two seconds, and none while it is hidden or paused', () => visit('Operator', '#/queues', async (page) => {
  await page.waitForLoadState('networkidle'); // at first it reads all that it shows
  let requests = 0;
  page.on('request', () => requests++);
  // pass lets time pass, and returns how many requests that caused.
  const pass = async (seconds) => {
    const before = requests;
    await page.clock.runFor(seconds * 1000);
    await page.evaluate(() => fetch('/api/console/icon.svg')); // answers after what was sent before
    return requests - before - 1;
  };
  let sent = 0;
  for (let i = 0; i < 30; i++) {
    const now = await pass(2);
    assert.ok(now <= 1, `${now} requests within 2 s`);
    sent += now;
  }
  assert.ok(sent > 5, `${sent} requests within a minute`);
  await page.getByRole('button', { name: 'Pause' }).click();
  assert.equal(await pass(60), 0, 'paused');
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await pass(2);
  assert.equal(await pass(60), 0, 'hidden');
}, { clock: true }));
