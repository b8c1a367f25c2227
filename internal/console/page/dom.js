// Makes and updates the elements of the page. A view describes them with h();
// patch() changes only what differs from the description before. So focus, selection
// and scroll positions stay while values change, and memory does not grow.
//
// Text from outside only ever becomes a text node or an attribute's value, and
// goes through printable() first.

const svgNamespace = 'http://www.w3.org/2000/svg';

// Characters without a shape of their own. \r is left alone before \n.
const unseen = /(?!\r\n)[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]--[\n\t]]/gv;

// printable escapes invisible characters, as the command line does. Some of them
// reverse the text that follows, and others make two different names look equal.
export function printable(text) {
  return String(text).replace(unseen, (character) => {
    if (/\p{Cc}/u.test(character)) return '\ufffd';
    const code = character.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, '0')}` : `\\u${code.padStart(4, '0')}`;
  });
}

// h describes an element. Of its properties, key identifies it among its
// siblings, on… are event handlers, vars are CSS variables, and the others are
// attributes; true is an attribute without a value, and false, null and
// undefined are none. A child that is null, undefined or a boolean keeps its
// place empty, so that the children after it keep their elements.
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, key: props?.key, children: described(children) };
}

function described(children, list = []) {
  for (const child of children) {
    if (Array.isArray(child)) described(child, list);
    else if (child === null || child === undefined || typeof child === 'boolean') list.push({ text: '' });
    else list.push(typeof child === 'object' ? child : { text: printable(child) });
  }
  return list;
}

const shown = new WeakMap(); // the last description of each parent

// patch makes the children of parent as described.
export function patch(parent, ...children) {
  const focused = document.activeElement;
  const next = described(children);
  patchChildren(parent, shown.get(parent) ?? [], next, parent.namespaceURI === svgNamespace);
  shown.set(parent, next);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function patchChildren(parent, before, next, svg) {
  const keyed = new Map();
  const others = [];
  for (const old of before) {
    if (old.key === undefined) others.push(old);
    else keyed.set(old.key, old);
  }
  let place = 0;
  const kept = new Set();
  for (const n of next) {
    const old = n.key === undefined ? others[place++] : keyed.get(n.key);
    if (!old || old.tag !== n.tag || kept.has(old)) continue;
    kept.add(old);
    n.node = old.node;
    update(old, n, svg);
  }
  for (const old of before) {
    if (!kept.has(old)) old.node.remove();
  }
  // What remains is in order, unless rows were sorted, so few nodes are moved.
  let at = parent.firstChild;
  for (const n of next) {
    n.node ??= create(n, svg);
    if (n.node === at) at = at.nextSibling;
    else parent.insertBefore(n.node, at);
  }
}

function create(n, svg) {
  if (!n.tag) return document.createTextNode(n.text);
  svg ||= n.tag === 'svg';
  const node = svg ? document.createElementNS(svgNamespace, n.tag) : document.createElement(n.tag);
  for (const child of n.children) {
    child.node = create(child, svg);
    node.append(child.node);
  }
  setAll(node, {}, n.props); // after the options of a select, which its value names
  return node;
}

function update(old, n, svg) {
  if (!n.tag) {
    if (old.text !== n.text) n.node.data = n.text;
    return;
  }
  patchChildren(n.node, old.children, n.children, svg || n.tag === 'svg');
  setAll(n.node, old.props, n.props);
}

function setAll(node, old, props) {
  for (const name in old) {
    if (!(name in props)) set(node, name, undefined, old[name]);
  }
  for (const name in props) set(node, name, props[name], old[name]);
}

function set(node, name, value, old) {
  if (name === 'key') return;
  if (name.startsWith('on')) {
    node[name] = value ? (event) => { value(event); } : null; // a result of false would cancel the event
    return;
  }
  if (name === 'checked' || name === 'indeterminate') {
    node[name] = Boolean(value);
    return;
  }
  if (name === 'vars') {
    for (const v in value) node.style.setProperty(v, value[v]);
    return;
  }
  if (value === old) return; // also text that a person has typed since
  if (name === 'value' && 'value' in node) {
    node.value = value ?? '';
  } else if (value === false || value === null || value === undefined) {
    node.removeAttribute(name);
  } else {
    const isAddress = name === 'href' || name === 'src';
    if (isAddress && !/^(#|\/(?!\/))/.test(value)) throw new Error(`the address ${value} leaves the page`);
    node.setAttribute(name, value === true ? '' : isAddress ? value : printable(value));
  }
}
