//! What programs ask: cameras, recordings, clips, protected times, and who may.

use std::time::{SystemTime, UNIX_EPOCH};

use cameras::watch::Settings;
use cameras::watch::settings::{Permission, Token};
use serde_json::{Value, json};

use crate::support::{GROUP_MS, Sender, Site, boxes, runtime};

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

fn around() -> String {
    format!("from={}&until={}", now_ms() - 60_000, now_ms() + 60_000)
}

#[test]
fn recordings_are_listed_and_saved_as_one_file() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let client = site.client();
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(4);
        site.until_written(4).await;
        let listed = client
            .get(&format!("/api/cameras/yard/recordings?{}", around()))
            .await
            .json();
        assert_eq!(listed["ranges"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed["gaps"], json!([]));
        let from = listed["ranges"][0]["from_ms"].as_u64().unwrap();
        let until = listed["ranges"][0]["until_ms"].as_u64().unwrap();
        assert_eq!(until - from, 4 * GROUP_MS);
        let clip = client
            .get(&format!("/api/cameras/yard/clip.mp4?{}", around()))
            .await;
        assert_eq!(clip.status, 200, "{clip:?}");
        let expected = [
            "ftyp", "moov", "moof", "mdat", "moof", "mdat", "moof", "mdat", "moof",
        ];
        assert_eq!(boxes(&clip.body)[..9], expected);
        assert_eq!(boxes(&clip.body).len(), 10);
        assert_eq!(clip.header("x-start-ms"), Some(&*from.to_string()));
        let part = from + GROUP_MS + 100;
        let played = format!(
            "/api/cameras/yard/play?from={part}&until={}",
            part + GROUP_MS
        );
        let played = client.get(&played).await;
        assert_eq!(boxes(&played.body).len(), 6);
        assert_eq!(
            played.header("x-kind"),
            Some("video/mp4; codecs=\"avc1.64000D\"")
        );
        assert_eq!(
            played.header("x-start-ms"),
            Some(&*(from + GROUP_MS).to_string())
        );
    });
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let client = site.client();
        for (path, status, why) in [
            ("/api/cameras/attic", 404, "no camera named"),
            ("/api/cameras/attic/live.m3u8", 404, "no camera named"),
            ("/api/cameras/yard/recordings", 400, "?from=MS&until=MS"),
            (
                "/api/cameras/yard/recordings?from=5&until=5",
                400,
                "later than",
            ),
            (
                "/api/cameras/yard/recordings?from=0&until=99999999999",
                400,
                "longer than",
            ),
            (
                "/api/cameras/yard/clip.mp4?from=5&until=6",
                404,
                "nothing was recorded",
            ),
            (
                "/api/cameras/door/recordings?from=5&until=6",
                404,
                "not recorded",
            ),
            ("/api/cameras/yard/live", 400, "WebSockets"),
            ("/api/nothing", 404, "nothing at"),
            ("/api/cameras/%ff", 400, "cannot be read"),
            ("/api/cameras/yard/live/x/0.m4s", 400, "cannot be read"),
        ] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            let said = answer.json()["error"].as_str().unwrap().to_owned();
            assert!(said.contains(why), "{path}: {said}");
        }
        let wrong = client.send("POST", "/api/cameras", "{}").await;
        assert_eq!(wrong.status, 405);
        let body = client
            .send("POST", "/api/cameras/yard/protected", "{")
            .await;
        assert_eq!(body.status, 400);
        let login = client.send("POST", "/api/login", "{}").await;
        assert!(login.text().contains("a login is"), "{login:?}");
        let name = client.send("PUT", "/api/cameras/-a", "{}").await;
        assert_eq!(name.status, 400);
        assert!(name.text().contains("beginning with a letter"), "{name:?}");
    });
}

#[test]
fn answers_are_as_their_schemas_say() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let client = site.client();
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(2);
        site.until_written(2).await;
        let document = client.get("/api/openapi.json").await.json();
        let protect = json!({ "from_ms": 1, "until_ms": 2 }).to_string();
        let one = "/api/cameras/{camera}";
        let protected = "/api/cameras/{camera}/protected";
        let recordings = "/api/cameras/{camera}/recordings";
        for (method, path, query, body) in [
            ("GET", "/api/cameras", "", ""),
            ("GET", one, "", ""),
            ("GET", recordings, &*format!("?{}", around()), ""),
            ("POST", protected, "", &*protect),
            ("GET", protected, "", ""),
            ("GET", "/api/volumes", "", ""),
            ("POST", "/api/logout", "", ""),
            ("DELETE", one, "", ""),
        ] {
            let asked = path.replace("{camera}", "yard") + query;
            let answer = client.send(method, &asked, body).await;
            assert_eq!(answer.status, 200, "{asked}: {answer:?}");
            let described = &document["paths"][path][method.to_lowercase()]["responses"]["200"];
            let schema = &described["content"]["application/json"]["schema"];
            fits(&document, schema, &answer.json()).unwrap_or_else(|why| {
                panic!("{method} {path}: {why}");
            });
        }
    });
}

/// Whether a value is as a schema says, of what the document uses of schemas.
fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let unlike = || format!("{value} is not as {schema}");
    if let Some(place) = schema["$ref"].as_str() {
        let named = document.pointer(place.trim_start_matches('#'));
        return fits(document, named.ok_or_else(unlike)?, value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let tried: Vec<_> = any.iter().map(|it| fits(document, it, value)).collect();
        return match tried.iter().any(Result::is_ok) {
            true => Ok(()),
            false => tried.into_iter().next().ok_or_else(unlike)?,
        };
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.contains(value).then_some(()).ok_or_else(unlike);
    }
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(keys)) => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            if required
                .iter()
                .any(|key| !keys.contains_key(key.as_str().unwrap()))
            {
                return Err(unlike());
            }
            keys.iter().try_for_each(|(key, value)| {
                let known = schema["properties"].get(key);
                let known = known.unwrap_or(&schema["additionalProperties"]);
                fits(document, known, value).map_err(|why| format!("{key}: {why}"))
            })
        }
        (Some("array"), Value::Array(values)) => values
            .iter()
            .try_for_each(|value| fits(document, &schema["items"], value)),
        (Some("string"), Value::String(_)) | (Some("boolean"), Value::Bool(_)) => Ok(()),
        (Some("null"), Value::Null) => Ok(()),
        (Some("integer"), number) if number.is_u64() => Ok(()),
        _ => Err(unlike()),
    }
}

#[test]
fn times_are_protected_and_freed() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let client = site.client();
        let path = "/api/cameras/yard/protected";
        let body = json!({ "from_ms": 1_000, "until_ms": 2_000, "note": "the thief" }).to_string();
        let added = client.send("POST", path, &body).await;
        assert_eq!(added.status, 200, "{added:?}");
        let id = added.json()["id"].as_str().unwrap().to_owned();
        let listed = client.get(path).await.json();
        assert_eq!(listed["protected"][0]["note"], "the thief");
        assert_eq!(listed["protected"][0]["until_ms"], 2_000);
        let bad = json!({ "from_ms": 2, "until_ms": 1 }).to_string();
        assert_eq!(client.send("POST", path, &bad).await.status, 400);
        let removed = client.send("DELETE", &format!("{path}/{id}"), "").await;
        assert_eq!(removed.status, 200);
        let again = client.send("DELETE", &format!("{path}/{id}"), "").await;
        assert_eq!(again.status, 404);
        let outside = client
            .send("DELETE", &format!("{path}/..%2F..%2Fetc"), "")
            .await;
        assert_eq!(outside.status, 404);
        assert_eq!(client.get(path).await.json()["protected"], json!([]));
    });
}

#[test]
fn cameras_are_added_and_removed() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let client = site.client();
        assert_eq!(
            client.send("PUT", "/api/cameras/attic", "{}").await.status,
            200
        );
        let names = |answer: &serde_json::Value| {
            let cameras = answer["cameras"].as_array().unwrap().clone();
            cameras
                .iter()
                .map(|it| it["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let listed = client.get("/api/cameras").await.json();
        assert_eq!(names(&listed), ["attic", "door", "yard"]);
        let twice = client.send("PUT", "/api/cameras/attic", "{}").await;
        assert_eq!(twice.status, 422);
        let named = client.send("PUT", "/api/cameras/..%2Fattic", "{}").await;
        assert_eq!(named.status, 400, "{named:?}");
        assert_eq!(
            client.send("DELETE", "/api/cameras/attic", "").await.status,
            200
        );
        assert_eq!(
            client.send("DELETE", "/api/cameras/attic", "").await.status,
            404
        );
    });
}

#[test]
fn a_token_shows_its_own_cameras_and_does_what_it_may() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let token = Token {
            name: "guard".to_owned(),
            sha256: sha256("correct-horse"),
            permissions: vec![Permission::Watch],
            cameras: vec!["yard".to_owned()],
        };
        let settings = Settings {
            tokens: vec![token],
            ..Settings::default()
        };
        let site = Site::begin(directory.path(), settings).await;
        let mut client = site.client();
        assert_eq!(client.get("/api/cameras").await.status, 401);
        assert_eq!(client.get("/").await.status, 200);
        let login = |token: &str| json!({ "token": token }).to_string();
        assert_eq!(
            client
                .send("POST", "/api/login", &login("wrong"))
                .await
                .status,
            401
        );
        let logged_in = client
            .send("POST", "/api/login", &login("correct-horse"))
            .await;
        let cookie = logged_in.header("set-cookie").unwrap();
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
            "{cookie}"
        );
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let seen = client
            .ask("GET", "/api/cameras", &[("cookie", &cookie)], "")
            .await
            .json();
        assert_eq!(seen["cameras"].as_array().unwrap().len(), 1);
        client.authorization = Some("Bearer correct-horse".to_owned());
        assert_eq!(client.get("/api/cameras/yard").await.status, 200);
        assert_eq!(client.get("/api/cameras/door").await.status, 404);
        assert_eq!(client.get("/api/volumes").await.status, 403);
        let clip = format!("/api/cameras/yard/clip.mp4?{}", around());
        assert_eq!(client.get(&clip).await.status, 403);
        assert_eq!(
            client.send("PUT", "/api/cameras/attic", "{}").await.status,
            403
        );
        assert_eq!(
            client.send("DELETE", "/api/cameras/yard", "").await.status,
            403
        );
    });
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
