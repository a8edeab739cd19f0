//! Watching over HTTP: a page, an interface for programs, live pictures and recordings.
//!
//! - [`settings`]: what the operator may set; [`access`]: who may do what; `standing`: and for how
//!   long.
//! - [`parts`]: samples cut into parts that browsers take; [`window`]: the newest of them.
//! - [`live`]: a task for each camera that is watched, and nobody else's; [`playlist`]: what HLS
//!   calls them.
//! - [`socket`]: parts over a WebSocket; [`media`]: parts, clips and pictures over HTTP;
//!   [`webrtc`]: samples in datagrams.
//! - [`api`]: cameras and recordings for programs, as they are `described`; [`openapi`]: all
//!   requests, with their descriptions; [`routes`]: who is let through to them.
//! - [`server`]: the listener with its limits; [`timed`]: clients that take nothing are cut off.
//!
//! | request | answer | permission |
//! |---|---|---|
//! | `GET /` | the page | |
//! | `POST /api/login` | `{"token"}`, or `{"user", "password"}`: sets a cookie, for browsers | |
//! | `POST /api/logout` | ends the session of the cookie | any |
//! | `GET /api/cameras` | all cameras, with what they do | watch |
//! | `GET /api/cameras/NAME` | one of them | watch |
//! | `PUT /api/cameras/NAME` | adds one, or changes one that was added so | manage |
//! | `DELETE /api/cameras/NAME` | removes one that was added; its recordings stay | manage |
//! | `GET /api/cameras/NAME/recordings?from=MS&until=MS` | recorded time and gaps | watch |
//! | `GET /api/cameras/NAME/live` | a WebSocket with fragments of MP4 | watch |
//! | `GET /api/cameras/NAME/live.m3u8` | HLS, with parts | watch |
//! | `POST /api/cameras/NAME/whep` | WHEP: an offer in SDP begins a session of WebRTC | watch |
//! | `PATCH /api/cameras/NAME/whep/ID` | the browser's addresses, which are not needed | watch |
//! | `DELETE /api/cameras/NAME/whep/ID` | ends the session | watch |
//! | `GET /api/cameras/NAME/snapshot` | the newest key frame: MP4 with one frame, or JPEG | watch |
//! | `GET /api/cameras/NAME/play?from=MS&until=MS` | fragments of MP4, for browsers | watch |
//! | `GET /api/cameras/NAME/clip.mp4?from=MS&until=MS` | a file to keep | export |
//! | `GET /api/cameras/NAME/protected` | times that are not deleted | watch |
//! | `POST /api/cameras/NAME/protected` | `{"from_ms", "until_ms", "note"}`: one more | export |
//! | `DELETE /api/cameras/NAME/protected/ID` | one less | export |
//! | `GET /api/volumes` | disks | watch |
//! | `GET /api/openapi.json` | all of this, as a document of OpenAPI | |
//! | `POST /api/reload` | reads the configuration again; says what was changed | manage |
//!
//! Times are milliseconds since 1970-01-01 UTC. A request that cannot be met gets a status and
//! `{"error": "..."}`.

pub mod access;
pub mod api;
mod described;
pub mod live;
pub mod media;
pub mod openapi;
pub mod parts;
pub mod playlist;
pub mod routes;
pub mod server;
pub mod settings;
pub mod socket;
mod standing;
pub mod timed;
pub mod webrtc;
pub mod window;

pub use routes::{Catalog, Listed, Watch};
pub use server::{Server, WatchError};
pub use settings::Settings;
