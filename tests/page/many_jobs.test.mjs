// The page of a busy cluster.
import assert from "node:assert/strict";
import test, { after } from "node:test";
import { checkReadable, closeBrowser, countIs, eventually, follow, shown, skip } from "./browser.mjs";
import { FakeCoordinator, simulatedJob } from "./fake_coordinator.mjs";
import { manyJobs } from "./many_jobs.mjs";

after(closeBrowser);

// Makes the cluster of the tests that change none of its jobs.
let busy;
const busyCluster = () => (busy ??= manyJobs(3000));

const filterOf = (page) => page.getByRole("searchbox", { name: "Filter" });
const statusOf = (page) => page.locator("p[role=status]", { hasText: "job" });
const firstRow = (page) => page.getByRole("region", { name: "Table of jobs" }).getByRole("row").nth(1);

// Waits until the page has asked the coordinator for so many polls more.
async function polls(page, number) {
  for (let poll = 0; poll < number; ++poll) await page.waitForResponse(/api\/v1\/cluster/);
}

test("3,000 jobs take as many elements as 300, and a poll without news changes none of the list", { skip }, async () => {
  const elements = [];
  for (const [number, coordinator] of [[300, manyJobs(300)], [3000, busyCluster()]]) {
    await shown(coordinator, "", async (page) => {
      await statusOf(page).getByText(`${number.toLocaleString("en-US")} jobs`, { exact: true }).waitFor();
      elements.push(await page.evaluate(() => document.querySelector("main").querySelectorAll("*").length));
      await page.evaluate(() => {
        globalThis.changes = [];
        const observer = new MutationObserver((records) => globalThis.changes.push(...records.map(({ target }) => target.outerHTML ?? target.data)));
        observer.observe(document.getElementById("all-title").parentElement, { childList: true, subtree: true, characterData: true, attributes: true });
      });
      await polls(page, 3);
      assert.deepEqual(await page.evaluate(() => globalThis.changes), []);
    });
  }
  assert.ok(elements[1] < 1500 && elements[1] - elements[0] < 200, elements.join());
});

test("of 3,000 jobs those that run come first; name, state and label find the others", { skip }, () => shown(busyCluster(), "", async (page) => {
  await page.getByText("3,000 jobs", { exact: true }).waitFor();
  await eventually(async () => {
    const states = await page.locator("td .state").allTextContents();
    assert.equal(states.length, 50);
    assert.ok(states.lastIndexOf("running") < states.indexOf("pending"), states.join());
  });
  await filterOf(page).fill("team=vision ads");
  await page.getByText("750 jobs of 3,000").waitFor();
  await page.getByLabel("State").selectOption("failed");
  await statusOf(page).getByText(/^\d\d jobs of 3,000$/).waitFor();
  await page.getByLabel("Sort by").selectOption("name");
  await eventually(async () => {
    const names = await page.locator("td.name a").allTextContents();
    assert.deepEqual(names, [...names].sort((a, b) => Number(a.split(" ")[2]) - Number(b.split(" ")[2])));
  });
}));

test("a filter stays on the way to a job and back, and has an address", { skip }, () => shown(manyJobs(300), "", async (page) => {
  await page.getByText("300 jobs", { exact: true }).waitFor();
  await filterOf(page).fill("resnet");
  await page.getByText("75 jobs of 300").waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("page 2 of 2").waitFor();
  await page.waitForURL("**/?text=resnet&page=2");
  const name = await firstRow(page).getByRole("link").textContent();
  await firstRow(page).getByRole("link").click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await page.goBack();
  await page.getByText("page 2 of 2").waitFor();
  await eventually(async () => assert.equal(await filterOf(page).inputValue(), "resnet"));
  await eventually(async () => assert.equal(await firstRow(page).getByRole("link").textContent(), name));
  // What was known is shown at once.
  await page.reload();
  await page.getByText("page 2 of 2").waitFor();
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  await page.getByText("300 jobs", { exact: true }).waitFor();
}));

test("jobs that end unseen are asked for alone", { skip }, () => shown(manyJobs(600), "", async (page, coordinator) => {
  await page.getByText("600 jobs", { exact: true }).waitFor();
  const [oldest] = [...coordinator.jobs.values()].filter(({ status }) => status.state === "RUNNING");
  const lists = () => coordinator.queries.filter((query) => query.get("pageSize") === "500" && query.get("newestFirst")).length;
  const before = lists();
  Object.assign(oldest.status, { state: "SUCCEEDED", finishedUnixMs: String(Date.now()) });
  await filterOf(page).fill(oldest.status.jobId);
  await page.getByText("1 job of 600").waitFor();
  await page.locator("td .state", { hasText: "succeeded" }).waitFor();
  assert.equal(lists(), before);
  // One that was deleted goes away.
  const [other] = [...coordinator.jobs.values()].filter(({ status }) => status.state === "RUNNING");
  await filterOf(page).fill(other.status.jobId);
  await page.getByText("1 job of 600").waitFor();
  coordinator.jobs.delete(other.status.jobId);
  await page.getByText("0 jobs of 599").waitFor();
}, { expected: /404/ }));

test("of more than 5,000 jobs the newest are listed and those that run, and a line says so", { skip }, () => {
  const coordinator = new FakeCoordinator();
  coordinator.jobs.set("j0", simulatedJob("j0", { name: "oldest" }));
  for (let index = 1; index <= 5500; ++index) {
    const jobId = `j${String(index).padStart(4, "0")}`;
    coordinator.jobs.set(jobId, { status: { jobId, state: "SUCCEEDED", spec: { name: "short" }, submittedUnixMs: String(1_800_000_000_000 + index) } });
  }
  return shown(coordinator, "", async (page) => {
    await page.getByText("5,001 jobs", { exact: true }).waitFor();
    await page.getByText("Only the newest 5,000 jobs, and older ones that have not ended").waitFor();
    await firstRow(page).getByRole("link", { name: "oldest" }).waitFor();
    await filterOf(page).fill("j0499");
    await page.getByText("0 jobs of 5,001").waitFor();
  });
});

test("what waits for the same is one line, which leads to those jobs", { skip }, () => shown(manyJobs(300), "", async (page) => {
  await page.getByRole("button", { name: /^Show all/ }).click();
  await page.getByRole("link", { name: "14 jobs wait" }).click();
  await page.getByText("14 jobs of 300").waitFor();
  await page.locator("#all-title:focus").waitFor();
  await page.getByRole("button", { name: "Dismiss all" }).click();
  await countIs(page.locator(".problem", { hasText: "failed" }), 0);
  await page.getByRole("button", { name: "Show fewer" }).click();
  await countIs(page.locator(".problem"), 3);
}));

test("as many jobs are compared as fit, and ticks go at once", { skip }, () => shown(manyJobs(300), "?state=SUCCEEDED", async (page) => {
  await page.getByText(/jobs of 300/).waitFor();
  const boxes = page.getByRole("checkbox", { name: /^Compare/ });
  for (let index = 0; index < 17; ++index) await boxes.nth(index).check();
  await page.getByRole("button", { name: "Compare: at most 16 of 17", disabled: true }).waitFor();
  await page.getByRole("button", { name: "Untick all" }).click();
  await eventually(async () => assert.equal(await boxes.nth(0).isChecked(), false));
  for (let index = 0; index < 9; ++index) await boxes.nth(index).check();
  await page.getByRole("button", { name: "Compare 9 jobs" }).click();
  const swatches = page.locator(".chart", { has: page.getByRole("heading", { name: "Training loss", exact: true }) }).locator(".legend .swatch");
  await eventually(async () => {
    const looks = await swatches.evaluateAll((all) => all.map((each) => getComputedStyle(each).background));
    assert.equal(new Set(looks).size, 9);
  });
}));

test("more cards are shown when somebody asks", { skip }, () => shown(busyCluster(), "", async (page) => {
  const cards = page.locator(".card");
  await countIs(cards, 4);
  await page.getByRole("button", { name: "Show 8 more" }).click();
  await countIs(cards, 12);
}));

// Views whose tables fit on a phone.
const LISTS = ["", "cluster"];

test("long names, labels and texts have room", { skip }, () => {
  const coordinator = manyJobs(123);
  const ids = [...coordinator.jobs.values()].map(({ status }) => status).reverse();
  const of = (is) => ids.find(is).jobId;
  const views = ["", `jobs/${of(({ spec, state }) => state === "RUNNING" && spec.workers === 64)}`, `jobs/${of(({ traceback }) => traceback)}`,
    `jobs/${of(({ spec, state }) => state === "RUNNING" && spec.name.length > 50)}?tab=tasks`, `jobs/${of(({ state }) => state === "PENDING")}`,
    `compare?jobs=${ids.slice(20, 30).map(({ jobId }) => jobId).join(",")}`, "cluster"];
  return shown(coordinator, "", async (page) => {
    for (const view of views) {
      await follow(page, view);
      await checkReadable(page, async () => {
        const wide = await page.locator(".card, .card h3, .problem, .facts, .label").evaluateAll((all) => all
          .filter((each) => each.clientWidth > 0 && each.scrollWidth > each.clientWidth && getComputedStyle(each).textOverflow !== "ellipsis").map((each) => each.textContent));
        assert.deepEqual(wide, [], view);
        if (!LISTS.includes(view)) return;
        const scrolled = await page.locator(".scroll").evaluateAll((all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel));
        assert.deepEqual(scrolled, [], `${view} scrolls sideways`);
      });
    }
  });
});
