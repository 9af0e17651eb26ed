// Debian's Chromium, driven by playwright-core, with what every test of the page wants to know.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const MODULES = resolve(process.env.MUSTER_NODE_MODULES || "third_party/npm/node_modules");
const CHROMIUM = "/usr/bin/chromium";

// Why tests with a browser cannot run here, or false.
export const skip = !existsSync(CHROMIUM) ? "Debian's chromium is not installed"
  : !existsSync(join(MODULES, "playwright-core")) ? "playwright-core is not there: npm ci --prefix third_party/npm, with MUSTER_NODE_MODULES its node_modules"
    : false;

const require = createRequire(join(MODULES, "x.js"));

let browser, shared;

// Waits for each second as long as for a fifth of it, so that tests need not wait long for the next poll.
function hasten() {
  const wait = setTimeout;
  globalThis.setTimeout = (body, ms, ...rest) => wait(body, ms / 5, ...rest);
}

// Returns the page that tests share, one after another: a browser's process for each costs seconds.
async function sharedPage() {
  // In containers Chromium cannot make a sandbox of its own, and /dev/shm may be small.
  browser ??= await require("playwright-core").chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"],
  });
  if (!shared) {
    const context = await browser.newContext();
    await context.addInitScript(hasten);
    shared = await context.newPage();
  }
  return shared;
}

async function closeShared() {
  const context = shared?.context();
  shared = undefined;
  await context?.close();
}

export async function closeBrowser() {
  await browser?.close();
}

// Leaves nothing behind that the page of another test may find.
async function clear(page) {
  await page.evaluate(() => {
    if (!location.protocol.startsWith("http")) return;
    localStorage.clear();
    sessionStorage.clear();
  });
  await page.goto("about:blank");
}

// Matches what a browser says of a server that is gone: of new connections, and of those that it had.
export const serverIsGone = new RegExp("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_CONNECTION_CLOSED|" +
  "ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED");

// Runs `body` with a page at `address`; fails if the page wrote an error to the console that `expected` does not match,
// or asked for anything outside its origin and the origin `foreign`.
export async function withPage(address, body, { expected, foreign, colorScheme = "light", viewport = { width: 1280, height: 900 } } = {}) {
  const page = await sharedPage();
  const errors = [], asked = [];
  const listeners = {
    console: (message) => {
      if (["error", "warning"].includes(message.type()) && !expected?.test(message.text())) errors.push(message.text());
    },
    pageerror: (error) => errors.push(String(error.stack)),
    request: (request) => {
      const url = new URL(request.url());
      const own = request.url() === address || (url.protocol !== "file:" && url.origin === new URL(address).origin);
      if (!own && url.protocol !== "data:" && url.origin !== foreign) asked.push(request.url());
    },
  };
  for (const [event, listener] of Object.entries(listeners)) page.on(event, listener);
  try {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    await page.goto(address);
    await body(page);
    assert.deepEqual(errors, []);
    assert.deepEqual(asked, []);
    for (const [event, listener] of Object.entries(listeners)) page.off(event, listener);
    await clear(page);
  } catch (error) {
    await closeShared();
    throw error;
  }
}

// Waits until `check` passes: what a page shows comes piece by piece. Fails as `check` does if it does not pass in time.
export async function eventually(check, seconds = 30) {
  for (const end = Date.now() + 1000 * seconds; ;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

// Runs `body` with a page at `path` and the coordinator (fake_coordinator.mjs) that it asks.
export async function shown(coordinator, path, body, options) {
  const address = await coordinator.start();
  try {
    await withPage(address + path, (page) => body(page, coordinator), options);
  } finally {
    await coordinator.stop();
  }
}

// Waits until there are so many elements.
export function countIs(locator, number) {
  return eventually(async () => assert.equal(await locator.count(), number));
}

// Shows another view, as the way back does: without loading the page.
export async function follow(page, view) {
  await page.evaluate((address) => {
    history.pushState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
  }, `/${view}`);
  await shownWhole(page);
}

// Waits until the view has been read.
async function shownWhole(page) {
  await page.locator("main", { hasNotText: /Reading …|reading the older ones/ }).locator("table, .chart canvas, .bar, .events, .panel").first().waitFor();
}

// Fails if axe finds anything against WCAG 2.1 AA in what the page shows, or against the `rules` alone.
export async function checkAccessible(page, rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]) {
  // Evaluated, since the page's policy allows no script that is put into it.
  if (!await page.evaluate(() => Boolean(globalThis.axe))) await page.evaluate(require("axe-core").source);
  const { violations } = await page.evaluate((runOnly) => globalThis.axe.run(document, { runOnly, resultTypes: ["violations"] }), rules);
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  assert.deepEqual(found, [], page.url());
}

// Fails if anything keeps people from reading what the page shows, on a screen and on a phone, in both themes. `check`
// is asked on each of the two. Themes differ in contrast alone.
export async function checkReadable(page, check = async () => {}) {
  // Charts fit themselves a little later.
  const checkWidth = () => eventually(async () => {
    // Tables scroll on their own; the page never does sideways.
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${page.url()} is too wide`);
    await check();
  });
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1400, height: 900 });
  await checkAccessible(page);
  await checkWidth();
  await page.emulateMedia({ colorScheme: "dark" });
  await checkAccessible(page, ["color-contrast"]);
  await page.setViewportSize({ width: 390, height: 844 });
  await checkAccessible(page);
  await checkWidth();
}

// Moves the chart's cursor to its last point by keyboard until what is read out is as `text`.
export async function checkLastPoint(page, title, text) {
  const readout = page.locator(".chart", { has: page.getByRole("heading", { name: title, exact: true }) }).locator(".readout");
  await eventually(async () => {
    await page.getByRole("group", { name: title }).press("End");
    assert.match(await readout.textContent(), text);
  });
}
