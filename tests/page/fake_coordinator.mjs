// A coordinator as the page sees one, for tests of the page alone: its files, and the API's answers from memory, in the
// form of a real coordinator's (fixtures/cluster.json is what one answered). Run as a program it serves for development:
//   node tests/page/fake_coordinator.mjs [PORT] [simulated]
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "../..");
const FOLDERS = [join(ROOT, "common/page/files"), join(ROOT, "third_party/uplot")];
const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml" };
const HEADERS = {
  "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Cache-Control": "no-cache",
};

// What a call answers with an error.
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function matches(pattern, text) {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(`^${escaped}$`).test(text);
}

function shortStatus(status) {
  const { tasks, partitions, replays, given, expertLoads, ...rest } = status;
  const { name, owner, labels, description } = status.spec;
  return { ...rest, spec: { name, owner, labels, description }, evaluations: status.evaluations?.slice(-1) };
}

export class FakeCoordinator {
  constructor() {
    this.cluster = { daemons: [] };
    // Jobs by id, in order of submission: {status, events, metrics, checkpoints, collectives, log}.
    this.jobs = new Map();
    // Searches by id, in order: {status, trials}.
    this.searches = new Map();
    // Paths and query strings of what was asked for.
    this.requests = [];
    this.queries = [];
    // Whether the page may change jobs; it takes any token.
    this.cancel = false;
  }

  // Serves on a free port (or the given one) of loopback; returns the address of the page.
  async start(port = 0) {
    this.server = createServer(async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      this.answer(request, response, body);
    });
    await new Promise((ready) => this.server.listen(port, "127.0.0.1", ready));
    this.port = this.server.address().port;
    return `http://127.0.0.1:${this.port}/`;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  answer(request, response, text) {
    const url = new URL(request.url, "http://localhost");
    this.requests.push(url.pathname);
    this.queries.push(url.searchParams);
    try {
      if (url.pathname.startsWith("/api/v1/")) {
        const body = JSON.stringify(this.api(url.pathname.slice(8).split("/").map(decodeURIComponent), url.searchParams, text));
        response.writeHead(200, { ...HEADERS, "Content-Type": "application/json" }).end(body);
      } else {
        const name = url.pathname.startsWith("/assets/") ? url.pathname.slice(8) : "index.html";
        response.writeHead(200, { ...HEADERS, "Content-Type": TYPES[extname(name)] }).end(readAsset(name));
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const body = JSON.stringify({ error: { code: error.code, message: error.message } });
      response.writeHead(error.status, { ...HEADERS, "Content-Type": "application/json" }).end(body);
    }
  }

  api([kind, id, what], query, text) {
    if (kind === "page") return { version: "test", cancel: this.cancel };
    if (kind === "cluster") return this.cluster;
    if (kind === "searches") return this.answerSearch(id, what, query);
    if (!id) return this.listJobs(query);
    const job = this.jobs.get(id);
    if (!job) throw new Refusal(404, "NOT_FOUND", `there is no job ${id}`);
    if (!what) return job.status;
    if (what === "describe") {
      job.status.spec.description = JSON.parse(text).description;
      return job.status;
    }
    if (what === "metrics") return this.readMetrics(job, query);
    if (what === "log") return this.readLog(job, query);
    return job[what] ?? {};
  }

  answerSearch(id, what, query) {
    const size = Number(query.get("pageSize")) || 500;
    if (!id) {
      const all = [...this.searches.values()].reverse().map(({ status }) => status), from = Number(query.get("pageToken") ?? 0);
      return { searches: all.slice(from, from + size), ...(from + size < all.length ? { nextPageToken: String(from + size) } : {}) };
    }
    const search = this.searches.get(id);
    if (!search) throw new Refusal(404, "NOT_FOUND", `there is no search ${id}`);
    if (!what) return search.status;
    const from = (Number(query.get("firstTrial")) || 1) - 1, next = from + size;
    return { trials: search.trials.slice(from, next), ...(next < search.trials.length ? { nextTrial: String(next + 1) } : {}) };
  }

  listJobs(query) {
    const states = query.getAll("states");
    let jobs = [...this.jobs.values()].map(({ status }) => status);
    if (query.get("newestFirst")) jobs.reverse();
    if (states.length) jobs = jobs.filter(({ state }) => states.includes(state));
    const from = Number(query.get("pageToken") ?? 0), size = Math.min(500, Number(query.get("pageSize")) || 500);
    const page = jobs.slice(from, from + size);
    return {
      jobs: query.get("view") === "SHORT" ? page.map(shortStatus) : page,
      ...(from + size < jobs.length ? { nextPageToken: String(from + size) } : {}),
    };
  }

  readMetrics(job, query) {
    const patterns = query.getAll("series"), from = Number(query.get("fromStep") ?? 0);
    const wanted = (name) => patterns.length === 0 || patterns.some((pattern) => matches(pattern, name));
    return {
      series: (job.metrics.series ?? []).filter(({ name }) => wanted(name))
        .map(({ name, points }) => ({ name, points: points.filter(({ lastStep }) => Number(lastStep) >= from) }))
        .filter(({ points }) => points.length > 0),
      marks: job.metrics.marks,
    };
  }

  readLog(job, query) {
    const offset = Number(query.get("offset") ?? 0);
    const slot = query.get("slot");
    const text = job.log.slice(offset);
    const lines = slot === null ? text : text.split("\n").filter((line) => line.includes(`slot ${slot}`)).join("\n");
    return { offset: String(offset), text: lines, nextOffset: String(job.log.length) };
  }
}

function readAsset(name) {
  for (const folder of FOLDERS) {
    try {
      return readFileSync(join(folder, name));
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
  }
  throw new Refusal(404, "NOT_FOUND", `there is no file ${name}`);
}

// Returns a coordinator with the jobs of a real one.
export function recorded() {
  const coordinator = new FakeCoordinator();
  const { cluster, jobs } = JSON.parse(readFileSync(join(HERE, "fixtures/cluster.json")));
  coordinator.cluster = cluster;
  for (const [id, job] of Object.entries(jobs)) coordinator.jobs.set(id, job);
  return coordinator;
}

export function point(step, value, unixMs = 1_800_000_000_000 + step * 10) {
  return { firstStep: String(step), lastStep: String(step), values: "1", last: value, unixMs: String(unixMs) };
}

// Returns the series of a slot whose reports cover ten steps each; it became as slow as it is half-way.
function slotSeries(slot, last, steps) {
  const seconds = {
    compute: (late) => (late ? last.computeSeconds : 0.4) / 10,
    communication: (late) => (late ? last.exposedCommunicationSeconds : 0.05) / 10,
    data: () => last.waitingSeconds / 10,
  };
  const parts = { ...seconds, step: (late) => Object.values(seconds).reduce((sum, part) => sum + part(late), 0) };
  const ends = Array.from({ length: Math.min(200, Math.floor(steps / 10)) }, (_, index) => Math.floor((index + 1) * steps / Math.min(200, steps / 10)));
  return Object.entries(parts).map(([name, value]) => ({
    name: `slot/${slot}/${name}`, points: ends.map((step) => point(step, value(step > steps / 2) * (1 + 0.1 * Math.sin(step)))),
  }));
}

// Returns a job whose loss falls over `steps` steps.
export function simulatedJob(id, { name = id, state = "RUNNING", slots = 2, steps = 100, totalSteps = 1000, labels = {} } = {}) {
  const loss = (step) => 4 / (1 + step / (steps / 8)) + 0.2 * Math.sin(step * 1.7) / (1 + step / steps) + 1;
  const all = Array.from({ length: steps }, (_, step) => step + 1);
  const tasks = Array.from({ length: slots }, (_, slot) => ({
    slot, workerId: `worker-${slot}`, incarnation: "1", step: String(steps), state: "RUNNING", steps: String(steps),
    lastSteps: { steps: "10", computeSeconds: slot === 3 ? 0.9 : 0.4, exposedCommunicationSeconds: slot === 3 ? 0.05 : 0.5, waitingSeconds: 0.02 },
    slow: slot === 3 ? "computes 2.2 x as long for an example as the median slot" : "",
    processPeakBytes: String(60_000_000 + slot * 100_000),
  }));
  return {
    status: {
      jobId: id, state, spec: { name, owner: "ada", workers: slots, batchSize: 64, labels, optimizer: { name: "adam", learningRate: 0.01 } },
      progress: { step: String(steps), totalSteps: String(totalSteps), loss: loss(steps), examplesPerSecond: 6400, secondsLeft: 120 },
      slowSlots: slots > 3 ? [{ slot: 3, reason: tasks[3].slow }] : [],
      tasks, predictedWorkerBytes: String(70_000_000 * slots), generation: "1",
      submittedUnixMs: "1800000000000", startedUnixMs: "1800000000000",
      ...(state === "FAILED" ? { message: "slot 0: the loss is not finite", finishedUnixMs: String(Date.now() - 60000) } : {}),
    },
    events: { events: [] },
    metrics: { series: [
      { name: "train/loss", points: all.map((step) => point(step, loss(step))) },
      ...tasks.flatMap(({ slot, lastSteps }) => slotSeries(slot, lastSteps, steps)),
    ], marks: [] },
    checkpoints: { checkpoints: [] },
    collectives: { slots: [] },
    log: "",
  };
}

// Returns a job whose blocks have experts, the first block none. In the last one the second expert has few tokens, and the
// last one none.
export function simulatedExperts(id, { blocks = 4, experts = 8, tokens = 10_000 } = {}) {
  const job = simulatedJob(id, { name: "experts" });
  job.status.spec.model = { transformer: { layers: blocks + 1, moe: { experts, topK: 2, auxiliaryLoss: 0.01, denseLayers: [0] } } };
  const load = (block, expert) => {
    if (block === blocks && expert === 1) return tokens / 25;
    if (block === blocks && expert === experts - 1) return 0;
    return Math.round(tokens * 2 ** (1.5 * Math.sin(block * 12.9 + expert * 78.2)));
  };
  const all = Array.from({ length: blocks }, (_, index) => index + 1);
  job.status.expertLoads = { experts, blocks: all, tokens: all.flatMap((block) => Array.from({ length: experts }, (_, expert) => String(load(block, expert)))) };
  return job;
}

// Returns a coordinator with 200 workers and 1,000 jobs: one that runs on all workers but a few, some others, many ended.
export function simulated() {
  const coordinator = new FakeCoordinator();
  coordinator.cluster = {
    daemons: Array.from({ length: 208 }, (_, index) => (index < 8
      ? { id: `server-${index}`, kind: "SERVER", address: `10.0.0.${index}:4000`, live: true, memoryBytes: "68719476736", memoryReservedBytes: "17179869184", partitions: 8 }
      : { id: `worker-${index - 8}`, kind: "WORKER", address: `10.0.1.${index - 8}:4000`, live: index !== 100, lostForMs: index === 100 ? "90000" : undefined,
        slots: 1, slotsUsed: index < 204 ? 1 : 0, memoryBytes: "68719476736", memoryReservedBytes: "8589934592", processors: 16 })),
  };
  for (let index = 0; index < 1000; ++index) {
    const state = index === 999 || index % 100 === 50 ? "RUNNING" : index % 300 === 7 ? "FAILED" : "SUCCEEDED";
    const job = simulatedJob(`j${index}-sim`, { name: `job-${index}`, state, slots: index === 999 ? 180 : 2, labels: { team: index % 2 ? "vision" : "text" } });
    job.status.submittedUnixMs = String(1_800_000_000_000 + index * 60_000);
    coordinator.jobs.set(job.status.jobId, job);
  }
  return coordinator;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , port = "8080", kind] = process.argv;
  console.log(await (kind === "simulated" ? simulated() : recorded()).start(Number(port)));
}
