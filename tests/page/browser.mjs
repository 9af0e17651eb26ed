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

let browser;

async function launched() {
  // In containers Chromium cannot make a sandbox of its own, and /dev/shm may be small.
  browser ??= await require("playwright-core").chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"],
  });
  return browser;
}

export async function closeBrowser() {
  await browser?.close();
}

// Runs `body` with a page at `address`; fails if the page wrote an error to the console that `expected` does not match,
// or asked for anything outside its origin and the origin `foreign`.
export async function withPage(address, body, { expected, foreign, ...options } = {}) {
  const context = await (await launched()).newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const errors = [], asked = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !expected?.test(message.text())) errors.push(message.text());
  });
  page.on("pageerror", (error) => errors.push(String(error.stack)));
  page.on("request", (request) => {
    const url = new URL(request.url());
    const own = request.url() === address || (url.protocol !== "file:" && url.origin === new URL(address).origin);
    if (!own && url.protocol !== "data:" && url.origin !== foreign) asked.push(request.url());
  });
  try {
    await page.goto(address);
    await body(page);
    assert.deepEqual(errors, []);
    assert.deepEqual(asked, []);
  } finally {
    await context.close();
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

// Fails if axe finds anything against WCAG 2.1 AA in what the page shows.
export async function checkAccessible(page) {
  // Evaluated, since the page's policy allows no script that is put into it.
  await page.evaluate(require("axe-core").source);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
  }));
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  assert.deepEqual(found, [], page.url());
}

// Moves the chart's cursor to its last point by keyboard, and returns what is read out.
export async function lastPointOf(page, title) {
  await page.getByRole("group", { name: title }).press("End");
  return page.locator(".chart", { has: page.getByRole("heading", { name: title, exact: true }) }).locator(".readout").textContent();
}
