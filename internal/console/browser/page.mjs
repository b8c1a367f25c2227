// Opens the console in a browser, and checks what holds for every page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const servers = { Operator: process.env.OPERATOR, Reader: process.env.READER, stranger: process.env.STRANGER };

// hostile is in every field that a client can set. A page that takes text for
// elements has an image without a source.
export const hostile = process.env.HOSTILE;

// patience bounds each wait, in ms.
const patience = 30000;

let browser;

export async function launch() {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
}

export async function quit() {
  await browser?.close();
}

// visit opens an address of the console as a role, runs act with the page, and
// fails on an error in the page, and if text became elements.
export async function visit(role, hash, act, options = {}) {
  const context = await browser.newContext({ viewport: { width: options.width ?? 1280, height: 900 }, acceptDownloads: true, reducedMotion: 'reduce' });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(error.stack));
  page.on('dialog', (dialog) => {
    errors.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('console', (message) => {
    // A browser logs each answer that is an error; the views show them.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) errors.push(message.text());
  });
  for (const [path, json] of Object.entries(options.answers ?? {})) await answer(page, path, json);
  if (options.clock) await page.clock.install();
  if (options.init) await page.addInitScript(...options.init);
  try {
    await page.goto(`${servers[role]}/api/console${hash}`);
    if (role !== 'stranger') await page.locator('.view > *').first().waitFor();
    await act(page);
    assert.equal(await page.locator('img:not([src^="/api/console/"])').count(), 0, 'text of a client became an element');
    assert.deepEqual(errors, []);
  } catch (error) {
    error.message += `\nThe page shows:\n${await page.locator('body').innerText().catch(() => 'nothing')}`;
    throw error;
  } finally {
    await context.close();
  }
}

// answer makes a path of the API answer with this value.
export async function answer(page, path, json) {
  await page.route((url) => url.pathname === `/api/console/api/${path}`, (route) => route.fulfill({ json }));
}

// ofColours are the rules of axe-core whose result depends on colours.
const ofColours = ['color-contrast', 'link-in-text-block'];

// isAccessible fails on serious and critical findings of axe-core.
export async function isAccessible(page, schemes = ['light', 'dark']) {
  await page.evaluate(axe);
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme });
    const options = { resultTypes: ['violations'], ...(colorScheme === 'dark' && { runOnly: ofColours }) };
    const { violations } = await page.evaluate((options) => globalThis.axe.run(document, options), options);
    const grave = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
    assert.deepEqual(grave.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' ')}`), [], colorScheme);
  }
}

// dialog returns the dialog that is open.
export async function dialog(page, title) {
  const box = page.getByRole('dialog');
  await box.getByRole('heading', { name: title }).waitFor();
  return box;
}

// says waits for a text.
export async function says(place, text) {
  await place.getByText(text).first().waitFor();
}
