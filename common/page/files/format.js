// Numbers, sizes and times as people read them. Every function takes what the API sends, where 64-bit numbers are
// strings and zero may be left out, and answers "–" for what is no number.

const NONE = "–";

// Made once, since making one takes far longer than using it.
const wholeNumber = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const sixDigits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });
const fourFractions = new Intl.NumberFormat("en-US", { maximumFractionDigits: 4 });

export function toNumber(value) {
  if (value === undefined || value === null || value === "") return 0;
  return Number(value);
}

// Returns a number that is very large or very small.
function withUnit(number) {
  const size = Math.round(Math.abs(number));
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"]]) {
    if (size >= unit && size < 1e15) return `${Number((number / unit).toPrecision(3))} ${name}`;
  }
  return number.toExponential(2).replace("e+", "e").replace(/-/g, "−");
}

// Returns a measured value such as a loss: "0.1235", "2.060", "22.9", "195,871", "1.2 M". One value looks the same in a
// head, a legend and a table, and columns of them line up.
export function formatFigure(value) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return NONE;
  const number = Number(value), size = Math.abs(number);
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (number === 0) return "0";
  if (size < 1e-4 || Math.round(size) >= 1e6) return withUnit(number);
  if (size >= 999.95) return wholeNumber.format(Math.round(number));
  if (size >= 9.9995) return number.toFixed(1);
  return number.toFixed(3 - Math.floor(Math.log10(Number(size.toPrecision(4)))));
}

// Returns a count, such as steps, with all of its digits. What is no whole number looks as formatFigure says.
export function formatNumber(value) {
  const number = Number(value ?? NaN);
  return Number.isInteger(number) && Math.abs(number) < 1e15 ? wholeNumber.format(number) : formatFigure(value);
}

// Returns the text of an axis' tick: "0.25", "1,500", "1.2 M".
export function formatTick(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return withUnit(value);
  return sixDigits.format(value);
}

export function formatBytes(value) {
  let size = toNumber(value);
  if (Number.isNaN(size)) return NONE;
  for (const unit of ["bytes", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1024) return `${unit === "bytes" ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

function threeDigits(value) {
  return fourFractions.format(Number(value.toPrecision(3)));
}

// Returns a length of time such as "850 µs", "12.3 ms", "4.2 s", "3 min 20 s", "2 h 5 min" or "3 d 4 h".
export function formatDuration(seconds) {
  const value = Number(seconds);
  if (seconds === undefined || seconds === null || !Number.isFinite(value)) return NONE;
  if (value < 0) return `−${formatDuration(-value)}`;
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${threeDigits(value * 1e3)} ms`;
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  const whole = Math.round(value);
  const pair = (unit, name, smaller, smallerName) => {
    const rest = Math.floor((whole % unit) / smaller);
    return `${Math.floor(whole / unit)} ${name}${rest ? ` ${rest} ${smallerName}` : ""}`;
  };
  if (whole < 3600) return pair(60, "min", 1, "s");
  if (whole < 86400) return pair(3600, "h", 60, "min");
  return pair(86400, "d", 3600, "h");
}

const two = (number) => String(number).padStart(2, "0");

// Returns local date and time; of today only the time.
export function formatTime(unixMs, now = Date.now()) {
  const ms = toNumber(unixMs);
  if (!ms) return NONE;
  const time = new Date(ms);
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  if (time.toDateString() === new Date(now).toDateString()) return clock;
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${clock}`;
}

// Returns "1 job", "2 jobs" or "1,000 jobs".
export function count(number, one, many = `${one}s`) {
  return `${formatNumber(number)} ${number === 1 ? one : many}`;
}
