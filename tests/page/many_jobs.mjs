// A busy cluster as people have one: jobs in all states, with long names, many labels, programs that failed, slots from
// none to 64. Run as a program it serves for development:
//   node tests/page/many_jobs.mjs [NUMBER] [PORT]
import { fileURLToPath } from "node:url";
import { FakeCoordinator, simulatedJob } from "./fake_coordinator.mjs";

const MINUTE_MS = 60_000;
const OWNERS = ["ada", "grace.hopper", "konrad"];
const DATA = ["wikipedia-2023-11-deduplicated", "cifar10", "criteo-1tb"];
const WAITS = "64 free slots; 12 of 208 are free";

const TRACEBACK = `Traceback (most recent call last):
  File "/home/ada/projects/finetune/train.py", line 212, in <module>
    main(parse_arguments())
  File "/home/ada/projects/finetune/train.py", line 188, in main
    trainer.fit(model, train_loader, val_loader)
  File "/home/ada/projects/finetune/trainer.py", line 97, in fit
    loss = self.step(batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB is free.
`;

// Returns the state of a job that `age` others are newer than.
function stateOf(age) {
  if (age === 1 || age === 4 || age % 97 === 60) return "RUNNING";
  if (age === 0 || age === 3 || age === 6 || (age > 8 && age < 20)) return "PENDING";
  if (age === 5) return "RECOVERING";
  if (age % 9 === 2) return "FAILED";
  return age % 23 === 7 ? "CANCELLED" : "SUCCEEDED";
}

function nameOf(index) {
  if (index % 12 === 1) return `llama-3.1-8b-instruct-sft-ultrachat200k-lr2e-5-cosine-warmup0.03-bs256-ctx8192-packed-zero3-bf16-seed${index}`;
  if (index % 12 === 5) return `sweep_${index}_optimizer_adamw_beta2_0.95_weight_decay_0.1_gradient_clipping_1.0_without_any_hyphen`;
  return ["ratings", "gpt2-small", "resnet-cifar", "criteo ads"][index % 4] + ` ${index}`;
}

function labelsOf(index) {
  const few = { team: index % 2 ? "vision" : "text", data: DATA[index % 3] };
  if (index % 5 !== 1) return few;
  return { ...few, sweep: `s${index % 40}`, rate: String(0.001 * (index % 7 + 1)), seed: String(index), branch: "feature/longer-warm-up-and-cosine",
    commit: "9f3c2ab17d", cost_centre: "research-platform-4711", reviewed: "yes", stage: "pre-training", precision: "bf16", note: "second attempt after the fix" };
}

function eventsOf(start, steps) {
  const at = (share) => String(Math.round(start + share * 50 * MINUTE_MS));
  const checkpoints = [0.2, 0.4, 0.6, 0.8].map((share) => {
    const clock = Math.round(share * steps);
    return { unixMs: at(share), step: String(clock), text: `checkpoint at clock ${clock}`, kind: "CHECKPOINT" };
  });
  return [
    { unixMs: at(0), text: "submitted by ada" },
    { unixMs: at(0.01), text: "placed: 3 slots with 2 threads each, partitions on server-0, server-1; generation 1, shard map version 1" },
    ...checkpoints,
    { unixMs: at(0.85), step: String(Math.round(0.85 * steps)), text: "slot 1 lost its worker worker-17 at 10.0.1.17:4000; another task takes its place", kind: "LOSS" },
    { unixMs: at(0.86), step: String(Math.round(0.85 * steps)), text: `generation 2 starts again from clock ${Math.round(0.8 * steps)}`, kind: "ROLLBACK" },
  ];
}

function logOf(slots, lines) {
  return Array.from({ length: lines }, (_, line) => `10:${String(Math.floor(line / 60) % 60).padStart(2, "0")}:${String(line % 60).padStart(2, "0")}.250 slot ${
    line % Math.max(1, slots)}: step ${line * 10} loss ${(4 / (1 + line / 50)).toFixed(4)}, 6,412 examples/s${
    line % 97 === 13 ? `, configuration ${"key=value,".repeat(40)}` : ""}\n`).join("");
}

function partitionsOf(number) {
  return Array.from({ length: number }, (_, partition) => ({ partition, replicas: [{ serverId: `server-${partition % 8}`, address: `10.0.0.${partition % 8}:4000`, role: "PRIMARY", term: "1" }] }));
}

// Returns the job that `age` others are newer than, of `number` jobs.
function jobAt(age, number, now) {
  const index = number - 1 - age, state = stateOf(age);
  const program = index % 4 === 1;
  const steps = state === "RUNNING" ? 4000 : state === "PENDING" ? 0 : age < 200 ? 200 : 20;
  const slots = state === "PENDING" ? 0 : state === "RUNNING" && age % 97 === 60 ? 64 : 3;
  const job = simulatedJob(`j${index}-${(0xa000 + index).toString(16)}`, { name: nameOf(index), state: state === "PENDING" ? "RUNNING" : state, slots, steps, totalSteps: state === "SUCCEEDED" ? steps : 10000, labels: labelsOf(index) });
  const { status } = job, submitted = now - (age + 1) * 7 * MINUTE_MS;
  Object.assign(status, { state, submittedUnixMs: String(submitted), startedUnixMs: String(submitted + 1000) });
  Object.assign(status.spec, { owner: OWNERS[index % 3], workers: slots || 64 });
  if (program) {
    Object.assign(status.spec, { program: { command: ["python3", "train.py", "--config", "configs/long.yaml"], memoryBytes: "8589934592" } });
    delete status.progress.totalSteps;
    delete status.progress.secondsLeft;
  }
  job.metrics.series[0].points.forEach((each, place) => { each.unixMs = String(Math.round(submitted + (place / steps) * 50 * MINUTE_MS)); });
  if (state === "PENDING") {
    Object.assign(status, { waitingFor: WAITS, progress: { totalSteps: program ? undefined : "10000" } });
    delete status.startedUnixMs;
    return job;
  }
  if (state === "RUNNING" || state === "RECOVERING") Object.assign(status, { message: "checkpoint at clock 3200", waitingFor: state === "RECOVERING" ? "worker-17, or another with 1 free slot" : "" });
  else Object.assign(status, { finishedUnixMs: String(submitted + 6 * MINUTE_MS), message: "trained for all of its steps" });
  if (state === "FAILED" && program) Object.assign(status, { message: `slot 0: the program ended with exit code 1\n${TRACEBACK}`, traceback: TRACEBACK });
  else if (state === "FAILED") status.message = "slot 2: the loss is not finite at step 174; the last checkpoint is at clock 160";
  if (state === "CANCELLED") status.message = "cancelled by grace.hopper: superseded";
  if (index % 3 === 0) {
    status.evaluations = [0.25, 0.5, 0.75].map((share) => ({ clock: String(share * steps), metric: "bits_per_byte", value: 2.5 - share, loss: 1.7 - share / 2, examples: "23732" }));
    status.best = { clock: String(0.75 * steps), metric: "bits_per_byte", value: 1.75 };
    job.metrics.series.push({ name: "held_out/loss", points: status.evaluations.map(({ clock, loss }) => ({ firstStep: clock, lastStep: clock, values: "1", last: loss, unixMs: String(submitted + (clock / steps) * 50 * MINUTE_MS) })) });
  }
  status.partitions = partitionsOf(slots === 64 ? 64 : 8);
  status.checkpointUri = `/checkpoints/${status.jobId}/160`;
  job.events.events = eventsOf(submitted, steps);
  job.checkpoints.checkpoints = [0.2, 0.4, 0.6, 0.8].map((share) => ({ clock: String(share * steps), uri: `/checkpoints/${status.jobId}/${share * steps}`, files: 8, bytes: "8340722123",
    createdUnixMs: String(submitted + share * 50 * MINUTE_MS), ...(index % 3 === 0 && share === 0.6 ? { best: true } : {}) }));
  job.log = logOf(slots, age < 100 || state === "RUNNING" ? 2000 : 5);
  return job;
}

// Returns a coordinator with so many jobs on 200 workers and 8 servers; one of each is lost.
export function manyJobs(number, now = Date.now()) {
  const coordinator = new FakeCoordinator();
  const memory = { memoryBytes: "68719476736", memoryReservedBytes: "17179869184" };
  coordinator.cluster = { daemons: [
    ...Array.from({ length: 8 }, (_, index) => ({ id: `server-${index}`, kind: "SERVER", address: `10.0.0.${index}:4000`, live: index !== 5, lostForMs: index === 5 ? "42000" : undefined, ...memory, partitions: 8 })),
    ...Array.from({ length: 200 }, (_, index) => ({ id: `worker-${index}`, kind: "WORKER", address: `10.0.1.${index}:4000`, live: index !== 117, lostForMs: index === 117 ? "90000" : undefined,
      slots: 8, slotsUsed: index % 9, ...memory, processors: 16, ...(index % 2 ? { devices: [{ name: "NVIDIA H200", memoryBytes: "150754820096" }], devicesUsed: 1 } : {}) })),
  ] };
  for (let age = number - 1; age >= 0; --age) {
    const job = jobAt(age, number, now);
    coordinator.jobs.set(job.status.jobId, job);
  }
  return coordinator;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , number = "300", port = "0"] = process.argv;
  console.log(await manyJobs(Number(number)).start(Number(port)));
}
