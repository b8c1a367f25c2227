// The overview, order numbers and gates.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialog, go, hostile, isAccessible, says, visit } from './page.mjs';

test('the overview shows the state, instances and queues', () => visit('Operator', '', async (page) => {
  await page.getByRole('table', { name: 'Instances' }).getByText('functions').waitFor();
  await says(page, 'Bill today');
  await page.getByRole('button', { name: 'Memory' }).click();
  assert.equal(await page.getByRole('columnheader', { name: 'Memory' }).getAttribute('aria-sort'), 'ascending');
}));

test('the overview shows many instances by page', () => visit('Operator', '#/bill', async (page) => {
  await page.route('**/api/console/api/status', async (route) => {
    const status = await (await route.fetch()).json();
    const [one] = status.instances;
    status.instances = Array.from({ length: 150 }, (_, i) => ({ ...one, instance: `instance ${i}` }));
    status.instanceCount = 150;
    await route.fulfill({ json: status });
  });
  await go(page, '#/overview');
  await says(page, '1–100 of 150');
  await page.getByRole('button', { name: 'Next →' }).click();
  await says(page, '101–150 of 150');
  await says(page, 'instance 149');
  await page.getByRole('button', { name: '← Previous' }).click();
  await says(page, '1–100 of 150');
}));

test('the release of a gate that was never released warns of a misspelt name', () => visit('Operator', '#/gates/houndz', async (page) => {
  await page.getByRole('button', { name: 'Release houndz' }).click();
  const box = await dialog(page, 'Release houndz');
  await box.getByText('was never released').waitFor();
  await box.getByRole('button', { name: 'Cancel' }).click();
}));

test('a sequence is begun and raised', () => visit('Operator', '#/sequences', async (page) => {
  await page.getByRole('button', { name: 'Begin a sequence…' }).click();
  let box = await dialog(page, 'Begin a sequence');
  await isAccessible(page);
  await box.getByLabel('Sequence').fill('invoices');
  await box.getByLabel('Next number').fill('4,000');
  await box.getByRole('button', { name: 'Begin', exact: true }).click({ force: true });
  assert.ok(await box.isVisible(), 'without a reason nothing is raised');
  await box.getByLabel('Reason').fill(`taken over ${hostile}`);
  await box.getByRole('button', { name: 'Begin', exact: true }).click();
  await says(page, 'invoices: the next number is 4,000.');
  await isAccessible(page, 'a message');
  await page.getByRole('button', { name: 'Dismiss this message' }).first().click();
  await page.getByRole('link', { name: 'invoices' }).click();
  await page.getByRole('button', { name: 'Raise…' }).click();
  box = await dialog(page, 'Raise invoices');
  await box.getByLabel('Next number').fill('many');
  await box.getByLabel('Reason').fill('again');
  await box.getByRole('button', { name: 'Raise', exact: true }).click();
  await says(box, 'must be a whole number');
  await box.getByLabel('Even if instances').check();
  await box.getByRole('button', { name: 'Raise', exact: true }).click({ force: true });
  assert.ok(await box.getByLabel('to confirm').isVisible(), 'the name is not typed');
  await box.getByLabel('Even if instances').uncheck();
  await box.getByLabel('Next number').fill('5000');
  await box.getByRole('button', { name: 'Raise', exact: true }).click();
  await says(page, 'invoices: the next number is 5,000.');
  await says(page.locator('.facts'), '5,000');
}));

test('a gate is released and closed', () => visit('Operator', '#/gates', async (page) => {
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'hounds', exact: true }) });
  await row.getByRole('button', { name: 'Close hounds' }).click();
  let box = await dialog(page, 'Close hounds');
  await box.getByLabel('Reason').fill(`maintenance ${hostile}`);
  await box.getByRole('button', { name: 'Close', exact: true }).click();
  await says(page, 'hounds is closed.');
  await row.getByText('Closed', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'hounds', exact: true }).click();
  await says(page, `maintenance ${hostile}`);
  await page.getByRole('button', { name: 'Release hounds' }).click();
  box = await dialog(page, 'Release hounds');
  await box.getByLabel('Reason').fill('done');
  await box.getByRole('button', { name: 'Release', exact: true }).click();
  await says(page, 'hounds is released.');
  await page.getByRole('button', { name: 'Release again…' }).click();
  box = await dialog(page, 'Release hounds');
  await isAccessible(page, 'the release of a gate');
  await box.getByRole('button', { name: 'Release', exact: true }).click();
  await page.getByRole('table', { name: 'History of hounds' }).getByText(hostile).first().waitFor(); // who did it
}));

test('a gate whose state cannot be read is replaced', () => visit('Operator', '#/gates/broken', async (page) => {
  await says(page, 'gate_corrupt');
  await page.getByRole('button', { name: 'Replace and close…' }).click();
  const box = await dialog(page, 'Close broken');
  await isAccessible(page, 'the replacement of a gate');
  await box.getByRole('button', { name: 'Close', exact: true }).click();
  await says(page, 'broken is closed.');
  await says(page.getByRole('table', { name: 'History of broken' }), hostile); // what it was
}));

test('the overview shows an outage of Service Bus, and where to look', () => visit('Operator', '', async (page) => {
  const tile = page.locator('.tile', { hasText: 'Backlog' });
  await says(page, 'Bill today');
  assert.equal(await tile.count(), 0, 'nothing waits');
  let relay;
  await page.route('**/api/console/api/status', async (route) => route.fulfill({ json: { ...await (await route.fetch()).json(), relay } }));
  const at = new Date(Date.now() - 210000).toISOString();
  relay = { failedOver: 0, backlog: { messages: 12, oldestSeconds: 90, more: false, at } };
  await says(tile, '12');
  relay = { failedOver: 2, backlog: null };
  await says(tile, '2 failed over');
  relay.backlog = { messages: 1250, oldestSeconds: 90, more: true, at };
  await says(tile, '≥ 1,250');
  await says(tile, ', counted 3 min ago');
  await isAccessible(page, 'an outage of Service Bus');
  await tile.getByRole('link', { name: '2 failed over' }).click();
  await page.getByRole('heading', { name: 'Relay', level: 1 }).waitFor();
}));

test('the overview does not judge an app that does not answer', () => visit('Operator', '', async (page) => {
  const verdict = page.getByText(/^(Everything works|Degraded)\./);
  await verdict.waitFor();
  await page.route((url) => url.pathname === '/api/console/api/status', (route) => route.abort());
  await says(page, 'Not up to date');
  await says(page, 'Below is what was read at');
  assert.equal(await verdict.count(), 0);
}));
