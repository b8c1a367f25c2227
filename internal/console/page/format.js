// Turns values into text for people: numbers with separators, times as they are
// counted, amounts of money.

import { h } from './dom.js';

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 });
const exactTime = new Intl.DateTimeFormat('en-GB', {
  weekday: 'short', day: 'numeric', month: 'short', year: 'numeric',
  hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
});
const dayTime = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

// none stands where there is no value.
export const none = '–';

// number returns a whole number: 12,345.
export function number(n) {
  return Number.isFinite(n) ? whole.format(n) : none;
}

// decimal returns a number that need not be whole, with three digits.
export function decimal(n) {
  if (!Number.isFinite(n)) return none;
  return Math.abs(n) >= 100 ? whole.format(n) : short.format(n);
}

// count returns a number and its noun: 1 item, 2 items.
export function count(n, one, many = one + 's') {
  return `${number(n)} ${n === 1 ? one : many}`;
}

export function percent(share) {
  return Number.isFinite(share) ? `${short.format(share * 100)} %` : none;
}

export function bytes(n) {
  if (!Number.isFinite(n)) return none;
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  for (; n >= 1000 && unit < units.length - 1; unit++) n /= 1000;
  return `${decimal(n)} ${units[unit]}`;
}

// money returns an amount, which is a decimal text, in a currency. It has four
// digits below 1, because an operation costs millionths. Amounts in a column have
// the same digits.
export function money(amount, currency, digits = Number(amount) && Math.abs(amount) < 1 ? 4 : 2) {
  const value = Number(amount);
  if (amount === undefined || !Number.isFinite(value)) return none;
  const least = 10 ** -digits;
  if (value > 0 && value < least) return `< ${money(least, currency, digits)}`;
  try {
    return new Intl.NumberFormat('en-US', { style: 'currency', currency, minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
  } catch {
    return `${value.toFixed(digits)} ${currency}`; // a code that the browser does not know
  }
}

// duration returns seconds in the two largest units: 1 h 5 min.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return none;
  if (seconds < 10) return `${short.format(Math.max(0, seconds))} s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]) {
    if (rest >= size && parts.length < 2) {
      parts.push(`${Math.floor(rest / size)} ${unit}`);
      rest %= size;
    } else if (parts.length) {
      break;
    }
  }
  return parts.join(' ');
}

let ahead = 0; // how far the clock of the app is ahead of the browser's, in ms

// serverTime takes the Date of an answer, so that ages are right although the
// clock of this machine is not.
export function serverTime(date) {
  const difference = Date.parse(date) - Date.now();
  ahead = Math.abs(difference) > 5000 ? difference : 0;
}

// now returns the time by the clock of the app, in milliseconds.
export function now() {
  return Date.now() + ahead;
}

// age returns how many seconds ago a time was.
export function age(time) {
  return (now() - Date.parse(time)) / 1000;
}

// exact returns a time with its date and zone.
export function exact(time) {
  const at = Date.parse(time);
  return Number.isNaN(at) ? none : exactTime.format(at);
}

// clock returns the time of day.
export function clock(time) {
  return dayTime.format(typeof time === 'number' ? time : Date.parse(time));
}

// since shows how long a time is ago; the exact one is its title.
export function since(time, after = ' ago') {
  if (!time || Number.isNaN(Date.parse(time))) return none;
  const seconds = age(time);
  let text = 'now';
  if (seconds >= 5) text = (seconds < 60 ? `${Math.floor(seconds)} s` : largest(seconds)) + after;
  else if (seconds <= -5) text = `in ${largest(-seconds)}`;
  return h('time', { datetime: time, title: exact(time) }, text);
}

function largest(seconds) {
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}
