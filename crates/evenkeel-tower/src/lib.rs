//! Puts the routes and tenants of an HTTP service into classes of the [evenkeel] runtime.
//!
//! A [class](evenkeel::Class) has a share of the processor time and a latency target. A connection
//! is one task, and what it asks for is known only once a request's head has been read. The
//! [`ClassLayer`] then puts the task into the class of the request, until the answer's body has
//! ended. It is a layer of tower's, so it works with axum, tonic, and whatever else is built of
//! tower services over `http` requests.
//!
//! ```
//! use axum::{Router, routing::get};
//! use evenkeel::Class;
//! use evenkeel_tower::ClassLayer;
//!
//! let exports = Router::new()
//!     .route("/export", get(async || "much"))
//!     .route_layer(ClassLayer::new(Class::BULK));
//! let health = Router::new()
//!     .route("/healthz", get(async || "ok"))
//!     .route_layer(ClassLayer::new(Class::URGENT));
//! let service: Router = exports.merge(health);
//! ```
//!
//! The class can depend on the request, for example on a tenant in its head:
//!
//! ```
//! use evenkeel::Class;
//! use evenkeel_tower::ClassLayer;
//!
//! let layer = ClassLayer::new(|request: &http::Request<axum::body::Body>| {
//!     let plan = request.headers().get("x-plan")?;
//!     (plan == "free").then_some(Class::BULK)
//! });
//! # let _: axum::Router = axum::Router::new().layer(layer);
//! ```
//!
//! Where no task of evenkeel's runs (a service that is also built for another runtime), nothing
//! happens.
//!
//! # Beneath Tokio
//!
//! A service on Tokio, with `#[tokio::main]` and `axum::serve`, needs no other code. Depend on this
//! crate and on `evenkeel` beside Tokio, put the layers where they belong, and build with
//! `cargo evenkeel` (`compat/` in evenkeel's repository) in the place of `cargo`:
//!
//! ```sh
//! cargo evenkeel run --release
//! EVENKEEL=off target/release/your-service    # the same program on Tokio, without classes
//! ```
//!
//! It has Tokio's multi-thread runtime run on evenkeel, and makes that evenkeel the one that this
//! crate uses. So a connection's task, spawned by Tokio, goes into the class of each request, and
//! [`Handle::stats`](evenkeel::runtime::Handle::stats) says what each class has used. With
//! `EVENKEEL=off`, in a current-thread runtime, and in a program that plain cargo has built, the
//! layer does nothing.
//!
//! Beside the built-in classes there may be those that the program
//! [defines](evenkeel::Class::define) before its runtime is built.
//!
//! # What it guarantees
//!
//! - A request that changes the task's class first gives way once, so that all that its service
//!   does is done, and charged, in the new class.
//! - What the service spawns meanwhile inherits the class, also `spawn_blocking`, and what that
//!   spawns in its turn. Beneath Tokio, `tokio::task::spawn_blocking` has Tokio's threads, which
//!   know no classes.
//! - When the answer's body has ended or is dropped, or the service failed, the task is in the
//!   class that it had before, whatever was done to its class meanwhile. So a layer around a whole
//!   service ends what [`enter`] and the extractor `axum::InClass` do.
//! - If another task than the one that called the service takes the answer's body, nothing is done
//!   to that task's class.

#[cfg(feature = "axum")]
pub mod axum;
mod body;
mod layer;
mod stay;

pub use body::ClassBody;
pub use layer::{ClassFuture, ClassLayer, ClassService, Classify};
pub use stay::enter;
