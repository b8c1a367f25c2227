// Opens the console in a browser, and checks what holds for every page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { fake } from './answers.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// Shop is an Operator of another program, which has a queue and a timer.
const servers = { Operator: process.env.OPERATOR, Shop: process.env.SHOP, Reader: process.env.READER, stranger: process.env.STRANGER };

// spec is the description of the API.
export const spec = JSON.parse(readFileSync(process.env.OPENAPI, 'utf8'));

// hostile is in every field that a client can set. A page that takes text for
// elements has an image without a source.
export const hostile = process.env.HOSTILE;

// views are the addresses of all views, and of an item in each.
const queue = `#/queues/${encodeURIComponent(`work-0 ${hostile}`)}`; // as in answers.mjs
export const views = [
  '#/overview', '#/sequences', '#/sequences/orders', '#/gates', '#/gates/hounds', '#/batches', '#/batches/b', '#/channels', '#/channels/news',
  '#/deadletters', '#/deadletters/returns-poison', '#/queues', queue, '#/timers', '#/relay', '#/bill',
];

// functions are those of the API that the navigation knows.
export const functions = ['Channels', 'DeadLetters', 'Queues', 'Relay', 'Sequences', 'SubmitBatch', 'Timers', 'Unleash'];

const ann = { name: `ann ${hostile}`, roles: ['Operator'], local: false, functions };

// used is what an Operator has done in all tests: the buttons by their texts, and
// the changes that the app has made.
export const used = { pressed: new Set(), made: new Set() };

// patience bounds each wait, and long a whole visit, which also waits for scripts
// in the page: they have no time-out of their own. In ms.
const patience = Number(process.env.PATIENCE ?? 60000);
const long = 5 * patience;

let browser;
const kept = new Map(); // pages by role: opening another one takes longer than most tests

export async function launch() {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'], timeout: patience });
}

export async function quit() {
  await browser?.close();
}

// visit opens an address of the console as a role, runs act with the page, and
// fails on an error in the page, and if text became elements. Options: answers
// are those of paths of the API; clock is a clock that the test moves; fake has
// answers for the whole API, see answers.mjs: true, or who is signed in; init is
// a script, and what it gets.
export async function visit(role, hash, act, options = {}) {
  const alone = options.clock || options.fake || options.init;
  const page = alone ? await open(role) : kept.get(role) ?? await open(role);
  if (!alone) kept.set(role, page);
  try {
    if (options.clock) await page.clock.install();
    if (options.fake) await page.addInitScript(`(${fake})(${[spec, hostile, options.fake === true ? ann : options.fake].map((v) => JSON.stringify(v))})`);
    if (options.init) await page.addInitScript(...options.init);
    for (const [path, json] of Object.entries(options.answers ?? {})) await answer(page, path, json);
    await page.goto('about:blank'); // a new document, although only the hash may differ
    await page.goto(`${servers[role]}/api/console${hash}`);
    if (role !== 'stranger') await page.locator('.view > *').first().waitFor();
    await within(long, act(page));
    await within(patience, isText(page));
    assert.deepEqual(page.errors.splice(0), []);
  } catch (error) {
    error.message += `\nErrors in the page: ${page.errors.join('\n') || 'none'}\nThe page shows:\n${await page.locator('body').innerText({ timeout: 1000 }).catch(() => 'nothing')}`;
    console.log(`failed: ${hash || 'the first view'} of ${role}: ${error.message}`); // the report has it at its end, which may not come
    kept.delete(role); // the next test gets another one
    await within(patience, page.context().close());
    throw error;
  }
  if (alone) await page.context().close();
  else await page.unrouteAll({ behavior: 'ignoreErrors' });
}

// within fails if a promise takes longer.
async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not done after ${ms / 1000} s`)), ms); });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// open opens a page, whose errors has what went wrong in it.
async function open(role) {
  const context = await browser.newContext({ viewport: wide, acceptDownloads: true, reducedMotion: 'reduce', colorScheme: 'light' });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(error.stack ?? error.message));
  page.on('dialog', (dialog) => {
    page.errors.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('console', (message) => {
    // A browser logs each answer that is an error; the views show those of the API.
    const ofAPI = message.text().startsWith('Failed to load resource') && /\/api\/console(\/api\/|$)/.test(new URL(message.location().url).pathname);
    if (message.type() === 'error' && !ofAPI) page.errors.push(`${message.text()} ${message.location().url}`);
  });
  if (['Operator', 'Shop'].includes(role)) {
    await page.exposeFunction('pressed', (text) => { used.pressed.add(text); });
    await page.addInitScript(() => addEventListener('click', (event) => {
      const button = event.target.closest('button:not([aria-disabled])');
      if (button) globalThis.pressed(button.textContent);
    }, true));
    page.on('response', (answer) => {
      const [, path] = /\/api\/console\/api\/([^?]*)/.exec(answer.url()) ?? [];
      if (path && answer.ok() && answer.request().method() !== 'GET') used.made.add(`${answer.request().method()} ${path}`);
    });
  }
  await page.addInitScript(() => addEventListener('securitypolicyviolation', (event) => console.error(`the policy forbids ${event.violatedDirective} ${event.blockedURI}`)));
  return page;
}

// isText fails if text of a client became an element, a handler or an address.
export async function isText(page) {
  const found = await page.evaluate(() => [...document.querySelectorAll('*')].filter((e) => /^(img|script|link)$/.test(e.localName)
    ? !(e.getAttribute('src') ?? e.getAttribute('href')).startsWith('/api/console/')
    : /^(iframe|object|embed|base|style)$/.test(e.localName) || [...e.attributes].some(({ name, value }) =>
      name.startsWith('on') || (/^(href|src|action|formaction|xlink:href)$/.test(name) && !/^(#|\/(?!\/))/.test(value)))).map((e) => e.outerHTML.slice(0, 200)));
  assert.deepEqual(found, [], 'text of a client became an element, a handler or an address');
}

// go opens another view in a page.
export async function go(page, hash) {
  await page.evaluate(async (hash) => {
    if (location.hash === hash) return;
    const changed = new Promise((resolve) => addEventListener('hashchange', resolve, { once: true }));
    location.hash = hash;
    await changed;
  }, hash);
  await page.waitForFunction(() => !document.querySelector('.loading') && Boolean(document.querySelector('.view > *'))); // not the element, which would be kept
}

// answer makes a path of the API answer with this value.
export async function answer(page, path, json) {
  await page.route((url) => url.pathname === `/api/console/api/${path}`, (route) => route.fulfill({ json }));
}

const wide = { width: 1280, height: 900 };
const narrow = { width: 360, height: 800 };

// ofColours are the rules of axe-core whose result depends on the theme.
const ofColours = ['color-contrast', 'link-in-text-block'];

// How a page may look: [screen, theme, rules]. No rules are all.
export const everyLook = [[wide, 'light'], [wide, 'dark', ofColours], [narrow, 'dark', ofColours], [narrow, 'light']];
export const twoLooks = [[wide, 'light'], [narrow, 'dark']];

// isAccessible fails on serious and critical findings of axe-core, in the page
// or in the dialog that is open; and if a narrow screen does not have all of it.
export async function isAccessible(page, what, looks = everyLook) {
  if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe);
  for (const [screen, colorScheme, rules] of looks) {
    if (page.viewportSize().width !== screen.width) await page.setViewportSize(screen);
    await page.emulateMedia({ colorScheme });
    const [found, width] = await page.evaluate(async (rules) => {
      const { violations } = await globalThis.axe.run(document.querySelector('dialog') ?? document, { resultTypes: ['violations'], preload: false, ...(rules && { runOnly: rules }) });
      return [violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
        .map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' ')}`), document.documentElement.scrollWidth];
    }, rules);
    assert.deepEqual(found, [], `${what}, ${colorScheme}, ${screen.width} px`);
    assert.ok(width <= screen.width, `${what} is ${width} px wide on ${screen.width} px`);
  }
  await page.setViewportSize(wide);
  await page.emulateMedia({ colorScheme: 'light' });
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
