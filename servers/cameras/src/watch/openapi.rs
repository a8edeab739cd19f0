//! The interface for programs: which request goes where, and the same as a document of OpenAPI.
//!
//! Both are made of one list, so that there is no route without its description.

mod schemas;
mod whep;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, delete, get, post, put};
use serde_json::{Map, Value, json};

use super::routes::Served;
use super::{api, media, socket};
use schemas::{named, schemas};

/// The address of the document.
pub(super) const PATH: &str = "/api/openapi.json";

/// A request that is understood.
struct Operation {
    method: &'static str,
    path: &'static str,
    /// What it is called in programs that are made of the document.
    name: &'static str,
    what: &'static str,
    /// What a token or a user has to be permitted; nothing, if it is empty.
    permission: &'static str,
    /// Numbers of milliseconds, or of parts, behind the `?`.
    query: &'static [&'static str],
    /// What is sent: its kind, and the name of its schema.
    body: Option<(&'static str, &'static str)>,
    /// What a good answer is: its status, its kinds, and the schema of one in JSON.
    status: &'static str,
    answers: &'static [&'static str],
    schema: &'static str,
    route: MethodRouter<Arc<Served>>,
}

const JSON: &str = "application/json";
const MP4: &str = "video/mp4";
const M3U8: &str = "application/vnd.apple.mpegurl";
/// The required ones of requests for a time.
const BETWEEN: &[&str] = &["from", "until"];

impl Operation {
    fn new(
        method: &'static str,
        path: &'static str,
        name: &'static str,
        what: &'static str,
        route: MethodRouter<Arc<Served>>,
    ) -> Self {
        Self {
            method,
            path,
            name,
            what,
            permission: "watch",
            query: &[],
            body: None,
            status: "200",
            answers: &[JSON],
            schema: "",
            route,
        }
    }

    fn needs(self, permission: &'static str) -> Self {
        Self { permission, ..self }
    }

    fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    fn takes(self, schema: &'static str) -> Self {
        let body = Some((JSON, schema));
        Self { body, ..self }
    }

    fn gives(self, answers: &'static [&'static str]) -> Self {
        Self { answers, ..self }
    }

    /// The connection becomes another one.
    fn switches(self) -> Self {
        let (status, answers) = ("101", &[][..]);
        Self {
            status,
            answers,
            ..self
        }
    }

    fn says(self, schema: &'static str) -> Self {
        Self { schema, ..self }
    }

    /// The operation as the document has it.
    fn described(&self) -> Value {
        let mut parameters: Vec<Value> = path_parameters(self.path)
            .map(|name| {
                json!({ "name": name, "in": "path", "required": true,
                    "schema": { "type": "string" } })
            })
            .collect();
        parameters.extend(self.query.iter().map(|name| {
            let is_time = BETWEEN.contains(name);
            let what = if is_time {
                "milliseconds since 1970-01-01 UTC"
            } else {
                "as HLS has it"
            };
            json!({ "name": name, "in": "query", "required": is_time, "description": what,
                "schema": { "type": "integer", "minimum": 0 } })
        }));
        let problem = json!({ "description": "It cannot be done; `error` says why.",
            "content": { JSON: { "schema": { "$ref": "#/components/schemas/Problem" } } } });
        let mut described = json!({
            "operationId": self.name,
            "summary": self.what,
            "parameters": parameters,
            "responses": {
                self.status: { "description": "Done." },
                "default": problem,
            },
        });
        for answer in self.answers {
            let mut content = json!({});
            if !self.schema.is_empty() {
                content["schema"] = named(self.schema);
            }
            described["responses"][self.status]["content"][answer] = content;
        }
        if self.permission.is_empty() {
            described["security"] = json!([]);
        } else {
            described["description"] = json!(format!("Needs the permission {}.", self.permission));
        }
        if let Some((kind, schema)) = self.body {
            described["requestBody"] =
                json!({ "required": true, "content": { kind: { "schema": named(schema) } } });
        }
        described
    }
}

/// The names within braces.
fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn operations() -> Vec<Operation> {
    let mut all = Vec::from(of_cameras());
    all.extend(of_pictures());
    all.extend(whep::operations());
    all.extend([
        Operation::new(
            "post",
            "/api/login",
            "login",
            "Sets a cookie, for browsers",
            post(api::login),
        )
        .needs("")
        .takes("Login")
        .says("Nothing"),
        Operation::new(
            "post",
            "/api/logout",
            "logout",
            "Ends the session of the cookie",
            post(api::logout),
        )
        .says("Nothing"),
        Operation::new("get", "/api/volumes", "volumes", "Disks", get(api::volumes))
            .says("Volumes"),
        Operation::new(
            "post",
            "/api/reload",
            "reload",
            "Reads the configuration again, and says what was changed",
            post(api::reload),
        )
        .needs("manage")
        .says("Changes"),
        Operation::new(
            "get",
            PATH,
            "openapi",
            "This document",
            get(async || axum::Json(document())),
        )
        .needs(""),
    ]);
    all
}

fn of_cameras() -> [Operation; 8] {
    let one = "/api/cameras/{camera}";
    let protected = "/api/cameras/{camera}/protected";
    [
        Operation::new(
            "get",
            "/api/cameras",
            "cameras",
            "All cameras, with what they do",
            get(api::cameras),
        )
        .says("Cameras"),
        Operation::new("get", one, "camera", "One of them", get(api::camera)).says("CameraState"),
        Operation::new(
            "put",
            one,
            "put_camera",
            "Adds a camera, or changes one that was added so",
            put(api::add),
        )
        .needs("manage")
        .takes("Camera")
        .says("Named"),
        Operation::new(
            "delete",
            one,
            "delete_camera",
            "Removes a camera that was added; its recordings stay",
            delete(api::remove),
        )
        .needs("manage")
        .says("Named"),
        Operation::new(
            "get",
            "/api/cameras/{camera}/recordings",
            "recordings",
            "Recorded time and gaps",
            get(api::recordings),
        )
        .query(BETWEEN)
        .says("Recordings"),
        Operation::new(
            "get",
            protected,
            "protected",
            "Times that are not deleted",
            get(api::protected),
        )
        .says("Protections"),
        Operation::new("post", protected, "protect", "One more", post(api::protect))
            .needs("export")
            .takes("Protect")
            .says("Identified"),
        Operation::new(
            "delete",
            "/api/cameras/{camera}/protected/{id}",
            "unprotect",
            "One less",
            delete(api::unprotect),
        )
        .needs("export")
        .says("Identified"),
    ]
}

fn of_pictures() -> [Operation; 8] {
    let picture = |path, name, what, route| Operation::new("get", path, name, what, route);
    [
        picture(
            "/api/cameras/{camera}/live",
            "live",
            "A WebSocket with fragments of MP4",
            get(socket::upgrade),
        )
        .switches(),
        picture(
            "/api/cameras/{camera}/live.m3u8",
            "live_playlist",
            "HLS, with parts",
            get(media::multivariant),
        )
        .gives(&[M3U8]),
        picture(
            "/api/cameras/{camera}/parts.m3u8",
            "parts_playlist",
            "The parts of HLS",
            get(media::playlist),
        )
        .query(&["_HLS_msn", "_HLS_part"])
        .gives(&[M3U8]),
        picture(
            "/api/cameras/{camera}/live/{segment}",
            "segment",
            "A segment of HLS",
            get(media::segment),
        )
        .gives(&[MP4]),
        picture(
            "/api/cameras/{camera}/live/{segment}/{part}",
            "part",
            "A part of a segment",
            get(media::part),
        )
        .gives(&[MP4]),
        picture(
            "/api/cameras/{camera}/snapshot",
            "snapshot",
            "The newest key frame: MP4 with one frame, or JPEG",
            get(media::snapshot),
        )
        .gives(&[MP4, "image/jpeg"]),
        picture(
            "/api/cameras/{camera}/play",
            "play",
            "Recorded fragments of MP4, for browsers",
            get(media::play),
        )
        .query(BETWEEN)
        .gives(&[MP4]),
        picture(
            "/api/cameras/{camera}/clip.mp4",
            "clip",
            "A recording as a file to keep",
            get(media::clip),
        )
        .needs("export")
        .query(BETWEEN)
        .gives(&[MP4]),
    ]
}

/// The routes.
pub(super) fn router() -> Router<Arc<Served>> {
    let operations = operations().into_iter();
    operations.fold(Router::new(), |router, operation| {
        router.route(operation.path, operation.route)
    })
}

/// The document, by OpenAPI 3.1.
pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in operations() {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method] = operation.described();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "evenkeel-cameras",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are milliseconds since 1970-01-01 UTC.",
        },
        "security": [{ "token": [] }, { "user": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "user": { "type": "http", "scheme": "basic" },
                "session": { "type": "apiKey", "in": "cookie", "name": super::access::COOKIE_NAME },
            },
            "schemas": schemas(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Added;

    #[test]
    fn what_is_referred_to_is_there_and_names_are_different() {
        let (document, operations) = (document(), operations());
        let mut names: Vec<_> = operations.iter().map(|operation| operation.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), operations.len());
        for operation in &operations {
            let described = &document["paths"][operation.path][operation.method];
            assert_eq!(described["operationId"], operation.name);
            if let Some((kind, _)) = operation.body {
                let body = &described["requestBody"]["content"][kind]["schema"]["$ref"];
                let body = body.as_str().unwrap();
                let place = body.strip_prefix('#').unwrap();
                assert!(document.pointer(place).is_some(), "{body}");
            }
        }
    }

    #[test]
    fn a_camera_by_its_schema_is_taken_and_each_of_its_keys_is_known() {
        let mut good = json!({ "onvif": "https://192.0.2.7/", "profile": "main", "user": "u",
            "password": "p", "fingerprint": "0a".repeat(32), "delivery": "5ms", "transport": "udp",
            "record": { "volume": "disk", "keep": "7d", "size": "1GiB" } });
        Added::read(good.clone()).unwrap();
        let url = json!("rtsp://192.0.2.7/");
        Added::read(json!({ "url": url })).unwrap();
        good["url"] = url;
        let properties = &schemas()["Camera"]["properties"];
        let keys =
            |of: &Value| -> Vec<String> { of.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(keys(properties), keys(&good));
        assert_eq!(
            keys(&properties["record"]["properties"]),
            keys(&good["record"])
        );
    }
}
