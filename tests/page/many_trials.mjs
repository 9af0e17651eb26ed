// A search with many trials, for tests of the page and, run as a program, for development:
//   node tests/page/many_trials.mjs [TRIALS] [PORT]
import { fileURLToPath } from "node:url";
import { FakeCoordinator, point } from "./fake_coordinator.mjs";

const RUNGS = [100, 400, 1600];
const OPTIMIZERS = ["sgd", "adam", "{name: muon, momentum: 0.95}"];

// Returns a number in [0, 1) that follows from two others.
function drawn(trial, parameter) {
  const value = Math.sin(trial * 12.9898 + parameter * 78.233) * 43758.5453;
  return value - Math.floor(value);
}

// Trials near a learning rate of 0.01 get best.
function lossOf(trial, rate, step) {
  return 1 + 0.4 * Math.abs(Math.log10(rate / 0.01)) + 0.2 * drawn(trial, 5) + 2 / Math.sqrt(step);
}

// Returns a trial of a search by successive halving: of each 16, four reach the second rung and one the third. The last `running`
// have a job.
export function simulatedTrial(trial, number, running) {
  const rate = 10 ** (-4 + 3 * drawn(trial, 1)), optimizer = OPTIMIZERS[Math.floor(drawn(trial, 2) * 3)];
  const draws = [
    { field: "optimizer", value: optimizer },
    { field: "optimizer.learning_rate", value: String(Number(rate.toPrecision(6))) },
    { field: "model.mlp.dropout", value: drawn(trial, 3).toFixed(4) },
    { field: "batch_size", value: String(32 * (1 + Math.floor(drawn(trial, 4) * 8))) },
    ...(optimizer === "sgd" ? [{ field: "optimizer.momentum", value: (0.8 + 0.19 * drawn(trial, 6)).toFixed(4) }] : []),
  ];
  const reached = trial % 16 === 0 ? 3 : trial % 4 === 0 ? 2 : 1;
  const isRunning = trial > number - running;
  const rungs = RUNGS.slice(0, reached).map((lastStep, rung) => ({
    jobId: `t${trial}-r${rung}`,
    firstStep: String(rung ? RUNGS[rung - 1] : 0),
    lastStep: String(lastStep),
    ...(isRunning && rung === reached - 1 ? {} : { objective: lossOf(trial, rate, lastStep) }),
  }));
  if (trial % 37 !== 5) return { trial: String(trial), record: { draws, rungs }, ...(isRunning ? { running: true } : {}) };
  delete rungs[reached - 1].objective;
  return { trial: String(trial), record: { draws, rungs, failure: "slot 0: the loss is not finite at step 12" } };
}

// Returns a SearchStatus with its trials.
export function simulatedSearch(id, number, { running = 8, ended = false } = {}) {
  const trials = Array.from({ length: number }, (_, index) => simulatedTrial(index + 1, number, ended ? 0 : running));
  const failed = trials.filter(({ record }) => record.failure).length, now = trials.filter((trial) => trial.running).length;
  const completed = trials.filter(({ record }) => record.rungs.length === 3 && record.rungs[2].objective !== undefined).length;
  const [best] = trials.filter(({ record }) => record.rungs[2]?.objective !== undefined)
    .sort((a, b) => a.record.rungs[2].objective - b.record.rungs[2].objective);
  return {
    trials,
    status: {
      searchId: id,
      state: ended ? "SEARCH_COMPLETED" : "SEARCH_RUNNING",
      spec: {
        name: `halving-${id}`, trials: String(number), parallel: 8, asha: { minSteps: "100", reductionFactor: 4 },
        job: { name: "mlp", stop: { steps: "1600" } },
        parameters: [
          { field: "optimizer", choice: { values: OPTIMIZERS } },
          { field: "optimizer.learning_rate", logUniform: { min: 1e-4, max: 0.1 } },
          { field: "model.mlp.dropout", uniform: { min: 0, max: 1 } },
          { field: "batch_size", integer: { min: "32", max: "256", step: "32" } },
          { field: "optimizer.momentum", uniform: { min: 0.8, max: 0.99 }, when: { field: "optimizer", equals: "sgd" } },
        ],
      },
      begun: String(number), running: String(now), completed: String(completed), failed: String(failed),
      halted: String(number - now - completed - failed), steps: String(number * 200),
      ...(best ? { bestTrial: best.trial, best } : {}),
      startedUnixMs: "1800000000000", ...(ended ? { finishedUnixMs: "1800000600000" } : {}),
      objective: { metric: "loss", direction: "MINIMIZE" },
    },
  };
}

// Returns a coordinator with an ended search of no more than 20 trials, and a running one, `s1`, of `number`, whose jobs have
// curves.
export function manyTrials(number) {
  const coordinator = new FakeCoordinator();
  coordinator.searches.set("s0", simulatedSearch("s0", Math.min(20, number), { ended: true }));
  coordinator.searches.set("s1", simulatedSearch("s1", number));
  for (const { record } of coordinator.searches.get("s1").trials) {
    const rate = Number(record.draws[1].value);
    for (const { jobId, firstStep, lastStep } of record.rungs) {
      const steps = Array.from({ length: 10 }, (_, index) => Number(firstStep) + ((index + 1) * (Number(lastStep) - Number(firstStep))) / 10);
      const trial = Number(jobId.slice(1).split("-")[0]);
      coordinator.jobs.set(jobId, { status: { jobId, state: "SUCCEEDED", spec: { name: "mlp" } }, events: {}, log: "",
        metrics: { series: [{ name: "held_out/loss", points: steps.map((step) => point(step, lossOf(trial, rate, step))) }], marks: [] } });
    }
  }
  return coordinator;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , number = "300", port = "0"] = process.argv;
  console.log(await manyTrials(Number(number)).start(Number(port)));
}
