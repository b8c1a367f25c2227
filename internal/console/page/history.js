// The checks of scaling over time, which a view reads piece by piece: the
// newest first, then the older ones, and then new ones once a minute.

import { api } from './api.js';
import { now } from './format.js';

const minute = 60000; // ms
const maxPiece = 240; // checks in one answer, so that it stays below 1 MiB

export class History {
  // A History covers the last minutes.
  constructor(minutes) {
    this.range = minutes * minute;
    this.piece = Math.min(minutes, maxPiece);
    this.checks = new Map(); // by time
    this.from = this.to = undefined; // the range that is known
  }

  // source is the source of the view for the poller.
  source() {
    return { path: () => this.path(), every: () => (this.isComplete() ? 60 : 2), take: (page) => this.take(page) };
  }

  // isComplete reports whether the whole range is known, but for the last minute.
  isComplete() {
    return this.from !== undefined && this.from <= now() - this.range + minute;
  }

  path() {
    const end = now();
    const begin = end - this.range;
    if (this.from === undefined) this.asked = [Math.max(begin, end - this.piece * minute), end];
    else if (end - this.to >= minute || this.isComplete()) this.asked = [this.to, end];
    else this.asked = [Math.max(begin, this.from - this.piece * minute), this.from];
    const [from, to] = this.asked.map((t) => new Date(t).toISOString());
    return api`scale/history?from=${from}&to=${to}&top=${this.piece + 5}`;
  }

  take({ items, continuation }) {
    for (const c of items) this.checks.set(Date.parse(c.at), new Map(c.samples.map((s) => [s.queue, s])));
    if (continuation && this.piece > 1) {
      this.piece = Math.ceil(this.piece / 2); // and asks again
      return;
    }
    const [from, to] = this.asked;
    this.from = Math.min(this.from ?? from, from);
    this.to = Math.max(this.to ?? to, to);
    for (const at of this.checks.keys()) {
      if (at < now() - this.range) this.checks.delete(at);
    }
  }

  // points returns a member of the samples of a queue over time.
  points(queue, member) {
    return [...this.checks].filter(([, samples]) => samples.has(queue)).map(([at, samples]) => [at, samples.get(queue)[member]]).sort(([a], [b]) => a - b);
  }
}
