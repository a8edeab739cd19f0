// Asks for the statistics once a second, and shows what has happened in between.
"use strict";

const POINTS = 300;
const STATES = ["run", "check", "spin", "steal", "lend", "park"];
const byId = (id) => document.getElementById(id);
const plots = new Map();
let before = null;
let paused = false;
let token = sessionStorage.getItem("token");
let timer = null;
let classNames = [];

function element(tag, text, className) {
  const it = document.createElement(tag);
  if (text !== undefined) it.textContent = text;
  if (className) it.className = className;
  return it;
}

// ---- Numbers for people ----

function duration(nanos) {
  if (nanos === null || nanos === undefined) return "–";
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  const unit = units.findLast(([, size]) => nanos >= size) ?? units[0];
  return `${short(nanos / unit[1])} ${unit[0]}`;
}

function short(value) {
  return value >= 99.95 || Number.isInteger(value) ? grouped(value) : value.toPrecision(3);
}

function grouped(value) {
  return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

const percent = (value) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;

// ---- What the statistics say ----

// Histograms come as pairs of a bucket's upper end and what is in it.
function quantile(now, earlier, q) {
  const counts = now.buckets.map(([, count], i) => count - (earlier?.buckets[i]?.[1] ?? 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return null;
  let seen = 0;
  const at = counts.findIndex((count) => (seen += count) >= Math.max(1, Math.ceil(q * total)));
  return now.buckets[at][0];
}

const run = (worker) => worker.run_by_class.reduce((sum, time) => sum + time, 0);

function workersSince(now, earlier) {
  return now.workers.map((worker, i) => {
    const was = earlier.workers[i];
    const states = STATES.map((state) =>
      state === "run" ? run(worker) - run(was) : worker[state] - was[state]);
    return { states, wall: Math.max(1, worker.wall - was.wall) };
  });
}

function classesSince(now, earlier, seconds) {
  const rows = now.classes.map((it, i) => {
    const was = earlier.classes[i];
    return {
      name: it.name,
      share: it.share,
      run: it.run - was.run,
      polls: (it.polls - was.polls) / seconds,
      ready: it.ready,
      oldest: it.ready ? it.oldest_ready : null,
      hogging: it.hogging,
      oldestHog: it.oldest_hog,
      hogs: it.hogs - was.hogs,
      p50: quantile(it.waits, was.waits, 0.5),
      p99: quantile(it.waits, was.waits, 0.99),
      longest: quantile(it.poll_lengths, was.poll_lengths, 1),
    };
  });
  const all = rows.reduce((sum, row) => sum + row.run, 0);
  rows.forEach((row) => { row.got = all > 0 ? row.run / all : 0; });
  return rows;
}

// ---- Plots ----

// Adds a point for each line, and draws. `of` prints a value.
function plot(id, values, of, ceiling) {
  const lines = plots.get(id) ?? new Map();
  plots.set(id, lines);
  for (const [name, value] of values) {
    const line = lines.get(name) ?? [];
    lines.set(name, line);
    line.push(value);
    if (line.length > POINTS) line.shift();
  }
  const top = ceiling ?? Math.max(1e-9, ...[...lines.values()].flat().filter((v) => v !== null));
  const svg = byId(id);
  svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const now = values.map(([name, value]) => `${name} ${value === null ? "–" : of(value)}`);
  svg.setAttribute("aria-label", now.join(", "));
  svg.replaceChildren(...[...lines.values()].map((line, i) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    let pen = "M";
    const steps = line.map((value, x) => {
      if (value === null) { pen = "M"; return ""; }
      const step = `${pen}${x + POINTS - line.length},${(98 - 96 * Math.min(1, value / top)).toFixed(1)}`;
      pen = "L";
      return step;
    });
    path.setAttribute("d", steps.join(""));
    path.style.stroke = `var(--c${i % 6})`;
    return path;
  }));
  const legend = now.map((text, i) => {
    const part = element("span", `${text}  `);
    part.style.color = `var(--c${i % 6})`;
    return part;
  });
  byId(`${id}-now`).replaceChildren(...legend, element("span", `of ${of(top)}`));
}

// ---- Tables ----

function table(id, heads, rows, none) {
  const head = element("tr");
  head.append(...heads.map((it) => element("th", it.text ?? it, it.text && "text")));
  const body = rows.map((cells) => {
    const row = element("tr");
    row.append(...cells.map((cell) => {
      if (cell instanceof Node) return cell;
      return typeof cell === "object" ? element("td", cell.text, "text") : element("td", cell);
    }));
    return row;
  });
  if (!body.length) {
    const row = element("tr");
    const cell = element("td", none);
    cell.colSpan = heads.length;
    row.append(cell);
    body.push(row);
  }
  byId(id).replaceChildren(head, ...body);
}

function showWorkers(workers) {
  byId("workers").replaceChildren(...workers.map(({ states, wall }, i) => {
    const bar = element("div", undefined, "bar");
    bar.append(...states.map((time, state) => {
      const part = element("i");
      part.style.width = `${(100 * time) / wall}%`;
      part.style.background = `var(--${STATES[state]})`;
      part.title = `${STATES[state]} ${percent(time / wall)}`;
      return part;
    }));
    const row = element("div", undefined, "worker");
    row.append(element("span", i), bar, element("span", percent(states[0] / wall)));
    return row;
  }));
  if (!byId("states").childElementCount) {
    byId("states").replaceChildren(...STATES.map((state) => {
      const part = element("span");
      const swatch = element("i");
      swatch.style.background = `var(--${state})`;
      part.append(swatch, state);
      return part;
    }));
  }
}

function shareOf(name, share) {
  const cell = element("td");
  const input = element("input");
  Object.assign(input, { type: "number", min: 1, max: 10000, value: share });
  input.setAttribute("aria-label", `share of ${name}`);
  input.addEventListener("change", () =>
    put(name, `settings/classes/${encodeURIComponent(name)}`, { share: Number(input.value) }));
  cell.append(input);
  return cell;
}

// Hogs that are not over yet.
function underWay({ hogging, oldestHog }) {
  return hogging ? `, ${grouped(hogging)} under way for ${duration(oldestHog)}` : "";
}

function showClasses(classes) {
  // Not while somebody types into it.
  if (byId("classes").contains(document.activeElement)) return;
  const heads = ["class", "share", "got", "polls/s", "ready", "oldest", "wait p50", "p99",
    "longest poll", "hogs"];
  table("classes", heads, classes.map((it) => [
    it.name, shareOf(it.name, it.share), percent(it.got), grouped(it.polls), grouped(it.ready),
    duration(it.oldest), duration(it.p50), duration(it.p99),
    it.longest ? `≤ ${duration(it.longest)}` : duration(null), grouped(it.hogs) + underWay(it),
  ]));
}

function showHogs(hogs, functions) {
  const heads = ["function, or spawned at", "class", "polls", "blocked", "mean", "longest",
    { text: "what it called, or the future" }];
  const at = (site) => `${site.file}:${site.line}`;
  const doing = functions.slice(0, 10).map((it) => [
    { text: `in ${it.function}` }, classNames[it.class] ?? it.class, grouped(it.count), grouped(it.blocked),
    duration(it.ended ? it.total / it.ended : 0), duration(it.longest),
    { text: [it.callee && `> ${it.callee}`, spans(it)].filter(Boolean).join(", ") },
  ]);
  table("hogs", heads, doing.concat(hogs.slice(0, 20).map((it) => [
    { text: it.name ? `${it.name} (${at(it.spawned_at)})` : at(it.spawned_at) }, classNames[it.class] ?? it.class,
    grouped(it.count), grouped(it.blocked), duration(it.count ? it.total / it.count : 0),
    duration(it.longest), { text: it.future },
  ])), "No task has held up a worker so far.");
}

// The spans in which a function was found, as `HogFunction::within` of the runtime says them.
function spans(row) {
  const known = row.spans ?? [];
  if (!known.length) return null;
  const [first] = known;
  if (known.length === 1 && first.count === row.count) return `within ${first.within}`;
  const times = (count) => (count === 1 ? "1 time" : `${grouped(count)} times`);
  const each = known.map((it) => `${it.within} ${times(it.count)}`).join(", ");
  return `within ${each}${row.spans_others ? `, and ${grouped(row.spans_others)} others` : ""}`;
}

function showLanes(lanes, earlier, seconds) {
  const heads = ["lane", "busy", "of", "queued", "done/s", "refused", "wait p99", "run p99"];
  table("lanes", heads, lanes.map((it) => {
    const was = earlier.find((lane) => lane.name === it.name);
    return [it.name, it.busy, it.limit, grouped(it.queued),
      short((it.done - (was?.done ?? 0)) / seconds), grouped(it.refused),
      duration(quantile(it.waits, was?.waits, 0.99)), duration(quantile(it.runs, was?.runs, 0.99))];
  }));
}

// To list all tasks takes the server some milliseconds, so it is asked only for who looks.
async function showTasks() {
  if (!byId("tasks-part").open) return;
  const heads = ["task", "class", "run", "blocked", "polls", "mean", "longest", "state", "for",
    { text: "future" }];
  const tasks = await ask(`tasks?limit=20&sort=${byId("order").value}`);
  table("tasks", heads, tasks.map((it) => [
    { text: `${it.name ? `${it.name} ` : ""}${it.spawned_at.file}:${it.spawned_at.line}` },
    classNames[it.class] ?? it.class, duration(it.run), duration(it.blocked || null), grouped(it.polls),
    duration(it.polls ? (it.run + it.blocked) / it.polls : null), duration(it.longest), it.state,
    duration(it.since), { text: it.future },
  ]), "No task has been polled and waits.");
}

async function showWaiting() {
  const part = byId("waiting");
  part.hidden = false;
  part.textContent = "Each waiting task is polled once more, to see where it waits …";
  try {
    part.textContent = await ask("dump.txt?limit=200", { text: true });
  } catch (error) {
    part.textContent = `no dump: ${error.message}`;
  }
}

// ---- Settings ----

// A row of inputs: each has the setting's name, its value, and what it makes of the text.
function setting(name, path, inputs, body) {
  const row = element("form");
  row.append(element("span", name), ...inputs, element("button", "Change"));
  row.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await put(name, `settings/${path}`, body())) showSettings();
  });
  return row;
}

function choice(label, options, value) {
  const select = element("select");
  select.setAttribute("aria-label", label);
  select.append(...options.map((it) => element("option", it)));
  select.value = value;
  return select;
}

function number(label, value) {
  const input = element("input");
  Object.assign(input, { type: "number", min: 0, value: value ?? "", placeholder: label });
  input.setAttribute("aria-label", label);
  input.title = label;
  return input;
}

const LEVELS = ["none", "very_short", "short", "medium", "long", "very_long", "adaptive"];
const MODES = ["immediate", "coalesce", "adaptive"];

async function showSettings() {
  if (!byId("settings-part").open) return;
  const now = await ask("settings");
  const level = choice("busy wait", LEVELS, now.busy_wait);
  const after = number("µs, or empty for never", now.hand_off_after_us);
  const mode = choice("delivery", MODES, now.delivery.mode);
  const bytes = number("bytes to wait for", now.delivery.bytes);
  const delay = number("µs at most", now.delivery.delay_us ?? now.delivery.max_delay_us);
  const fit = () => {
    bytes.hidden = mode.value !== "coalesce";
    delay.hidden = mode.value === "immediate";
  };
  mode.addEventListener("change", fit);
  fit();
  const delivery = () => ({
    immediate: { mode: "immediate" },
    coalesce: { mode: "coalesce", bytes: Number(bytes.value), delay_us: Number(delay.value) },
    adaptive: { mode: "adaptive", max_delay_us: Number(delay.value) },
  })[mode.value];
  byId("settings").replaceChildren(
    setting("Busy wait", "busy_wait", [level], () => ({ level: level.value })),
    setting("Hand-off after", "hand_off", [after], () => ({ after_us: after.value === "" ? null : Number(after.value) })),
    setting("Delivery of sockets that set none", "delivery", [mode, bytes, delay], delivery),
  );
}

// ---- Asking ----

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  byId("login").hidden = answer.status !== 401;
  if (answer.ok) return options.text ? answer.text() : answer.json();
  const problem = await answer.json().catch(() => ({ error: answer.statusText }));
  throw new Error(problem.error);
}

function say(text, bad) {
  byId("state").textContent = text;
  byId("state").className = bad ? "bad" : "";
}

// Whether the server did as it was told.
async function put(name, path, body) {
  try {
    await ask(path, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    document.activeElement?.blur();
    return true;
  } catch (error) {
    say(`${name} stays as it was: ${error.message}`, true);
    return false;
  }
}

function show(now) {
  const earlier = before;
  before = now;
  classNames = now.classes.map((it) => it.name);
  if (!earlier) return;
  const workers = workersSince(now, earlier);
  const wall = workers.reduce((sum, worker) => sum + worker.wall, 0);
  if (wall <= workers.length) return;
  const seconds = wall / workers.length / 1e9;
  const used = workers.reduce((sum, worker) => sum + worker.states[0], 0) / wall;
  const classes = classesSince(now, earlier, seconds);
  const awake = classes.filter((it) => it.polls > 0 || plots.get("waits")?.has(it.name));
  const ran = (stats) => stats.classes.reduce((sum, it) => sum + it.run, 0);
  const occupied = (ran(now) - ran(earlier)) / (seconds * 1e9 * (now.processors || workers.length));
  plot("utilisation", [["workers", used], ["processors", Math.min(1, occupied)]], percent, 1);
  plot("waits", awake.map((it) => [it.name, it.p99]), duration);
  plot("polls", awake.map((it) => [it.name, it.polls]), grouped);
  const deliveries = (now.delivery.deliveries - earlier.delivery.deliveries) / seconds;
  plot("deliveries", [["deliveries", deliveries]], grouped);
  showWorkers(workers);
  showClasses(classes);
  showHogs(now.hogs, now.hog_functions ?? []);
  showLanes(now.lanes, earlier.lanes, seconds);
  const up = Math.max(...now.workers.map((worker) => worker.wall));
  const load = `utilisation ${percent(used)}, occupancy ${percent(occupied)}`;
  say(`up for ${duration(up)}, ${workers.length} workers, ${load}`);
}

async function turn() {
  clearTimeout(timer);
  try {
    if (!paused && !document.hidden) {
      show(await ask("stats"));
      await showTasks();
    }
  } catch (error) {
    // What comes after a gap is no figure of a second.
    before = null;
    say(`no figures: ${error.message}`, true);
  }
  timer = setTimeout(turn, 1000);
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", paused);
  byId("pause").textContent = paused ? "Go on" : "Pause";
});
byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value;
  sessionStorage.setItem("token", token);
  turn();
});
byId("order").addEventListener("change", turn);
byId("dump").addEventListener("click", showWaiting);
byId("tasks-part").addEventListener("toggle", turn);
byId("settings-part").addEventListener("toggle", () => {
  showSettings().catch((error) => say(`no settings: ${error.message}`, true));
});
// So that a link can lead there.
for (const part of ["tasks", "settings"]) byId(`${part}-part`).open = location.hash.includes(part);
turn();
