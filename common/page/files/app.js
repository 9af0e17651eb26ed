// Shows the view that the address names, and asks the coordinator for what is new each second while the page is seen.
import { api, ApiError, setToken, Unreachable } from "./api.js";
import { h, render } from "./dom.js";
import { formatTime } from "./format.js";
import { isPageLink, routeOf } from "./router.js";
import { clusterView } from "./view_cluster.js";
import { compareView } from "./view_compare.js";
import { homeView } from "./view_home.js";
import { jobView } from "./view_job.js";
import { searchView } from "./view_search.js";
import { searchesView } from "./view_searches.js";

const POLL_MS = 1000;
const main = document.getElementById("main");
const connection = document.getElementById("connection");

// A view is {title(), poll(), draw()}: `poll` asks for what is new, `draw` describes what is known.
const VIEWS = {
  home: homeView,
  job: jobView,
  compare: compareView,
  searches: searchesView,
  search: searchView,
  cluster: clusterView,
  missing: () => ({ title: () => "No such page", poll: async () => {}, draw: () => [h("p", null, "There is no such page.")] }),
};

let view, page, failure, unreachableSince, timer, shownAddress, polling = false;

function context(route) {
  return { route, draw, page: () => page, navigate, rename, poll: () => poll() };
}

// Gives what is shown another address.
function rename(address) {
  history.replaceState(null, "", address);
  shownAddress = address;
}

function draw() {
  const title = view.title();
  document.title = title === "Muster" ? title : `${title} · Muster`;
  render(main, h("h1", { key: "title", tabindex: "-1" }, title), failure ?? view.draw());
  const text = unreachableSince
    ? `The coordinator has not answered since ${formatTime(unreachableSince)}. Trying again; what is shown may be old.` : "";
  if (connection.textContent !== text) connection.textContent = text;
  connection.classList.toggle("error", Boolean(unreachableSince));
}

function tokenForm(error) {
  return h("form", {
    class: "token",
    key: "token",
    onsubmit: (event) => {
      event.preventDefault();
      setToken(event.target.elements.token.value);
      failure = undefined;
      poll();
    },
  }, h("p", null, error.message), h("label", null, "Token ",
    h("input", { type: "password", name: "token", autocomplete: "off", required: true })), h("button", null, "Read"));
}

async function poll() {
  if (polling || document.hidden) return;
  polling = true;
  clearTimeout(timer);
  const polled = view;
  try {
    page ??= await api.page();
    await polled.poll();
    unreachableSince = failure = undefined;
  } catch (error) {
    if (error instanceof Unreachable) {
      unreachableSince ??= Date.now();
    } else if (error instanceof ApiError) {
      unreachableSince = undefined;
      if (polled === view) failure = error.status === 401 ? tokenForm(error) : h("p", { class: "problem error" }, error.message);
    } else {
      throw error;
    }
  } finally {
    polling = false;
    timer = setTimeout(poll, POLL_MS);
  }
  if (polled === view) draw();
  else poll();
}

function show() {
  const route = routeOf(location.pathname, location.search);
  view = VIEWS[route.view](context(route));
  shownAddress = location.pathname + location.search;
  failure = undefined;
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.pathname === location.pathname) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  draw();
  poll();
}

function navigate(address) {
  history.pushState(null, "", address);
  show();
  scrollTo(0, 0);
  main.querySelector("h1")?.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || !isPageLink(event, link, location.origin)) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
});
addEventListener("popstate", () => {
  // A jump within the page, such as to its content, shows nothing new.
  if (location.pathname + location.search !== shownAddress) show();
});
document.addEventListener("visibilitychange", () => poll());
show();
