// Finds the view that an address shows. Pure functions.

// Returns {view, job or search, query} for a path and its query string; view is "home", "job", "compare", "searches",
// "search", "cluster" or "missing".
export function routeOf(path, search = "") {
  const query = new URLSearchParams(search);
  const job = /^\/jobs\/([^/]+)$/.exec(path)?.[1];
  if (job) return { view: "job", job: decodeURIComponent(job), query };
  const searched = /^\/searches\/([^/]+)$/.exec(path)?.[1];
  if (searched) return { view: "search", search: decodeURIComponent(searched), query };
  const views = { "/": "home", "/compare": "compare", "/searches": "searches", "/cluster": "cluster" };
  return { view: views[path] ?? "missing", query };
}

// Returns true for a click that the browser should not follow itself: a plain one on a link of this page.
export function isPageLink(event, link, origin) {
  return link.origin === origin && !link.pathname.startsWith("/api/") && link.pathname !== "/metrics" &&
    !link.target && !link.hasAttribute("download") && !link.hash && event.button === 0 &&
    !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey && !event.defaultPrevented;
}
