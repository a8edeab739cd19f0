// Two players over the Media Source Extensions: live parts from a WebSocket, and recordings from a
// stream. Each has one source buffer, and a queue of what waits for it.

/** How much of what was shown is kept, and how much of a recording is loaded ahead, in seconds. */
const KEPT_S = 30;
const AHEAD_S = 30;
/** Live pictures that are further behind are skipped, in seconds. */
const BEHIND_S = 2.5;

/** A video whose media come in pieces. */
class Pieces {
  constructor(video, kind, failed) {
    this.video = video;
    this.failed = failed;
    this.queue = [];
    this.source = new MediaSource();
    this.url = URL.createObjectURL(this.source);
    video.src = this.url;
    this.source.addEventListener("sourceopen", () => {
      if (this.closed) return;
      try {
        this.buffer = this.source.addSourceBuffer(kind);
        this.buffer.mode = "segments";
        this.buffer.addEventListener("updateend", () => this.step());
        this.step();
      } catch (error) {
        failed(`this browser does not play ${kind}: ${error.message}`);
      }
    }, { once: true });
  }

  /** Adds something to do: a piece of media, or a function of the buffer. */
  push(piece) {
    this.queue.push(piece);
    this.step();
  }

  step() {
    const buffer = this.buffer;
    if (!buffer || buffer.updating || this.closed || this.source.readyState !== "open") return;
    const { currentTime, buffered } = this.video;
    if (buffered.length && buffered.start(0) < currentTime - 2 * KEPT_S) {
      buffer.remove(0, currentTime - KEPT_S);
      return;
    }
    const next = this.queue.shift();
    if (next === undefined) return;
    try {
      if (typeof next === "function") {
        next(buffer);
        this.step();
      } else {
        buffer.appendBuffer(next);
      }
    } catch (error) {
      if (error.name !== "QuotaExceededError") return this.failed(error.message);
      this.queue.unshift(next);
      if (buffered.length && buffered.start(0) < currentTime - 5) {
        buffer.remove(0, currentTime - 5);
      } else {
        setTimeout(() => this.step(), 500);
      }
    }
  }

  /** Seconds that are loaded after what is shown. */
  ahead() {
    const { currentTime, buffered } = this.video;
    return buffered.length ? buffered.end(buffered.length - 1) - currentTime : 0;
  }

  close() {
    this.closed = true;
    URL.revokeObjectURL(this.url);
    this.video.removeAttribute("src");
    this.video.load();
  }
}

/** Shows what a camera sends now, and goes on when the connection breaks. */
export class Live {
  constructor(video, camera, said) {
    this.video = video;
    this.camera = camera;
    this.said = said;
    this.pause_ms = 500;
    this.connect();
    this.timer = setInterval(() => this.follow(), 500);
  }

  connect() {
    const path = `api/cameras/${encodeURIComponent(this.camera)}/live`;
    const url = new URL(path, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.hash = "";
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.addEventListener("message", ({ data }) => this.take(data));
    this.socket.addEventListener("close", () => {
      if (this.closed) return;
      this.said("connecting …");
      setTimeout(() => this.closed || this.connect(), this.pause_ms * (0.5 + Math.random()));
      this.pause_ms = Math.min(this.pause_ms * 2, 15000);
    });
  }

  take(data) {
    if (typeof data !== "string") {
      this.pause_ms = 500;
      this.pieces?.push(data);
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "head") {
      this.pieces?.close();
      this.start_ms = message.start_ms;
      const failed = (why) => this.said(why);
      if (!window.MediaSource || !MediaSource.isTypeSupported(message.kind)) {
        return failed(`this browser does not play ${message.kind}`);
      }
      this.pieces = new Pieces(this.video, message.kind, failed);
      this.pieces.push((buffer) => { buffer.timestampOffset = -message.start_ms / 1000; });
      this.video.play().catch(() => {});
      this.said("live");
    } else if (message.type === "lagged") {
      this.said("behind, skipped");
    } else if (message.type === "trouble") {
      this.said(message.error);
    }
  }

  /** Keeps up with what came, over holes. */
  follow() {
    const { video } = this;
    if (!video.buffered.length || video.paused) return;
    const end = video.buffered.end(video.buffered.length - 1);
    const start = video.buffered.start(video.buffered.length - 1);
    if (video.currentTime < start || end - video.currentTime > BEHIND_S) {
      video.currentTime = Math.max(start, end - 0.3);
    }
  }

  /** The time of what is shown, in milliseconds since 1970. */
  at() {
    return this.start_ms === undefined ? Date.now() : this.start_ms + this.video.currentTime * 1000;
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    this.socket.close();
    this.pieces?.close();
  }
}

/** Shows what was recorded from a time on, over changes of parameters and gaps. */
export class Playback {
  constructor(video, camera, from_ms, said) {
    this.video = video;
    this.camera = camera;
    this.said = said;
    this.stop = new AbortController();
    this.load(from_ms);
  }

  async load(from_ms) {
    const until = Math.round(from_ms) + 3600 * 1000;
    const path = `api/cameras/${encodeURIComponent(this.camera)}/play`;
    const { signal } = this.stop;
    try {
      const answer = await fetch(`${path}?from=${Math.round(from_ms)}&until=${until}`, { signal });
      if (!answer.ok) {
        this.said((await answer.json()).error);
        return;
      }
      this.pieces?.close();
      this.start_ms = Number(answer.headers.get("x-start-ms"));
      this.end_ms = Number(answer.headers.get("x-end-ms"));
      const kind = answer.headers.get("x-kind");
      this.pieces = new Pieces(this.video, kind, (why) => this.said(why));
      const offset = Math.max(0, (from_ms - this.start_ms) / 1000);
      this.video.addEventListener("loadedmetadata", () => {
        if (offset > 0) this.video.currentTime = offset;
      }, { once: true });
      this.video.play().catch(() => {});
      this.said("recorded");
      const reader = answer.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        this.pieces.push(value);
        while (this.pieces.ahead() > AHEAD_S && !signal.aborted) {
          await new Promise((resume) => setTimeout(resume, 250));
          this.jump();
        }
      }
      this.ended_at = setInterval(() => this.go_on(), 500);
    } catch (error) {
      if (error.name !== "AbortError") this.said(error.message);
    }
  }

  /** Passes over a gap. */
  jump() {
    const { buffered, currentTime } = this.video;
    for (let i = 0; i < buffered.length; i++) {
      const is_over = i === 0 || buffered.end(i - 1) <= currentTime + 0.3;
      if (is_over && buffered.start(i) > currentTime) {
        this.video.currentTime = buffered.start(i) + 0.01;
        return;
      }
    }
  }

  /** When all that was loaded has been shown, loads what follows. */
  go_on() {
    this.jump();
    if (this.pieces.ahead() < 0.3 && !this.pieces.queue.length) {
      clearInterval(this.ended_at);
      this.load(this.end_ms + 1);
    }
  }

  at() {
    return this.start_ms === undefined ? NaN : this.start_ms + this.video.currentTime * 1000;
  }

  close() {
    this.stop.abort();
    clearInterval(this.ended_at);
    this.pieces?.close();
  }
}
