// The page in a browser, served by a real coordinator with real jobs.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { checkReadable, closeBrowser, serverIsGone, skip, withPage } from "./browser.mjs";
import { endlessJob, muster, Program, PROGRAMS, RealCluster, TOKEN } from "./real_cluster.mjs";

// The page of `guarded` has a token.
const cluster = new RealCluster(), guarded = new RealCluster();
before(async () => {
  if (!skip) await Promise.all([cluster.start(), guarded.start({ guarded: true })]);
});
after(async () => {
  await closeBrowser();
  if (!skip) await Promise.all([cluster.stop(), guarded.stop()]);
});

// Asks a coordinator as a program would; returns {status, body}.
function ask(path, { headers = {}, method = "GET", body, of = cluster } = {}) {
  return new Promise((answered, failed) => {
    const url = new URL(path, of.page);
    const asked = request(url, { method, headers, agent: false }, (response) => {
      let text = "";
      response.on("data", (part) => { text += part; });
      response.on("end", () => answered({ status: response.statusCode, headers: response.headers, body: text }));
    });
    asked.on("error", failed);
    asked.end(body);
  });
}

const cancelPath = (job) => `/api/v1/jobs/${job}/cancel`;
const authorized = { Authorization: `Bearer ${TOKEN}` };
const stateOf = async (job, of) => JSON.parse((await ask(`/api/v1/jobs/${job}`, { headers: authorized, of })).body).state;

// Runs `body` with the id of a submitted job that trains until then.
async function withJob(spec, body, of = cluster) {
  const job = of.submit(spec);
  try {
    await body(job);
  } finally {
    muster([`--coordinator=${of.address}`, "cancel", job]);
  }
}

// The step that the job's head shows.
async function stepOf(page) {
  const text = await page.locator("main p", { hasText: /^step / }).first().textContent();
  return Number(/^step ([\d,]+)/.exec(text)[1].replaceAll(",", ""));
}

async function waitForStep(page, step) {
  await page.waitForFunction((wanted) => {
    const text = [...document.querySelectorAll("main p")].map((each) => each.textContent).find((each) => each.startsWith("step "));
    return text && Number(/^step ([\d,]+)/.exec(text)[1].replaceAll(",", "")) > wanted;
  }, step);
}

test("a job from its card to its tabs, while it runs", { skip }, () => withJob(endlessJob({ labels: { run: "first" } }), async (job) => {
  await withPage(cluster.page, async (page) => {
    await page.getByText("1 server and 2 workers are live; 2 of 2 slots are in use; 1 job runs and 0 wait.").waitFor();
    await page.locator(".card").getByRole("link", { name: "endless" }).click();
    await page.locator(".chart canvas").first().waitFor();
    await waitForStep(page, await stepOf(page));
    await page.locator(".mark.checkpoint").waitFor();
    await page.getByRole("tab", { name: "Slots" }).click();
    await page.getByText("Where each slot's step goes").waitFor();
    await page.getByRole("tab", { name: "Tasks and shards" }).click();
    await page.getByRole("region", { name: "Shard map" }).getByText("server-0").first().waitFor();
    await page.getByRole("tab", { name: "Checkpoints" }).click();
    await page.getByText(new RegExp(`muster checkpoint restore ${job}@\\d+`)).first().waitFor();
    await page.getByRole("tab", { name: "Log" }).click();
    await page.getByText(/slot 1 starts at step 0/).waitFor();
    await page.getByRole("tab", { name: "Collectives" }).click();
    await page.getByRole("button", { name: "Ask the tasks" }).click();
    await page.getByText("No slot has made a collective call.").waitFor();
    await page.getByRole("tab", { name: "Configuration" }).click();
    await page.getByRole("row", { name: "optimizer.learning_rate 0.01 given" }).waitFor();
    await page.getByRole("row", { name: "update.partitions 8 filled in" }).waitFor();
    await page.getByRole("link", { name: "Cluster" }).click();
    await page.getByRole("region", { name: "Workers" }).getByText("1 of 1").first().waitFor();
  });
}));

test("the loss of a server rolls back: the curve is cut and marked", { skip }, () => withJob(endlessJob(), async (job) => {
  await withPage(`${cluster.page}jobs/${job}`, async (page) => {
    await waitForStep(page, 600);
    await cluster.loseServer(0);
    await page.locator(".mark.rollback").waitFor();
    await waitForStep(page, 0);
    // No step is drawn twice: steps only grow along the curve.
    const { series } = JSON.parse((await ask(`/api/v1/jobs/${job}/metrics?series=train/loss`)).body);
    const steps = series[0].points.map(({ lastStep }) => Number(lastStep));
    assert.ok(steps.every((step, index) => index === 0 || step > steps[index - 1]));
  });
}));

test("a job is read and cancelled with the token alone", { skip }, () => withJob(endlessJob(), async (job) => {
  const of = guarded;
  const json = { "Content-Type": "application/json", Origin: new URL(of.page).origin };
  assert.equal((await ask(`/api/v1/jobs/${job}`, { of })).status, 401);
  assert.equal((await ask(cancelPath(job), { method: "POST", headers: json, body: "{}", of })).status, 401);
  assert.equal((await ask(cancelPath(job), { of })).status, 405);
  await withPage(`${of.page}jobs/${job}`, async (page) => {
    await page.getByLabel("Token").fill("wrong-wrong-wrong-wrong");
    await page.getByRole("button", { name: "Read" }).click();
    await page.getByText("the token is not that of").waitFor();
    await page.getByLabel("Token").fill(TOKEN);
    await page.getByRole("button", { name: "Read" }).click();
    await waitForStep(page, 0);
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page.getByLabel("Reason").fill("enough seen");
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.locator(".state.CANCELLED").waitFor();
    await page.getByText(/enough seen/).first().waitFor();
  }, { expected: /status of 401/ });
  assert.equal(await stateOf(job, of), "CANCELLED");
}, guarded));

test("a foreign Host and a foreign Origin are refused", { skip }, () => withJob(endlessJob(), async (job) => {
  const of = guarded;
  const { port } = new URL(of.page);
  for (const path of ["/", "/api/v1/jobs", "/metrics", "/assets/app.js"]) {
    assert.equal((await ask(path, { headers: { ...authorized, Host: `rebound.example:${port}` }, of })).status, 403, path);
  }
  const headers = { "Content-Type": "application/json", ...authorized };
  for (const origin of ["http://rebound.example", "null", "http://127.0.0.1:1", undefined]) {
    const refused = await ask(cancelPath(job), { method: "POST", headers: { ...headers, ...(origin ? { Origin: origin } : {}) }, body: "{}", of });
    assert.equal(refused.status, 403, `${origin}: ${refused.body}`);
  }
  assert.notEqual(await stateOf(job, of), "CANCELLED");
  // Another page can neither read an answer nor cancel, not even with the token: the browser asks first and gets no leave.
  await withPage("data:text/html,<title>other</title>", async (page) => {
    const outcome = await page.evaluate(async ([page, path, token]) => {
      const asked = [fetch(`${page}api/v1/page`), fetch(page + path, {
        method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, body: "{}",
      })];
      return (await Promise.allSettled(asked)).map(({ status }) => status);
    }, [of.page, cancelPath(job).slice(1), TOKEN]);
    assert.deepEqual(outcome, ["rejected", "rejected"]);
  }, { expected: /CORS|ERR_FAILED|status of/, foreign: new URL(of.page).origin });
  assert.notEqual(await stateOf(job, of), "CANCELLED");
}, guarded));

test("where other machines reach the page, reading takes the token", { skip }, async () => {
  const open = new RealCluster();
  const page = await open.start({ servers: 0, workers: 0, listen: "0.0.0.0:0", guarded: true });
  try {
    await withPage(page.replace("0.0.0.0", "127.0.0.1"), async (browser) => {
      await browser.getByLabel("Token").fill(TOKEN);
      await browser.getByRole("button", { name: "Read" }).click();
      await browser.getByText("0 servers and 0 workers are live").waitFor();
      // The tab keeps it.
      await browser.reload();
      await browser.getByText("0 servers and 0 workers are live").waitFor();
    }, { expected: /status of 401/ });
  } finally {
    await open.stop();
  }
});

test("a page's port that is taken stops no coordinator, and muster up says so", { skip }, async () => {
  const { host, port } = new URL(cluster.page);
  const second = new Program(PROGRAMS.coordinator, [
    "--listen=127.0.0.1:0", `--page-listen=${host}`, `--data-dir=${cluster.folder}/second`]);
  await second.told("are not served yet: cannot listen on");
  await second.told("listening on ");
  await second.stop("SIGTERM");
  assert.throws(() => muster(["up", "--data-dir", join(cluster.folder, "up"), "--page-port", port]),
    new RegExp(`cannot be served on port ${port}`));
});

test("the coordinator is killed, and comes back with the history", { skip }, () => withJob(endlessJob(), async (job) => {
  await withPage(`${cluster.page}jobs/${job}`, async (page) => {
    await waitForStep(page, 100);
    const step = await stepOf(page);
    await cluster.killCoordinator();
    await page.getByText(/has not answered since/).waitFor();
    await cluster.bringBack();
    // Until then it shows what was there before.
    await page.getByText(/has not answered since/).waitFor({ state: "detached" });
    await waitForStep(page, step);
  }, { expected: serverIsGone });
}));

test("the report of muster compare opens from a file", { skip }, async () => {
  const report = join(cluster.folder, "report.html"), file = join(cluster.folder, "compared.json");
  writeFileSync(file, JSON.stringify(endlessJob({ name: "compared", stop: { steps: 60 }, evaluation: { every_steps: 20 } })));
  muster(["compare", file, "--repeats", "2", "--warmup", "10", "--servers", "1", "--report", report]);
  await withPage(pathToFileURL(report).href, async (page) => {
    await page.locator(".chart canvas").first().waitFor();
    await page.getByRole("button", { name: /^all-reduce \(mean of 2\)/ }).first().waitFor();
    await page.getByLabel("Group by").selectOption("");
    await page.getByRole("button", { name: /^BSP, run 2/ }).first().waitFor();
    await page.getByRole("region", { name: "Configuration differences" }).getByText("update.dense").waitFor();
    await checkReadable(page);
  });
});
