// The page in a browser, before a coordinator that answers from memory.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after } from "node:test";
import { pathToFileURL } from "node:url";
import { checkAccessible, checkLastPoint, checkReadable, closeBrowser, countIs, eventually, follow, serverIsGone, shown, skip, withPage } from "./browser.mjs";
import { point, recorded, Refusal, simulated, simulatedExperts, simulatedJob } from "./fake_coordinator.mjs";

after(closeBrowser);

const VIEWS = [
  "", "cluster", "jobs/j6-2204", "jobs/j8?tab=slots", "jobs/j6-2204?tab=tasks", "jobs/j6-2204?tab=collectives",
  "jobs/j6-2204?tab=checkpoints", "jobs/j6-2204?tab=log", "jobs/j6-2204?tab=configuration", "jobs/j6-2204?tab=events",
  "compare?jobs=j2-2204,j3-2204,j4-2204,j5-2204", "jobs/j9", "jobs/j10?tab=experts",
];

test("the first page says how the cluster is and lists the jobs", { skip }, () => shown(recorded(), "", async (page) => {
  await page.getByText("2 servers and 2 workers are live; 0 of 2 slots are in use; 0 jobs run and 0 wait.").waitFor();
  await page.getByText("Nothing is wrong.").waitFor();
  await countIs(page.getByRole("row"), 1 + 5);
}));

test("running jobs come first, then what is wrong in one line each, or two on a phone", { skip }, async () => {
  const coordinator = simulated();
  for (const width of [390, 1400]) {
    await shown(coordinator, "", async (page) => {
      await page.getByText("Worker worker-92 is lost").waitFor();
      const titles = page.getByRole("heading", { level: 2 });
      await eventually(async () => assert.deepEqual(await titles.allTextContents(), ["Running", "What is wrong", "All jobs"]));
      const lines = page.locator(".problems > .problem");
      await countIs(lines, 3);
      await page.getByRole("button", { name: "Show all 6" }).click();
      await countIs(lines, 6);
      const problems = await lines.allTextContents();
      assert.ok(problems.some((text) => text.includes("slot 3 computes 2.2 x as long")), problems.join("\n"));
      assert.ok(problems.findIndex((text) => text.includes("failed")) < problems.findIndex((text) => text.includes("slow slot")));
      for (const height of await lines.evaluateAll((all) => all.map((each) => each.offsetHeight))) assert.ok(height < (width === 390 ? 65 : 45), `${height} pixels`);
    }, { viewport: { width, height: 900 } });
  }
});

const TRACEBACK = `Traceback (most recent call last):\n  File "train.py", line 7, in <module>\nValueError: no rows in ${"a_long_path/".repeat(20)}\n`;

function failedProgram(id) {
  const job = simulatedJob(id, { name: "mine", state: "FAILED" });
  Object.assign(job.status, { message: `slot 0: the program ended with exit code 1\n${TRACEBACK}`, traceback: TRACEBACK, submittedUnixMs: "1800000000000" });
  job.log = "epoch 1\n";
  return job;
}

test("a failed job is told of by its exception and opens on its log, until it is dismissed", { skip }, () => {
  const coordinator = recorded();
  coordinator.jobs.set("j9", failedProgram("j9"));
  return shown(coordinator, "", async (page) => {
    const problem = page.locator(".problem", { hasText: "mine (j9) failed" });
    const told = await problem.textContent();
    assert.match(told, /: ValueError: no rows/);
    assert.doesNotMatch(told, /Traceback|exit code/);
    await problem.getByRole("link").click();
    await page.getByRole("tab", { name: "Log", selected: true }).waitFor();
    await page.getByRole("region", { name: "Log" }).getByText("epoch 1").waitFor();
    assert.equal(await page.getByRole("region", { name: "Traceback" }).textContent(), TRACEBACK);
    await page.getByText("slot 0: the program ended with exit code 1", { exact: true }).waitFor();
    // Another tab has an address of its own.
    await page.getByRole("tab", { name: "Curves" }).click();
    await page.waitForURL("**/jobs/j9?tab=curves");
    await page.getByRole("link", { name: "Jobs" }).click();
    await problem.getByRole("button", { name: "Dismiss: mine (j9) failed" }).click();
    await page.getByText("Nothing is wrong.").waitFor();
    await page.reload();
    await page.getByText("6 jobs").waitFor();
    await page.getByText("Nothing is wrong.").waitFor();
  });
});

test("a failure is no news any more once a job of its name succeeds", { skip }, () => {
  const coordinator = recorded();
  coordinator.jobs.set("j9", failedProgram("j9"));
  return shown(coordinator, "", async (page) => {
    await page.getByText("mine (j9) failed").waitFor();
    const again = simulatedJob("k1", { name: "mine", state: "SUCCEEDED" });
    again.status.submittedUnixMs = "1800000000001";
    coordinator.jobs.set("k1", again);
    await page.getByText("Nothing is wrong.").waitFor();
  });
});

test("events are filtered by kind and text", { skip }, () => {
  const coordinator = recorded();
  const job = simulatedJob("j9");
  job.events.events = [
    { unixMs: "1800000000000", step: "0", text: "submitted by ada" },
    { unixMs: "1800000001000", step: "1200", text: "checkpoint at clock 1200", kind: "CHECKPOINT" },
    { unixMs: "1800000002000", step: "1300", text: "slot 1 lost its worker w1", kind: "LOSS" },
  ];
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9?tab=events", async (page) => {
    const events = page.locator(".events li");
    assert.match(await events.first().textContent(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d step 1,300: slot 1 lost its worker w1$/);
    await page.getByLabel("Kind").selectOption("checkpoint");
    await page.getByText("3 events, 1 of them shown").waitFor();
    await events.first().getByText("checkpoint at clock 1200").waitFor();
    await page.getByLabel("Kind").selectOption("");
    await page.getByRole("searchbox", { name: "Filter" }).fill("ADA");
    await page.getByText("3 events, 1 of them shown").waitFor();
    // New ones are filtered, too.
    job.events.events.push({ unixMs: "1800000003000", step: "1", text: "cancelled by ada" });
    await page.getByText("4 events, 2 of them shown").waitFor();
  });
});

test("only checkpoints that exist are marked", { skip }, () => {
  const coordinator = recorded();
  const job = simulatedJob("j9");
  job.events.events = [20, 40, 60].map((clock) => ({ unixMs: String(1_800_000_000_000 + clock * 10), step: String(clock), text: `checkpoint at clock ${clock}`, kind: "CHECKPOINT" }));
  job.status.checkpointUri = "/checkpoints/j9/60";
  job.checkpoints.checkpoints = [{ clock: "40" }, { clock: "60" }];
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9", async (page) => {
    await page.getByText("Marks: 2").click();
    await eventually(async () => {
      const marks = await page.locator(".events li").allTextContents();
      assert.deepEqual(marks.map((text) => /step (\d+)/.exec(text)[1]), ["60", "40"]);
    });
  });
});

test("head, legend and tables name and count alike", { skip }, () => {
  const coordinator = recorded();
  const job = simulatedJob("j9", { steps: 40 });
  const { points } = job.metrics.series[0];
  // What the coordinator says of the steps since the last report, and the last point, differ.
  job.status.progress.loss = 7;
  points.push({ firstStep: "41", lastStep: "44", values: "4", min: 1, max: 3, mean: 2.5, last: 1.25, unixMs: "1800000000440" });
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9", async (page) => {
    await page.locator(".facts div", { hasText: "training loss" }).getByText("1.250").waitFor();
    await page.getByRole("button", { name: "training loss 1.250", exact: true }).first().waitFor();
    await page.goto(new URL("/compare?jobs=j9,j6-2204", page.url()).href);
    const table = page.getByRole("region", { name: "Final figures" });
    await table.getByRole("row", { name: /^training loss 1\.250/ }).waitFor();
    const colours = (all) => all.map((each) => getComputedStyle(each).backgroundColor);
    const swatches = page.locator(".chart", { has: page.getByRole("heading", { name: "Training loss", exact: true }) }).locator(".legend .swatch");
    await eventually(async () => {
      const legend = await swatches.evaluateAll(colours);
      assert.equal(new Set(legend).size, 2);
      assert.deepEqual(await table.locator("th .swatch").evaluateAll(colours), legend);
    });
  });
});

test("a phone sees that tabs and tables go on", { skip }, () => shown(recorded(), "jobs/j6-2204?tab=tasks", async (page) => {
  await page.getByRole("region", { name: "Tasks" }).waitFor();
  for (const each of [page.getByRole("tablist"), page.getByRole("region", { name: "Tasks" })]) {
    const { goesOn, shadows } = await each.evaluate((element) => ({
      goesOn: element.scrollWidth > element.clientWidth,
      shadows: getComputedStyle(element).backgroundAttachment,
    }));
    assert.ok(goesOn);
    // The shadows stay, and what covers them goes away with the content.
    assert.equal(shadows, "local, local, scroll, scroll");
  }
}, { viewport: { width: 390, height: 844 } }));

test("a job is described on the page", { skip }, async () => {
  const coordinator = recorded();
  delete coordinator.jobs.get("j6-2204").status.spec.description;
  await shown(coordinator, "jobs/j6-2204", async (page) => {
    await page.getByRole("tab", { name: "Curves" }).waitFor();
    assert.equal(await page.getByRole("button", { name: /escri/ }).count(), 0);
  });
  coordinator.cancel = true;
  await shown(coordinator, "jobs/j6-2204", async (page) => {
    await page.getByRole("button", { name: "Describe …" }).click();
    await page.getByLabel("Description").fill("baseline:\nno warm-up ");
    await page.getByLabel("Token").fill("0123456789abcdef");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".description", { hasText: "no warm-up" }).waitFor();
    assert.equal(coordinator.jobs.get("j6-2204").status.spec.description, "baseline:\nno warm-up");
    // The token is known by now.
    await page.getByRole("button", { name: "Change the description …" }).click();
    await eventually(async () => assert.equal(await page.getByLabel("Description").inputValue(), "baseline:\nno warm-up"));
    await checkAccessible(page);
    await page.getByLabel("Description").fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Describe …" }).waitFor();
  });
});

test("a running job's curves grow", { skip }, () => {
  const coordinator = recorded();
  const job = simulatedJob("j9");
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9", async (page) => {
    await page.getByText("step 100 of 1,000").waitFor();
    await checkLastPoint(page, "Loss", /^step 100/);
    job.metrics.series[0].points.push(point(101, 0.25), point(102, 0.125));
    job.status.progress.step = "102";
    await page.getByText("step 102 of 1,000").waitFor();
    await checkLastPoint(page, "Loss", /^step 102/);
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
    await checkLastPoint(page, "Loss", /^step 40 · went back from step 100 to 40/);
    await page.getByText("roll-back").waitFor();
    // New steps follow those that stayed.
    job.metrics.series[0].points.push(point(41, 0.5));
    job.status.progress.step = "41";
    await page.getByText("step 41 of 1,000").waitFor();
    await checkLastPoint(page, "Loss", /^step 41/);
  });
});

test("from the list to a job and its tabs", { skip }, () => shown(recorded(), "", async (page) => {
  await page.getByRole("row", { name: /j6-2204/ }).getByRole("link").click();
  await page.getByRole("heading", { level: 1, name: "text" }).waitFor();
  await page.waitForURL("**/jobs/j6-2204");
  await page.getByRole("heading", { name: "Loss", exact: true }).waitFor();
  await page.getByRole("tab", { name: "Slots" }).click();
  await page.getByText("No slot is slow").waitFor();
  await page.getByRole("tab", { name: "Checkpoints" }).click();
  await page.getByText("muster checkpoint restore j6-2204@1600", { exact: true }).waitFor();
  await page.getByRole("tab", { name: "Log" }).click();
  await page.getByRole("searchbox", { name: "Search" }).fill("HELD-OUT");
  await page.locator("mark").first().getByText("held-out", { exact: true }).waitFor();
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
    await page.getByText("2.250 at step 1,600").waitFor();
    assert.match(await page.getByRole("row").filter({ hasText: "best" }).textContent(), /^best1,600/);
  });
});

test("ticked jobs are compared, and grouped by a label", { skip }, () => shown(recorded(), "", async (page) => {
  const compare = page.getByRole("button", { name: /^Compare/ });
  await page.getByRole("checkbox", { name: /j2-2204/ }).check();
  await eventually(async () => assert.ok(await compare.isDisabled()));
  for (const id of ["j3-2204", "j4-2204", "j5-2204"]) await page.getByRole("checkbox", { name: new RegExp(id) }).check();
  await compare.click();
  await page.getByRole("heading", { name: "Configuration differences" }).waitFor();
  const differing = page.getByRole("region", { name: "Configuration differences" }).getByRole("row");
  await eventually(async () => assert.deepEqual(await differing.evaluateAll((rows) => rows.slice(1).map((row) => row.cells[0].textContent)),
    ["optimizer.learning_rate", "seed", "labels.rate"]));
  await page.getByLabel("Group by").selectOption("rate");
  await page.getByRole("button", { name: /^0\.05 \(mean of 2\)/ }).first().waitFor();
}));

test("axis, log scale and smoothing", { skip }, () => shown(recorded(), "jobs/j6-2204", async (page) => {
  await page.getByLabel("Over").selectOption("examples");
  await checkLastPoint(page, "Loss", /^examples 1\.71 M/);
  await page.getByLabel("Over").selectOption("time");
  await checkLastPoint(page, "Loss", /^time since the start 5\d s/);
  await page.getByLabel("log scale").check();
  await page.getByLabel("Smoothing").fill("0.9");
  await page.getByText("0.90").waitFor();
  await checkLastPoint(page, "Loss", /^time/);
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
    await countIs(page.getByRole("row"), 1 + 5);
    coordinator.jobs.set("j9", simulatedJob("j9"));
    await coordinator.start(port);
    await page.getByText("6 jobs").waitFor();
    await page.getByText(/has not answered since/).waitFor({ state: "detached" });
  }, { expected: serverIsGone });
  await coordinator.stop();
});

test("a list that could not be read is asked for again by the next poll", { skip }, () => {
  const coordinator = recorded(), polls = [];
  const listJobs = coordinator.listJobs.bind(coordinator);
  coordinator.listJobs = (query) => {
    if (query.get("newestFirst") && query.get("pageSize") === "500") {
      polls.push(coordinator.requests.filter((path) => path === "/api/v1/cluster").length);
      if (polls.length === 1) throw new Refusal(503, "UNAVAILABLE", "busy");
    }
    return listJobs(query);
  };
  return shown(coordinator, "", async (page) => {
    await page.getByText("5 jobs", { exact: true }).waitFor();
    assert.deepEqual(polls, [1, 2]);
  }, { expected: /503/ });
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
    await checkLastPoint(page, "Loss", /^step 10,000/);
  });
});

test("200 workers and 1,000 jobs: pages, filter, and focus that stays", { skip }, () => shown(simulated(), "", async (page, coordinator) => {
  await page.getByText("1,000 jobs", { exact: true }).waitFor();
  await countIs(page.getByRole("row"), 1 + 50);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("page 2 of 20").waitFor();
  const filter = page.getByRole("searchbox", { name: "Filter" });
  await filter.fill("team=vision job-99");
  await page.getByText("6 jobs of 1,000").waitFor();
  const polls = () => coordinator.requests.filter((path) => path === "/api/v1/cluster").length;
  const before = polls();
  await eventually(() => assert.ok(polls() >= before + 3));
  assert.ok(await filter.evaluate((element) => element === document.activeElement));
  await page.keyboard.type("9");
  await page.getByText("1 job of 1,000").waitFor();
  await page.getByRole("row", { name: /job-999/ }).getByRole("link").click();
  await page.getByRole("tab", { name: "Slots" }).click();
  await page.getByRole("button", { name: "Show all 180 slots" }).click();
  await page.getByText("slot 179", { exact: true }).first().waitFor();
  await page.getByRole("link", { name: "Cluster" }).click();
  await page.getByRole("region", { name: "Workers" }).waitFor();
  await countIs(page.getByRole("region", { name: "Workers" }).getByRole("row"), 1 + 200);
}));

test("where slots' steps went over the run, and which of them are shown", { skip }, () => shown(simulated(), "jobs/j999-sim?tab=slots", async (page, coordinator) => {
  await checkLastPoint(page, "Compute", /^step 100/);
  const slot3 = page.locator(".chart", { has: page.getByRole("heading", { name: "Compute", exact: true }) }).getByRole("button", { name: /^slot 3/ });
  await eventually(async () => assert.match(await slot3.textContent(), /^slot 3 \d\d\.?\d* ms$/));
  await page.getByRole("combobox", { name: "Slots" }).selectOption("8 to 15");
  await page.getByRole("button", { name: /^slot 15/ }).first().waitFor();
  await slot3.waitFor({ state: "detached" });
  // What is known is not asked for again.
  const { jobs } = coordinator, { series } = jobs.get("j999-sim").metrics;
  for (const each of series) each.points.push(point(110, each.points.at(-1).last));
  await page.waitForResponse((response) => response.url().includes("slot%2F8%2Fcompute") && response.url().includes("fromStep=100"));
  await checkLastPoint(page, "Compute", /^step 1[01]0/);
}));

test("loads of experts are a map that pointer and keyboard read, and who starves is named", { skip }, () => {
  const coordinator = recorded();
  coordinator.jobs.set("j9", simulatedExperts("j9"));
  return shown(coordinator, "jobs/j9?tab=experts", async (page) => {
    await page.getByText("Expert 7 of block 4 starves (0.0 % of the mean), and 1 more: raise moe.auxiliary_loss, or set moe.selection_bias.").waitFor();
    const map = page.getByRole("group", { name: "Loads by block and expert. 4 blocks of 8 experts; 2 of all starve." });
    const readout = page.locator(".heat-map .readout");
    await map.press("End");
    await map.press("ArrowDown");
    await map.press("ArrowLeft");
    await eventually(async () => assert.match(await readout.textContent(), /^block 2, expert 6: [0-9,]+ tokens, [0-9.]+ % of the block's, [0-9.]+ × the mean$/));
    const box = await map.boundingBox();
    await page.mouse.move(box.x + box.width * 1.5 / 8, box.y + box.height * 3.5 / 4);
    await eventually(async () => assert.match(await page.locator(".heat-map .tip").textContent(), /^block 4, expert 1: 400 tokens/));
    await page.mouse.move(0, 0);
    await page.locator(".heat-map .tip").waitFor({ state: "hidden" });
    assert.deepEqual((await page.getByRole("region", { name: "Blocks" }).locator("tbody tr").last().locator("td").allTextContents()).at(-1), "2");
    // Blue where no tokens went, and red is stronger than blue where many did.
    const pixels = await page.locator(".heat-map canvas").evaluate((canvas) => [...canvas.getContext("2d").getImageData(0, 3, 8, 1).data]);
    assert.deepEqual(pixels.slice(28), [8, 81, 156, 255]);
    assert.ok(pixels.some((red, index) => index % 4 === 0 && red > pixels[index + 2]), `${pixels}`);
    // The next report moves the map, and the cell that is read stays.
    await map.press("ArrowRight");
    const { status } = coordinator.jobs.get("j9");
    status.expertLoads = { ...status.expertLoads, tokens: status.expertLoads.tokens.map(() => "1000") };
    await eventually(async () => assert.match(await readout.textContent(), /^block 1, expert 0: 1,000 tokens, 12.50 % of the block's, 1.00 × the mean$/));
    await countIs(page.getByText("starves"), 0);
    await follow(page, "jobs/j6-2204");
    await countIs(page.getByRole("tab", { name: "Experts" }), 0);
  });
});

test("64 blocks of 256 experts are drawn in a second of the processor's time", { skip }, () => {
  const coordinator = recorded();
  coordinator.jobs.set("j9", simulatedExperts("j9", { blocks: 64, experts: 256 }));
  return shown(coordinator, "jobs/j9?tab=configuration", async (page) => {
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const seconds = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
    await page.getByRole("tab", { name: "Experts" }).waitFor();
    const before = await seconds();
    await page.getByRole("tab", { name: "Experts" }).click();
    await page.locator(".heat-map canvas").waitFor();
    const used = await seconds() - before;
    console.log(`drawing 64 blocks of 256 experts took ${used.toFixed(3)} s of the processor`);
    assert.ok(used < 1, `${used} s`);
    await checkReadable(page);
  });
});

test("nothing is asked for while the page is hidden", { skip }, () => shown(recorded(), "", async (page, coordinator) => {
  await page.getByText("5 jobs").waitFor();
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  });
  // A poll that had begun ends; then the timer fires once more and finds the page hidden.
  await eventually(async () => {
    const asked = coordinator.requests.length;
    await page.waitForTimeout(1000);
    assert.equal(coordinator.requests.length, asked);
  });
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
  Object.assign(job.status, { message: text, waitingFor: text, traceback: text });
  job.status.spec.description = text;
  job.log = `${text}\n`;
  job.events.events.push({ text, unixMs: "1", kind: "LOSS" });
  coordinator.jobs.set("j9", job);
  return shown(coordinator, "jobs/j9?tab=log", async (page) => {
    await page.getByRole("heading", { level: 1, name: text }).waitFor();
    await page.getByRole("region", { name: "Log" }).getByText(text).waitFor();
    await page.getByRole("tab", { name: "Events" }).click();
    await page.locator(".events li").first().waitFor();
    assert.equal(await page.locator("img").count(), 0);
    await page.getByRole("link", { name: "Jobs" }).click();
    await page.getByRole("row", { name: /j9/ }).waitFor();
    assert.equal(await page.locator("img").count(), 0);
  });
});

test("a path by keyboard alone", { skip }, () => shown(recorded(), "", async (page) => {
  await page.getByText("5 jobs").waitFor();
  const press = async (key, times = 1) => { for (let time = 0; time < times; ++time) await page.keyboard.press(key); };
  const focusedIs = (text) => eventually(async () => assert.match(
    await page.evaluate(() => (document.activeElement.textContent || document.activeElement.getAttribute("aria-label")).trim()), text));
  await press("Tab");
  await focusedIs(/^Skip to content$/);
  await press("Enter");
  await press("Tab", 5);
  // The link to the list, filter, state, sort; the button is disabled; then the table and its first box.
  await press("Tab");
  await focusedIs(/^Compare text/);
  await press("Space");
  await press("Tab");
  await focusedIs(/^text$/);
  await press("Tab");
  await press("Space");
  await page.getByRole("button", { name: "Compare 2 jobs" }).focus();
  await press("Enter");
  await page.getByRole("heading", { level: 1, name: /^Comparison of/ }).waitFor();
  await focusedIs(/^Comparison/);
  await press("Tab");
  await press("Enter");
  await page.getByRole("tab", { name: "Curves" }).focus();
  await press("ArrowRight");
  await page.getByText("No slot is slow").waitFor();
  await focusedIs(/^Slots$/);
}));

// Returns a report as client/compare/report.cc writes it, with this data.
function reportOf(comparison) {
  const asset = (name) => readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
  const modules = ["format", "series", "differences", "events", "dom", "bars", "table", "chart", "controls", "comparison", "report"]
    .flatMap((name) => asset(`common/page/files/${name}.js`).split("\n"))
    .filter((line) => !line.startsWith("import ")).map((line) => line.replace(/^export /, "")).join("\n");
  return `<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width, initial-scale=1"><title>Report</title>
    <style>${asset("third_party/uplot/uPlot.min.css")}${asset("common/page/files/style.css")}</style></head>
    <body><main><h1>Report</h1><div id="comparison-view"></div></main>
    <script type="application/json" id="comparison">${JSON.stringify(comparison)}</script>
    <script>${asset("third_party/uplot/uPlot.iife.min.js")}</script><script type="module">${modules}</script></body></html>`;
}

// Returns the data of a report with these figures of roads.
function roadsOf(figures) {
  const [, ...roads] = figures.head;
  const runs = roads.map((road) => ({ name: road, labels: { road }, specification: { update: road }, batchSize: 32, startMs: 0, series: [
    { name: "train/loss", points: [point(1, 2), point(20, 1)] }] }));
  const steps = roads.map((name) => ({ name, seconds: { compute: 0.01, communication: 0.02, data: 0 } }));
  const exact = { head: figures.head, rows: [["bytes", ...roads.map(() => "12,345,678 bytes (12,345,000 to 12,346,000), NOT AS PREDICTED")]] };
  return { notes: ["note"], alerts: [], group: "road", runs, steps, figures, exact, mismatches: ["NO", ", NOT AS PREDICTED"] };
}

// Writes the report of the data, and runs `check` on its page.
async function withReport(comparison, check, options) {
  const folder = mkdtempSync(join(process.env.TEST_TMPDIR ?? tmpdir(), "report-"));
  const file = join(folder, "report.html");
  writeFileSync(file, reportOf(comparison));
  await withPage(pathToFileURL(file).href, check, options);
  rmSync(folder, { recursive: true });
}

test("the report of muster compare fits a screen and a phone", { skip }, async () => {
  const roads = ["BSP", "SSP 4", "ASP", "all-reduce", "ZeRO 2", "ZeRO 3"];
  await withReport(roadsOf({ head: ["", ...roads], rows: [
    ["step: exposed communication", ...roads.map(() => "12.345 ms ±12%")], ["  as predicted", ...roads.map((_, index) => (index ? "to the byte" : "NO"))]] }), async (page) => {
    await page.locator(".chart canvas").first().waitFor();
    await page.getByText("Exact figures, and").click();
    const alerts = ["NO", ...roads.map(() => "12,345,678 bytes (12,345,000 to 12,346,000), NOT AS PREDICTED")];
    await eventually(async () => assert.deepEqual(await page.locator("td .error").allTextContents(), alerts));
    await checkReadable(page, async () => {
      const wide = await page.evaluate(() => [...document.querySelectorAll(".stacked .scroll")]
        .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel));
      assert.deepEqual(wide, []);
    });
  });
});

test("the figures of muster report are those of its curves", { skip }, async () => {
  const series = [["train/loss", 0.75], ["speed/examples_per_second", 6400]].map(([name, end]) => ({ name, points: [point(1, 2), point(20, end)] }));
  // What the tasks said last, of several steps.
  const progress = { step: "20", loss: 9, examplesPerSecond: 9999 };
  await withReport({ notes: [], alerts: [], group: "job", steps: [], mismatches: [],
    runs: [{ name: "digits", labels: { job: "digits" }, specification: { workers: 2 }, batchSize: 32, startMs: 0, series }],
    jobs: [{ jobId: "j1-00aa", state: "SUCCEEDED", progress, evaluations: [{ clock: "20", metric: "accuracy", value: 0.9, loss: 0.5 }] }],
  }, async (page) => {
    await page.locator(".chart canvas").first().waitFor();
    const cells = await page.getByRole("region", { name: "Final figures" }).locator("td").allTextContents();
    const figures = Object.fromEntries(cells.filter((_, index) => index % 2 === 0).map((name, index) => [name, cells[2 * index + 1]]));
    assert.deepEqual(figures, { state: "succeeded", step: "20", "training loss": "0.7500", "held-out accuracy": "0.9000",
      "held-out loss": "0.5000", "examples/s": "6,400", "training time": "–", workers: "2", job: "j1-00aa" });
  });
});

test("nothing keeps people from reading it", { skip }, () => {
  const coordinator = recorded();
  coordinator.jobs.set("j8", simulatedJob("j8", { slots: 4 })).set("j9", failedProgram("j9")).set("j10", simulatedExperts("j10"));
  return shown(coordinator, "", async (page) => {
    for (const view of VIEWS) {
      await follow(page, view);
      await checkReadable(page);
    }
  });
});
