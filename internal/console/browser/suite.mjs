// Every action of every view, as an Operator, and what a Reader must not do.
// The Go test beside this folder starts the app and runs this file.

import { after, before } from 'node:test';
import { launch, quit } from './page.mjs';

before(launch);
after(quit);

await import('./numbers.mjs');
await import('./work.mjs');
await import('./operations.mjs');
await import('./everywhere.mjs');
await import('./large.mjs');
