// Tables. On a narrow screen each row becomes a card; the roles keep it a table
// for screen readers.

import { h } from './dom.js';
import { number } from './format.js';
import { link } from './router.js';
import { button } from './parts.js';

// The rows of a page.
export const pageSize = 100;

// table shows rows. A column is {label, cell(row), num, kind, sort(row)}: num
// aligns numbers, and kind is a class of its cells. Key returns the identity of
// a row, and mark a class for it.
export function table({ label, columns, rows, key, mark, more }) {
  return h('div', { class: 'tablebox', tabindex: '0', role: 'group', 'aria-label': label },
    h('table', { role: 'table', 'aria-label': label },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map((c) =>
        h('th', { key: c.label, role: 'columnheader', scope: 'col', class: classOf(c), 'aria-sort': c.sorted ?? null },
          c.kind === 'actions' ? h('span', { class: 'unseen' }, 'Actions') : c.head ?? (c.sort ? h('button', { type: 'button', class: 'sorter', onclick: c.sort }, c.label) : c.label))))),
      h('tbody', { role: 'rowgroup' }, rows.map((row) =>
        h('tr', { key: key(row), role: 'row', class: mark?.(row) || null }, columns.map((c, i) =>
          h(i ? 'td' : 'th', { role: i ? 'cell' : 'rowheader', scope: i ? null : 'row', class: classOf(c), 'data-label': c.label }, c.cell(row))))))),
    more);
}

function classOf(column) {
  return [column.num && 'num', column.kind].filter(Boolean).join(' ') || null;
}

// sortable makes the columns that have by(row) sort rows of a view that has all
// of them. It returns the columns and the rows for table.
export function sortable(ctx, name, columns, rows) {
  const chosen = ctx.state[name] ?? {};
  const choose = (label) => {
    ctx.state[name] = { label, down: chosen.label === label ? !chosen.down : false };
    ctx.refresh();
  };
  const column = columns.find((c) => c.label === chosen.label);
  const sign = chosen.down ? -1 : 1;
  return {
    columns: columns.map((c) => (c.by ? {
      ...c, sort: () => choose(c.label), sorted: c === column ? (chosen.down ? 'descending' : 'ascending') : null,
    } : c)),
    rows: column ? rows.toSorted((a, b) => sign * compare(column.by(a), column.by(b))) : rows,
  };
}

function compare(a, b) {
  return typeof a === 'string' ? a.localeCompare(b) : (a ?? -Infinity) - (b ?? -Infinity);
}

// pager shows links to the pages of a list of the API, which has a continuation.
// It is null if the list has one page.
export function pager(ctx, view, args, value) {
  const at = ctx.query.get('from');
  const rest = Object.fromEntries([...ctx.query].filter(([name]) => name !== 'from'));
  if (!at && !value?.continuation) return null;
  return h('nav', { class: 'pager', 'aria-label': 'Pages' },
    at ? h('a', { href: link(view, args, rest) }, '← First page') : h('span', null, 'First page'),
    value?.continuation ? h('a', { href: link(view, args, { ...rest, from: value.continuation }), rel: 'next' }, 'Next page →') : h('span', null, 'Last page'));
}

// pageQuery returns the query for the page that the address names.
export function pageQuery(ctx, parameters = {}) {
  return '?' + new URLSearchParams({ ...parameters, top: pageSize, ...(ctx.query.get('from') && { continuation: ctx.query.get('from') }) });
}

// slice is pager for rows that the page has all of: it returns those to show and
// the buttons that lead to the others.
export function slice(ctx, name, rows) {
  if (rows.length <= pageSize) return { rows, more: null };
  const pages = Math.ceil(rows.length / pageSize);
  const page = Math.min(ctx.state[name] ?? 0, pages - 1);
  const turn = (by) => () => {
    ctx.state[name] = page + by;
    ctx.refresh();
  };
  const begin = page * pageSize;
  return {
    rows: rows.slice(begin, begin + pageSize),
    more: h('nav', { class: 'pager', 'aria-label': 'Pages' },
      button('← Previous', turn(-1), { may: page ? '' : 'This is the first page' }),
      h('span', null, `${number(begin + 1)}–${number(Math.min(begin + pageSize, rows.length))} of ${number(rows.length)}`),
      button('Next →', turn(1), { may: page < pages - 1 ? '' : 'This is the last page' })),
  };
}
