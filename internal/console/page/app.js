// The page: navigation, who is signed in, and the view that the address names.

import { api, get, isFailing, isLate, Poller } from './api.js';
import { clearToasts, toast } from './dialog.js';
import { h, patch, printable } from './dom.js';
import { clock } from './format.js';
import { badge, failure, note } from './parts.js';
import { here, link } from './router.js';

// The views by their names in addresses. A module is loaded when its view is
// opened first; docs/console.md describes its exports. A view is in the navigation
// if the program has its function of the API, and is not hidden.
const views = {
  overview: { title: 'Overview', load: () => import('./views/overview.js') },
  sequences: { title: 'Order numbers', of: 'Sequences', load: () => import('./views/sequences.js') },
  gates: { title: 'Gates', of: 'Unleash', load: () => import('./views/gates.js') },
  batches: { title: 'Batches', of: 'SubmitBatch', load: () => import('./views/batches.js') },
  channels: { title: 'Channels', of: 'Channels', load: () => import('./views/channels.js') },
  deadletters: { title: 'Dead letters', of: 'DeadLetters', load: () => import('./views/deadletters.js') },
  queues: { title: 'Queues and scale', of: 'Queues', load: () => import('./views/queues.js') },
  timers: { title: 'Timers', of: 'Timers', load: () => import('./views/timers.js'), hidden: () => !hasTimers },
  relay: { title: 'Relay', of: 'Relay', load: () => import('./views/relay.js') },
  bill: { title: 'Bill', load: () => import('./views/bill.js') },
};

const shell = document.getElementById('shell');
const poller = new Poller(updated);
const redrawAfter = 10000; // ms, so that ages are right

let me; // who is signed in
let hasTimers = false; // only programs of one's own have any
let refused; // why the app rejects this caller
let current; // the view that is open: {name, module, ctx, problem}
let drawnAt = 0;

// A view gets ctx: args and query of its address; state, which it owns until the
// address names another view or other arguments; me; may, which is "" or the
// reason why this person must not change anything; refresh, which draws again;
// and reload, which reads again.
function contextOf(address, state) {
  return {
    args: address.args,
    query: address.query,
    state,
    me,
    may: me.roles.includes('Operator') ? '' : 'This needs the app role Operator. You have the role Reader.',
    refresh: draw,
    reload: (name) => poller.reload(name),
  };
}

async function open() {
  if (!me) return;
  const first = !current;
  const address = here();
  const known = Object.hasOwn(views, address.view);
  const name = known ? address.view : 'overview';
  if (address.view && !known) {
    location.replace(link('overview'));
    return;
  }
  const same = current?.name === name && current.ctx?.args.join('/') === address.args.join('/');
  const opened = { name, ctx: contextOf(address, same ? current.ctx.state : {}), module: same ? current.module : undefined };
  document.querySelector('dialog')?.close(); // it belongs to the previous view
  if (!same) {
    clearToasts();
    patch(shell, frame(h('div', { class: 'loading', role: 'status' }, 'Loading…'), name));
    document.querySelector('nav [aria-current]').scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
  current = opened;
  try {
    opened.module = (await views[name].load()).default;
  } catch {
    opened.problem = note('bad', h('p', null, 'This part of the page could not be loaded. The app may be stopped, or was replaced by another version. Reload the page.'));
  }
  if (current !== opened) return;
  document.title = printable(`${[opened.ctx.args[0], views[name].title].filter(Boolean).join(' · ')} – Kennel`);
  if (opened.problem) {
    draw();
    return;
  }
  await poller.open(opened.module.sources(opened.ctx));
  if (current !== opened || same || first) return;
  scrollTo(0, 0);
  document.querySelector('h1')?.focus({ preventScroll: true }); // a screen reader reads it out
}

// updated is called after each answer.
function updated(changed) {
  const lost = Object.values(poller.sources).map((s) => s.error).find((e) => e?.status === 401 || (e?.status === 403 && e.code === 'role_required'));
  if (lost) {
    refused = lost;
    me = undefined;
    poller.close();
  }
  const loading = Object.values(poller.sources).some((s) => s.value === undefined && !s.error);
  if (!loading && (changed || Date.now() - drawnAt > redrawAfter)) draw();
  else drawLive();
}

function draw() {
  drawnAt = Date.now();
  if (!me) {
    patch(shell, welcome());
    return;
  }
  const { module, ctx, problem, name } = current;
  if (!module && !problem) return; // an answer for the view before, or a run, while this one is loaded
  patch(shell, frame(problem ?? [problems(), module.render(poller.sources, ctx)], name));
  drawLive();
}

// problems shows the sources that could not be read. What they returned before
// stays on the page.
function problems() {
  const failed = Object.entries(poller.sources).filter(([, s]) => isFailing(s));
  return failed.map(([name, s]) => h('div', { key: name }, failure(s.error, isAbsent(s) ? 'info' : 'bad'),
    s.value === undefined ? null : h('p', { class: 'small quiet stale' }, `Below is what was read at ${clock(s.at)}. The page tries again.`)));
}

// isAbsent reports whether the app has nothing at the address of a source. That
// is no failure.
function isAbsent(source) {
  return source.error?.status === 404 && source.value === undefined;
}

// frame is the page around a view.
function frame(content, name) {
  return h('div', { class: 'frame' },
    h('header', { class: 'side' },
      h('a', { class: 'brand', href: link('overview') }, h('img', { src: '/api/console/icon.svg', alt: '', width: 22, height: 22 }), 'Kennel'),
      h('nav', { 'aria-label': 'Views' }, h('ul', null, Object.entries(views).filter(([view]) => view === name || isListed(views[view])).map(([view, { title }]) =>
        h('li', { key: view }, h('a', { href: link(view), 'aria-current': view === name ? 'page' : null }, title))))),
      h('div', { class: 'person' },
        h('p', { class: 'who', title: me.name }, me.local ? 'On this machine' : me.name),
        h('p', null, badge('plain', me.roles.includes('Operator') ? 'Operator' : 'Reader')),
        themeSwitch())),
    h('main', { id: 'main', tabindex: '-1' },
      h('div', { class: 'title' },
        heading(name, here().args),
        h('div', { id: 'live' })),
      me.roles.includes('Operator') ? null : h('p', { class: 'role small' }, 'You have the role Reader: you can see everything and change nothing.'),
      h('div', { key: `view ${name}`, class: `view ${name}` }, content)));
}

// isListed reports whether the navigation has a view.
function isListed({ of, hidden }) {
  return (!of || me.functions.includes(of)) && !hidden?.();
}

// heading is the title of a view, and below it the arguments of the address.
function heading(name, args) {
  const { title } = views[name];
  return h('h1', { tabindex: '-1' }, args.length ? [h('a', { key: 'view', href: link(name) }, title), args.map((arg, i) => h('span', { key: i, class: 'crumb' }, arg))] : title);
}

// drawLive shows whether the values on the page are live.
function drawLive() {
  const place = document.getElementById('live');
  if (!place) return;
  const sources = Object.values(poller.sources);
  const failing = sources.some((s) => isLate(s) || (isFailing(s) && !isAbsent(s)));
  const at = Math.max(0, ...sources.map((s) => s.at));
  const [kind, text] = poller.paused ? ['plain', 'Paused'] : failing ? ['bad', 'Not up to date'] : ['good', 'Live'];
  patch(place,
    h('span', { class: `live ${kind}`, title: at ? `Read at ${clock(at)}` : null }, text),
    h('button', { type: 'button', class: 'plain', 'aria-pressed': String(poller.paused), onclick: () => { poller.pause(!poller.paused); drawLive(); } }, poller.paused ? 'Resume' : 'Pause'));
}

// welcome is shown instead of the views until the caller is known, and to a
// caller whom the app rejects.
function welcome() {
  return h('main', { id: 'main', class: 'welcome', tabindex: '-1' },
    h('img', { src: '/api/console/icon.svg', alt: '', width: 40, height: 40 }),
    h('h1', { tabindex: '-1' }, 'Kennel'),
    refused ? [
      failure(refused, refused.status === 401 ? 'info' : 'bad'),
      h('p', { class: 'tools' }, refused.signIn ? h('a', { class: 'button primary', href: `${refused.signIn}?post_login_redirect_uri=${encodeURIComponent('/api/console' + location.hash)}` }, 'Sign in') : null,
        h('button', { type: 'button', onclick: start }, 'Try again')),
    ] : h('p', { role: 'status' }, 'Loading…'));
}

// themeSwitch chooses the theme of the system, or another one.
function themeSwitch() {
  const chosen = document.documentElement.dataset.theme ?? 'system';
  const choose = (event) => {
    const theme = event.target.value;
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem('kennel-theme', theme);
    } catch {
      toast('The browser does not keep this choice.', 'warn');
    }
  };
  return h('label', { class: 'theme' }, h('span', null, 'Theme'),
    h('select', { 'aria-label': 'Theme', value: chosen, onchange: choose }, ['system', 'light', 'dark'].map((t) => h('option', { key: t, value: t }, t[0].toUpperCase() + t.slice(1)))));
}

async function start() {
  refused = undefined;
  draw();
  try {
    me = await get(api`me`);
  } catch (error) {
    refused = error;
    draw();
    return;
  }
  findTimers();
  await open();
}

// findTimers shows the view of timers in the navigation, unless there are none.
async function findTimers() {
  const { items } = await get(api`timers`).catch(() => ({ items: [undefined] })); // perhaps there are some
  hasTimers = items.length > 0;
  if (hasTimers && current) draw();
}

addEventListener('hashchange', open);
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault(); // its address would open another view
  document.getElementById('main')?.focus();
});
start();
