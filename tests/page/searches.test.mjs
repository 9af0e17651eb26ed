// The page of searches, with a search of 300 trials.
import assert from "node:assert/strict";
import test, { after } from "node:test";
import { checkReadable, closeBrowser, countIs, eventually, shown, skip } from "./browser.mjs";
import { manyTrials, simulatedSearch } from "./many_trials.mjs";

after(closeBrowser);

const trialsOf = (page) => page.getByRole("region", { name: "Table of trials" });
const rowOf = (page, trial) => trialsOf(page).getByRole("row").filter({ has: page.getByRole("button", { name: `Select trial ${trial}`, exact: true }) });
const axesOf = (page) => page.getByRole("group", { name: /^Parameters and objective/ });
const trialRequests = (coordinator) => coordinator.requests.filter((path) => path.endsWith("/trials")).length;

// Waits until the page has asked for the search so many times more.
async function polls(page, number) {
  for (let poll = 0; poll < number; ++poll) await page.waitForResponse(/api\/v1\/searches\/s1$/);
}

test("searches are listed, newest first, and lead to their pages", { skip }, () => shown(manyTrials(300), "searches", async (page) => {
  await countIs(page.getByRole("region", { name: "Table of searches" }).getByRole("row"), 3);
  const cells = await page.getByRole("row").nth(1).getByRole("cell").allTextContents();
  assert.deepEqual(cells.slice(0, 3), ["halving-s1 s1", "running", "300 / 300"]);
  await checkReadable(page);
  await page.getByRole("link", { name: "halving-s0" }).click();
  await page.getByRole("heading", { level: 1, name: "halving-s0" }).waitFor();
}));

test("of many searches a page is shown, and the older ones are on the next", { skip }, () => {
  const coordinator = manyTrials(1);
  for (let index = 2; index < 60; ++index) coordinator.searches.set(`s${index}`, simulatedSearch(`s${index}`, 4, { ended: true }));
  return shown(coordinator, "searches", async (page) => {
    const rows = page.getByRole("region", { name: "Table of searches" }).getByRole("row");
    await countIs(rows, 51);
    await page.getByRole("button", { name: "Older" }).click();
    await countIs(rows, 11);
    await page.getByRole("link", { name: "halving-s0" }).waitFor();
    await page.getByRole("button", { name: "Newer" }).click();
    await countIs(rows, 51);
  });
});

test("without searches the list says so", { skip }, () => {
  const coordinator = manyTrials(1);
  coordinator.searches.clear();
  return shown(coordinator, "searches", (page) => page.getByText("There are no searches.").waitFor());
});

test("a search shows its rungs, its best trial first, and can be read in both themes", { skip }, () => shown(manyTrials(300), "searches/s1", async (page) => {
  const rungs = page.getByRole("region", { name: "Rungs" });
  await countIs(rungs.getByRole("row"), 4);
  const first = await rungs.getByRole("row").nth(1).getByRole("cell").allTextContents();
  assert.deepEqual(first.slice(0, 3), ["0", "100", "300"]);
  assert.equal(first[5], "75");
  const objectives = (await trialsOf(page).locator("td[data-column=loss]").allTextContents()).map(Number);
  assert.deepEqual(objectives, [...objectives].sort((a, b) => a - b));
  await page.getByText("Curves", { exact: true }).click();
  await page.getByRole("heading", { name: "Held-out loss" }).waitFor();
  await checkReadable(page);
}));

test("a trial is highlighted everywhere, from the keyboard and from the table", { skip }, () => shown(manyTrials(300), "searches/s1", async (page) => {
  await axesOf(page).press("Home");
  await page.locator(".parallel .readout", { hasText: /^trial \d+: loss/ }).waitFor();
  const best = Number(/trial (\d+)/.exec(await page.locator(".parallel .readout").textContent())[1]);
  await eventually(async () => assert.equal(await rowOf(page, best).getAttribute("class"), "highlighted"));
  await axesOf(page).press("Enter");
  await page.getByRole("heading", { name: `Trial ${best}`, exact: true }).waitFor();
  await axesOf(page).press("Escape");
  const other = trialsOf(page).getByRole("row").nth(5);
  await other.hover();
  await eventually(async () => assert.equal(await other.getAttribute("class"), "highlighted"));
  const trial = await other.getByRole("button").first().textContent();
  await page.locator(".parallel .readout", { hasText: `trial ${trial}:` }).waitFor();
}));

test("the pointer highlights the trial of a line, and a click selects it", { skip }, () => shown(manyTrials(300), "searches/s1", async (page, coordinator) => {
  // The lower end of the first axis is the first choice.
  const place = { position: { x: 100, y: 284 } };
  await axesOf(page).hover(place);
  const readout = page.locator(".parallel .readout", { hasText: "optimizer sgd" });
  await readout.waitFor();
  const trial = Number(/trial (\d+)/.exec(await readout.textContent())[1]);
  await axesOf(page).click(place);
  await page.getByRole("heading", { name: `Trial ${trial}`, exact: true }).waitFor();
  const { draws } = coordinator.searches.get("s1").trials[trial - 1].record;
  for (const { field, value } of draws) await page.getByRole("definition").filter({ hasText: value }).and(page.locator(`div:has(> dt:text-is("${field}")) dd`)).waitFor();
  await rowOf(page, trial).and(page.locator(".highlighted")).waitFor();
  await page.getByRole("button", { name: "Deselect" }).click();
  await countIs(page.getByRole("heading", { name: `Trial ${trial}`, exact: true }), 0);
}));

test("the table is sorted by a parameter, and turns to a trial that is selected elsewhere", { skip }, () => shown(manyTrials(300), "searches/s1", async (page, coordinator) => {
  await trialsOf(page).getByRole("button", { name: "learning_rate" }).click();
  await eventually(async () => {
    const rates = (await trialsOf(page).locator("td[data-column=learning_rate]").allTextContents()).map(Number);
    assert.equal(rates.length, 50);
    assert.deepEqual(rates, [...rates].sort((a, b) => a - b));
  });
  const best = coordinator.searches.get("s1").status.bestTrial;
  await page.getByText("page 1 of 6").waitFor();
  await page.getByRole("button", { name: `trial ${best}`, exact: true }).click();
  await rowOf(page, best).waitFor();
  await countIs(rowOf(page, best).getByRole("link"), 3);
}));

test("a poll without news reads no trials; a change reads them again, three pages at a time", { skip }, () => shown(manyTrials(1000), "searches/s1", async (page, coordinator) => {
  await page.getByText("page 1 of 20").waitFor();
  const before = trialRequests(coordinator);
  assert.equal(before, 10);
  await polls(page, 3);
  assert.equal(trialRequests(coordinator), before);
  const search = coordinator.searches.get("s1");
  const trial = search.trials[997];
  delete trial.running;
  trial.record.rungs.at(-1).objective = 0.001;
  Object.assign(search.status, { running: "7", halted: String(Number(search.status.halted) + 1) });
  await trialsOf(page).locator("td[data-column=loss]", { hasText: /^0\.001000$/ }).waitFor();
  await polls(page, 5);
  assert.equal(trialRequests(coordinator), before + 10);
}));

test("curves are read when they are opened, of the best trials or of those that are ticked", { skip }, () => shown(manyTrials(300), "searches/s1", async (page, coordinator) => {
  await trialsOf(page).waitFor();
  await polls(page, 2);
  assert.deepEqual(coordinator.requests.filter((path) => path.endsWith("/metrics")), []);
  await page.getByText("Curves", { exact: true }).click();
  const legend = page.locator(".chart", { has: page.getByRole("heading", { name: "Held-out loss" }) }).locator(".legend li");
  await countIs(legend, 8);
  await trialsOf(page).getByRole("checkbox").nth(20).check();
  await trialsOf(page).getByRole("checkbox").nth(21).check();
  await countIs(legend, 2);
  await page.getByText("2 ticked trials.").waitFor();
}));
