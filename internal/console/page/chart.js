// Charts in SVG. Each has a text for screen readers, and a line chart also a
// table of its values.

import { h, patch } from './dom.js';
import { decimal, duration } from './format.js';

// sparkline shows values over time as a small line without axes. The last one is
// now. A value that is null is a gap.
export function sparkline(values, label, unit = '') {
  const known = values.filter(Number.isFinite);
  if (!known.length) return h('span', { class: 'quiet' }, '–');
  const width = 120;
  const height = 24;
  const top = Math.max(...known) || 1;
  const x = (i) => (values.length > 1 ? (i / (values.length - 1)) * (width - 4) + 2 : width - 2);
  const y = (v) => height - 2 - (v / top) * (height - 4);
  const last = values.findLastIndex(Number.isFinite);
  const text = `${label}: ${decimal(values[last])}${unit} now, highest ${decimal(Math.max(...known))}${unit}, lowest ${decimal(Math.min(...known))}${unit}`;
  return h('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': text },
    h('title', null, text),
    h('path', { class: 'area', d: area(values, x, y, height) }),
    h('path', { class: 'line', d: line(values, x, y) }),
    h('circle', { cx: round(x(last)), cy: round(y(values[last])), r: 2 }));
}

const round = (n) => Math.round(n * 10) / 10;

function line(values, x, y) {
  let d = '';
  let pen = 'M';
  values.forEach((v, i) => {
    if (Number.isFinite(v)) {
      d += `${pen}${round(x(i))} ${round(y(v))}`;
      pen = 'L';
    } else {
      pen = 'M';
    }
  });
  return d;
}

function area(values, x, y, height) {
  let d = '';
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) continue;
    const begin = i;
    while (i + 1 < values.length && Number.isFinite(values[i + 1])) i++;
    d += `M${round(x(begin))} ${height}`;
    for (let j = begin; j <= i; j++) d += `L${round(x(j))} ${round(y(values[j]))}`;
    d += `L${round(x(i))} ${height}Z`;
  }
  return d;
}

// lineChart shows series over time. Each is {name, points: [[time in ms, value]]};
// at most four. Label names the chart, and format turns a value into text; the
// values are seconds if it is duration.
export function lineChart({ label, series, format = decimal, from, to }) {
  const shown = series.filter((s) => s.points.length);
  if (!shown.length) return h('p', { class: 'quiet' }, 'There are no values yet.');
  const width = 440; // about as wide as it is shown, so that text has its size
  const height = 174;
  const right = 10;
  const bottom = 26;
  const times = shown.flatMap((s) => s.points.map(([t]) => t));
  const begin = from ?? Math.min(...times);
  const end = Math.max(to ?? Math.max(...times), begin + 60000);
  const ticks = scaleOf(Math.max(...shown.flatMap((s) => s.points.map(([, v]) => v)), 0), format === duration);
  const onAxis = format === duration ? axisTime : format;
  const top = ticks.at(-1);
  const left = 14 + 8 * Math.max(...ticks.map((v) => onAxis(v).length)); // as wide as the widest value
  const x = (t) => left + ((t - begin) / (end - begin)) * (width - left - right);
  const y = (v) => 8 + (1 - v / top) * (height - bottom - 8);
  // point shows the values at the pointer. A screen reader has them in the table.
  const point = (event) => {
    const svg = event.currentTarget;
    const box = svg.getBoundingClientRect();
    const at = begin + (((event.clientX - box.left) / box.width) * width - left) / (width - left - right) * (end - begin);
    const t = nearest(shown, at);
    const values = shown.map((s) => s.points.find(([time]) => time === t)?.[1]);
    patch(svg.querySelector('.hand'), h('line', { x1: round(x(t)), x2: round(x(t)), y1: 8, y2: height - bottom }),
      values.map((v, i) => (v === undefined ? null : h('circle', { key: i, class: `s${i}`, cx: round(x(t)), cy: round(y(v)), r: 3 }))));
    patch(svg.parentNode.querySelector('.readout'), h('strong', null, timeText(t, end - begin)),
      shown.map((s, i) => (values[i] === undefined ? null : h('span', { key: s.name, class: `series s${i}` }, format(values[i])))));
  };
  const leave = (event) => {
    patch(event.currentTarget.querySelector('.hand'));
    patch(event.currentTarget.parentNode.querySelector('.readout'));
  };
  const text = shown.map((s) => `${s.name}: ${format(s.points.at(-1)[1])} at the end, highest ${format(Math.max(...s.points.map(([, v]) => v)))}`).join('; ');
  return h('figure', { class: 'chart' },
    h('figcaption', null, h('span', { class: 'title' }, label), h('span', { class: 'legend' }, shown.map((s, i) => h('span', { key: s.name, class: `series s${i}` }, s.name)))),
    h('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${label}. ${text}`, onpointermove: point, onpointerleave: leave },
      ticks.map((v) => h('g', { key: `y${v}`, class: 'tick' }, h('line', { x1: round(left), x2: width - right, y1: round(y(v)), y2: round(y(v)) }),
        h('text', { x: round(left) - 6, y: round(y(v)) + 4, 'text-anchor': 'end' }, onAxis(v)))),
      timesOf(begin, end).filter((t) => x(t) > left + 12 && x(t) < width - 16).map((t) => h('text', { key: `x${t}`, class: 'time', x: round(x(t)), y: height - 6, 'text-anchor': 'middle' }, timeText(t, end - begin))),
      shown.map((s, i) => h('path', { key: s.name, class: `line s${i}`, d: path(s.points, x, y) })),
      h('g', { key: 'hand', class: 'hand' })),
    h('p', { class: 'readout', 'aria-hidden': 'true' }),
    h('details', null, h('summary', null, 'Values'),
      h('div', { class: 'values', tabindex: '0', role: 'group', 'aria-label': `Values of ${label}` }, h('table', null,
        h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Time'), shown.map((s) => h('th', { key: s.name, scope: 'col', class: 'num' }, s.name)))),
        h('tbody', null, rowsOf(shown).map(([t, values]) => h('tr', { key: t }, h('th', { scope: 'row' }, timeText(t, 0)), values.map((v) => h('td', { class: 'num' }, v === undefined ? '–' : format(v))))))))));
}

const maxGap = 300000; // ms between two points that a line connects

function path(points, x, y) {
  return points.map(([t, v], i) => `${i && t - points[i - 1][0] <= maxGap ? 'L' : 'M'}${round(x(t))} ${round(y(v))}`).join('');
}

// rowsOf returns the last values of all series by time, the newest first.
function rowsOf(series) {
  const rows = new Map();
  series.forEach((s, i) => {
    for (const [t, v] of s.points) {
      if (!rows.has(t)) rows.set(t, Array(series.length).fill(undefined));
      rows.get(t)[i] = v;
    }
  });
  return [...rows].sort(([a], [b]) => b - a).slice(0, 60);
}

// Steps of seconds that are round as minutes, hours and days.
const timeSteps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800];

// Steps of the time axis, in ms.
const axisSteps = [60000, 120000, 300000, 600000, 900000, 1800000, 3600000, 7200000, 14400000, 21600000];

// axisTime shows seconds in one unit.
function axisTime(seconds) {
  const [size, unit] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']].find(([size]) => seconds >= size && seconds % size === 0) ?? [1, 's'];
  return `${decimal(seconds / size)} ${unit}`;
}

// scaleOf returns round values from 0 to at least the highest one.
function scaleOf(highest, isTime) {
  const rough = (highest || 1) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (isTime && timeSteps.find((s) => s >= rough)) || [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = 0; i === 0 || ticks.at(-1) < highest || i < 2; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

// timesOf returns round times of day for about five places of the axis.
function timesOf(begin, end) {
  const step = axisSteps.find((s) => (end - begin) / s <= 6) ?? 86400000;
  const zone = new Date(begin).getTimezoneOffset() * 60000;
  const times = [];
  for (let t = Math.ceil((begin - zone) / step) * step + zone; t <= end; t += step) times.push(t);
  return times;
}

// nearest returns the time of a point that is the nearest to at.
function nearest(series, at) {
  let best = series[0].points[0][0];
  for (const s of series) {
    for (const [t] of s.points) {
      if (Math.abs(t - at) < Math.abs(best - at)) best = t;
    }
  }
  return best;
}

const maxClock = 90000000; // ms in which the time of day is enough: a day, and a little

const minutes = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

function timeText(t, span) {
  return (span > maxClock ? days : minutes).format(t);
}
