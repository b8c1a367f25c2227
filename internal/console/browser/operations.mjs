// Queues and scale, timers, the relay, and the bill.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, dialog, go, hostile, isAccessible, says, visit } from './page.mjs';

const minute = 60000;

// check is what a check of scaling has found so many minutes ago.
function check(ago) {
  const at = new Date(Math.floor(Date.now() / minute - ago) * minute).toISOString();
  return {
    at, running: 1,
    advice: [{ target: 'instances', instances: 5, reason: `5 instances, because ${hostile}` }, { target: 'instances', queue: 'work-0', hands: 32, reason: `32 hands, because ${hostile}` }],
    samples: [{ queue: 'work-0', ready: 3000 - ago, inFlight: 4, delayed: 1, oldestSeconds: 90, held: true, arrivalsPerSecond: 9, completionsPerSecond: 8, p95LatencySeconds: 46, responseSeconds: 2, working: 4, cpu: 0.4 }],
    outcome: { at, state: 'denied', instances: 5, minimum: 1, error: hostile },
  };
}

test('queues show the advice, and charts over time', () => visit('Operator', '#/queues', async (page) => {
  await says(page, `5 instances, because ${hostile}`);
  await says(page, 'Azure denied the change.');
  await page.getByRole('link', { name: 'work-0' }).click();
  await says(page, `32 hands, because ${hostile}`);
  await page.getByRole('img', { name: /^Messages\. Ready: 2,999 at the end/ }).waitFor();
  await page.getByText('Values').first().click();
  await page.getByRole('group', { name: 'Values of Messages', exact: true }).getByText('2,980').first().waitFor();
  await isAccessible(page, 'the values of a chart');
  await says(page, 'Arrive a second, as forecast');
  await page.getByRole('link', { name: '6 hours' }).click();
  await page.getByRole('link', { name: '6 hours', exact: true }).and(page.locator('[aria-current]')).waitFor();
}, { answers: { scale: check(1), 'scale/history': { items: Array.from({ length: 50 }, (_, i) => check(50 - i)) } } }));

test('a message is sent to a queue of the program', () => visit('Shop', '#/queues', async (page) => {
  const queues = page.getByRole('table', { name: 'Queues' });
  await queues.getByRole('button', { name: 'Send a message to orders' }).click();
  const box = await dialog(page, 'Send a message to orders');
  assert.equal(await page.evaluate(() => document.activeElement.name), 'body');
  const send = box.getByRole('button', { name: 'Send', exact: true });
  assert.equal(await send.getAttribute('aria-disabled'), 'true');
  await box.getByLabel('Message').fill('{"customer":"ann"}');
  await box.getByLabel('Delay').fill('soon');
  await send.click();
  await says(box.locator('.field', { hasText: 'Delay' }), 'delay is "soon"');
  assert.equal(await box.getByLabel('Delay').getAttribute('aria-invalid'), 'true');
  await isAccessible(page, 'a delay that is wrong');
  await box.getByLabel('Delay').fill('');
  await send.click();
  await says(box.locator('.field', { hasText: 'Message' }), 'an order needs a customer and an item');
  assert.equal(await box.getByLabel('Delay').getAttribute('aria-invalid'), null);
  assert.match(await box.getByLabel('Message').getAttribute('aria-describedby'), /^body-wrong$/);
  await isAccessible(page, 'a message that is wrong');
  await box.getByLabel('Message').fill(JSON.stringify({ customer: 'ann', item: hostile }));
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter'); // the delay, Cancel, Send
  await says(page.locator('#toasts'), 'is in orders.');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Send a message…', 'the focus goes back');
  await queues.getByRole('link', { name: 'orders' }).click();
  await says(page.locator('.facts'), 'Attempts of a message');
  await page.getByRole('button', { name: 'Send a message to orders' }).click();
  await (await dialog(page, 'Send a message to orders')).getByRole('button', { name: 'Cancel' }).click();
}));

test('a message that may have been sent stays in the dialog', () => visit('Shop', '#/queues/orders', async (page) => {
  await page.route('**/messages', (route) => route.fulfill({ status: 503, headers: { 'X-Request-Id': 'r1' }, json: { error: { code: 'change_unclear', message: `It may have been sent ${hostile}` } } }));
  await page.getByRole('button', { name: 'Send a message to orders' }).click();
  const box = await dialog(page, 'Send a message to orders');
  await box.getByLabel('Message').fill('{}');
  await box.getByRole('button', { name: 'Send', exact: true }).click();
  await says(box.locator('.note'), `It may have been sent ${hostile}`);
  assert.equal(await box.getByLabel('Message').inputValue(), '{}');
  await page.keyboard.press('Escape');
}));

test('a queue that is paused is marked, with who did it and why', () => visit('Operator', '#/queues', async (page) => {
  const paused = { at: new Date(Date.now() - 3.5 * minute).toISOString(), by: { name: `ann ${hostile}`, verified: false }, reason: `maintenance ${hostile}` };
  const queue = { queue: 'emails', own: true, storageQueue: 'emails', ready: 3, inFlight: 1, delayed: 2, oldestSeconds: 90, deadLetters: 4, concurrency: 8, lastOkAt: null, paused };
  await answer(page, 'queues', { items: [queue] });
  await answer(page, 'queues/emails', { ...queue, maxAttempts: 20, timeoutSeconds: 300, handled: true });
  await page.reload();
  await page.getByTitle(`Paused by ann ${hostile} (not verified). maintenance ${hostile}`).waitFor();
  await page.getByRole('link', { name: '4', exact: true }).waitFor();
  await isAccessible(page, 'a paused queue');
  await page.getByRole('link', { name: 'emails' }).click();
  await says(page.locator('.note.warn'), `maintenance ${hostile}`);
  await page.getByRole('link', { name: '4 dead letters' }).waitFor();
}));

test('a timer is run by hand', () => visit('Shop', '', async (page) => {
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Timers' }).click();
  const row = page.getByRole('row', { name: /report/ });
  await says(row, '0 * * * *');
  await row.getByRole('button', { name: 'Run now: report' }).click();
  const box = await dialog(page, 'Run report now');
  await isAccessible(page, 'the run of a timer');
  await box.getByLabel('Reason').fill(`the numbers ${hostile}`);
  await box.getByRole('button', { name: 'Run now', exact: true }).click();
  await says(page.locator('#toasts'), 'report is about to run.');
  await row.getByText('Done', { exact: true }).waitFor();
}));

// listed returns the views that the navigation has.
const listed = (page) => page.getByRole('navigation', { name: 'Views' }).getByRole('link').allInnerTexts();

for (const [what, hash, table, item] of [['queue', '#/queues', 'Queues', 'orders'], ['timer', '#/timers', 'Timers', 'report']]) {
  test(`a ${what} is paused and resumed`, () => visit('Shop', hash, async (page) => {
    const row = page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: item });
    for (const [verb, after] of [['Pause', 'is paused.'], ['Resume', 'is resumed.']]) {
      await row.getByRole('button', { name: `${verb} ${item}` }).click();
      const box = await dialog(page, `${verb} ${item}`);
      await isAccessible(page, `${verb} ${item}`);
      await box.getByLabel('Reason').fill(`no mail server ${hostile}`);
      await box.getByRole('button', { name: verb, exact: true }).click();
      await says(page.locator('#toasts'), `${item} ${after}`);
      if (verb === 'Pause') await row.getByTitle(`no mail server ${hostile}`).waitFor();
      else await row.getByText('Paused').waitFor({ state: 'detached' });
    }
  }));
}

test('an app without timers does not list them', () => visit('Operator', '#/timers', async (page) => {
  await says(page, 'This program declares no timers.');
  await go(page, '#/bill');
  assert.deepEqual(await listed(page), ['Overview', 'Order numbers', 'Gates', 'Batches', 'Channels', 'Dead letters', 'Queues and scale', 'Relay', 'Bill']);
}));

test('a program lists the views of its parts', () => visit('Shop', '#/queues', async (page) => {
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Timers' }).waitFor();
  assert.deepEqual(await listed(page), ['Overview', 'Dead letters', 'Queues and scale', 'Timers', 'Bill']);
  await says(page, 'orders');
  assert.equal(await page.locator('.note').count(), 0, 'it has no scaling, which is no failure');
  await go(page, '#/queues/orders');
  await says(page, 'Attempts of a message');
  assert.equal(await page.locator('.note').count(), 0);
}));

test('the rules are checked before they are saved', () => visit('Operator', '#/queues', async (page) => {
  await page.getByRole('button', { name: 'Edit the rules' }).click();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Edit the rules' }).click();
  const editor = page.getByLabel('Rules in JSON');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'rules');
  const save = page.getByRole('button', { name: 'Save…' });
  assert.equal(await save.getAttribute('aria-disabled'), 'true');
  await editor.fill('{"version":1,"depth":[{"from":0,"below":50,"hands":8},{"from":60,"hands":16}]}');
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await says(page, 'row 2 of depth: from is 60');
  await isAccessible(page, 'invalid rules');
  await editor.fill(`{"version":1,"depth":[{"from":0,"hands":8}],"x":"${hostile.replaceAll('"', '')}"}`);
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await page.getByRole('alert').waitFor();
  await editor.fill('{"version":1,"instances":{"min":2},"depth":[{"from":0,"hands":8}]}');
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await page.getByRole('row', { name: 'instances.min 1 2' }).waitFor();
  await isAccessible(page, 'valid rules');
  await page.getByRole('link', { name: 'Gates', exact: true }).first().click();
  await page.getByRole('heading', { name: 'Gates', level: 1 }).waitFor();
  await page.goBack();
  assert.match(await editor.inputValue(), /"min":2/); // nothing is lost by leaving the view
  await save.click();
  const box = await dialog(page, 'Save the rules');
  await isAccessible(page, 'the rules to save');
  await box.getByLabel('Reason').fill(`Monday ${hostile}`);
  await box.getByRole('button', { name: 'Save', exact: true }).click();
  await says(page, 'The rules are saved.');
  await says(page.locator('.facts'), '2 to 20');
  await page.evaluate(() => { // an action may lead to another view, which keeps its message
    const now = Date.now;
    Date.now = () => now() + 1000;
  });
  await page.getByRole('link', { name: 'Gates', exact: true }).first().click();
  await page.getByRole('heading', { name: 'Gates', level: 1 }).waitFor();
  assert.equal(await page.getByText('The rules are saved.').count(), 0, 'messages of a view that was left');
}));

test('the relay shows its entities, and moves the backlog', () => visit('Operator', '#/relay', async (page) => {
  await page.getByRole('button', { name: 'Move the backlog now…' }).click();
  const box = await dialog(page, 'Move the backlog now');
  await isAccessible(page, 'a move of the backlog');
  await box.getByLabel('Reason').fill('the outage is over');
  await box.getByRole('button', { name: 'Move', exact: true }).click();
  await says(page, '0 messages moved. Done.');
  const at = new Date(Date.now() - 3.5 * minute).toISOString();
  await answer(page, 'relay', { items: [
    { entity: 'invoices', state: 'suspect', since: at, throttled: true, lastError: hostile, backlog: { messages: 0, oldestSeconds: 0, more: true, at } },
    { entity: 'sales/orders', state: 'failedOver', since: at, throttled: false, lastError: 'no answer within 5s', backlog: { messages: 1200, oldestSeconds: 400, more: true, at } },
    { entity: 'shipments', state: 'healthy', since: null, throttled: false, backlog: null },
  ] });
  await says(page, '≥ 1,200');
  await says(page, 'counted 3 min ago');
  await page.getByRole('button', { name: 'Backlog', exact: true }).click();
  assert.deepEqual(await page.getByRole('table', { name: 'Queues and topics' }).locator('tbody th').allInnerTexts(), ['shipments', 'invoices', 'sales/orders']);
}));

test('a backlog of zero that was counted before the failover is not shown', () => visit('Operator', '#/relay', async (page) => {
  const ago = (minutes) => new Date(Date.now() - minutes * minute).toISOString();
  const orders = { entity: 'orders', state: 'failedOver', since: ago(1), throttled: false, lastError: 'no answer within 5s', backlog: { messages: 0, oldestSeconds: 0, more: false, at: ago(2) } };
  const backlog = page.getByRole('row', { name: /orders/ }).locator('td').nth(2);
  await answer(page, 'relay', { items: [orders] });
  await says(page, 'not counted lately');
  assert.equal(await backlog.innerText(), '–');
  await answer(page, 'relay', { items: [{ ...orders, backlog: { ...orders.backlog, at: ago(0.5) } }] });
  await backlog.getByText('0', { exact: true }).waitFor();
}));

test('the bill is shown by job', () => visit('Operator', '#/bill', async (page) => {
  await page.getByRole('row', { name: /channels/ }).waitFor();
  await page.getByRole('button', { name: 'Operations today' }).click();
  assert.equal(await page.getByRole('columnheader', { name: 'Operations today' }).getAttribute('aria-sort'), 'ascending');
}));
