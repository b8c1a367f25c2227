// How much a page that is open asks for, and keeps. The clock of the page stands
// still and the answers are made in the page, so what it does depends on nothing
// else.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, views, visit } from './page.mjs';

const pace = 2000; // ms between two requests

// sent lets time pass, and returns when requests were made.
async function sent(page, ms) {
  await page.evaluate(() => { globalThis.app.log.length = 0; });
  await page.clock.runFor(ms);
  return page.evaluate(() => globalThis.app.log.map((request) => request.at));
}

// still stops the clock of a page.
async function still(page) {
  await page.clock.pauseAt(new Date(await page.evaluate(() => Date.now() + 1000)));
}

test('a page sends at most one request in two seconds, and none while it is hidden or paused', () => visit('Operator', '#/bill', async (page) => {
  let requests = 0;
  page.on('request', () => requests++);
  for (const hash of views) {
    await go(page, hash);
    await still(page);
    requests = 0;
    const at = await sent(page, 120000);
    assert.ok(at.length >= 2, `${hash}: ${at.length} requests in two minutes`);
    for (let i = 1; i < at.length; i++) assert.ok(at[i] - at[i - 1] >= pace, `${hash}: requests ${at[i] - at[i - 1]} ms apart`);
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    assert.deepEqual(await sent(page, 120000), [], `${hash}, paused`);
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await hide(page, true);
    assert.deepEqual(await sent(page, 120000), [], `${hash}, hidden`);
    await hide(page, false);
    assert.ok((await sent(page, 120000)).length >= 2, `${hash}, shown again`);
    assert.equal(requests, 0, 'requests other than those for the API');
    await page.clock.resume();
  }
}, { fake: true, clock: true }));

test('a page sends no more while every request fails', () => visit('Operator', '#/bill', async (page) => {
  await page.evaluate(() => { globalThis.app.style = 'lost'; });
  for (const hash of views.slice(0, -1)) {
    await go(page, hash);
    await still(page);
    const at = await sent(page, 120000);
    assert.ok(at.length >= 2, `${hash}: ${at.length} requests in two minutes`);
    for (let i = 1; i < at.length; i++) assert.ok(at[i] - at[i - 1] >= pace, `${hash}: requests ${at[i] - at[i - 1]} ms apart`);
    await page.clock.resume();
  }
}, { fake: true, clock: true }));

test('a page is not live while an answer is late', () => visit('Operator', '#/gates', async (page) => {
  const live = page.locator('#live');
  await still(page);
  await page.evaluate(() => { globalThis.fetch = () => new Promise(() => {}); }); // as where the network is gone
  await page.clock.runFor(10000);
  assert.match(await live.innerText(), /Live/);
  await page.clock.runFor(20000);
  assert.match(await live.innerText(), /Not up to date/);
}, { fake: true, clock: true }));

function hide(page, hidden) {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
}

const updates = 300;
const maxGrowth = 300e3; // bytes, half of which the engine takes for itself
const most = { elements: 1.02, nodes: 1.05, listeners: 1 }; // of what was before

test(`the memory of every view is flat over ${updates} updates`, () => visit('Operator', '#/bill', async (page) => {
  await page.evaluate(() => { globalThis.app.changing = true; });
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const figures = [];
  for (const hash of views) {
    await go(page, hash);
    await still(page);
    await page.evaluate(() => { globalThis.app.turn = 0; });
    // until lets the view be updated until it was so many times.
    const until = async (times) => {
      for (let turn = 0, last = -1; turn < times; last = turn) {
        await sent(page, 60000);
        turn = await page.evaluate(() => globalThis.app.turn);
        assert.ok(turn > last, `${hash}: not updated in a minute, after ${turn} updates`);
      }
    };
    await until(50);
    const before = await used(page, session);
    await until(updates);
    figures.push(await growth(hash, before, () => used(page, session)));
    await page.clock.resume();
  }
  console.log(`figure: highest growth of a view over ${updates - 50} updates | ${Math.round(Math.max(...figures) / 1000)} kB | ${maxGrowth / 1000} kB`);
}, { fake: true, clock: true }));

test('views leave nothing behind', () => visit('Operator', '#/bill', async (page) => {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const rounds = async (n) => {
    for (let i = 0; i < n; i++) {
      for (const hash of views) await go(page, hash);
    }
  };
  await rounds(2); // the first one loads the modules
  const before = await used(page, session);
  await rounds(4);
  await growth('all views', before, () => used(page, session));
}, { fake: true }));

// growth returns by how many bytes a page has grown, and fails if it has grown
// too much. Some of what is not used any more is only freed by a later
// collection, so it measures again until the page has not grown, for some time.
async function growth(what, before, measure) {
  for (let tries = 1; ; tries++) {
    const after = await measure();
    const grown = Object.keys(most).filter((name) => after[name] > before[name] * most[name]);
    if (after.heap - before.heap >= maxGrowth) grown.push('heap');
    if (!grown.length) return after.heap - before.heap;
    assert.ok(tries < 20, `${what}: ${grown.map((name) => `${before[name]} of ${name} became ${after[name]}`).join(', ')}`);
  }
}

// used returns what a page has after a collection.
async function used(page, session) {
  for (let i = 0; i < 3; i++) await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  const of = (name) => metrics.find((m) => m.name === name).value;
  return { nodes: of('Nodes'), listeners: of('JSEventListeners'), heap: of('JSHeapUsedSize'), elements: await page.evaluate(() => document.querySelectorAll('*').length) };
}
