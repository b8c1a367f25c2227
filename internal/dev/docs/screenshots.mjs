// Takes the pictures. What the app answers is shown as it is, but for what takes
// hours or several machines to happen: that is invented here.

import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';

const app = process.env.APP;
const minute = 60000;
const now = Math.floor(Date.now() / minute) * minute;
const time = (ago) => new Date(now - ago * minute).toISOString();

// older returns a value with its times so many minutes earlier.
function older(value, minutes) {
  return JSON.parse(JSON.stringify(value), (_, v) => (typeof v === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(v) ? new Date(Date.parse(v) - minutes * minute).toISOString() : v));
}

const instances = [
  ['functions', 'functions-7c1e', 0.42, 182e6, 64, 190], ['functions', 'functions-b20f', 0.38, 176e6, 64, 190], ['functions', 'functions-e991', 0.61, 203e6, 64, 66],
  ['worker', 'worker-04aa', 1.71, 96e6, 128, 1710], ['worker', 'worker-51d3', 1.64, 94e6, 128, 1710], ['worker', 'worker-9e07', 1.58, 91e6, 128, 12],
].map(([kind, instance, cpu, memory, hands, ago], i) => ({ kind, instance, cpu, memory, hands, version: ago === 1710 ? 'v1.13.2' : 'v1.14.0', startedAt: time(ago), seenAt: new Date(Date.now() - i * 4000).toISOString() }));

const shares = { 'work-0': 1, 'work-1': 0.82, 'work-2': 0.57, 'work-3': 0.91, 'work-express': 0.11 };

// sample is a queue so many minutes ago: a calm hour with a rush in it.
function sample(queue, ago) {
  const share = shares[queue];
  const wave = (base, height, phase = 0) => share * (base + height * Math.sin((ago + phase + 7 * share) / 9) + height * 0.2 * Math.sin(ago * 1.9 + phase));
  const rush = Math.max(0, Math.sin(((34 - ago) / 22) * Math.PI)) * (ago < 34 && ago > 12 ? 1 : 0);
  return {
    queue, ready: Math.round(wave(240, 90) + rush * share * 2300), inFlight: Math.round(Math.min(64, wave(30, 6) + rush * 60)), delayed: Math.round(3 * share), oldestSeconds: Math.round(6 + wave(2, 3) + rush * 48), held: false,
    arrivalsPerSecond: wave(50, 9) + (ago < 34 && ago > 24 ? share * 32 : 0), completionsPerSecond: wave(50, 7, 2) + rush * share * 12, p95LatencySeconds: 11 + wave(2, 3) + rush * 44, responseSeconds: 1.4 + rush * 0.3, working: Math.round(30 * share), cpu: 0.61,
  };
}

function check(ago) {
  const samples = Object.keys(shares).map((queue) => sample(queue, ago));
  const advised = samples.map(({ queue, ready }) => ({ target: 'kennel-worker', queue, hands: ready > 1000 ? 32 : ready > 100 ? 16 : 8, reason: `${ready > 1000 ? 32 : ready > 100 ? 16 : 8} hands, because it has ${ready} messages.` }));
  return {
    at: time(ago), running: 3, samples,
    advice: [{ target: 'kennel-worker', instances: 4, reason: '4 instances, because the messages of work-0 arrive faster than 3 instances finish them.' }, ...advised],
    outcome: { at: time(ago), state: 'applied', instances: 4, minimum: 4 },
  };
}

const amounts = {
  batches: [2210844, 71330, 0.73112, 0.023588], channels: [88214, 4120, 0.0042, 0.0002], deadletters: [1204, 61, 0.0005, 0.0001], gates: [418800, 15120, 0.1712, 0.006], host: [1180640, 46305, 0.472256, 0.018522],
  instances: [97920, 3720, 0.0035, 0.0001], numbers: [51771, 2208, 0.0265, 0.0011], relay: [61200, 2310, 0.0022, 0.0001], scale: [94210, 3590, 0.0034, 0.0001], signals: [801400, 30311, 9.81, 0.3271],
};
const sum = (place) => Object.values(amounts).reduce((total, a) => total + a[place], 0).toFixed(6);

// queueOf is an answer for a built-in queue.
const queueOf = (name) => ({ ...sample(name, 0), own: false, storageQueue: name, deadLetters: 0, concurrency: 0, lastOkAt: null });

// Changes of answers by paths. Those without a parameter invent the whole answer.
const changes = [
  [/^status$/, (a) => {
    for (const p of a.problems) p.instances = p.instances.map(() => instances[0].instance);
    for (const [queue, share] of Object.entries(shares)) a.queues[queue] = { ...sample(queue, 0), poison: 0, at: time(0), share };
    Object.assign(a, { instances, instance: instances[0].instance });
    Object.assign(a.storage, { account: 'storage at https://kennelprod.blob.core.windows.net' });
    a.bill = {
      ...a.bill, today: sum(3), month: sum(2),
      jobs: Object.fromEntries(Object.entries(amounts).map(([job, [operations, today, amount, ofToday]]) => [job, { operations, amount: amount.toFixed(6), today: { operations: today, amount: ofToday.toFixed(6) }, modelled: job === 'host' || undefined }])),
    };
    return a;
  }],
  [/^queues$/, () => ({ items: Object.keys(shares).map(queueOf) })],
  [/^queues\/work-0$/, () => ({ ...queueOf('work-0'), maxAttempts: 0, timeoutSeconds: 0, handled: true })],
  [/^scale$/, () => check(0)],
  [/^scale\/history$/, () => ({ items: Array.from({ length: 61 }, (_, i) => check(60 - i)) })],
  [/^channels\/archive-2024\/deletion$/, () => ({ channel: 'archive-2024', incarnation: '673b02c41f80-a2cf55bb', state: 'running', deleted: 184200, startedAt: time(2) })],
  [/^(sequences|gates|batches|channels|channels\/[^/]*\/blogs)$/, (a) => ({ ...a, items: a.items.map((item, i) => older(item, 3 * i + 1)) })],
  [/^gates\/[^/]*\/waiters$/, (a) => ({ ...a, items: [4, 5, 3].map((waiters, i) => ({ instance: instances[i + 3].instance, waiters })) })],
  [/^gates\/[^/]*$/, (a) => ({ ...older(a, 14), history: a.history.map((h, i, all) => older(h, 14 + 61 * (all.length - 1 - i))) })],
  [/^sequences\/[^/]*$/, (a) => ({ ...a, instances: a.instances.flatMap((one) => instances.slice(0, 3).map((i, k) => ({ ...one, instance: i.instance, available: [3280, 1770, 2415][k], secondsAvailable: [41, 22, 30][k], highest: one.highest - [0, 2000, 1000][k], perSecond: [80, 81, 79][k] }))) })],
];

async function open(browser, scheme, hash, width = 1200) {
  const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme: scheme, reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC' });
  const page = await context.newPage();
  for (const [path, change] of changes) {
    await page.route((url) => url.pathname.startsWith('/api/console/api/') && path.test(url.pathname.slice('/api/console/api/'.length)), async (route) => {
      if (route.request().method() !== 'GET') return route.continue();
      const answer = await route.fetch();
      return route.fulfill(answer.ok() || !change.length ? { json: change(await answer.json()) } : { response: answer });
    });
  }
  await page.goto(`${app}/api/console${hash}`);
  await page.locator('.view > :not(.loading)').first().waitFor();
  await page.waitForLoadState('networkidle');
  return page;
}

const slow = 'Shipping notices'; // stays in its middle

// find waits until the other batches are done and the slow one has begun, and
// returns the id of that.
async function find() {
  for (let i = 0; i < 60; i++) {
    const { items } = await (await fetch(`${app}/api/batches?order=newest`)).json();
    const shipping = items.find((b) => b.name === slow);
    if (items.every((b) => (b === shipping ? b.done > 0 : b.state === 'done'))) return shipping.batch;
    await new Promise((resolve) => { setTimeout(resolve, 1000); });
  }
  throw new Error('the batches were not processed within a minute');
}

// The pictures: names, addresses and what is done there first.
const pictures = {
  overview: ['#/overview'],
  sequences: ['#/sequences/orders'],
  gates: ['#/gates/nightly-invoices'],
  batches: ['#/batches'],
  batch: [`#/batches/${await find()}`],
  channels: ['#/channels/archive-2024'],
  deadletters: ['#/deadletters/returns-poison', async (page) => {
    await page.getByRole('button', { name: /^Select/ }).first().click();
    await page.getByText('Body,').first().click();
  }],
  redrive: ['#/deadletters/returns-poison', async (page) => {
    await page.getByRole('button', { name: 'Redrive all…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Dry run' }).click();
    await page.getByRole('dialog').getByText('Nothing was changed.').waitFor();
  }],
  queues: ['#/queues'],
  queue: ['#/queues/work-0', async (page) => {
    const box = await page.getByRole('img', { name: /^Messages\./ }).boundingBox();
    await page.mouse.move(box.x + box.width * 0.62, box.y + box.height / 2);
  }],
  relay: ['#/relay', (page) => page.getByRole('cell', { name: '40', exact: true }).first().waitFor({ timeout: 90000 })], // the app counts each minute
  bill: ['#/bill'],
  narrow: ['#/overview', undefined, 390],
};

mkdirSync('images');
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--font-render-hinting=none'] });
try {
  for (const scheme of ['light', 'dark']) {
    for (const [name, [hash, act, width]] of Object.entries(pictures)) {
      const page = await open(browser, scheme, hash, width);
      // As high as what is shown, within limits.
      const end = await page.locator('.view').evaluate((view) => view.getBoundingClientRect().bottom + 28);
      if (!width) await page.setViewportSize({ width: 1200, height: Math.round(Math.min(Math.max(end, 520), 900)) });
      await act?.(page);
      await page.screenshot({ path: `images/console-${name}${scheme === 'dark' ? '-dark' : ''}.png` });
      await page.context().close();
    }
  }
} finally {
  await browser.close();
}
