// The page's pure functions.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

const FILES = new URL("../../common/page/files/", import.meta.url);
const load = (name) => import(new URL(name, FILES));
const format = await load("format.js");
const series = await load("series.js");
const { differences, fieldName, flatten } = await load("differences.js");
const { marksOf } = await load("events.js");
const { ALL_EVENTS, filterEvents } = await load("job_events.js");
const { restoreCommand } = await load("job_tables.js");
const { clusterSentence, findProblems, jobsSentence, lastLine, reasonOf } = await load("problems.js");
const { dismiss, dismissedJobs } = await load("dismissed.js");
const { isPageLink, routeOf } = await load("router.js");
const { groupsBy, comparisonCharts, comparisonView, finalFigures, groupingLabels, seriesName, shortNames } = await load("comparison.js");
const { linesOf } = await load("controls.js");
const { memoryOf, stepParts } = await load("job_slots.js");
const { groupName, slotCurveData, slotGroups, slotSeries } = await load("slot_curves.js");
const { axisWidth } = await load("chart.js");
const { splitMatches, withoutColours } = await load("job_log.js");
const { sparkPath, stepsOf } = await load("job_card.js");
const { placeOnScale } = await load("heat_map.js");
const { hasExperts, loadRows, starvingExperts } = await load("job_experts.js");
const { filterJobs, filterOf, NO_FILTER, parametersOf } = await load("job_filter.js");
const { goodputText, labels } = await load("job_words.js");
const { worstFirst } = await load("view_cluster.js");
const { bestRows, bestSoFar, objectiveAxis, parameterAxes, rungSummary, sortRows, trialRow } = await load("search_trials.js");
const { placesOf, nearestLine } = await load("parallel_axes.js");
const { joinColumns } = await load("search_curves.js");
const { drawText, pageOf } = await load("trial_table.js");
const { queryOf } = await load("api.js");

test("numbers are written in one way", () => {
  // Counts have all of their digits.
  assert.equal(format.formatNumber(12345), "12,345");
  assert.equal(format.formatNumber("1234567"), "1,234,567");
  // Measured values are as long as they need to be.
  const figures = [[0, "0"], [1.5e-7, "1.50e−7"], [0.000123456, "0.0001235"], [0.123456, "0.1235"], [0.99996, "1.000"], [2.06, "2.060"],
    [9.9996, "10.0"], [22.94, "22.9"], [-22.94, "-22.9"], [999.96, "1,000"], [195871.3, "195,871"], [999999.6, "1 M"], [1.2e6, "1.2 M"],
    [3.217e9, "3.22 G"], [1e16, "1.00e16"], [NaN, "–"], ["Infinity", "∞"], [undefined, "–"]];
  for (const [value, text] of figures) assert.equal(format.formatFigure(value), text);
  for (const [value, text] of [[0.123456, "0.1235"], [22.94, "22.9"], [195871.3, "195,871"], [undefined, "–"], [NaN, "–"], ["Infinity", "∞"]]) {
    assert.equal(format.formatNumber(value), text);
  }
  // Ticks of an axis are round.
  for (const [value, text] of [[0, "0"], [0.25, "0.25"], [10.25, "10.25"], [1500, "1,500"], [1.2e6, "1.2 M"], [2.5e-7, "2.50e−7"]]) {
    assert.equal(format.formatTick(value), text);
  }
});

function jobWithLoads(tokens, moe = {}) {
  return { spec: { model: { transformer: { moe } } }, expertLoads: { experts: 4, blocks: tokens.map((_, index) => index + 2), tokens: tokens.flat().map(String) } };
}

test("loads are on a scale of eighths and eights of the mean", () => {
  for (const [ratio, place] of [[0, -1], [1 / 16, -1], [1 / 8, -1], [1 / 2, -1 / 3], [1, 0], [2, 1 / 3], [8, 1], [100, 1], [NaN, -1]]) {
    assert.ok(Math.abs(placeOnScale(ratio) - place) < 1e-9, `${ratio}`);
  }
});

test("an expert starves below a tenth of a mean that is of enough tokens", () => {
  const rows = loadRows(jobWithLoads([[100, 1300, 1300, 1300], [0, 130, 130, 130], [4000, 0, 0, 0], [0, 0, 0, 0]]));
  assert.deepEqual(rows.map(({ block, sum, least, most, starving }) => [block, sum, least, most, starving]),
    [[2, 4000, 0, 1, 0], [3, 390, 0, 1, 0], [4, 4000, 1, 0, 3], [5, 0, 0, 0, 0]]);
  assert.equal(starvingExperts(jobWithLoads([[100, 1300, 1300, 1300]])), undefined);
  assert.equal(starvingExperts(jobWithLoads([[900, 1100, 1000, 1000], [1500, 1000, 1470, 30]])),
    "Expert 3 of block 3 starves (3.0 % of the mean): set moe.auxiliary_loss, or set moe.selection_bias.");
  assert.equal(starvingExperts(jobWithLoads([[4000, 0, 0, 0], [3999, 1, 0, 0]], { selectionBias: true })),
    "Expert 1 of block 2 starves (0.0 % of the mean), and 5 more: raise moe.bias_rate.");
  assert.match(starvingExperts(jobWithLoads([[4000, 0, 0, 0]], { auxiliaryLoss: 0.01 })), /: raise moe.auxiliary_loss, or/);
  const onDevice = jobWithLoads([[4000, 0, 0, 0]]);
  onDevice.spec.compute = { device: "CUDA" };
  assert.match(starvingExperts(onDevice), /: set moe.auxiliary_loss\.$/);
  assert.equal(starvingExperts({ spec: {} }), undefined);
  assert.deepEqual([hasExperts({ spec: {} }), hasExperts(jobWithLoads([]))], [false, true]);
});

test("how a job's time was spent is told in shares; what took none is left out", () => {
  assert.equal(goodputText({}), undefined);
  assert.equal(goodputText({ goodput: { redoneSteps: "0" } }), undefined);
  assert.equal(goodputText({ goodput: { seconds: 200, productiveSeconds: 180, redoneSeconds: 10, redoneSteps: "12", waitingSeconds: 9, checkpointSeconds: 1 } }),
    "90.0 % productive, 5.0 % redone (12 steps), 4.5 % waiting, 0.5 % checkpoints");
});

test("a time has a date unless it is of today", () => {
  const now = new Date(2026, 10, 29, 12, 0, 0).getTime();
  assert.equal(format.formatTime(String(now - 3600_000), now), "11:00:00");
  assert.equal(format.formatTime(now - 13 * 3600_000, now), "2026-11-28 23:00:00");
  assert.equal(format.formatTime(now + 24 * 3600_000, now), "2026-11-30 12:00:00");
  assert.equal(format.formatTime(undefined, now), "–");
});

test("sizes and times have units that fit", () => {
  assert.equal(format.formatBytes("1536"), "1.5 KiB");
  assert.equal(format.formatBytes(undefined), "0 bytes");
  assert.equal(format.formatDuration(0.00085), "850 µs");
  assert.equal(format.formatDuration(0.0123), "12.3 ms");
  assert.equal(format.formatDuration(200), "3 min 20 s");
  assert.equal(format.formatDuration(7500), "2 h 5 min");
  assert.equal(format.formatDuration(59.7), "60 s");
  assert.equal(format.formatDuration(undefined), "–");
  assert.equal(format.count(1, "job"), "1 job");
  assert.equal(format.count(1000, "job"), "1,000 jobs");
});

const point = (first, last, values, more) => ({ firstStep: String(first), lastStep: String(last), values: String(values), ...more });

test("a point of several steps keeps its spike; what is left out is zero", () => {
  const columns = series.toColumns([point(1, 1, 1, { last: 3, unixMs: "5" }), point(2, 5, 4, { min: -1, max: 9, mean: 2, last: 1 }), point(6, 6, 1, {})]);
  assert.deepEqual(columns.steps, [1, 5, 6]);
  assert.deepEqual(columns.values, [3, 2, 0]);
  assert.deepEqual(columns.high, [3, 9, 0]);
  assert.deepEqual(columns.low, [3, -1, 0]);
  assert.deepEqual(columns.times, [5, 0, 0]);
});

test("fresh points replace those that end at their beginning or later", () => {
  const old = series.toColumns([1, 2, 3, 4].map((step) => point(step, step, 1, { last: step })));
  const fresh = series.toColumns([point(3, 4, 2, { mean: 30 }), point(5, 5, 1, { last: 50 })]);
  assert.deepEqual(series.mergeColumns(old, fresh).values, [1, 2, 30, 50]);
  assert.deepEqual(series.mergeColumns(old, series.toColumns([])).values, [1, 2, 3, 4]);
  assert.deepEqual(series.mergeColumns(undefined, fresh).values, [30, 50]);
});

test("smoothing begins at the first value and skips what is no number", () => {
  assert.deepEqual(series.smooth([4, 4, 4], 0.9).map((value) => value.toFixed(9)), ["4.000000000", "4.000000000", "4.000000000"]);
  const smoothed = series.smooth([0, NaN, 10], 0.5);
  assert.equal(smoothed[0], 0);
  assert.ok(Number.isNaN(smoothed[1]));
  assert.ok(Math.abs(smoothed[2] - 20 / 3) < 1e-12);
  assert.deepEqual(series.smooth([1, 2], 0), [1, 2]);
});

test("fewer points keep every spike", () => {
  const values = Array.from({ length: 10000 }, (_, index) => (index === 7777 ? 99 : Math.sin(index)));
  const kept = series.downsample(values, 100);
  assert.ok(kept.length <= 100);
  assert.ok(kept.includes(7777));
  assert.deepEqual(kept, [...kept].sort((a, b) => a - b));
  assert.deepEqual(series.downsample([1, 2, 3], 100), [0, 1, 2]);
});

test("lines with their own x share one table", () => {
  const { xs, columns } = series.alignLines([{ x: [1, 3], ys: [[10, 30]] }, { x: [2, 3], ys: [[2, NaN], [5, 6]] }]);
  assert.deepEqual(xs, [1, 2, 3]);
  assert.deepEqual(columns[0], [[10, undefined, 30]].map((each) => { const holes = [...each]; delete holes[1]; return holes; }));
  assert.equal(columns[1][0][2], null);
  assert.equal(columns[1][1][1], 5);
});

test("charts that are seen together reach over the same x", () => {
  const charts = series.withOneSpan([{ lines: [{ x: [3, 9] }, { x: [] }] }, { lines: [{ x: [5] }] }]);
  assert.deepEqual(charts.map(({ span }) => span), [[3, 9], [3, 9]]);
  assert.deepEqual(series.withOneSpan([{ lines: [] }])[0].span, []);
});

test("a group's band is where all runs have a value", () => {
  const band = series.meanWithBand([{ x: [0, 10], y: [0, 10] }, { x: [5, 15], y: [15, 25] }]);
  assert.deepEqual(band.x, [5, 10]);
  assert.deepEqual(band.y, [10, 15]);
  assert.deepEqual(band.low, [5, 10]);
  assert.deepEqual(band.high, [15, 20]);
});

test("the axes are steps, examples and time", () => {
  const columns = { steps: [1, 2], times: [1500, 900] };
  assert.deepEqual(series.xValues(columns, "steps", {}), [1, 2]);
  assert.deepEqual(series.xValues(columns, "examples", { batchSize: 32 }), [32, 64]);
  assert.deepEqual(series.xValues(columns, "time", { startMs: 1000 }), [0.5, 0]);
});

test("a smoothed line leaves the curve as it is behind it", () => {
  const columns = series.toColumns([point(1, 2, 2, { min: 1, max: 3, mean: 2 }), point(3, 3, 1, { last: 4 })]);
  const run = { batchSize: 1, startMs: 0 };
  assert.deepEqual(linesOf("loss", 0, columns, { axis: "steps", smoothing: 0 }, run)[0].high, [3, 4]);
  const [raw, smoothed] = linesOf("loss", 0, columns, { axis: "steps", smoothing: 0.5 }, run);
  assert.ok(raw.faint && !smoothed.faint && smoothed.low === undefined);
});

test("only what differs between configurations is shown", () => {
  const left = { name: "a", optimizer: { name: "adam", learningRate: 0.1 }, labels: { aB: "1" }, model: { mlp: { hidden: [4, 5] } } };
  const right = { name: "a", optimizer: { name: "adam", learningRate: 0.2 }, labels: { aB: "1" }, model: { mlp: { hidden: [4, 6] } }, seed: "7" };
  assert.deepEqual(differences([left, right]), [
    { path: "optimizer.learningRate", values: [0.1, 0.2] },
    { path: "model.mlp.hidden", values: ["4, 5", "4, 6"] },
    { path: "seed", values: [undefined, "7"] },
  ]);
  assert.equal(fieldName("optimizer.learningRate"), "optimizer.learning_rate");
  assert.equal(fieldName("labels.aB"), "labels.aB");
  assert.deepEqual(flatten({ a: { b: 1 }, c: [] }), [["a.b", 1], ["c", ""]]);
});

test("events and forgotten roll-backs are marks", () => {
  const events = [
    { unixMs: "10000", step: "7", text: "slot 1 lost its worker w1; another task takes its place", kind: "LOSS" },
    { unixMs: "11000", step: "9", text: "lost server s0; generation 2 starts again from clock 4", kind: "ROLLBACK" },
    { unixMs: "12000", step: "11", text: "checkpoint at clock 8", kind: "CHECKPOINT" },
    { unixMs: "13000", step: "11", text: "slot 1 is done" },
    { unixMs: "14000", step: "12", text: "from step 10 on the learning rate is 0.1 times the scheduled one: why", kind: "ADJUSTMENT" },
    { unixMs: "15000", step: "13", text: "the job leaves worker w1, which computed other bits", kind: "LEFT" },
  ];
  const history = [{ clock: "2", reached: "6", unixMs: "4000" }, { clock: "4", reached: "9", unixMs: "11001" }];
  assert.deepEqual(marksOf(events, history).map(({ kind, step }) => [kind, step]),
    [["rollback", 2], ["loss", 7], ["rollback", 4], ["checkpoint", 8], ["adjustment", 10], ["left", 13]]);
  assert.deepEqual(marksOf(undefined, [{ reached: "3", unixMs: "1" }]).map(({ text }) => text), ["went back from step 3 to 0"]);
});

test("only checkpoints that exist are marked", () => {
  const made = (clock, unixMs) => ({ unixMs: String(unixMs), step: String(clock), text: `checkpoint at clock ${clock}`, kind: "CHECKPOINT" });
  const events = [made(2, 1), made(4, 2), { unixMs: "3", step: "5", text: "lost server s0; generation 2 starts again from clock 2", kind: "ROLLBACK" }, made(4, 4), made(6, 5), made(8, 6)];
  const checkpoints = (kept) => marksOf(events, [], kept).filter(({ kind }) => kind === "checkpoint").map(({ step }) => step);
  assert.deepEqual(checkpoints(undefined), [2, 4, 6, 8]);
  assert.deepEqual(checkpoints({ clocks: new Set([4, 8]), unixMs: 6 }), [4, 8]);
  // What came after the list was read exists.
  assert.deepEqual(checkpoints({ clocks: new Set([4]), unixMs: 5 }), [4, 8]);
  assert.deepEqual(checkpoints({ clocks: new Set(), unixMs: 6 }), []);
  assert.deepEqual(marksOf(events, [], undefined).find(({ step }) => step === 4).unixMs, 4);
});

test("events are found by kind and text", () => {
  const events = [{ text: "submitted by ada" }, { text: "checkpoint at clock 8", kind: "CHECKPOINT" }, { text: "slot 1 lost its worker w1", kind: "LOSS" }];
  const found = (filter) => filterEvents(events, { ...ALL_EVENTS, ...filter }).map(({ text }) => text);
  assert.equal(found({}).length, 3);
  assert.deepEqual(found({ kind: "checkpoint" }), ["checkpoint at clock 8"]);
  assert.deepEqual(found({ kind: "other" }), ["submitted by ada"]);
  assert.deepEqual(found({ text: "WORKER slot" }), ["slot 1 lost its worker w1"]);
  assert.deepEqual(found({ kind: "checkpoint", text: "ada" }), []);
});

test("the command that goes on from a checkpoint", () => {
  const job = (totalSteps) => ({ jobId: "j1", progress: { totalSteps } });
  assert.equal(restoreCommand(job("100"), { clock: "40" }), "muster checkpoint restore j1@40");
  assert.equal(restoreCommand(job("100"), { clock: "100" }), "muster checkpoint restore j1@100 --steps 200");
  assert.equal(restoreCommand(job(undefined), { clock: "40" }), "muster checkpoint restore j1@40");
});

test("a failure is over once its name has succeeded, or somebody dismissed it", () => {
  const now = 1_800_000_000_000;
  const job = (jobId, name, state, submitted) => ({ jobId, state, spec: { name }, submittedUnixMs: String(submitted), finishedUnixMs: String(now - 1000), message: "x" });
  const jobs = [job("j1", "a", "FAILED", 1), job("j2", "a", "SUCCEEDED", 2), job("j3", "b", "SUCCEEDED", 1), job("j4", "b", "FAILED", 2), job("j5", "", "FAILED", 3), job("j6", "", "SUCCEEDED", 4)];
  const wrong = (dismissed) => findProblems({ daemons: [] }, jobs, now, dismissed).map((problem) => problem.dismiss);
  assert.deepEqual(wrong([]), ["j4", "j5"]);
  assert.deepEqual(wrong(["j4"]), ["j5"]);
});

test("what was dismissed is remembered, up to a limit, and nothing else is believed", () => {
  const kept = new Map();
  globalThis.localStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  assert.deepEqual(dismissedJobs(), []);
  for (const job of ["j1", "j2", "j1"]) dismiss(job);
  assert.deepEqual(dismissedJobs(), ["j2", "j1"]);
  for (let index = 0; index < 600; ++index) dismiss(`k${index}`);
  assert.equal(dismissedJobs().length, 500);
  for (const damage of ["{", "3"]) {
    kept.set("muster-dismissed", damage);
    assert.deepEqual(dismissedJobs(), []);
  }
  globalThis.localStorage = { getItem: () => { throw new Error("blocked"); }, setItem: () => { throw new Error("blocked"); } };
  dismiss("j1");
  assert.deepEqual(dismissedJobs(), []);
  delete globalThis.localStorage;
});

test("why a program failed is its exception", () => {
  const traceback = "Traceback (most recent call last):\n  File \"t.py\", line 1\nValueError: no rows\n\n";
  const job = { message: `slot 0: the program ended with exit code 1\n${traceback}`, traceback };
  assert.equal(lastLine(job), "ValueError: no rows");
  assert.equal(reasonOf(job), "slot 0: the program ended with exit code 1");
  assert.equal(lastLine({ message: job.message }), "ValueError: no rows");
  assert.equal(lastLine({ message: "the loss is not finite" }), "the loss is not finite");
  assert.equal(lastLine({}), "");
});

test("head, legend and table say one thing", () => {
  const columns = series.toColumns([point(1, 1, 1, { last: 3 }), point(2, 5, 4, { min: 1, max: 9, mean: 2, last: 1.5 })]);
  assert.equal(series.endOf(columns), 1.5);
  assert.equal(series.endOf(series.toColumns([])), undefined);
  assert.equal(series.endOf(undefined), undefined);
  assert.equal(linesOf("loss", 0, columns, { axis: "steps", smoothing: 0 }, {})[0].end, 1.5);
  const rows = finalFigures([{ state: "RUNNING", progress: { loss: 9, examplesPerSecond: 6400 } }], [{ curves: { "train/loss": columns } }]);
  assert.deepEqual(rows.find(([name]) => name === "training loss"), ["training loss", "1.500"]);
  assert.deepEqual(rows.find(([name]) => name === "examples/s"), ["examples/s", "6,400"]);
  assert.deepEqual(["train/loss", "held_out/bits_per_byte", "speed/examples_per_second", "train/loss_scale"].map(seriesName),
    ["training loss", "held-out bits per byte", "examples/s", "training loss scale"]);
});

test("what is wrong comes worst first", () => {
  const now = 1_800_000_000_000;
  const cluster = {
    daemons: [{ id: "s0", kind: "SERVER", live: true }, { id: "w7", kind: "WORKER", lostForMs: "90000", address: "h:1" }, { id: "s1", kind: "SERVER" }],
    drains: [{ serverId: "s0", partitions: "2", waitingFor: ["j1: no other server"] }, { serverId: "s1" }],
  };
  const jobs = [
    { jobId: "j1", state: "PENDING", waitingFor: "2 free slots" },
    { jobId: "j2", state: "RUNNING", slowSlots: [{ slot: 3, reason: "computes 2.1 x as long" }], damagedCheckpoints: [{ clock: "40", damage: "file 2" }] },
    { jobId: "j3", state: "FAILED", finishedUnixMs: String(now - 1000), message: "the loss is not finite" },
    { jobId: "j4", state: "FAILED", finishedUnixMs: String(now - 48 * 3600 * 1000) },
    { jobId: "j5", state: "SUCCEEDED" },
  ];
  const problems = findProblems(cluster, jobs, now);
  assert.deepEqual(problems.map(({ level, title }) => [level, title]), [
    ["error", "Worker w7 is lost"],
    ["error", "j2 has a damaged checkpoint at clock 40"],
    ["error", "j3 failed"],
    ["warning", "The drain of s0 waits"],
    ["warning", "j1 waits"],
    ["warning", "j2 has 1 slow slot"],
  ]);
  assert.equal(problems[5].detail, "slot 3 computes 2.1 x as long");
  assert.deepEqual(findProblems({ daemons: [] }, [{ jobId: "j", state: "RUNNING" }], now), []);
  assert.equal(clusterSentence(cluster), "1 server and 0 workers are live; 0 of 0 slots are in use");
  assert.equal(jobsSentence(jobs), "1 job runs and 1 waits");
});

test("jobs that wait for the same are one problem", () => {
  const waits = (jobId, waitingFor, state = "PENDING") => ({ jobId, state, waitingFor });
  const jobs = [waits("j1", "2 free slots"), waits("j2", "2 free slots"), waits("j3", "a server"), waits("j4", "2 free slots", "PLACING")];
  assert.deepEqual(findProblems({ daemons: [] }, jobs).map(({ title, detail, href, state }) => [title, detail, href, state]), [
    ["2 jobs wait", "2 free slots", "/?state=PENDING", "PENDING"],
    ["j3 waits", "a server", "/jobs/j3", undefined],
    ["j4 waits", "2 free slots", "/jobs/j4", undefined],
  ]);
});

const named = (jobId, state, submitted, name, labels, loss) => ({ jobId, state, spec: { name, owner: "ada", labels }, submittedUnixMs: String(submitted), progress: { loss } });
const JOBS = [
  named("j1", "RUNNING", 1, "old run", { team: "text" }, 3), named("j2", "FAILED", 2, "run 10", { team: "vision" }, "NaN"), named("j3", "PENDING", 3, "run 2", {}),
  named("j4", "SUCCEEDED", 4, "run 2", { team: "text", Sweep: "s1" }, 1), named("j5", "RECOVERING", 5, "run 1", {}, 2),
];

test("running jobs are listed first, then those that wait, then all others, the newest first", () => {
  const ids = (filter) => filterJobs(JOBS, { ...NO_FILTER, ...filter }).map(({ jobId }) => jobId);
  assert.deepEqual(ids({}), ["j5", "j1", "j3", "j4", "j2"]);
  assert.deepEqual(ids({ sort: "newest" }), ["j5", "j4", "j3", "j2", "j1"]);
  assert.deepEqual(ids({ sort: "oldest" }), ["j1", "j2", "j3", "j4", "j5"]);
  // In names, 2 comes before 10.
  assert.deepEqual(ids({ sort: "name" }), ["j1", "j5", "j4", "j3", "j2"]);
  assert.deepEqual(ids({ sort: "training loss" }), ["j4", "j5", "j1", "j3", "j2"]);
  assert.deepEqual(ids({ text: "TEAM=text run" }), ["j1", "j4"]);
  assert.deepEqual(ids({ text: "sweep=S1", state: "SUCCEEDED" }), ["j4"]);
  assert.deepEqual(ids({ state: "FAILED" }), ["j2"]);
});

test("an address names a filter", () => {
  const filter = { text: "team=vision run", state: "FAILED", sort: "name", page: 2 };
  const query = queryOf(parametersOf(filter));
  assert.equal(query, "?text=team%3Dvision+run&state=FAILED&sort=name&page=3");
  assert.deepEqual(filterOf(new URLSearchParams(query)), filter);
  assert.equal(queryOf(parametersOf(NO_FILTER)), "");
  for (const wrong of ["", "?state=x&sort=toString&page=-1", "?page=two"]) assert.deepEqual(filterOf(new URLSearchParams(wrong)), NO_FILTER);
});

test("labels beyond the first are a number", () => {
  const job = { spec: { labels: { a: "1", b: "2", c: "3" } } };
  assert.deepEqual(labels(job).flat().filter(Boolean).map(({ key }) => key), ["a=1", "b=2", "c=3"]);
  const [, more] = labels(job, 1);
  assert.deepEqual([more.children[0].text, more.properties.title], ["+2", "b=2\nc=3"]);
});

test("a card's curve leaves out what is no number", () => {
  assert.equal(sparkPath({ steps: [0, 1, 2, 4], values: [3, NaN, Infinity, 1] }), "M0.00 1.00L100.00 29.00");
  assert.equal(sparkPath({ steps: [0, 1], values: [NaN, 1] }), "");
});

test("a job has a bar of its steps where all of them are known", () => {
  const tags = (progress) => stepsOf(progress).filter(Boolean).map(({ tag }) => tag);
  assert.deepEqual(tags({ step: "3", totalSteps: "10" }), ["progress", "p"]);
  assert.deepEqual(tags({ step: "3" }), ["p"]);
});

test("lost daemons come first, then those that are drained", () => {
  const daemons = [{ id: "a", live: true }, { id: "b", live: true }, { id: "c" }, { id: "d", live: true }];
  assert.deepEqual(worstFirst(daemons, [{ serverId: "b" }]).map(({ id }) => id), ["c", "b", "a", "d"]);
});

test("addresses name views", () => {
  assert.equal(routeOf("/").view, "home");
  assert.deepEqual([routeOf("/jobs/j1%2Fx").view, routeOf("/jobs/j1%2Fx").job], ["job", "j1/x"]);
  assert.equal(routeOf("/compare", "?jobs=a,b").query.get("jobs"), "a,b");
  assert.equal(routeOf("/jobs/a/b").view, "missing");
  assert.equal(routeOf("/searches").view, "searches");
  assert.deepEqual([routeOf("/searches/a%20b").view, routeOf("/searches/a%20b").search], ["search", "a b"]);
  assert.equal(routeOf("/searches/a/b").view, "missing");
  const link = { origin: "o", pathname: "/", hash: "", hasAttribute: () => false };
  const click = { button: 0 };
  assert.ok(isPageLink(click, link, "o"));
  assert.ok(!isPageLink({ ...click, ctrlKey: true }, link, "o"));
  assert.ok(!isPageLink(click, { ...link, pathname: "/metrics" }, "o"));
  assert.ok(!isPageLink(click, link, "other"));
  assert.equal(queryOf({ states: ["A", "B"], page: undefined, text: "", size: 5 }), "?states=A&states=B&size=5");
});

test("what a single run has nothing to say of is left out", () => {
  const runs = ["a", "b"].map((name, colour) => ({ name, colour, labels: { job: name }, specification: { name } }));
  const keys = (some) => comparisonView({ notes: [], alerts: [], runs: some, configurations: some, charts: [], steps: [], figures: { head: ["", ...some.map(({ name }) => name)], rows: [] } },
    { axis: "steps", smoothing: 0, group: "job" }, () => {}).flat().filter(Boolean).map(({ key }) => key);
  assert.deepEqual(keys(runs).filter((key) => ["figures", "differences", "band"].includes(key)), ["figures", "differences"]);
  assert.deepEqual(keys(runs.slice(0, 1)).filter((key) => ["figures", "differences", "band"].includes(key)), ["figures"]);
});

test("an axis has room for its longest text", () => {
  assert.equal(axisWidth(undefined), 58);
  assert.equal(axisWidth(["0", "0.5"]), 58);
  assert.ok(axisWidth(["0", "100,000"]) >= 17 + 7 * 7);
  assert.ok(axisWidth(["1 min 20 s"]) > axisWidth(["100,000"]));
});

test("long names are cut in the middle unless they then look the same", () => {
  const long = (middle, end) => `llama-3.1-8b-instruct-sft-${middle}-warmup0.03-bs256-${end}`;
  const names = ["short", long("a", "seed1"), long("a", "seed2"), long("b", "seed2")];
  const short = shortNames(names);
  assert.equal(short.get("short"), "short");
  assert.equal(short.get(names[1]), "llama-3.1-8b-in…rmup0.03-bs256-seed1");
  assert.deepEqual([short.get(names[2]), short.get(names[3])], [names[2], names[3]]);
});

test("runs are grouped by a label", () => {
  const columns = (value) => series.toColumns([point(1, 1, 1, { last: value }), point(2, 2, 1, { last: value })]);
  const run = (name, rate, value) => ({ name, colour: 0, labels: rate ? { rate } : {}, batchSize: 1, startMs: 0, curves: { "train/loss": columns(value), "slot/0/step": columns(1) } });
  const runs = [run("a", "1", 1), run("b", "2", 5), run("c", "1", 3), run("d", undefined, 7)];
  assert.deepEqual(groupsBy(runs, "rate").map(([value, group]) => [value, group.length]), [["1", 2], ["2", 1], ["(none)", 1]]);
  assert.deepEqual(groupingLabels(runs), ["rate"]);
  assert.deepEqual(groupingLabels(runs.slice(0, 2)), []);
  const charts = comparisonCharts(runs, { axis: "steps", smoothing: 0, group: "rate" });
  assert.deepEqual(charts.map(({ key }) => key), ["train/loss"]);
  // A group has its colour even where another has no curve.
  runs[1].curves = {};
  assert.deepEqual(comparisonCharts(runs, { axis: "steps", smoothing: 0, group: "rate" })[0].lines.map(({ colour }) => colour), [0, 2]);
  runs[1].curves = runs[0].curves;
  assert.deepEqual(charts[0].lines[0].y, [2, 2]);
  assert.deepEqual(charts[0].lines[0].high, [3, 3]);
  assert.equal(comparisonCharts(runs, { axis: "steps", smoothing: 0, group: "" })[0].lines.length, 4);
});

test("a slot's step and memory", () => {
  assert.deepEqual(stepParts({ lastSteps: { steps: "2", computeSeconds: 4 }, steps: "100" }), { compute: 2, communication: 0, data: 0 });
  assert.equal(stepParts({}), undefined);
  assert.deepEqual(memoryOf({ processPeakBytes: "100", processMappedBytes: "30" }, { predictedWorkerBytes: "160", spec: { workers: 2 } }), { used: 70, planned: 80 });
});

test("slots' curves: as many together as there are colours, one chart a part", () => {
  const job = { spec: { workers: 10 }, tasks: [{ slot: 0 }, { slot: 9, slow: "computes 2 x as long" }] };
  const groups = slotGroups(job);
  assert.deepEqual(groups, [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]);
  assert.deepEqual(groups.map((group) => groupName(group, job)), ["0 to 7", "8 to 9 (9 is slow)"]);
  assert.deepEqual(slotGroups({ spec: {} }), [[0]]);
  assert.deepEqual(slotSeries([8]), ["slot/8/step", "slot/8/compute", "slot/8/communication", "slot/8/data"]);
  const columns = (value) => series.toColumns([point(1, 1, 1, { last: value }), point(2, 3, 1, { last: value })]);
  const history = { series: new Map([["slot/8/compute", columns(2)], ["slot/9/compute", columns(3)], ["slot/9/data", columns(1)]]) };
  const charts = slotCurveData(history, [8, 9], [], { axis: "steps", smoothing: 0 }, { batchSize: 1, startMs: 0 });
  assert.deepEqual(charts.map(({ title, lines }) => [title, lines.map(({ name, y }) => [name, y[0]])]), [
    ["Compute", [["slot 8", 2], ["slot 9", 3]]], ["Waiting for training data", [["slot 9", 1]]]]);
  assert.equal(charts[1].lines[0].colour, charts[0].lines[1].colour);
});

test("a search shows where it matches", () => {
  assert.deepEqual(splitMatches("Step 1, step 2", "step"), [["Step", true], [" 1, ", false], ["step", true], [" 2", false]]);
  assert.deepEqual(splitMatches("a<b", ""), [["a<b", false]]);
  assert.equal(withoutColours("\x1b[1;32mepoch\x1b[0m 1 [2m]"), "epoch 1 [2m]");
});

// The report holds its modules one after another in one script (client/compare/report.cc).
test("the modules can be joined: one line an import, without other names, and no name twice", () => {
  const names = new Map();
  for (const file of readdirSync(FILES).filter((name) => name.endsWith(".js"))) {
    const lines = readFileSync(new URL(file, FILES), "utf8").split("\n");
    for (const line of lines) {
      if (/^(import|export)\b/.test(line)) {
        assert.match(line, /^(import \{ [\w, ]+ \} from "\.\/\w+\.js";|export (async )?(function|class|const) )/, `${file}: ${line}`);
        assert.doesNotMatch(line, / as /, file);
      }
    }
  }
  const report = ["format", "series", "differences", "events", "dom", "bars", "table", "chart", "controls", "comparison", "report"];
  for (const file of report) {
    for (const [, name] of readFileSync(new URL(`${file}.js`, FILES), "utf8").matchAll(/^(?:export )?(?:async )?(?:function|class|const|let) (?:\[|\{ )?(\w+)/gm)) {
      assert.ok(!names.has(name), `${name} is in ${names.get(name)} and in ${file}`);
      names.set(name, file);
    }
  }
});

const halving = { spec: { asha: { minSteps: "10" }, job: { stop: { steps: "40" } } }, objective: { metric: "loss", direction: "MINIMIZE" } };

// Returns a trial's row whose rungs end at 10, 20, 40 with these objectives; null: the job has none yet.
function rowWith(trial, objectives, { running, failure, draws = [] } = {}, search = halving) {
  const rungs = objectives.map((objective, index) => ({ jobId: `t${trial}-${index}`, lastStep: String(10 * 2 ** index), ...(objective === null ? {} : { objective }) }));
  return trialRow({ trial: String(trial), record: { draws, rungs, failure }, running }, search);
}

test("a trial is done at its job's end, halted before it, and has the objective of its furthest rung", () => {
  const states = [rowWith(1, [3]), rowWith(2, [3, 2, 1]), rowWith(3, [3, null], { running: true }), rowWith(4, [null], { failure: "no memory" }), rowWith(5, [null])];
  assert.deepEqual(states.map(({ state }) => state), ["HALTED", "COMPLETED", "RUNNING", "FAILED", "PENDING"]);
  assert.deepEqual(states.map(({ objective }) => objective), [3, 1, 3, undefined, undefined]);
  assert.deepEqual(states.map(({ step }) => step), [10, 40, 10, 0, 0]);
  // Without rungs, every trial that has an objective is done.
  assert.equal(rowWith(1, [3], {}, { spec: {} }).state, "COMPLETED");
  assert.equal(rowWith(1, ["NaN"]).objective, undefined);
});

test("the best objective so far, the rungs and the best trials go by the search's direction", () => {
  const rows = [rowWith(1, [3]), rowWith(2, [null], { failure: "lost" }), rowWith(3, [2, 5]), rowWith(4, [4])];
  assert.deepEqual(bestSoFar(rows, 1), { x: [1, 3, 4], y: [3, 5, 4], best: [3, 3, 3] });
  assert.deepEqual(bestSoFar(rows, -1).best, [3, 5, 5]);
  assert.deepEqual(rungSummary(rows, 1), [
    { rung: 0, step: 10, trials: 4, running: 0, measured: 3, promoted: 1, best: 2 },
    { rung: 1, step: 20, trials: 1, running: 0, measured: 1, promoted: 0, best: 5 },
  ]);
  assert.equal(rungSummary(rows, -1)[0].best, 4);
  assert.deepEqual(bestRows(rows, 1, 2).map(({ trial }) => trial), [3, 1]);
  assert.deepEqual(bestRows(rows, -1, 2).map(({ trial }) => trial), [3, 4]);
});

test("axes are logarithmic where draws are, and choices are categories", () => {
  const [rate, optimizer, size] = parameterAxes([
    { field: "optimizer.learning_rate", logUniform: { min: 1e-4, max: 1e-2 }, when: { field: "optimizer", equals: "sgd" } },
    { field: "optimizer", choice: { values: ["sgd", "adam", "muon"] } },
    { field: "batch_size", integer: { min: "32", max: "96" } },
    { field: "optimizer.learning_rate", logUniform: { min: 1e-3, max: 1 }, when: { field: "optimizer", equals: "adam" } },
  ]);
  assert.ok(rate.log && !size.log);
  assert.deepEqual(rate.ticks.map(({ text }) => text), ["0.0001", "0.01", "1"]);
  assert.ok(Math.abs(rate.place("0.01") - 0.5) < 1e-9);
  assert.deepEqual(["sgd", "adam", "muon", "lion"].map(optimizer.place), [0, 0.5, 1, undefined]);
  assert.deepEqual(["32", "64", "96", "x"].map(size.place), [0, 0.5, 1, undefined]);
  // Fields that end alike have their whole names.
  assert.deepEqual(parameterAxes([{ field: "a.rate", uniform: { max: 1 } }, { field: "b.rate", uniform: { max: 1 } }]).map(({ name }) => name), ["a.rate", "b.rate"]);
  assert.ok(objectiveAxis([rowWith(1, [1]), rowWith(2, [1000])], "loss").log);
  assert.ok(!objectiveAxis([rowWith(1, [-1]), rowWith(2, [1000])], "loss").log);
  assert.equal(objectiveAxis([rowWith(1, [null])], "loss"), undefined);
});

test("the line nearest to the pointer is found between two axes, also one without a value", () => {
  const axes = [...parameterAxes([{ field: "a", uniform: { max: 1 } }, { field: "b", uniform: { max: 1 } }]), { field: "", place: Number }];
  const draws = (a, b) => [{ field: "a", value: a }, ...(b === undefined ? [] : [{ field: "b", value: b }])];
  const places = placesOf([rowWith(1, [0.5], { draws: draws("0", "1") }), rowWith(2, [null], { draws: draws("1", "0") }), rowWith(3, [1], { draws: draws("1") })], axes);
  assert.deepEqual(places.slice(0, 2), [[0, 1, 0.5], [1, 0, undefined]]);
  assert.ok(places[2][1] < 0);
  assert.equal(nearestLine(places, 0.25, 0.26, 0.05), 0);
  assert.equal(nearestLine(places, 1, 0.01, 0.05), 1);
  assert.equal(nearestLine(places, 1.5, 0.45, 0.05), 2);
  assert.equal(nearestLine(places, 1, 0.5, 0.05), undefined);
});

test("trials are sorted by numbers and words; those without a value come last", () => {
  const rows = ["10", "9", undefined, "adam"].map((value, index) => rowWith(index + 1, [index], { draws: value === undefined ? [] : [{ field: "x", value }] }));
  const order = (sort) => sortRows(rows, sort).map(({ trial }) => trial);
  assert.deepEqual(order({ column: "x", descending: false }), [2, 1, 4, 3]);
  assert.deepEqual(order({ column: "x", descending: true }), [4, 1, 2, 3]);
  assert.deepEqual(order({ column: "objective", descending: true }), [4, 3, 2, 1]);
  const many = Array.from({ length: 120 }, (_, index) => ({ trial: index + 1 }));
  assert.deepEqual([pageOf(many, undefined, 101), pageOf(many, 9), pageOf(many, 1, 101), pageOf([], 0)], [2, 2, 1, 0]);
  assert.deepEqual([drawText("0.0123456"), drawText("64"), drawText("adam"), drawText(undefined), drawText("")], ["0.01235", "64", "adam", "–", ""]);
});

test("the jobs of a trial are one curve", () => {
  const columns = (...steps) => series.toColumns(steps.map((step) => ({ firstStep: step, lastStep: step, last: step })));
  assert.deepEqual(joinColumns([columns(1, 2), undefined, columns(3, 4)]).steps, [1, 2, 3, 4]);
  assert.equal(joinColumns([undefined]), undefined);
});
