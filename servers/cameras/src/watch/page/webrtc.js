// Live pictures by WebRTC: an offer is sent (WHEP), and what a camera sends then comes in
// datagrams, a fraction of a second after it was seen. G.711 is heard so too.

/** Whether this browser can. */
export const can_webrtc = "RTCPeerConnection" in window;

function address(camera) {
  return `api/cameras/${encodeURIComponent(camera)}/whep`;
}

/** Whether the server does. */
export async function has_webrtc(camera) {
  if (!can_webrtc) return false;
  return fetch(address(camera), { method: "OPTIONS" }).then(({ ok }) => ok, () => false);
}

/** Shows what a camera sends now, and goes on when the connection breaks. */
export class Direct {
  constructor(video, camera, said) {
    this.video = video;
    this.camera = camera;
    this.said = said;
    this.pause_ms = 500;
    this.connect();
  }

  async connect() {
    this.said("connecting …");
    const peer = new RTCPeerConnection();
    this.peer = peer;
    const stream = new MediaStream();
    peer.addEventListener("track", ({ track }) => stream.addTrack(track));
    peer.addEventListener("connectionstatechange", () => {
      if (peer.connectionState === "connected") {
        this.pause_ms = 500;
        this.said("live by WebRTC");
      } else if (["failed", "closed"].includes(peer.connectionState)) {
        this.again(peer, "the connection broke");
      }
    });
    for (const kind of ["video", "audio"]) {
      peer.addTransceiver(kind, { direction: "recvonly" });
    }
    try {
      await peer.setLocalDescription();
      const headers = { "content-type": "application/sdp" };
      const { sdp } = peer.localDescription;
      const answer = await fetch(address(this.camera), { method: "POST", headers, body: sdp });
      if (!answer.ok) throw new Error((await answer.json()).error);
      const session = answer.headers.get("location");
      if (peer !== this.peer) {
        fetch(session, { method: "DELETE" });
        return;
      }
      this.session = session;
      await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
      this.video.srcObject = stream;
      this.video.play().catch(() => {});
    } catch (error) {
      this.again(peer, error.message);
    }
  }

  /** Begins anew after a pause. */
  again(peer, why) {
    if (peer !== this.peer) return;
    this.end();
    this.said(why);
    this.timer = setTimeout(() => this.connect(), this.pause_ms * (0.5 + Math.random()));
    this.pause_ms = Math.min(this.pause_ms * 2, 15000);
  }

  end() {
    this.peer?.close();
    if (this.session) fetch(this.session, { method: "DELETE", keepalive: true }).catch(() => {});
    this.peer = this.session = null;
  }

  /** The time of what is shown, in milliseconds since 1970. */
  at() {
    return Date.now();
  }

  close() {
    clearTimeout(this.timer);
    this.end();
    this.video.srcObject = null;
  }
}
