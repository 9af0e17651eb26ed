// A search's trials as the page shows them: rows, rungs, axes and the best objective so far. Pure functions.
import { formatTick, toNumber } from "./format.js";

// Columns of a trial itself; every other one is a field.
const OWN_COLUMNS = ["trial", "state", "step", "objective"];

// Returns +1 if smaller objectives are better, -1 if larger ones are.
export function signOf(search) {
  return search.objective?.direction === "MAXIMIZE" ? -1 : 1;
}

// Returns an objective as a number; undefined where there is none that can be compared.
function finiteOf(objective) {
  return objective !== undefined && Number.isFinite(Number(objective)) ? Number(objective) : undefined;
}

function stateOfTrial({ record, running }, search) {
  if (record?.failure) return "FAILED";
  if (running) return "RUNNING";
  const last = record?.rungs?.at(-1);
  if (last?.objective === undefined) return search.finishedUnixMs ? "CANCELLED" : "PENDING";
  const end = search.spec?.asha ? toNumber(search.spec.job?.stop?.steps) : 0;
  return toNumber(last.lastStep) < end ? "HALTED" : "COMPLETED";
}

// Returns a TrialStatus as {trial, state, draws, rungs, jobs, step, objective, failure}: `draws` is a map of the drawn values
// by field, `objective` the one of the furthest rung that has one, `step` the end of that rung.
export function trialRow(status, search) {
  const rungs = status.record?.rungs ?? [];
  const measured = rungs.filter(({ objective }) => finiteOf(objective) !== undefined).at(-1);
  return {
    trial: toNumber(status.trial),
    state: stateOfTrial(status, search),
    draws: new Map((status.record?.draws ?? []).map(({ field, value }) => [field, value ?? ""])),
    rungs,
    jobs: rungs.map(({ jobId }) => jobId).filter(Boolean),
    step: measured ? toNumber(measured.lastStep) : 0,
    objective: finiteOf(measured?.objective),
    failure: status.record?.failure ?? "",
  };
}

// Returns true if the trial will not change while the search runs. A halted trial may still go on to its next rung.
export function isSettled(row) {
  return row.state === "COMPLETED" || row.state === "FAILED";
}

// Returns the objectives of trials in order of their numbers, {x, y, best}: `best` is the best of this trial and those
// before it.
export function bestSoFar(rows, sign) {
  const curve = { x: [], y: [], best: [] };
  for (const { trial, objective } of rows) {
    if (objective === undefined) continue;
    const before = curve.best.at(-1);
    curve.x.push(trial);
    curve.y.push(objective);
    curve.best.push(before !== undefined && sign * before <= sign * objective ? before : objective);
  }
  return curve;
}

// Returns what happened at each rung: {rung, step, trials, running, measured, promoted, best}. `step` is 0 where the job's
// own stop decides.
export function rungSummary(rows, sign) {
  const rungs = [];
  for (const row of rows) {
    row.rungs.forEach(({ lastStep, objective }, index) => {
      const rung = (rungs[index] ??= { rung: index, step: 0, trials: 0, running: 0, measured: 0, promoted: 0, best: undefined });
      const value = finiteOf(objective);
      rung.step = Math.max(rung.step, toNumber(lastStep));
      ++rung.trials;
      if (objective !== undefined) ++rung.measured;
      else if (row.state === "RUNNING") ++rung.running;
      if (index + 1 < row.rungs.length) ++rung.promoted;
      if (value !== undefined && (rung.best === undefined || sign * value < sign * rung.best)) rung.best = value;
    });
  }
  return rungs;
}

// Returns a field's name without the messages that it is in, such as "learning_rate".
export function shortField(field) {
  return field.slice(field.lastIndexOf(".") + 1);
}

// Returns a function from a value of these choices to its place in [0, 1]; undefined for other values.
function placeAmong(values) {
  return (value) => {
    const index = values.indexOf(value);
    if (index < 0) return undefined;
    return values.length > 1 ? index / (values.length - 1) : 0.5;
  };
}

// Returns a function from a number between two others to its place in [0, 1].
function placeBetween(min, max, log) {
  const scale = log ? Math.log : (value) => value;
  return (text) => {
    const value = Number(text);
    if (!Number.isFinite(value) || (log && value <= 0)) return undefined;
    if (!(max > min)) return 0.5;
    return Math.min(1, Math.max(0, (scale(value) - scale(min)) / (scale(max) - scale(min))));
  };
}

function numberAxis(min, max, log) {
  const middle = log ? Math.sqrt(min * max) : (min + max) / 2;
  const ticks = (max > min ? [min, middle, max] : [min]).map((value) => ({ value, text: formatTick(Number(value.toPrecision(3))) }));
  const place = placeBetween(min, max, log);
  return { place, ticks: ticks.map(({ value, text }) => ({ at: place(value), text })), log, numeric: true };
}

function choiceAxis(values) {
  const place = placeAmong(values);
  return { place, ticks: values.map((value) => ({ at: place(value), text: value })), log: false, numeric: false };
}

// Returns the axes of a search's parameters, {field, name, place(text), ticks: [{at, text}], log, numeric}, one for each field: ranges
// of one field under several conditions share an axis.
export function parameterAxes(parameters) {
  const byField = new Map();
  for (const parameter of parameters ?? []) {
    if (!byField.has(parameter.field)) byField.set(parameter.field, []);
    byField.get(parameter.field).push(parameter);
  }
  const names = [...byField.keys()].map(shortField);
  const alone = (name) => names.filter((each) => each === name).length === 1;
  return [...byField].map(([field, ranges], index) => ({ field, name: alone(names[index]) ? names[index] : field, ...axisOf(ranges) }));
}

function axisOf(ranges) {
  const intervals = ranges.map(({ uniform, logUniform, integer }) => uniform ?? logUniform ?? integer);
  if (intervals.every(Boolean)) {
    const min = Math.min(...intervals.map((range) => toNumber(range.min))), max = Math.max(...intervals.map((range) => toNumber(range.max)));
    return numberAxis(min, max, min > 0 && ranges.every(({ logUniform }) => logUniform));
  }
  // Numbers of an interval of a field that elsewhere is a choice have no place on its axis.
  return choiceAxis([...new Set(ranges.flatMap(({ choice }) => choice?.values ?? []))]);
}

// Returns the axis of the objectives, logarithmic if they are all positive and far apart; undefined: no trial has one.
export function objectiveAxis(rows, name) {
  const values = rows.map(({ objective }) => objective).filter((value) => value !== undefined);
  if (values.length === 0) return undefined;
  const min = Math.min(...values), max = Math.max(...values);
  return { field: "", name, ...numberAxis(min, max, min > 0 && max / min > 100) };
}

// Returns rows in the order of a column: "trial", "state", "step", "objective" or a field. Rows without a value come
// last in both directions.
export function sortRows(rows, { column, descending }) {
  const valueOf = (row) => {
    if (OWN_COLUMNS.includes(column)) return row[column];
    const text = row.draws.get(column);
    return text === undefined || text === "" || Number.isNaN(Number(text)) ? text : Number(text);
  };
  const turn = descending ? -1 : 1;
  return rows.map((row) => ({ row, value: valueOf(row) })).sort((a, b) => {
    if (a.value === undefined || b.value === undefined) return (a.value === undefined) - (b.value === undefined) || a.row.trial - b.row.trial;
    if (typeof a.value === typeof b.value) return turn * ((a.value > b.value) - (a.value < b.value)) || a.row.trial - b.row.trial;
    return turn * (typeof a.value === "number" ? -1 : 1);
  }).map(({ row }) => row);
}

// Returns the trials with the best objectives of those that got furthest, at most `most`.
export function bestRows(rows, sign, most) {
  return rows.filter(({ objective }) => objective !== undefined)
    .sort((a, b) => b.step - a.step || sign * (a.objective - b.objective)).slice(0, most);
}
