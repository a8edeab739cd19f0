//! Another configuration, and cameras that requests add, while the program serves.

use serde_json::{Value, json};

use super::support::{Program, simulator, until};

const WATCH: &str = "[watch]\nlisten = \"127.0.0.1:0\"\n";

fn camera(name: &str, url: &str) -> String {
    format!("[camera.{name}]\nurl = {url:?}\ndelivery = \"5ms\"\n")
}

/// Waits until a camera's samples come.
fn live(program: &Program, name: &str) -> Value {
    let mut last = Value::Null;
    until(&format!("{name} is live"), || {
        last = program.camera(name);
        last["state"] == "live" && last["samples"].as_u64() > Some(5)
    });
    last
}

#[test]
fn a_reload_touches_only_the_cameras_that_differ() {
    let simulator = simulator();
    let url = |stream| simulator.url(stream);
    let mut program = Program::start(
        &(WATCH.to_owned() + &camera("a", &url(0)) + &camera("b", &url(1)) + &camera("c", &url(2))),
    );
    let mut same = program.watch("a");
    let mut before = same.media().sequence();
    for name in ["a", "b", "c"] {
        live(&program, name);
    }
    program.rewrite(
        &(WATCH.to_owned() + &camera("d", &url(4)) + &camera("b", &url(3)) + &camera("a", &url(0))),
    );
    let (status, changes) = program.api("POST", "/api/reload", &Value::Null);
    assert_eq!(status, 200, "{changes}");
    let said = json!({ "added": ["d"], "changed": ["b"], "removed": ["c"], "needs_restart": [] });
    assert_eq!(changes, said);
    assert_eq!(program.cameras(), ["a", "b", "d"]);
    until("b has another session", || {
        program.camera("b")["sessions"].as_u64() == Some(2)
    });
    live(&program, "b");
    live(&program, "d");
    assert_eq!(program.camera("a")["sessions"], 1);
    for _ in 0..200 {
        let now = same.media().sequence();
        assert_eq!(now, before.wrapping_add(1));
        before = now;
    }
    // The same by a signal, after which nothing differs.
    program.signal("HUP");
    program.until_said("read again: cameras added 0, changed 0, removed 0");
    assert_eq!(program.camera("a")["sessions"], 1);
    program.terminate();
}

#[test]
fn a_configuration_that_is_wrong_changes_nothing() {
    let simulator = simulator();
    let good = WATCH.to_owned() + &camera("a", &simulator.url(0));
    let program = Program::start(&good);
    live(&program, "a");
    for (more, why) in [
        (
            "[camera.b]\nurl = \"http://x/\"\n",
            "no address of a camera",
        ),
        ("[camera.b]\nurll = 1\n", "unknown field"),
        (
            "[volume.v]\npath = \"/nonexistent/v\"\n[camera.b]\nurl = \"rtsp://127.0.0.1:9/\"\n\
             record = { volume = \"v\" }\n",
            "needs a restart",
        ),
    ] {
        program.rewrite(&(WATCH.to_owned() + more));
        let (status, said) = program.api("POST", "/api/reload", &Value::Null);
        assert_eq!(status, 422);
        assert!(said["error"].as_str().unwrap().contains(why), "{said}");
        assert_eq!(program.cameras(), ["a"]);
        assert_eq!(program.camera("a")["sessions"], 1);
    }
    program.signal("HUP");
    program.until_said("nothing was changed");
    assert_eq!(program.cameras(), ["a"]);
}

#[test]
fn a_configuration_that_changes_is_read_again_by_itself() {
    let simulator = simulator();
    let good = WATCH.to_owned() + &camera("a", &simulator.url(0));
    let mut program = Program::start_looking("", &good);
    let mut same = program.watch("a");
    program.rewrite(&(good.clone() + &camera("b", &simulator.url(1))));
    program.until_said("a file has changed, and was read again: cameras added 1");
    live(&program, "b");
    // What is wrong is said once, and changes nothing.
    program.rewrite(&(good.clone() + "[camera.b]\nurl = 1\n"));
    program.until_said("nothing was changed");
    assert_eq!(program.cameras(), ["a", "b"]);
    program.rewrite(&good);
    program.until_said("cameras added 0, changed 0, removed 1");
    let said = program.said();
    assert_eq!(said.matches("nothing was changed").count(), 1, "{said}");
    same.media();
    assert_eq!(program.camera("a")["sessions"], 1);
    program.terminate();
}

#[test]
fn cameras_that_requests_add_are_there_after_a_restart() {
    let simulator = simulator();
    let mut program = Program::start(&(WATCH.to_owned() + &camera("a", &simulator.url(0))));
    let described = json!({ "url": simulator.url(1), "delivery": "5ms" });
    assert_eq!(program.api("PUT", "/api/cameras/b", &described).0, 200);
    live(&program, "b");
    for name in ["a", "..%2Fa"] {
        let (status, _) = program.api("PUT", &format!("/api/cameras/{name}"), &described);
        assert!(matches!(status, 400 | 422), "{status}");
    }
    let wrong = json!({ "url": simulator.url(1), "record": { "volume": "none" } });
    assert_eq!(program.api("PUT", "/api/cameras/c", &wrong).0, 422);
    // A camera of the configuration is the operator's.
    assert_eq!(program.api("DELETE", "/api/cameras/a", &Value::Null).0, 422);
    assert_eq!(program.api("POST", "/api/reload", &Value::Null).0, 200);
    assert_eq!(program.cameras(), ["a", "b"]);
    assert_eq!(program.camera("b")["sessions"], 1);
    program.restart();
    assert_eq!(program.cameras(), ["a", "b"]);
    live(&program, "b");
    assert_eq!(program.api("DELETE", "/api/cameras/b", &Value::Null).0, 200);
    assert_eq!(program.api("DELETE", "/api/cameras/b", &Value::Null).0, 404);
    program.restart();
    assert_eq!(program.cameras(), ["a"]);
}

#[test]
fn who_may_watch_is_changed_while_it_serves() {
    let simulator = simulator();
    let config = WATCH.to_owned() + &camera("a", &simulator.url(0));
    let user = "[[rtsp.user]]\nname = \"u\"\npassword = \"p\"\nview = [\"a\"]\n";
    let mut program = Program::start(&config);
    let mut viewer = program.watch("a");
    program.rewrite(&(user.to_owned() + &config));
    assert_eq!(program.api("POST", "/api/reload", &Value::Null).0, 200);
    let answer = program.connect().ask("DESCRIBE", &program.url("a"), "");
    assert_eq!(answer.status, 401);
    // "u:p", as a browser sends it.
    let basic = "Authorization: Basic dTpw\r\n";
    let answer = program.connect().ask("DESCRIBE", &program.url("a"), basic);
    assert_eq!(answer.status, 200);
    // Who watches goes on.
    viewer.media();
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let token = format!(
        "[[watch.token]]\nname = \"t\"\nsha256 = \"{digest}\"\npermissions = [\"watch\"]\n"
    );
    program.rewrite(&(user.to_owned() + WATCH + &token + &camera("a", &simulator.url(0))));
    assert_eq!(program.api("POST", "/api/reload", &Value::Null).0, 200);
    assert_eq!(program.api("GET", "/api/cameras", &Value::Null).0, 401);
    let (head, _) = program.http(
        "GET",
        "/api/cameras",
        "authorization: Bearer secret\r\n",
        "",
    );
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    program.terminate();
}
