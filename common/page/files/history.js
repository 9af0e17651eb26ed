// A job's history as far as the page knows it: asked for step by step while the job makes new ones, and anew when the
// job went back.
import { api } from "./api.js";
import { mergeColumns, toColumns } from "./series.js";

// A series is read anew once it has so many times the points that were asked for.
const LONGEST = 3;

export class History {
  // `patterns`: names of series, with `*` and `?`. `isComplete(name)`: once this series has a step, all others have it, too.
  // Other series of training grow with each slot's report, the loss once all slots have closed a step.
  constructor(job, patterns, maxPoints, isComplete = (name) => name === "train/loss") {
    this.job = job;
    this.patterns = patterns;
    this.maxPoints = maxPoints;
    this.isComplete = isComplete;
    this.series = new Map();
    this.marks = [];
    this.lastStep = 0;
    // Changes with the content.
    this.version = 0;
  }

  async poll() {
    const reply = await this.read(this.lastStep);
    // A roll-back removed steps; the answer tells only of those after the last known one.
    if (JSON.stringify(reply.marks ?? []) !== JSON.stringify(this.marks) && this.lastStep > 0) {
      this.take(await this.read(0), true);
    } else {
      this.take(reply, this.lastStep === 0);
    }
  }

  read(fromStep) {
    return api.metrics(this.job, { series: this.patterns, maxPoints: this.maxPoints, fromStep: fromStep || undefined });
  }

  take(reply, anew) {
    if (anew) this.series = new Map();
    this.marks = reply.marks ?? [];
    let changed = anew;
    for (const { name, points } of reply.series ?? []) {
      const fresh = toColumns(points), old = this.series.get(name);
      if (sameEnd(old, fresh)) continue;
      this.series.set(name, mergeColumns(old, fresh));
      changed = true;
    }
    if (!changed) return;
    ++this.version;
    const all = [...this.series.values()].map(({ steps }) => steps);
    // What was added step by step grows; read anew, it has few points again.
    const long = all.some((steps) => steps.length > LONGEST * this.maxPoints);
    const ends = [...this.series].filter(([name]) => this.isComplete(name)).map(([, { steps }]) => steps.at(-1) ?? 0);
    this.lastStep = long || ends.length === 0 ? 0 : Math.min(...ends);
  }
}

// Returns true if all that is fresh is the last known point, unchanged.
function sameEnd(old, fresh) {
  if (!old) return fresh.steps.length === 0;
  const last = old.steps.length - 1;
  return fresh.steps.length === 0 ||
    (fresh.steps.length === 1 && fresh.steps[0] === old.steps[last] && fresh.values[0] === old.values[last]);
}
