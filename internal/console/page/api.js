// Calls the API of the app, and keeps the values of a view up to date.

import { serverTime } from './format.js';

const base = '/api/console/api/';

// api returns an address of the API. It is the tag of a template, whose values
// it encodes: api`gates/${name}/release`. Every address is written with it, so
// that a test finds those that do not exist.
export function api(fixed, ...values) {
  return String.raw({ raw: fixed }, ...values.map(encodeURIComponent));
}

// A Failure is a call that did not succeed.
export class Failure extends Error {
  constructor(message, fields) {
    super(message);
    Object.assign(this, { status: 0, code: '', requestId: '', retryAfter: 0, signIn: '', items: [] }, fields);
  }
}

// call sends a request and returns its answer: {text, status}. Options are body
// (an object is sent as JSON), type, accept, headers and, of a change, its
// reason for the log.
export async function call(method, path, options = {}) {
  if (/%25[0-9a-f]{2}/i.test(path.split('?')[0])) {
    throw new Failure('A name with a percent sign before two hexadecimal digits cannot be used: the Functions host would change it into another name. Nothing was sent.', { code: 'bad_name' });
  }
  const headers = { 'X-Kennel-Console': '1', ...options.headers };
  let body = options.body;
  if (options.accept) headers.Accept = options.accept;
  if (options.reason) headers['X-Kennel-Reason'] = encodeURIComponent(options.reason);
  if (body !== undefined) {
    headers['Content-Type'] = options.type ?? 'application/json';
    if (!options.type) body = JSON.stringify(body);
  }
  let answer;
  let text;
  try {
    answer = await fetch(base + path, { method, headers, body, signal: options.signal, cache: 'no-store', redirect: 'error' });
    text = await answer.text();
  } catch (err) {
    if (options.signal?.aborted) throw err;
    throw new Failure(method === 'GET'
      ? 'The app did not answer. It may be stopped or starting, or the network is down.'
      : 'The app did not answer, so it is not known whether the change was made. Read the state before you repeat it.', { code: 'no_answer' });
  }
  if (answer.headers.get('Date')) serverTime(answer.headers.get('Date'));
  if (answer.ok) return { text, status: answer.status };
  throw failed(answer, text);
}

function failed(answer, text) {
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch { /* it comes from the Functions host */ }
  return new Failure(error.message ?? `The Functions host answered ${answer.status} instead of the app. Its log has the cause.`, {
    status: answer.status,
    code: error.code ?? `status_${answer.status}`,
    items: error.items ?? [],
    requestId: answer.headers.get('X-Request-Id') ?? '',
    retryAfter: Number(answer.headers.get('Retry-After')) || 0,
    signIn: /authorization_uri="(\/[^"]*)"/.exec(answer.headers.get('WWW-Authenticate') ?? '')?.[1] ?? '',
  });
}

// get returns the value of an answer in JSON.
export async function get(path, options) {
  return JSON.parse((await call('GET', path, options)).text);
}

// change makes a change and returns its answer, undefined if it is empty.
export async function change(method, path, options) {
  const { text } = await call(method, path, options);
  return text ? JSON.parse(text) : undefined;
}

const pace = 2000; // ms between the requests of a page that is open
const maxBackoff = 30000;
const maxWait = 15000; // ms without an answer until the page does not count as live

// A Poller reads the sources of a view: at first all of them, and then at most
// one every two seconds, the one that is most overdue. While the page is hidden
// or paused it sends nothing. Update is called after each answer, and with false
// if it is the same as before.
//
// A source is {path, every, take, expects}: its address, or a function that
// returns it; the seconds between reads, or a function that returns them; a
// function that takes each value, if the view keeps more than the last one; and
// the codes of errors that the view shows itself.
export class Poller {
  constructor(update) {
    this.update = update;
    this.sources = {};
    this.paused = false;
    this.last = 0;
    document.addEventListener('visibilitychange', () => {
      this.schedule();
      this.update(false); // the values on the page may be old
    });
  }

  // open replaces the sources. It resolves when all were read.
  async open(sources) {
    this.close();
    this.stop = new AbortController();
    this.sources = {};
    for (const name in sources) this.sources[name] = { ...sources[name], due: 0, reads: 0, failures: 0, text: undefined, value: undefined, error: undefined, at: 0 };
    await Promise.all(Object.values(this.sources).map((s) => this.read(s, this.stop.signal)));
    this.schedule();
  }

  close() {
    this.stop?.abort();
    clearTimeout(this.timer);
    this.sources = {};
  }

  pause(paused) {
    this.paused = paused;
    this.schedule();
  }

  // reload reads every source again, in its turn, and one of them at once: the
  // first, or the one of this name.
  async reload(name = Object.keys(this.sources)[0]) {
    for (const s of Object.values(this.sources)) s.due = Date.now();
    if (this.sources[name]) await this.read(this.sources[name], this.stop.signal);
    this.schedule();
  }

  schedule() {
    clearTimeout(this.timer);
    const due = Math.min(...Object.values(this.sources).map((s) => s.due));
    if (this.paused || document.hidden || !Number.isFinite(due)) return;
    this.timer = setTimeout(() => this.turn(), Math.max(due, this.last + pace) - Date.now());
  }

  async turn() {
    const next = Object.values(this.sources).reduce((a, b) => (b.due < a.due ? b : a));
    await this.read(next, this.stop.signal);
    this.schedule();
  }

  async read(source, stop) {
    this.last = Date.now();
    source.due = Infinity; // while it is read
    const read = ++source.reads;
    source.askedAt = this.last;
    const late = setTimeout(() => this.update(false), maxWait);
    let changed = true;
    try {
      const { text } = await call('GET', typeof source.path === 'function' ? source.path() : source.path, { signal: stop });
      if (stop.aborted || read < source.reads) return; // a read that began later, as after a change, counts
      changed = text !== source.text || source.error !== undefined;
      if (text !== source.text) {
        source.value = JSON.parse(text);
        source.text = text;
      }
      source.take?.(source.value);
      source.error = undefined;
      source.failures = 0;
      source.at = Date.now();
      source.due = Date.now() + secondsOf(source) * 1000;
    } catch (error) {
      if (stop.aborted || read < source.reads) return;
      source.error = error;
      source.failures++;
      const backoff = Math.min(pace * 2 ** (source.failures - 1), maxBackoff);
      source.due = Date.now() + Math.max(backoff, error.retryAfter * 1000, secondsOf(source) * 1000);
    } finally {
      clearTimeout(late);
      if (read === source.reads) source.askedAt = undefined;
    }
    this.update(changed);
  }
}

function secondsOf(source) {
  return typeof source.every === 'function' ? source.every() : source.every;
}

// isLate reports whether a source has had no answer for long, or was not read for
// long, as in a page that was hidden.
export function isLate(source) {
  return Date.now() - (source.askedAt ?? source.due) >= maxWait;
}

// isFailing reports whether a source has an error that its view does not expect.
export function isFailing(source) {
  return Boolean(source.error) && !source.expects?.includes(source.error.code);
}
