// A line of time with what was recorded and what is missing. Dragging moves it, a click chooses.

/** The shortest and the longest time that it shows, in milliseconds. */
const SPAN_MIN = 60 * 1000;
const SPAN_MAX = 7 * 24 * 3600 * 1000;
/** Distances of marks, in seconds. */
const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400];

/** A time for people. */
export function clock(ms, with_day) {
  const options = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  if (with_day) Object.assign(options, { year: "numeric", month: "short", day: "numeric" });
  return new Date(ms).toLocaleString(undefined, options);
}

export class Timeline {
  /** `chose` is called with a time that somebody clicks on, `moved` when other times are shown. */
  constructor(canvas, chose, moved) {
    this.canvas = canvas;
    this.chose = chose;
    this.moved = moved;
    this.span = 3600 * 1000;
    this.middle = Date.now() - this.span / 3;
    this.ranges = [];
    this.gaps = [];
    this.cursor = NaN;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get from() { return this.middle - this.span / 2; }
  get until() { return this.middle + this.span / 2; }

  /** Shows what the server says. */
  show({ ranges, gaps }) {
    this.ranges = ranges;
    this.gaps = gaps;
    this.draw();
  }

  /** Marks the time that is shown. */
  mark(ms) {
    this.cursor = ms;
    this.canvas.setAttribute("aria-valuenow", Math.round(ms / 1000) || 0);
    this.canvas.setAttribute("aria-valuetext", Number.isNaN(ms) ? "" : clock(ms, true));
    this.draw();
  }

  zoom(factor) {
    this.span = Math.min(SPAN_MAX, Math.max(SPAN_MIN, this.span * factor));
    this.changed();
  }

  move(parts) {
    this.middle += this.span * parts;
    this.changed();
  }

  go(ms) {
    this.middle = ms;
    this.changed();
  }

  changed() {
    this.draw();
    clearTimeout(this.asks);
    this.asks = setTimeout(() => this.moved(), 150);
  }

  press(event) {
    const { canvas } = this;
    canvas.setPointerCapture(event.pointerId);
    const x = event.clientX;
    const middle = this.middle;
    let drags = false;
    const drag = (moved) => {
      const pixels = moved.clientX - x;
      if (Math.abs(pixels) > 4) drags = true;
      if (drags) {
        this.middle = middle - (pixels / canvas.clientWidth) * this.span;
        this.changed();
      }
    };
    const end = (ended) => {
      canvas.removeEventListener("pointermove", drag);
      canvas.removeEventListener("pointerup", end);
      canvas.removeEventListener("pointercancel", end);
      if (!drags && ended.type === "pointerup") {
        const at = (ended.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
        this.chose(this.from + at * this.span);
      }
    };
    canvas.addEventListener("pointermove", drag);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }

  draw() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const color = (name) => style.getPropertyValue(name);
    const x = (ms) => ((ms - this.from) / this.span) * width;
    const band = (from, until, name, top, tall) => {
      pen.fillStyle = color(name);
      pen.fillRect(x(from), top, Math.max(1, x(until) - x(from)), tall);
    };
    band(this.from, this.until, "--card", 0, height - 20);
    for (const { from_ms, until_ms } of this.ranges) {
      band(from_ms, until_ms, "--good", 8, height - 36);
    }
    for (const { from_ms, until_ms } of this.gaps) {
      band(from_ms, until_ms, "--bad", 8, height - 36);
    }
    pen.fillStyle = color("--soft");
    pen.font = "12px system-ui, sans-serif";
    const room = (this.span / 1000 / width) * 80;
    const step = (STEPS.find((step) => step >= room) ?? STEPS.at(-1)) * 1000;
    const zone = new Date(this.from).getTimezoneOffset() * 60000;
    for (let at = Math.ceil((this.from - zone) / step) * step + zone; at < this.until; at += step) {
      pen.fillRect(x(at), height - 20, 1, 5);
      const text = clock(at, false);
      pen.fillText(step < 60000 ? text : text.slice(0, 5), x(at) + 3, height - 5);
    }
    const pixel = this.span / width;
    band(this.cursor - pixel, this.cursor + pixel, "--mark", 0, height - 20);
  }
}
