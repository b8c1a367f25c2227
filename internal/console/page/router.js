// Reads and makes the addresses of views: #/gates/hounds?top=50. They are
// behind the #, so that each is a link and the app serves one page.

// here returns the address that the browser shows.
export function here() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view = '', ...args] = path.split('/').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // typed by hand
    }
  });
  return { view, args: args.filter((arg) => arg !== ''), query: new URLSearchParams(query) };
}

// link returns the address of a view.
export function link(view, args = [], query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return '#/' + [view, ...args].map(encodeURIComponent).join('/') + (search && '?' + search);
}
