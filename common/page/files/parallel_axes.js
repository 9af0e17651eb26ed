// Parallel coordinates on a canvas: a vertical axis for each parameter and one for the objective, a line for each trial,
// the stronger the better its objective is. The pointer and the arrow keys highlight a trial; a click or Enter selects it.
const HEIGHT = 330, TOP = 34, BOTTOM = 46, SIDE = 100, NARROWEST = 96;
// Below the axis' end: where trials are that did not draw the parameter.
const NOT_DRAWN = -0.09;
// Pixels from the pointer in which a line is found.
const NEAR = 12;
const LONGEST_TEXT = 14;

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function shortText(text) {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT - 1)}…` : text;
}

// Returns each row's places on the axes; the last axis is that of the objective, and undefined where a row has none.
export function placesOf(rows, axes) {
  return rows.map((row) => axes.map(({ field, place }) => {
    if (!field) return row.objective === undefined ? undefined : place(row.objective);
    return place(row.draws.get(field)) ?? NOT_DRAWN;
  }));
}

// Returns the index of the line nearest to a position, `at` axes from the left (1.5 is between the second and the third) and
// at `place`; undefined: none is within `near`.
export function nearestLine(places, at, place, near) {
  const left = Math.floor(at), share = at - left;
  let nearest, least = near;
  places.forEach((line, index) => {
    const from = line[left], to = share > 0 ? line[left + 1] : from;
    if (from === undefined || to === undefined) return;
    const distance = Math.abs(from + share * (to - from) - place);
    if (distance <= least) [nearest, least] = [index, distance];
  });
  return nearest;
}

// One drawing in `host`. Its data: {title, axes, rows, sign, highlighted, textOf(row), onHighlight(trial), onSelect(trial)}.
// `rows` and `axes` stay the same objects while nothing changes; `highlighted` is a trial's number or undefined.
class ParallelAxes {
  constructor(host) {
    host.classList.add("parallel");
    this.scroll = document.createElement("div");
    this.scroll.className = "scroll";
    this.area = document.createElement("div");
    this.area.className = "lines";
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-roledescription", "parallel coordinates");
    this.lines = document.createElement("canvas");
    this.over = document.createElement("canvas");
    this.readout = document.createElement("p");
    this.readout.className = "readout";
    this.readout.setAttribute("aria-live", "polite");
    this.area.append(this.lines, this.over);
    this.scroll.append(this.area);
    host.append(this.scroll, this.readout);
    this.area.onpointermove = (event) => this.data.onHighlight(this.trialAt(event));
    this.area.onpointerleave = () => this.data.onHighlight(undefined);
    this.area.onclick = (event) => this.data.onSelect(this.trialAt(event));
    this.area.onkeydown = (event) => this.onKey(event);
    this.sizes = new ResizeObserver(() => this.paint());
    this.sizes.observe(this.scroll);
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.onTheme = () => this.paint();
    this.theme.addEventListener("change", this.onTheme);
  }

  destroy() {
    this.sizes.disconnect();
    this.theme.removeEventListener("change", this.onTheme);
  }

  update(data) {
    const before = this.data;
    this.data = data;
    if (before?.rows !== data.rows || before?.axes !== data.axes) {
      this.places = placesOf(data.rows, data.axes);
      // The best trial first; those without an objective last.
      const worst = Infinity;
      const order = data.rows.map((row, index) => ({ index, value: row.objective === undefined ? worst : data.sign * row.objective }));
      this.order = order.sort((a, b) => (a.value === b.value ? a.index - b.index : a.value - b.value)).map(({ index }) => index);
      this.area.setAttribute("aria-label", `${data.title}: ${data.rows.length} trials on ${data.axes.length} axes. Arrow keys go from the best trial to the worst.`);
      this.paint();
    } else if (before.highlighted !== data.highlighted) {
      this.paintHighlight();
    }
  }

  xOf(axis) {
    const { length } = this.data.axes;
    return length > 1 ? SIDE + (axis * (this.width - 2 * SIDE)) / (length - 1) : this.width / 2;
  }

  yOf(place) {
    return HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM);
  }

  // Makes a canvas as large as the area and empty; returns its context, in CSS pixels.
  clear(canvas) {
    const ratio = devicePixelRatio;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = HEIGHT * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    return context;
  }

  paint() {
    if (!this.data) return;
    const needed = 2 * SIDE + NARROWEST * (this.data.axes.length - 1);
    this.width = Math.max(this.scroll.clientWidth, needed);
    this.area.style.width = `${this.width}px`;
    this.area.style.height = `${HEIGHT}px`;
    const context = this.clear(this.lines);
    const measured = this.data.rows.filter(({ objective }) => objective !== undefined).length;
    // The best trials are drawn last, over the others.
    for (let rank = this.order.length - 1; rank >= 0; --rank) {
      const quality = rank < measured ? 1 - rank / Math.max(1, measured) : 0;
      context.globalAlpha = 0.12 + 0.6 * quality ** 3;
      context.strokeStyle = rank < measured ? style("--line-0") : style("--text-soft");
      this.drawLine(context, this.places[this.order[rank]]);
    }
    context.globalAlpha = 1;
    this.drawAxes(context);
    this.paintHighlight();
  }

  drawLine(context, line) {
    context.beginPath();
    line.forEach((place, axis) => {
      if (place !== undefined) context.lineTo(this.xOf(axis), this.yOf(place));
    });
    context.stroke();
  }

  drawAxes(context) {
    const text = style("--text"), soft = style("--text-soft"), background = style("--background");
    this.data.axes.forEach(({ name, ticks, log }, axis) => {
      const x = this.xOf(axis);
      context.strokeStyle = soft;
      context.beginPath();
      context.moveTo(x, this.yOf(0));
      context.lineTo(x, this.yOf(1));
      context.stroke();
      context.textAlign = "center";
      context.fillStyle = text;
      context.font = "600 12px system-ui, sans-serif";
      context.fillText(shortText(name), x, 14);
      if (log) {
        context.font = "11px system-ui, sans-serif";
        context.fillStyle = soft;
        context.fillText("log", x, HEIGHT - 6);
      }
      context.font = "11px system-ui, sans-serif";
      context.textAlign = "right";
      const missing = this.places.some((line) => line[axis] === NOT_DRAWN);
      for (const tick of missing ? [...ticks, { at: NOT_DRAWN, text: "none" }] : ticks) {
        const label = shortText(tick.text), y = this.yOf(tick.at) + 4;
        // Lines behind a text would make it hard to read.
        context.lineWidth = 3;
        context.strokeStyle = background;
        context.strokeText(label, x - 5, y);
        context.fillStyle = text;
        context.fillText(label, x - 5, y);
        context.lineWidth = 1;
      }
    });
  }

  paintHighlight() {
    const context = this.clear(this.over);
    const index = this.data.rows.findIndex(({ trial }) => trial === this.data.highlighted);
    const text = index < 0 ? "" : this.data.textOf(this.data.rows[index]);
    if (this.readout.textContent !== text) this.readout.textContent = text;
    if (index < 0) return;
    context.lineWidth = 3;
    context.strokeStyle = style("--line-1");
    this.drawLine(context, this.places[index]);
  }

  trialAt(event) {
    const { length } = this.data.axes;
    const box = this.lines.getBoundingClientRect();
    const at = length > 1 ? ((event.clientX - box.left - SIDE) / (this.width - 2 * SIDE)) * (length - 1) : 0;
    const inner = HEIGHT - TOP - BOTTOM;
    const place = (HEIGHT - BOTTOM - (event.clientY - box.top)) / inner;
    const index = nearestLine(this.places, Math.max(0, Math.min(length - 1, at)), place, NEAR / inner);
    return this.data.rows[index]?.trial;
  }

  onKey(event) {
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };
    const { rows, highlighted, onHighlight, onSelect } = this.data;
    if (event.key === "Escape") {
      onHighlight(undefined);
    } else if (event.key === "Enter") {
      onSelect(highlighted);
    } else if (event.key in steps && rows.length > 0) {
      const from = this.order.findIndex((index) => rows[index].trial === highlighted);
      const to = Math.max(0, Math.min(rows.length - 1, from < 0 && event.key !== "End" ? 0 : from + steps[event.key]));
      onHighlight(rows[this.order[to]].trial);
      event.preventDefault();
    }
  }
}

// For dom.js: h("div", {mount: mountParallelAxes, data}).
export function mountParallelAxes(host) {
  return new ParallelAxes(host);
}
