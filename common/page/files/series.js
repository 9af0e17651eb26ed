// Series of a job's history as columns of numbers, ready to be drawn. Pure functions.

// Returns a series' points as parallel arrays by step. A point that stands for several steps is drawn at its last one,
// as its mean, with its smallest and largest value beside it, so that no spike is lost.
export function toColumns(points) {
  const columns = { first: [], steps: [], times: [], values: [], last: [], low: [], high: [] };
  for (const point of points ?? []) {
    const several = Number(point.values ?? 1) > 1;
    const last = Number(point.last ?? 0);
    columns.first.push(Number(point.firstStep ?? 0));
    columns.steps.push(Number(point.lastStep ?? 0));
    columns.times.push(Number(point.unixMs ?? 0));
    columns.values.push(several ? Number(point.mean ?? 0) : last);
    columns.last.push(last);
    columns.low.push(several ? Number(point.min ?? 0) : last);
    columns.high.push(several ? Number(point.max ?? 0) : last);
  }
  return columns;
}

// Returns the value at a series' last step; undefined where it has none.
export function endOf(columns) {
  return columns?.last[columns.last.length - 1];
}

// Returns `old` with `fresh` in the place of all its points that end at the first fresh point's beginning or later.
export function mergeColumns(old, fresh) {
  if (!old || fresh.steps.length === 0) return old ?? fresh;
  let kept = old.steps.length;
  while (kept > 0 && old.steps[kept - 1] >= fresh.first[0]) --kept;
  const merged = {};
  for (const name of Object.keys(old)) merged[name] = old[name].slice(0, kept).concat(fresh[name]);
  return merged;
}

// Returns the x values for an axis: "steps", "examples" or "time" (seconds since `startMs`).
export function xValues(columns, axis, { batchSize, startMs }) {
  if (axis === "examples") return columns.steps.map((step) => step * batchSize);
  if (axis === "time") return columns.times.map((ms) => Math.max(0, (ms - startMs) / 1000));
  return columns.steps;
}

// Returns the exponential moving average with a weight in [0, 1) of what came before. Divided by the sum of the weights,
// so that it does not begin at zero. Values that are no finite numbers stay, and count for nothing.
export function smooth(values, weight) {
  if (!(weight > 0)) return values;
  let sum = 0, weights = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    sum = sum * weight + value * (1 - weight);
    weights = weights * weight + (1 - weight);
    return sum / weights;
  });
}

// Returns indexes of at most `most` points that keep the curve's shape: of each stretch its smallest and its largest.
export function downsample(values, most) {
  const all = values.length;
  if (all <= most) return values.map((_, index) => index);
  const stretches = Math.max(1, Math.floor(most / 2));
  const kept = new Set();
  for (let stretch = 0; stretch < stretches; ++stretch) {
    const begin = Math.floor((stretch * all) / stretches), end = Math.floor(((stretch + 1) * all) / stretches);
    let low = begin, high = begin;
    for (let index = begin; index < end; ++index) {
      if (values[index] < values[low] || !Number.isFinite(values[low])) low = index;
      if (values[index] > values[high] || !Number.isFinite(values[high])) high = index;
    }
    kept.add(low).add(high);
  }
  return [...kept].sort((a, b) => a - b);
}

// Returns lines, each with its own x, as one table: the sorted x of all, and each y array with undefined where the line
// has no point.
export function alignLines(lines) {
  const all = new Set();
  for (const line of lines) for (const x of line.x) all.add(x);
  const xs = [...all].sort((a, b) => a - b);
  const place = new Map(xs.map((x, index) => [x, index]));
  const spread = (line, values) => {
    const column = new Array(xs.length);
    line.x.forEach((x, index) => { column[place.get(x)] = Number.isFinite(values[index]) ? values[index] : null; });
    return column;
  };
  return { xs, columns: lines.map((line) => line.ys.map((values) => spread(line, values))) };
}

// Returns charts, each of which reaches over the x of all of them.
export function withOneSpan(charts) {
  const ends = charts.flatMap(({ lines }) => lines.flatMap(({ x }) => (x.length > 0 ? [x[0], x[x.length - 1]] : [])));
  const span = ends.length > 0 ? [Math.min(...ends), Math.max(...ends)] : [];
  return charts.map((chart) => ({ ...chart, span }));
}

// Returns a curve's value at x between its points, or undefined outside of them.
export function interpolate(curve, x) {
  const last = curve.x.length - 1;
  if (last < 0 || x < curve.x[0] || x > curve.x[last]) return undefined;
  let low = 0, high = last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.x[middle] < x) low = middle + 1; else high = middle;
  }
  if (curve.x[low] === x || low === 0) return curve.y[low];
  const share = (x - curve.x[low - 1]) / (curve.x[low] - curve.x[low - 1]);
  return curve.y[low - 1] + share * (curve.y[low] - curve.y[low - 1]);
}

// Returns the mean of several curves, with the smallest and the largest of them beside it, wherever all have a value.
export function meanWithBand(curves, mostPoints = 500) {
  const band = { x: [], y: [], low: [], high: [] };
  const all = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const stride = Math.max(1, Math.ceil(all.length / mostPoints));
  const xs = all.filter((_, index) => index % stride === 0 || index === all.length - 1);
  for (const x of xs) {
    const values = curves.map((curve) => interpolate(curve, x));
    if (!values.every((value) => Number.isFinite(value))) continue;
    band.x.push(x);
    band.y.push(values.reduce((sum, value) => sum + value, 0) / values.length);
    band.low.push(Math.min(...values));
    band.high.push(Math.max(...values));
  }
  return band;
}
