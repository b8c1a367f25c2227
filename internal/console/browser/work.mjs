// Batches, channels and dead letters.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { dialog, hostile, isAccessible, says, visit } from './page.mjs';

const item = (id, currency = 'EUR') => JSON.stringify({ id, account: `ann ${hostile}`, sku: 'call', quantity: 3, unitPrice: '0.25', currency });

test('a batch is submitted from a file', () => visit('Operator', '#/batches', async (page) => {
  await page.getByRole('button', { name: 'Submit a file…' }).click();
  const box = await dialog(page, 'Submit a batch');
  const file = (text) => box.locator('input[type=file]').setInputFiles({ name: 'items.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(text) });
  const drop = async (text) => {
    const dataTransfer = await page.evaluateHandle((text) => {
      const data = new DataTransfer();
      data.items.add(new File([text], 'items.ndjson'));
      return data;
    }, text);
    await box.locator('.drop').dispatchEvent('drop', { dataTransfer });
  };
  await box.locator('[name=name]').fill(`October ${hostile}`);
  await file(`${item('t1')}\n{"id":"${hostile.replaceAll('"', '')}"}\n`);
  await box.getByRole('button', { name: 'Submit', exact: true }).click();
  await says(box, 'Line 2');
  await isAccessible(page, 'the submission of invalid items');
  await drop(`${item('t1')}\n${item(`t2 ${hostile}`)}\n`);
  await box.getByRole('button', { name: 'Submit', exact: true }).click();
  await says(page, '2 items submitted.');
  await page.getByText('Done', { exact: true }).first().waitFor();
  await says(page, `t2 ${hostile}`);
  for (const [kind, begin] of [['CSV', 'account,currency,amount,items'], ['JSON', '{']]) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: `Report as ${kind}` }).click()]);
    assert.ok((await readFile(await download.path(), 'utf8')).startsWith(begin), kind);
  }
}));

test('channels show their blogs by page', () => visit('Operator', '#/channels', async (page) => {
  await page.getByLabel('Name of a channel').fill('news');
  await page.getByRole('button', { name: 'Open' }).click();
  await says(page, `Title 129 ${hostile}`);
  await page.getByRole('link', { name: 'Next page →' }).click();
  await says(page, `Title 29 ${hostile}`);
  await page.getByRole('link', { name: 'Oldest first' }).click();
  await says(page, `Title 0 ${hostile}`);
  await page.getByRole('button', { name: `Read Title 0 ${hostile}` }).click();
  await says(await dialog(page, 'Title 0'), `Second line ${hostile}`);
  await isAccessible(page, 'a blog');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Read', 'the focus goes back');
}));

test('a name that the Functions host would change is not sent', () => visit('Operator', '#/channels', async (page) => {
  const sent = [];
  page.on('request', (request) => { if (request.url().includes('/channels/')) sent.push(request.url()); });
  await page.getByLabel('Name of a channel').fill('%41');
  await page.getByRole('button', { name: 'Open' }).click();
  await says(page, 'A name with a percent sign before two hexadecimal digits cannot be used');
  assert.deepEqual(sent, []);
  await page.getByRole('link', { name: 'Channels', exact: true }).first().click();
  await page.getByLabel('Name of a channel').fill('50%');
  await page.getByRole('button', { name: 'Open' }).click();
  await says(page, 'There is no channel 50%.');
  assert.notEqual(sent.length, 0);
}));

test('a channel is deleted when its name is typed', () => visit('Operator', '#/channels', async (page) => {
  const name = `old ${hostile}`;
  await page.getByRole('link', { name, exact: true }).click();
  await page.getByRole('button', { name: `Delete ${name}` }).click();
  const box = await dialog(page, `Delete ${name}`);
  await isAccessible(page, 'the deletion of a channel');
  await box.getByLabel('Type').fill('old');
  await box.getByRole('button', { name: 'Delete', exact: true }).click({ force: true });
  assert.ok(await box.isVisible(), 'the name is not typed');
  await box.getByLabel('Type').fill(name);
  await box.getByLabel('Reason').fill(`not needed ${hostile}`);
  await box.getByRole('button', { name: 'Delete', exact: true }).click();
  await says(page, 'The channel was deleted, and its name is free.');
  await page.locator('.facts').getByText('3', { exact: true }).waitFor(); // its blogs
}));

test('dead letters are shown by reason', () => visit('Operator', '#/deadletters', async (page) => {
  await page.getByRole('link', { name: 'returns-poison' }).click();
  await says(page, 'Below are the 32 at the front of about 40.');
  await says(page, `the webhook answered … ${hostile.replace('1', '…')}`);
  await page.getByText('Body,').first().click();
  await says(page, `"customer": "${hostile.replaceAll('"', '\\"')}"`);
  await isAccessible(page, 'the body of a dead letter');
  await page.getByRole('button', { name: /^Show only these: the webhook/ }).click();
  assert.equal(await page.getByRole('table', { name: 'Dead letters', exact: true }).getByRole('row').count(), 1 + 16);
  await page.getByRole('button', { name: 'Show all' }).click();
  assert.equal(await page.getByRole('table', { name: 'Dead letters', exact: true }).getByRole('row').count(), 1 + 32);
  await page.getByRole('button', { name: /^Select 16 dead letters: the webhook/ }).click();
  await page.getByRole('button', { name: 'Redrive 16 selected…' }).waitFor();
}));

test('selected dead letters are put back after a dry run', () => visit('Operator', '#/deadletters/returns-poison', async (page) => {
  const redrive = page.getByRole('button', { name: /^Redrive .*selected…$/ });
  assert.equal(await redrive.getAttribute('aria-disabled'), 'true', 'nothing is selected');
  const boxes = page.getByRole('table', { name: 'Dead letters', exact: true }).locator('tbody input[type=checkbox]');
  await boxes.nth(0).check();
  await boxes.nth(2).check();
  await page.waitForResponse((answer) => answer.url().includes('/deadletters')); // an update keeps them
  assert.ok(await boxes.nth(2).isChecked());
  await redrive.click();
  const box = await dialog(page, 'Redrive 2 dead letters');
  await box.getByRole('button', { name: 'Dry run' }).click();
  await says(box, 'would be put back. Nothing was changed.');
  await isAccessible(page, 'a dry run');
  await box.getByLabel('Reason').fill(`mended ${hostile}`);
  await box.getByRole('button', { name: 'Redrive', exact: true }).click();
  await says(page, '2 dead letters put back. Done.');
  await says(page, 'at the front of about 38.');
}));

test('all dead letters are put back at a rate, and that can be stopped', () => visit('Operator', '#/deadletters/returns-poison', async (page) => {
  await page.getByRole('button', { name: 'Redrive all…' }).click();
  const box = await dialog(page, 'Redrive all dead letters');
  await box.getByLabel('At most so many a second').fill('2');
  await box.getByRole('button', { name: 'Redrive', exact: true }).click();
  await page.getByRole('img', { name: /of about 38 dead letters put back/ }).waitFor();
  await isAccessible(page, 'a redrive');
  await page.getByRole('button', { name: 'Stop' }).click();
  await says(page, 'Stopped.');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Stop' }).click();
  await says(page, 'Stopped.');
  await page.getByRole('button', { name: 'Dismiss', exact: true }).click();
}));

test('dead letters are deleted, and all of them only when the queue is typed', () => visit('Operator', '#/deadletters/orders-poison', async (page) => {
  await page.getByText('Body,').first().click();
  await says(page, '89 50 4e 47'); // of a body that is not text
  await page.getByRole('checkbox', { name: /^Select [a-z0-9]+$/ }).first().check();
  await page.getByRole('button', { name: 'Delete 1 selected…' }).click();
  let box = await dialog(page, 'Delete 1 dead letter');
  await box.getByRole('button', { name: 'Delete', exact: true }).click();
  await says(page, '1 dead letter deleted. Done.');
  await page.getByRole('button', { name: 'Delete all…' }).click();
  box = await dialog(page, 'Delete all dead letters');
  await box.getByRole('button', { name: 'Dry run' }).click();
  await says(box, 'would be deleted. Nothing was changed.');
  await isAccessible(page, 'the deletion of dead letters');
  await box.getByRole('button', { name: 'Delete', exact: true }).click({ force: true });
  assert.ok(await box.isVisible(), 'the queue is not typed');
  await box.getByLabel('Type').fill('orders-poison');
  await box.getByRole('button', { name: 'Delete', exact: true }).click();
  await says(page, 'There are no dead letters in orders-poison.');
}));
