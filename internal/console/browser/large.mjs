// Large apps: the memory of a page does not grow while it is updated. The answers
// of the API are made here, so that each update changes them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostile, visit } from './page.mjs';

const updates = 300;
const list = (length, item) => Array.from({ length }, (_, i) => item(i));
const at = new Date().toISOString();

// status is that of an app with 500 instances. Its figures change with turn.
const status = (turn) => ({
  status: 'ok', version: 'v1', instance: 'i0', startedAt: at, problems: [], storage: { account: 'x', reachable: true, tables: { reachable: true }, queues: { reachable: true } },
  signals: { bus: 'x', heard: true }, sequences: {}, gates: {}, requests: {},
  instances: list(500, (i) => ({ instance: `i${i}`, kind: 'worker', version: 'v1', startedAt: at, seenAt: at, cpu: turn + i, memory: 1e6 * (turn + i), hands: turn })),
  queues: Object.fromEntries(list(20, (i) => [`work-${i}`, { ready: turn, inFlight: turn + i, delayed: 0, oldestSeconds: turn, poison: i, at }])),
});

// check is a check of scaling at minute turn.
const check = (turn) => ({
  at: new Date(Date.parse(at) + turn * 60000).toISOString(), running: 1, advice: [{ target: 'instances', instances: 1, reason: `turn ${turn}` }],
  samples: list(20, (i) => ({ queue: `work-${i}`, ready: turn, inFlight: i, delayed: 0, oldestSeconds: turn, held: false, arrivalsPerSecond: turn, completionsPerSecond: turn, p95LatencySeconds: turn, responseSeconds: turn, working: 0, cpu: 0 })),
});

// answers are those before the first update.
const answers = {
  status: status(0),
  scale: check(0),
  'scale/history': { items: list(60, (i) => check(i - 60)) },
  deadletters: { items: [{ queue: 'work-0-poison', source: 'work-0', messages: 10000 }] },
  'deadletters/work-0-poison': { more: true, items: list(32, (i) => ({ id: `id${i}`, reason: `reason ${i} ${hostile}`, attempts: 3, movedBy: 'kennel', insertedAt: at, expiresAt: at, body: 'x'.repeat(16000), encoding: 'text', size: 16000 })) },
};

// used returns the elements of a page and its heap in bytes: the least of a few,
// because what is under way counts too.
async function used(page, session) {
  let heap = Infinity;
  for (let i = 0; i < 4; i++) {
    await session.send('HeapProfiler.collectGarbage');
    heap = Math.min(heap, (await session.send('Runtime.getHeapUsage')).usedSize);
  }
  return [await page.evaluate(() => document.querySelectorAll('*').length), heap];
}

// The views, and how many seconds pass between two updates: in each the sources
// are read at least once.
for (const [hash, pause] of [['#/overview', 10], ['#/queues/work-1', 60], ['#/deadletters/work-0-poison', 10]]) {
  test(`the memory of ${hash} is flat over ${updates} updates`, () => visit('Operator', hash, async (page) => {
    let turn = 0;
    const make = (path, of) => page.route((url) => url.pathname === `/api/console/api/${path}`, (route) => route.fulfill({ json: of(turn) }));
    await make('status', status);
    await make('scale', check);
    await make('scale/history', (turn) => ({ items: [check(turn)] }));
    await make('deadletters/work-0-poison', (turn) => ({ more: true, items: list(32, (i) => ({ id: `id${turn + i}`, reason: `reason ${turn}`, attempts: turn, movedBy: 'kennel', insertedAt: at, expiresAt: at, body: `${1000 + turn}`.repeat(4000), encoding: 'text', size: 16000 })) }));
    const session = await page.context().newCDPSession(page);
    const run = async (until) => {
      for (; turn < until; turn++) {
        await page.clock.runFor(pause * 1000);
        await page.evaluate(() => fetch('/api/console/icon.svg'));
      }
      return used(page, session);
    };
    const [elements, heap] = await run(60); // the charts are full then
    const [elementsLater, heapLater] = await run(updates);
    console.log(`figure: growth of ${hash} over ${updates - 60} updates | ${Math.round((heapLater - heap) / 1000)} kB | 1000 kB`);
    assert.ok(elementsLater <= elements * 1.05, `${elements} elements became ${elementsLater}`);
    assert.ok(heapLater - heap < 1e6, `the heap grew from ${heap} to ${heapLater} bytes`);
  }, { clock: true, answers }));
}
