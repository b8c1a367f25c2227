// Channels: their blogs, and the deletion of a channel with its progress.

import { api, change } from '../api.js';
import { act, inform } from '../dialog.js';
import { h } from '../dom.js';
import { age, count, decimal, duration, number, since } from '../format.js';
import { badge, button, code, command, empty, facts, leftOut, named, note, opener, section, to, toolbar } from '../parts.js';
import { link } from '../router.js';
import { pageQuery, pager, table } from '../table.js';

const view = 'channels';
const shownText = 140; // characters of a blog in the table

export default {
  sources(ctx) {
    const [name] = ctx.args;
    if (!name) return { list: { path: api`channels` + pageQuery(ctx), every: 5 } };
    return {
      channel: { path: api`channels/${name}`, every: 10, expects: ['channel_not_found'] },
      deletion: { path: api`channels/${name}/deletion`, every: 2, expects: ['deletion_not_found'] },
      blogs: { path: api`channels/${name}/blogs` + pageQuery(ctx, { order: orderOf(ctx) }), every: 20, expects: ['channel_not_found'] },
    };
  },

  render(data, ctx) {
    return ctx.args.length ? one(data, ctx) : list(data.list.value, ctx);
  },
};

function list(value, ctx) {
  if (!value) return null;
  const columns = [
    { label: 'Channel', cell: (c) => to(c.channel, view, [c.channel]) },
    { label: 'Owner', cell: (c) => c.owner },
    { label: 'Created', num: true, cell: (c) => since(c.createdAt) },
    { label: '', kind: 'actions', cell: (c) => remove(c, ctx) },
  ];
  return h('div', { class: 'list' },
    toolbar('All channels, in the order of their names.', opener(view, 'Name of a channel')),
    leftOut(value, 'channel'),
    value.items.length
      ? table({ label: 'Channels', columns, rows: value.items, key: (c) => c.incarnation, more: pager(ctx, view, [], value) })
      : empty(ctx.query.get('from') ? 'There are no more channels.' : 'There is no channel.', 'Create one: ', command('kennel channels create news --owner ann')));
}

function remove(channel, ctx) {
  return button('Delete…', () => ask(channel, ctx), { may: ctx.may, describe: `Delete ${channel.channel}` });
}

// one shows a channel, or the deletion of the last one of this name.
function one({ channel, deletion, blogs }, ctx) {
  const [name] = ctx.args;
  const gone = channel.error?.code === 'channel_not_found';
  const c = gone ? undefined : channel.value;
  const neverDeleted = deletion.error?.code === 'deletion_not_found';
  const record = neverDeleted ? undefined : deletion.value;
  return [
    c ? section('Channel', remove(c, ctx), facts([
      ['Name', c.channel],
      ['Owner', c.owner],
      ['Created', since(c.createdAt)],
      ['Incarnation', code(c.incarnation)],
    ])) : null,
    gone && neverDeleted ? empty(['There is no channel ', named(name), '.'], 'It was never created, or it was deleted more than 30 days ago. ', to('All channels', view)) : null,
    gone && record ? note('info', h('p', null, `The channel was deleted, and its name is free. ${record.state === 'done' ? '' : 'Its blogs are still being deleted. '}`, to('All channels', view))) : null,
    record ? section(c ? 'Deletion of an earlier channel of this name' : 'Deletion', badgeOf(record), progress(record)) : null,
    c && blogs.value ? blogsOf(name, blogs.value, ctx) : null,
  ];
}

function badgeOf(record) {
  return record.state === 'done' ? badge('good', 'Done') : badge('info', 'Running');
}

function progress(record) {
  const took = record.finishedAt ? (Date.parse(record.finishedAt) - Date.parse(record.startedAt)) / 1000 : age(record.startedAt);
  return facts([
    ['Blogs deleted', record.state === 'done' ? number(record.deleted) : `${number(record.deleted)} so far`],
    ['Began', since(record.startedAt)],
    [record.finishedAt ? 'Took' : 'Running for', duration(took)],
    ['Rate', took >= 1 && record.deleted ? `${decimal(record.deleted / took)} a second` : null],
    ['Incarnation', code(record.incarnation)],
  ]);
}

function orderOf(ctx) {
  return ctx.query.get('order') === 'oldest' ? 'oldest' : 'newest';
}

function blogsOf(name, value, ctx) {
  const columns = [
    { label: 'Title', cell: (b) => [b.title, h('span', { class: 'under' }, code(b.blog))] },
    { label: 'Text', kind: 'wide', cell: (b) => excerpt(b) },
    { label: 'User', cell: (b) => b.userId },
    { label: 'Created', num: true, cell: (b) => since(b.createdAt) },
  ];
  const order = orderOf(ctx);
  return section('Blogs',
    h('nav', { class: 'choice', 'aria-label': 'Order' }, [['newest', 'Newest first'], ['oldest', 'Oldest first']].map(([o, text]) =>
      h('a', { key: o, href: link(view, [name], { order: o }), 'aria-current': o === order ? 'true' : null }, text))),
    leftOut(value, 'blog'),
    value.items.length || value.continuation
      ? table({ label: `Blogs of ${name}, ${order} first`, columns, rows: value.items, key: (b) => b.blog, more: pager(ctx, view, [name], value) })
      : empty('The channel has no blogs.', 'Add one: ', command('kennel blogs add --help')));
}

function excerpt(blog) {
  if (blog.text.length <= shownText && !blog.text.includes('\n')) return blog.text;
  const begin = blog.text.split('\n', 1)[0].slice(0, shownText);
  return [named(begin), ' … ', button('Read', () => inform(blog.title, h('pre', { tabindex: '0' }, blog.text)), { kind: 'plain', describe: `Read ${blog.title}` })];
}

// ask deletes the channel that is shown, and not a later one of its name.
function ask(channel, ctx) {
  const name = channel.channel;
  act({
    title: ['Delete ', named(name)],
    text: ['The channel is deleted with all its blogs. This cannot be undone or stopped. The name is free at once.'],
    typed: name,
    reason: true,
    danger: true,
    confirm: 'Delete',
    async run({ reason }) {
      const record = await change('DELETE', api`channels/${name}`, { headers: { 'If-Match': channel.etag }, reason });
      if (record.state === 'done') {
        ctx.reload();
        return [named(name), ` is deleted with ${count(record.deleted, 'blog')}.`];
      }
      if (ctx.args.length) ctx.reload();
      else location.hash = link(view, [name]);
      return ['The deletion of ', named(name), ' began.'];
    },
  });
}
