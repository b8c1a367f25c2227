// The console in a browser. The Go test beside this folder starts the app and
// runs this file.

import { after, before } from 'node:test';
import { launch, quit } from './page.mjs';

before(launch);
after(quit);

await import('./numbers.mjs');
await import('./work.mjs');
await import('./operations.mjs');
await import('./everywhere.mjs');
await import('./fields.mjs');
await import('./invisible.mjs');
await import('./states.mjs');
await import('./traffic.mjs');
(await import('./actions.mjs')).everythingIsUsed();
