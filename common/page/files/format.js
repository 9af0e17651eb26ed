// Numbers, sizes and times as people read them. Every function takes what the API sends, where 64-bit numbers are
// strings and zero may be left out, and answers "–" for what is no number.

const NONE = "–";

export function toNumber(value) {
  if (value === undefined || value === null || value === "") return 0;
  return Number(value);
}

// Returns the value with about `digits` significant digits; whole numbers with all of theirs.
export function formatNumber(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return NONE;
  const number = Number(value);
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return number.toLocaleString("en-US");
  const size = Math.abs(number);
  if (size >= 1e6 || size < 1e-4) return number.toExponential(digits - 1).replace("e+", "e").replace("-", "−");
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return number.toLocaleString("en-US", { maximumFractionDigits: decimals });
}

// Returns a measured value, such as a loss, with `digits` significant digits, so that columns line up.
export function formatFigure(value, digits = 4) {
  const number = Number(value ?? NaN), size = Math.abs(number);
  if (!(size >= 1e-4 && size < 10 ** digits)) return formatNumber(value, digits);
  return number.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
}

// Returns a short form for axes and cards, such as "12.3k".
export function formatCompact(value) {
  const number = Number(value);
  const size = Math.abs(number);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) {
      const divisor = unit === 1e4 ? 1e3 : unit;
      return `${formatNumber(Number((number / divisor).toPrecision(3)))}${name}`;
    }
  }
  return formatNumber(number);
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

// Returns a length of time such as "850 µs", "12.3 ms", "4.2 s", "3 min 20 s", "2 h 5 min" or "3 d 4 h".
export function formatDuration(seconds) {
  const value = Number(seconds);
  if (seconds === undefined || seconds === null || !Number.isFinite(value)) return NONE;
  if (value < 0) return `−${formatDuration(-value)}`;
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${formatNumber(value * 1e3, 3)} ms`;
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

export function formatPercent(share) {
  return Number.isFinite(share) ? `${formatNumber(share * 100, 3)} %` : NONE;
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
