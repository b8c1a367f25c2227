// Every view in every state that the API can be in, with text of strangers in
// each text: it is accessible, and shows what it got as text.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { everyLook, go, hostile, isAccessible, isText, twoLooks, views, visit } from './page.mjs';

const hostileAddresses = [
  '#/queues/unknown', `#/gates/${encodeURIComponent(hostile)}`, `#/batches/b?outcome=${encodeURIComponent(hostile)}`,
  '#/channels/javascript%3Aalert(1)?from=javascript%3Aalert(1)&order=javascript%3Aalert(1)', `#/${encodeURIComponent(hostile)}`, '#/javascript%3Aalert(1)', '#/constructor', '#/gates/%',
];

// hidden are texts of the API that views read and do not show.
const hidden = [
  'Status.version', 'Status.instance', 'Status.go', 'Service.error', 'Status.storage.error', 'Status.signals.bus', 'SequenceStatus.problem', 'GateStatus.error', // problems and instances have them
  'Transition.operation', 'ETag', // are for requests
  'SequenceList.continuation', 'GateList.continuation', 'BatchList.continuation', 'ResultList.continuation', 'ChannelList.continuation', 'BlogList.continuation', 'ScaleHistory.continuation', // are in addresses
];

for (const style of ['full', 'other', 'empty', 'off', 'lost', 'gone']) {
  test(`every view is accessible and shows text as text: ${style}`, () => visit('Operator', '#/bill', async (page) => {
    await page.evaluate((style) => { globalThis.app.style = style; }, style);
    const shown = new Set();
    for (const hash of views) {
      await go(page, hash === '#/bill' ? '#/overview' : '#/bill');
      await go(page, hash);
      await isAccessible(page, `${hash} (${style})`, style === 'full' ? everyLook : twoLooks);
      await isText(page);
      if (style === 'full') await collect(page, shown);
    }
    for (const hash of hostileAddresses) {
      await go(page, hash);
      await isText(page);
    }
    if (style === 'full') {
      const sent = await page.evaluate(() => globalThis.app.texts());
      assert.deepEqual(sent.filter((place) => !shown.has(place)).sort(), hidden.toSorted(), 'the texts that are not shown');
    }
  }, { fake: true }));
}

// collect adds the places of the texts that a page shows, with all of the text.
async function collect(page, shown) {
  const found = await page.evaluate((hostile) => {
    const inAttributes = [...document.querySelectorAll('*')].flatMap((e) => [...e.attributes].map((a) => a.value));
    const all = [document.body.textContent, ...inAttributes].join('\n');
    const isShown = (text) => all.includes(text) || all.includes(JSON.stringify(text).slice(1, -1)); // as of results in JSON
    return globalThis.app.texts().filter((place) => [0, 1, 2].some((i) => isShown(`${place} ${i} 0 ${hostile}`)));
  }, hostile);
  for (const place of found) shown.add(place);
}
