// A cluster of real processes on this machine, whose coordinator serves the page.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

export const PROGRAMS = {
  coordinator: "server/coordinator/muster-coordinator",
  server: "server/muster-server",
  worker: "worker/runtime/muster-worker",
  client: "client/muster",
};
export const TOKEN = "0123456789abcdef0123456789abcdef";

// Runs the client and returns what it printed.
export function muster(args) {
  const run = spawnSync(resolve(PROGRAMS.client), args, { encoding: "utf8" });
  if (run.status !== 0) throw new Error(`muster ${args.join(" ")}: ${run.stderr}${run.stdout}`);
  return run.stdout;
}

// A program that runs until it is stopped.
export class Program {
  constructor(program, args) {
    this.process = spawn(resolve(program), args, { stdio: ["ignore", "pipe", "pipe"] });
    this.ended = once(this.process, "exit");
    this.lines = [];
    this.waiting = [];
    for (const stream of [this.process.stdout, this.process.stderr]) {
      createInterface(stream).on("line", (line) => {
        this.lines.push(line);
        for (const wake of this.waiting.splice(0)) wake();
      });
    }
  }

  // Returns what follows `mark` in the first line that has it.
  async told(mark) {
    for (;;) {
      const line = this.lines.find((each) => each.includes(mark));
      if (line) return line.slice(line.indexOf(mark) + mark.length).trim();
      await Promise.race([new Promise((wake) => this.waiting.push(wake)), this.ended.then(() => {
        throw new Error(`the program ended: ${this.lines.join("\n")}`);
      })]);
    }
  }

  async stop(signal) {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill(signal);
    await this.ended;
  }
}

export class RealCluster {
  // `listen`: where the coordinator serves the page; `guarded`: the page has a token.
  async start({ servers = 1, workers = 2, listen = "127.0.0.1:0", guarded = false } = {}) {
    this.guarded = guarded;
    this.folder = mkdtempSync(join(process.env.TEST_TMPDIR ?? tmpdir(), "page-"));
    this.tokenFile = join(this.folder, "token");
    writeFileSync(this.tokenFile, `${TOKEN}\n`);
    await this.startCoordinator("127.0.0.1:0", listen);
    this.servers = Array.from({ length: servers }, (_, index) => this.startServer(index));
    this.workers = Array.from({ length: workers }, (_, index) => (
      this.startDaemon("worker", index, ["--slots=1", "--processors=1", "--devices=0"])));
    while (servers + workers > 0 && await this.liveDaemons() < servers + workers) {
      await new Promise((wake) => setTimeout(wake, 50));
    }
    return this.page;
  }

  async startCoordinator(listen, page) {
    this.coordinator = new Program(PROGRAMS.coordinator, [
      `--listen=${listen}`, `--page-listen=${page}`, ...(this.guarded ? [`--page-token-file=${this.tokenFile}`] : []),
      `--data-dir=${this.folder}/coordinator`, `--checkpoint-root=${this.folder}/checkpoints`,
    ]);
    this.page = await this.coordinator.told("page on ");
    this.address = await this.coordinator.told("listening on ");
  }

  startDaemon(kind, index, more) {
    return new Program(PROGRAMS[kind], [
      `--id=${kind}-${index}`, "--listen=127.0.0.1:0", `--coordinator=${this.address}`, ...more]);
  }

  async liveDaemons() {
    const headers = this.guarded ? { Authorization: `Bearer ${TOKEN}` } : {};
    const answer = await fetch(new URL("/api/v1/cluster", this.page), { headers });
    const { daemons = [] } = await answer.json();
    return daemons.filter(({ live }) => live).length;
  }

  startServer(index) {
    return this.startDaemon("server", index, [`--data-dir=${this.folder}/server-${index}`]);
  }

  // Kills the coordinator; `bringBack` starts one at the same addresses.
  async killCoordinator() {
    await this.coordinator.stop("SIGKILL");
  }

  async bringBack() {
    await this.startCoordinator(this.address, new URL(this.page).host);
  }

  async loseServer(index) {
    await this.servers[index].stop("SIGKILL");
    this.servers[index] = this.startServer(index);
  }

  // Submits a job and returns its id.
  submit(job) {
    const file = join(this.folder, "job.json");
    writeFileSync(file, JSON.stringify(job));
    return muster([`--coordinator=${this.address}`, "submit", file]).trim();
  }

  async stop() {
    for (const program of [...this.workers, ...this.servers, this.coordinator]) await program.stop("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

// Returns a job that goes on until it is stopped.
export function endlessJob(more = {}) {
  return {
    name: "endless",
    model: { mlp: { hidden: [16], classes: 4 } },
    data: { synthetic_classification: { examples: 4000, features: 16, classes: 4, seed: 1 }, holdout: 0.1 },
    optimizer: { name: "sgd", learning_rate: 0.01 },
    update: { dense: "PARAMETER_SERVER" },
    workers: 2,
    batch_size: 64,
    stop: { steps: 100000000 },
    evaluation: { every_steps: 500 },
    checkpoint: { every_steps: 500 },
    ...more,
  };
}
