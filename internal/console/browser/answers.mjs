// Answers of the API that are made from its description, so that a page can be
// seen in states that an app is rarely in. The functions here run in the page:
// they replace fetch, so that no request leaves it and its clock alone decides
// when one is made.

// fake replaces fetch in a page. Spec is the description of the API, and me who
// is signed in. The tests set what globalThis.app has:
//
//   style  full:  each member and list, with text of strangers in each text
//          other: full, with the other values of enumerations and truth values
//          empty: no member that may be missing, and empty lists
//          off:   the app has no such part
//          lost:  each answer is an error
//          gone:  each answer is 404
//   turn   counts the answers; it is in each number and text, so that they
//          change with it, if changing is set; then a list of checks has the
//          whole hour, so that it does not grow
//   log    of the requests: {method, path, at}
//   texts  returns the places of the texts that were sent: Gate.reason
export function fake(spec, hostile, me) {
  const texts = new Set(); // the places of those that were sent
  const app = globalThis.app = { texts: () => [...texts], style: 'full', turn: 0, changing: false, me, log: [] };
  const of = (ref) => ref.split('/').slice(1).reduce((o, name) => o[name], spec);
  const paths = Object.keys(spec.paths).map((path) => [path, new RegExp(`^${path.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '([^/]+)')}$`)]);

  // make returns a value of a schema. Place names it, and i is its place in
  // the list that it is in.
  function make(schema, place, i = 0) {
    if (schema.$ref) return make(of(schema.$ref), schema.$ref.split('/').at(-1), i);
    if (schema.allOf) return Object.assign({}, ...schema.allOf.map((s) => make(s, place, i)));
    if (place === 'Pause' && i === 1) return null; // the second of a list is not paused
    const other = app.style === 'other';
    const types = [schema.type].flat();
    if (app.style === 'empty' && types.includes('null')) return null;
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return schema.enum[(other ? schema.enum.length - 1 - i % schema.enum.length : i % schema.enum.length)];
    switch (types[0]) {
      case 'object': return object(schema, place, i);
      case 'array': return schema.maxItems === 0 || app.style === 'empty' && !needed.includes(place) ? [] : Array.from({ length: place === 'ScaleHistory.items' && app.changing ? 60 : 3 }, (_, i) => make(schema.items, `${place}[]`, i));
      case 'boolean': return !other;
      case 'integer': return 1000 * (i + 1) + app.turn;
      case 'number': return (i + 1) * 1.5 + app.turn;
      case 'string': return text(schema, place, i);
      case 'null': return null;
      default: return text({}, place, i);
    }
  }

  function object(schema, place, i) {
    const value = {};
    for (const [name, s] of Object.entries(schema.properties ?? {})) {
      if (app.style !== 'empty' || schema.required?.includes(name) || whole.test(place)) value[name] = make(s, `${place}.${name}`, i);
    }
    if (app.style !== 'empty' && schema.additionalProperties?.type !== undefined || schema.additionalProperties?.$ref) {
      for (const i of app.style === 'empty' ? [] : [0, 1, 2]) value[keyOf(place, i)] = make(schema.additionalProperties, `${place}{}`, i);
    }
    if (place === 'ScaleHistory') delete value.continuation; // it has the whole hour
    if (value.outcome === 'done') delete value.error;
    if (value.encoding === 'base64') value.body = btoa(unescape(encodeURIComponent(value.body)));
    return value;
  }

  // What the app never leaves empty, and what it completes with its defaults.
  const whole = /^ScaleRules(\.instances)?$/;
  const needed = ['ScaleCheck.advice'];

  // Queues have the same names wherever they are, because the page joins them.
  const keyOf = (place, i) => (place === 'Status.queues' ? `work-${i} ${hostile}` : `${place}{} ${i} ${hostile}`);

  function text(schema, place, i) {
    if (place === 'ScaleCheck.at') return new Date((Math.floor(Date.now() / 60000) - i) * 60000).toISOString(); // once a minute
    if (schema.format === 'date-time') return new Date(Date.now() - (i + 1) * 60000).toISOString();
    if (schema.pattern?.includes('[0-9]{6}')) return `${i + 1}2.${String(100000 + app.turn)}`;
    if (place === 'Bill.currency') return 'USD';
    if (/^ScaleRules\.(coolDown|startUp|windows\[\]\.lead)$/.test(place)) return '1m30s'; // the app refuses anything else
    if (/\b(ScaleSample|ScaleAdvice|Queue|QueueDetails)\.(queue|storageQueue|drainedBy\[\])$/.test(place)) return `work-${i} ${hostile}`;
    texts.add(place);
    return `${place} ${i} ${app.turn} ${hostile}`;
  }

  const failure = (status, code) => ({ status, json: { error: { code, message: `Error.error.message ${hostile}`, ...(app.style === 'full' && { items: [] }) } }, headers: { 'X-Request-Id': `X-Request-Id ${hostile}`, 'Retry-After': '2' } });

  // off are the codes with which an app answers that has no such part.
  const off = [[/^\/scale$/, 404, 'scale_not_checked'], [/^\/scale/, 501, 'scale_off'], [/^\/relay/, 501, 'bus_off'], [/\/deletion$/, 404, 'deletion_not_found'], [/^\/channels/, 501, 'channels_off'], [/^\/batches/, 501, 'batches_off'], [/^\/deadletters/, 501, 'dead_letters_off']];

  function answer(path) {
    if (path === '/me') return { status: 200, json: app.me };
    if (app.style === 'lost') return failure(503, `code ${hostile}`);
    if (app.style === 'gone') return failure(404, path.startsWith('/channels/') ? 'channel_not_found' : /^\/gates\/[^/]+$/.test(path) ? 'gate_corrupt' : `code ${hostile}`);
    const part = app.style === 'off' && off.find(([of]) => of.test(path));
    if (part) return failure(part[1], part[2]);
    const [known] = paths.find(([, of]) => of.test(path)) ?? [];
    const answer = spec.paths[known].get.responses[200];
    return { status: 200, json: make((answer.$ref ? of(answer.$ref) : answer).content['application/json'].schema, known) };
  }
  app.answer = answer;

  globalThis.fetch = async (address, { method = 'GET' } = {}) => {
    const path = decodeURIComponent(new URL(address, location).pathname.replace('/api/console/api', ''));
    app.log.push({ method, path, at: Date.now() });
    if (app.changing) app.turn++;
    const { status, json, headers } = answer(path);
    return { ok: status < 300, status, headers: new Headers(headers), text: async () => JSON.stringify(json) };
  };
}
