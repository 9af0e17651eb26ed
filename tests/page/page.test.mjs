// The page in a browser, before a coordinator that answers from memory.
import assert from "node:assert/strict";
import test, { after } from "node:test";
import { checkAccessible, closeBrowser, lastPointOf, skip, withPage } from "./browser.mjs";
import { point, recorded, simulated, simulatedJob } from "./fake_coordinator.mjs";

after(closeBrowser);

// Runs `body` with a page at `path` and the coordinator that it asks.
async function shown(coordinator, path, body, options) {
  const address = await coordinator.start();
  try {
    await withPage(address + path, (page) => body(page, coordinator), options);
  } finally {
    await coordinator.stop();
  }
}

const VIEWS = [
  "", "cluster", "jobs/j6-2204", "jobs/j8?tab=slots", "jobs/j6-2204?tab=tasks", "jobs/j6-2204?tab=collectives",
  "jobs/j6-2204?tab=checkpoints", "jobs/j6-2204?tab=log", "jobs/j6-2204?tab=configuration", "jobs/j6-2204?tab=events",
  "compare?jobs=j2-2204,j3-2204,j4-2204,j5-2204",
];

test("the first page says how the cluster is and lists the jobs", { skip }, () => shown(recorded(), "", async (page) => {
  await page.getByText("2 servers and 2 workers are live; 0 of 2 slots are in use; 0 jobs run and 0 wait.").waitFor();
  await page.getByText("Nothing is wrong.").waitFor();
  assert.equal(await page.getByRole("row").count(), 1 + 5);
}));

test("what is wrong comes before everything else", { skip }, () => shown(simulated(), "", async (page) => {
  await page.getByText("Worker worker-92 is lost").waitFor();
  const problems = await page.locator(".problem").allTextContents();
  assert.ok(problems.some((text) => text.includes("slot 3 computes 2.2 x as long")), problems.join("\n"));
  assert.ok(problems.findIndex((text) => text.includes("failed")) < problems.findIndex((text) => text.includes("slow slot")));
  const order = await page.getByRole("heading", { level: 2 }).allTextContents();
  assert.deepEqual(order, ["What is wrong", "Running", "All jobs"]);
}));

test("a running job's curves grow", { skip }, () => {
  const coordinator = recorded();
  const job = simulatedJob("j9");
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9", async (page) => {
    await page.getByText("step 100 of 1,000").waitFor();
    assert.match(await lastPointOf(page, "Loss"), /^step 100/);
    job.metrics.series[0].points.push(point(101, 0.25), point(102, 0.125));
    job.status.progress.step = "102";
    await page.getByText("step 102 of 1,000").waitFor();
    assert.match(await lastPointOf(page, "Loss"), /^step 102/);
    await page.locator(".legend .value", { hasText: "0.125" }).waitFor();
    // Only what is new was asked for.
    assert.ok(coordinator.queries.some((query) => query.get("fromStep") === "100"));
  });
});

test("a roll-back cuts the curve and leaves a mark", { skip }, () => {
  const coordinator = recorded();
  const job = simulatedJob("j9");
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9", async (page) => {
    await page.getByText("step 100 of 1,000").waitFor();
    job.metrics.series[0].points.splice(40);
    job.metrics.marks.push({ clock: "40", reached: "100", unixMs: "1800000005000" });
    job.status.progress.step = "40";
    await page.getByText("step 40 of 1,000").waitFor();
    assert.match(await lastPointOf(page, "Loss"), /^step 40 · went back from step 100 to 40/);
    await page.getByText("roll-back").waitFor();
    // New steps follow those that stayed.
    job.metrics.series[0].points.push(point(41, 0.5));
    job.status.progress.step = "41";
    await page.getByText("step 41 of 1,000").waitFor();
    assert.match(await lastPointOf(page, "Loss"), /^step 41/);
  });
});

test("from the list to a job and its tabs", { skip }, () => shown(recorded(), "", async (page) => {
  await page.getByRole("row", { name: /j6-2204/ }).getByRole("link").click();
  await page.getByRole("heading", { level: 1, name: "text" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/jobs/j6-2204");
  await page.getByRole("heading", { name: "Loss", exact: true }).waitFor();
  await page.getByRole("tab", { name: "Slots" }).click();
  await page.getByText("No slot is slow").waitFor();
  await page.getByRole("tab", { name: "Checkpoints" }).click();
  await page.getByText("muster checkpoint restore j6-2204@1600", { exact: true }).waitFor();
  await page.getByRole("tab", { name: "Log" }).click();
  await page.getByRole("searchbox", { name: "Search" }).fill("HELD-OUT");
  assert.equal(await page.locator("mark").first().textContent(), "held-out");
  await page.getByRole("tab", { name: "Configuration" }).click();
  await page.getByRole("row", { name: "optimizer.learning_rate 0.1 given" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
}));

test("the best checkpoint is marked", { skip }, () => {
  const coordinator = recorded();
  const { status, checkpoints } = coordinator.jobs.get("j6-2204");
  checkpoints.checkpoints[0].best = true;
  status.best = { clock: checkpoints.checkpoints[0].clock, metric: "bits_per_byte", value: 2.25 };
  return shown(coordinator, "jobs/j6-2204?tab=checkpoints", async (page) => {
    await page.getByText("2.25 at step 1,600").waitFor();
    assert.match(await page.getByRole("row").filter({ hasText: "best" }).textContent(), /^best1,600/);
  });
});

test("ticked jobs are compared, and grouped by a label", { skip }, () => shown(recorded(), "", async (page) => {
  const compare = page.getByRole("button", { name: /^Compare/ });
  await page.getByRole("checkbox", { name: /j2-2204/ }).check();
  assert.ok(await compare.isDisabled());
  for (const id of ["j3-2204", "j4-2204", "j5-2204"]) await page.getByRole("checkbox", { name: new RegExp(id) }).check();
  await compare.click();
  await page.getByRole("heading", { name: "Configuration differences" }).waitFor();
  const differing = page.getByRole("region", { name: "Configuration differences" }).getByRole("row");
  assert.deepEqual(await differing.evaluateAll((rows) => rows.slice(1).map((row) => row.cells[0].textContent)),
    ["optimizer.learning_rate", "seed", "labels.rate"]);
  await page.getByLabel("Group by").selectOption("rate");
  await page.getByRole("button", { name: /^0\.05 \(mean of 2\)/ }).first().waitFor();
}));

test("axis, log scale and smoothing", { skip }, () => shown(recorded(), "jobs/j6-2204", async (page) => {
  await page.getByLabel("Over").selectOption("examples");
  assert.match(await lastPointOf(page, "Loss"), /^examples 1.71M/);
  await page.getByLabel("Over").selectOption("time");
  assert.match(await lastPointOf(page, "Loss"), /^time since the start 5\d s/);
  await page.getByLabel("log scale").check();
  await page.getByLabel("Smoothing").fill("0.9");
  await page.getByText("0.90").waitFor();
  assert.match(await lastPointOf(page, "Loss"), /^time/);
}));

test("a coordinator that is gone and back", { skip }, async () => {
  const coordinator = recorded();
  const address = await coordinator.start();
  const { port } = coordinator;
  await withPage(address, async (page) => {
    await page.getByText("5 jobs").waitFor();
    await coordinator.stop();
    await page.getByText(/has not answered since/).waitFor();
    // What was known stays.
    assert.equal(await page.getByRole("row").count(), 1 + 5);
    coordinator.jobs.set("j9", simulatedJob("j9"));
    await coordinator.start(port);
    await page.getByText("6 jobs").waitFor();
    assert.equal(await page.getByText(/has not answered since/).count(), 0);
  }, { expected: /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/ });
  await coordinator.stop();
});

test("10,000 points are drawn in a second of the processor's time", { skip }, () => {
  const coordinator = recorded();
  coordinator.jobs.set("j9", simulatedJob("j9", { steps: 10000, totalSteps: 10000 }));
  return shown(coordinator, "cluster", async (page) => {
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const seconds = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
    await page.getByRole("heading", { name: "Workers" }).waitFor();
    const before = await seconds();
    await page.goto(new URL("/jobs/j9", page.url()).href);
    await page.locator(".chart canvas").waitFor();
    const used = await seconds() - before;
    console.log(`drawing 10,000 points took ${used.toFixed(3)} s of the processor`);
    assert.ok(used < 1, `${used} s`);
    assert.match(await lastPointOf(page, "Loss"), /^step 10,000/);
  });
});

test("200 workers and 1,000 jobs: pages, filter, and focus that stays", { skip }, () => shown(simulated(), "", async (page, coordinator) => {
  await page.getByText("1,000 jobs", { exact: true }).waitFor();
  assert.equal(await page.getByRole("row").count(), 1 + 50);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("page 2 of 20").waitFor();
  const filter = page.getByRole("searchbox", { name: "Filter" });
  await filter.fill("team=vision job-99");
  await page.getByText("6 jobs of 1,000").waitFor();
  const polls = coordinator.requests.filter((path) => path === "/api/v1/cluster").length;
  while (coordinator.requests.filter((path) => path === "/api/v1/cluster").length < polls + 3) await page.waitForResponse(/cluster/);
  assert.ok(await filter.evaluate((element) => element === document.activeElement));
  await page.keyboard.type("9");
  await page.getByText("1 job of 1,000").waitFor();
  await page.getByRole("row", { name: /job-999/ }).getByRole("link").click();
  await page.getByRole("tab", { name: "Slots" }).click();
  await page.getByRole("button", { name: "Show all 180 slots" }).click();
  await page.getByText("slot 179", { exact: true }).first().waitFor();
  await page.getByRole("link", { name: "Cluster" }).click();
  await page.getByRole("region", { name: "Workers" }).waitFor();
  assert.equal(await page.getByRole("region", { name: "Workers" }).getByRole("row").count(), 1 + 200);
}));

test("where slots' steps went over the run, and which of them are shown", { skip }, () => shown(simulated(), "jobs/j999-sim?tab=slots", async (page, coordinator) => {
  assert.match(await lastPointOf(page, "Compute"), /^step 100/);
  const slot3 = page.locator(".chart", { has: page.getByRole("heading", { name: "Compute", exact: true }) }).getByRole("button", { name: /^slot 3/ });
  assert.match(await slot3.textContent(), /^slot 3 \d\d\.?\d* ms$/);
  await page.getByRole("combobox", { name: "Slots" }).selectOption("8 to 15");
  await page.getByRole("button", { name: /^slot 15/ }).first().waitFor();
  assert.equal(await slot3.count(), 0);
  // What is known is not asked for again.
  const { jobs } = coordinator, { series } = jobs.get("j999-sim").metrics;
  for (const each of series) each.points.push(point(110, each.points.at(-1).last));
  await page.waitForResponse((response) => response.url().includes("slot%2F8%2Fcompute") && response.url().includes("fromStep=100"));
  assert.match(await lastPointOf(page, "Compute"), /^step 1[01]0/);
}));

test("nothing is asked for while the page is hidden", { skip }, () => shown(recorded(), "", async (page, coordinator) => {
  await page.getByText("5 jobs").waitFor();
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  });
  // A poll that had begun ends; then the timer fires once more and finds the page hidden.
  await page.waitForTimeout(1500);
  const asked = coordinator.requests.length;
  await page.waitForTimeout(2500);
  assert.equal(coordinator.requests.length, asked);
  await page.evaluate(() => {
    delete document.hidden;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForResponse(/cluster/);
}));

test("texts of jobs are no markup", { skip }, () => {
  const coordinator = recorded();
  const text = "<img src=x onerror=\"document.title='run'\">";
  const job = simulatedJob("j9", { name: text, labels: { [text]: text } });
  Object.assign(job.status, { message: text, waitingFor: text });
  job.status.spec.description = text;
  job.log = `${text}\n`;
  job.events.events.push({ text, unixMs: "1", kind: "LOSS" });
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9?tab=log", async (page) => {
    await page.getByRole("heading", { level: 1, name: text }).waitFor();
    await page.getByRole("region", { name: "Log" }).getByText(text).waitFor();
    await page.getByRole("tab", { name: "Events" }).click();
    assert.equal(await page.locator("img").count(), 0);
    await page.getByRole("link", { name: "Jobs" }).click();
    await page.getByRole("row", { name: /j9/ }).waitFor();
    assert.equal(await page.locator("img").count(), 0);
  });
});

test("a path by keyboard alone", { skip }, () => shown(recorded(), "", async (page) => {
  await page.getByText("5 jobs").waitFor();
  const press = async (key, times = 1) => { for (let time = 0; time < times; ++time) await page.keyboard.press(key); };
  const focused = () => page.evaluate(() => (document.activeElement.textContent || document.activeElement.getAttribute("aria-label")).trim());
  await press("Tab");
  assert.equal(await focused(), "Skip to content");
  await press("Enter");
  await press("Tab", 4);
  // Filter, state, sort; the button is disabled; then the table and its first box.
  await press("Tab");
  assert.match(await focused(), /^Compare text/);
  await press("Space");
  await press("Tab");
  assert.equal(await focused(), "text");
  await press("Tab");
  await press("Space");
  await page.getByRole("button", { name: "Compare 2 jobs" }).focus();
  await press("Enter");
  await page.getByRole("heading", { level: 1, name: /^Comparison of/ }).waitFor();
  assert.match(await focused(), /^Comparison/);
  await press("Tab");
  await press("Enter");
  await page.getByRole("tab", { name: "Curves" }).focus();
  await press("ArrowRight");
  await page.getByText("No slot is slow").waitFor();
  assert.equal(await focused(), "Slots");
}));

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 375]) {
    test(`nothing keeps people from reading it: ${colorScheme}, ${width} pixels`, { skip }, async () => {
      const coordinator = recorded();
      const failing = simulatedJob("j9", { state: "FAILED" });
      coordinator.jobs.set("j8", simulatedJob("j8", { slots: 4 })).set("j9", failing);
      const address = await coordinator.start();
      for (const view of VIEWS) {
        await withPage(address + view, async (page) => {
          await page.locator("main table, main .chart canvas, main .bar, main .events, main button").first().waitFor();
          await checkAccessible(page);
          // Tables scroll on their own; the page never does sideways.
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} is too wide`);
        }, { colorScheme, viewport: { width, height: 800 } });
      }
      await coordinator.stop();
    });
  }
}
