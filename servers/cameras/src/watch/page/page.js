// The page: all cameras, or one of them with its recordings. What is shown is in the address:
// `#` all, `#NAME` one camera, `#NAME@MILLISECONDS` what it recorded then.

import { Live, Playback } from "./player.js";
import { Timeline, clock } from "./timeline.js";
import { Direct, can_webrtc, has_webrtc } from "./webrtc.js";

/** How often cameras, and the recordings of the one that is shown, are asked for. */
const CAMERAS_MS = 3000;
const RECORDINGS_MS = 10000;

const element = (id) => document.getElementById(id);
const cards = new Map();
let cameras = [];
let shown = null;
let player = null;
/** Whether live pictures come by WebRTC: by choice, and where there is no other way. */
let by_webrtc = localStorage.getItem("by_webrtc") === "yes";

/** Asks the server; throws what it says is wrong. */
async function ask(path, options) {
  const answer = await fetch(path, options);
  if (answer.status === 401) element("login").hidden = false;
  const said = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw new Error(said.error);
  return said;
}

function trouble(why) {
  element("trouble").hidden = !why;
  element("trouble").textContent = why ?? "";
}

function path(name, rest) {
  return `api/cameras/${encodeURIComponent(name)}${rest}`;
}

/** Bytes for people. */
function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const unit = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(number, 1)) / 3));
  return `${(number / 1000 ** unit).toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

/** What shows live pictures. */
function live(video, name, said, wants_webrtc) {
  const needs_webrtc = !window.MediaSource && can_webrtc;
  return wants_webrtc || needs_webrtc
    ? new Direct(video, name, said)
    : new Live(video, name, said);
}

function is_jpeg(camera) {
  const video = camera.tracks.find((track) => track.is_video);
  return Boolean(video) && !video.is_playable;
}

/** A camera in the grid: its pictures move while it can be seen. */
class Card {
  constructor(name) {
    this.name = name;
    this.item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `#${encodeURIComponent(name)}`;
    this.place = document.createElement("div");
    const line = document.createElement("p");
    this.dot = document.createElement("span");
    this.dot.className = "dot";
    const title = document.createElement("b");
    title.textContent = name;
    this.state = document.createElement("span");
    this.state.className = "state";
    line.append(this.dot, title, this.state);
    link.append(this.place, line);
    this.item.append(link);
    this.watcher = new IntersectionObserver(([entry]) => {
      this.is_seen = entry.isIntersecting;
      this.update();
    });
    this.watcher.observe(this.item);
  }

  show(camera) {
    this.camera = camera;
    const records = camera.recording && !camera.recording.error;
    this.dot.classList.toggle("live", camera.state === "live");
    this.state.textContent = [camera.state, records ? "rec" : ""].filter(Boolean).join(" · ");
    this.update();
  }

  update() {
    const jpeg = this.camera && is_jpeg(this.camera);
    const wanted = this.is_seen && shown === null && this.camera?.state === "live";
    if (wanted && !this.player && !this.timer) {
      const media = document.createElement(jpeg ? "img" : "video");
      this.place.replaceChildren(media);
      if (jpeg) {
        media.alt = "";
        const next = () => { media.src = `${path(this.name, "/snapshot")}?${Date.now()}`; };
        next();
        this.timer = setInterval(next, 1000);
      } else {
        media.muted = true;
        media.playsInline = true;
        this.player = live(media, this.name, (what) => { media.title = what; }, false);
      }
    } else if (!wanted && (this.player || this.timer)) {
      this.player?.close();
      clearInterval(this.timer);
      this.player = this.timer = null;
    }
    if (!this.place.firstChild) {
      const empty = document.createElement("video");
      this.place.append(empty);
    }
  }

  close() {
    this.is_seen = false;
    this.update();
    this.watcher.disconnect();
    this.item.remove();
  }
}

async function refresh() {
  try {
    ({ cameras } = await ask("api/cameras"));
    element("login").hidden = true;
    trouble(null);
  } catch (error) {
    trouble(error.message);
    return;
  }
  const live = cameras.filter((camera) => camera.state === "live").length;
  element("summary").textContent = `${cameras.length} cameras, ${live} live`;
  for (const camera of cameras) {
    if (!cards.has(camera.name)) {
      cards.set(camera.name, new Card(camera.name));
      element("grid").append(cards.get(camera.name).item);
    }
    cards.get(camera.name).show(camera);
  }
  for (const [name, card] of cards) {
    if (!cameras.some((camera) => camera.name === name)) {
      card.close();
      cards.delete(name);
    }
  }
  facts();
}

/** What is known of the camera that is shown. */
function facts() {
  const camera = cameras.find((camera) => camera.name === shown);
  if (!camera) return;
  const named = ({ codec, size }) => codec + (size ? ` ${size.join("×")}` : "");
  const tracks = camera.tracks.map(named);
  const { recording } = camera;
  const rows = [["tracks", tracks.join(", ") || "none"], ["viewers", camera.viewers]];
  if (camera.error) rows.push(["error", camera.error]);
  if (recording) {
    rows.push(["recorded", `${bytes(recording.bytes)} on ${recording.volume}`]);
    if (recording.oldest_ms) rows.push(["oldest", clock(recording.oldest_ms, true)]);
    if (recording.waiting_gops) {
      rows.push(["waits for the disk", bytes(recording.waiting_bytes)]);
    }
    if (recording.error) rows.push(["disk", recording.error]);
    const lost = Object.entries(recording.lost_gops).map(([why, count]) => `${count} ${why}`);
    if (lost.length) rows.push(["groups lost", lost.join(", ")]);
  }
  element("facts").replaceChildren(...rows.flatMap(([name, value]) => {
    const [term, data] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    data.textContent = value;
    return [term, data];
  }));
}

const timeline = new Timeline(element("timeline"), (ms) => go(shown, ms), recordings);

async function recordings() {
  if (shown === null) return;
  const name = shown;
  const [from, until] = [Math.max(0, Math.floor(timeline.from)), Math.ceil(timeline.until)];
  try {
    const said = await ask(path(name, `/recordings?from=${from}&until=${until}`));
    if (name !== shown) return;
    timeline.show(said);
    element("gaps").replaceChildren(...said.gaps.slice(-5).map((gap) => {
      const item = document.createElement("li");
      const seconds = ((gap.until_ms - gap.from_ms) / 1000).toFixed(1);
      item.textContent = `gap of ${seconds} s at ${clock(gap.from_ms, true)}: `
        + gap.reason.replaceAll("_", " ");
      return item;
    }));
  } catch (error) {
    element("gaps").textContent = error.message;
  }
}

/** Shows a camera, live or at a time. */
function go(name, ms) {
  location.hash = name === null ? "" : encodeURIComponent(name) + (ms ? `@${Math.round(ms)}` : "");
}

function open_from_address() {
  const [name, time] = location.hash.slice(1).split("@");
  player?.close();
  player = null;
  shown = name ? decodeURIComponent(name) : null;
  element("grid").hidden = shown !== null;
  element("one").hidden = shown === null;
  for (const card of cards.values()) card.update();
  if (shown === null) return;
  element("name").textContent = shown;
  const said = (what) => { element("what").textContent = what; };
  const ms = Number(time);
  const video = element("video");
  player = ms ? new Playback(video, shown, ms, said) : live(video, shown, said, by_webrtc);
  offer_webrtc(shown, Boolean(ms));
  element("live").setAttribute("aria-pressed", String(!ms));
  element("snapshot").href = path(shown, "/snapshot");
  element("export").hidden = !ms;
  const from = Math.round(ms) - 30000;
  element("export").href = path(shown, `/clip.mp4?from=${from}&until=${from + 60000}`);
  const at = ms || Date.now();
  if (at < timeline.from || at > timeline.until) timeline.middle = at;
  timeline.mark(at);
  element("day").value = new Date(at - new Date(at).getTimezoneOffset() * 60000)
    .toISOString().slice(0, 10);
  recordings();
  facts();
}

/** Offers WebRTC where both the browser and the server can. */
async function offer_webrtc(name, is_recorded) {
  const button = element("webrtc");
  button.setAttribute("aria-pressed", String(by_webrtc));
  const is_offered = !is_recorded && await has_webrtc(name);
  if (name !== shown) return;
  button.hidden = !is_offered;
  // What was chosen at another server, or before it was switched off here.
  if (!is_offered && by_webrtc && player instanceof Direct && window.MediaSource) {
    by_webrtc = false;
    open_from_address();
  }
}

function seek(seconds) {
  const at = player?.at();
  if (!Number.isNaN(at)) go(shown, Math.min(at + seconds * 1000, Date.now() - 1000));
}

function pause() {
  const video = element("video");
  if (video.paused) video.play().catch(() => {});
  else video.pause();
}

element("live").addEventListener("click", () => go(shown));
element("webrtc").addEventListener("click", () => {
  by_webrtc = !by_webrtc;
  localStorage.setItem("by_webrtc", by_webrtc ? "yes" : "no");
  open_from_address();
});
element("pause").addEventListener("click", pause);
element("earlier").addEventListener("click", () => timeline.move(-0.5));
element("later").addEventListener("click", () => timeline.move(0.5));
element("in").addEventListener("click", () => timeline.zoom(0.5));
element("out").addEventListener("click", () => timeline.zoom(2));
element("day").addEventListener("change", ({ target }) => {
  const noon = new Date(`${target.value}T12:00:00`).getTime();
  if (noon) {
    timeline.span = 24 * 3600 * 1000;
    timeline.go(noon);
  }
});
element("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const headers = { "content-type": "application/json" };
  const [user, password] = [element("user").value, element("token").value];
  const body = JSON.stringify(user ? { user, password } : { token: password });
  try {
    await ask("api/login", { method: "POST", headers, body });
    element("token").value = "";
    await refresh();
    open_from_address();
  } catch (error) {
    trouble(error.message);
  }
});
document.addEventListener("keydown", (event) => {
  if (shown === null || event.target.matches("input") || event.ctrlKey || event.metaKey) return;
  const keys = {
    ArrowLeft: () => seek(event.shiftKey ? -600 : -10),
    ArrowRight: () => seek(event.shiftKey ? 600 : 10),
    "+": () => timeline.zoom(0.5),
    "-": () => timeline.zoom(2),
    l: () => go(shown),
    Escape: () => go(null),
  };
  if (event.key === " " && !event.target.matches("button, a")) keys[" "] = pause;
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
window.addEventListener("hashchange", open_from_address);
setInterval(() => {
  const at = player?.at();
  if (at && !Number.isNaN(at)) {
    timeline.mark(at);
    element("at").textContent = clock(at, true);
  }
  // What the browser has decoded, for who looks closely.
  const video = element("video");
  video.dataset.frames = video.getVideoPlaybackQuality?.().totalVideoFrames ?? 0;
  video.dataset.size = `${video.videoWidth}x${video.videoHeight}`;
}, 500);
setInterval(refresh, CAMERAS_MS);
setInterval(recordings, RECORDINGS_MS);
await refresh();
open_from_address();
