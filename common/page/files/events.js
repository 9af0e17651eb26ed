// A job's events as marks on its curves. Pure functions.

// Kinds of marks by kinds of events (proto/status.proto, JobEvent.Kind).
const KINDS = {
  CHECKPOINT: "checkpoint", LOSS: "loss", ROLLBACK: "rollback", MOVE: "move", ADJUSTMENT: "adjustment", LEFT: "left",
};

export const MARK_NAMES = {
  checkpoint: "checkpoint",
  loss: "lost task or server",
  rollback: "roll-back",
  move: "drain or move",
  adjustment: "adjustment",
  left: "worker left",
};

// Names of the kinds of events that have one.
export const KIND_NAMES = Object.fromEntries(Object.entries(KINDS).map(([kind, mark]) => [kind, MARK_NAMES[mark]]));

// Returns marks {kind, step, unixMs, text} in order of time: the events, and the history's roll-backs that no event
// tells of any more. A checkpoint is marked at its clock, an adjustment at the step that it holds from, and a roll-back at
// the clock that it goes back to, since the steps after it are gone. `kept`: {clocks, unixMs}, the clocks of the checkpoints that there were at the time of the
// event at unixMs; checkpoints of that time or before which are not among them are gone, and not marked.
export function marksOf(events, historyMarks, kept) {
  const marks = [], checkpoints = new Map();
  for (const event of events ?? []) {
    const kind = KINDS[event.kind];
    if (!kind) continue;
    const clock = /(?:(?:checkpoint at|starts again from) clock|^from step) (\d+)/.exec(event.text)?.[1];
    const mark = { kind, step: Number(clock ?? event.step ?? 0), unixMs: Number(event.unixMs ?? 0), text: event.text };
    if (kind !== "checkpoint") marks.push(mark);
    // One that was made again after a roll-back replaces the first.
    else if (!kept || mark.unixMs > kept.unixMs || kept.clocks.has(mark.step)) checkpoints.set(mark.step, mark);
  }
  const oldest = Number(events?.find((event) => KINDS[event.kind])?.unixMs ?? Infinity);
  for (const mark of historyMarks ?? []) {
    const unixMs = Number(mark.unixMs ?? 0), clock = Number(mark.clock ?? 0);
    if (unixMs >= oldest) continue;
    marks.push({ kind: "rollback", step: clock, unixMs, text: `went back from step ${mark.reached ?? 0} to ${clock}` });
  }
  return [...marks, ...checkpoints.values()].sort((a, b) => a.unixMs - b.unixMs);
}
