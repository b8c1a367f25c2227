// Opens views of a large app, each in a browser that has nothing stored, and
// writes into a file what the Go test beside this folder checks: the processor
// time of the page until it was complete, and what it requested until then.

import { writeFileSync } from 'node:fs';
import { launch, quit, visit } from './page.mjs';

const { views, rounds } = JSON.parse(process.env.VIEWS);

// watch runs in the page before its scripts. It notes when the view shows what
// its first page has: so many items, at least one if that is 0, and no sign of
// loading. What is drawn then is seen with the next frame.
const watch = ({ items, count }) => {
  new MutationObserver((_, observer) => {
    if (document.querySelector('.view .loading') || document.querySelectorAll(`.view ${items}`).length < Math.max(count, 1)) return;
    observer.disconnect();
    const drawn = performance.now();
    requestAnimationFrame(() => { globalThis.complete = { drawn, seen: performance.now() }; });
  }).observe(document, { childList: true, subtree: true });
};

// result returns what the page has requested and shown by then.
const result = () => ({
  ms: globalThis.complete.seen,
  rows: Math.max(...[...document.querySelectorAll('.view tbody')].map((t) => t.rows.length), 0),
  resources: performance.getEntriesByType('resource').filter((r) => r.startTime <= globalThis.complete.drawn)
    .map((r) => ({ path: new URL(r.name).pathname, bytes: r.decodedBodySize })),
});

// processorTime returns that of the page's process in ms. It has no other page,
// and began with it.
async function processorTime(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const { metrics } = await session.send('Performance.getMetrics');
  return metrics.find((m) => m.name === 'ProcessTime').value * 1000;
}

await launch();
try {
  const measured = [];
  for (const view of views) {
    for (let round = 0; round < rounds; round++) {
      await visit('Operator', view.hash, async (page) => {
        await page.waitForFunction(() => globalThis.complete);
        measured.push({ used: await processorTime(page), ...await page.evaluate(result) });
      }, { init: [watch, view] });
    }
  }
  writeFileSync(process.env.MEASURED, JSON.stringify(measured));
} finally {
  await quit();
}
