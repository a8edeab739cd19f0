//! What operators are told, as JSON and by levels.

use serde_json::Value;

use super::support::{Origin, Proxy, web};

/// The events that were told.
fn told(proxy: &Proxy) -> Vec<Value> {
    let said = proxy.complaints();
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn events_are_told_as_json_with_where_they_belong() {
    let origin = Origin::named("app");
    let route = "[[listener.web.route]]\npath = \"/lost\"\npool = \"lost\"\n";
    let lost = "[pool.lost]\ncheck = { kind = \"tcp\", interval = \"10ms\", fall = 1 }\n\
                [[pool.lost.server]]\nname = \"one\"\naddress = \"127.0.0.1:1\"\n";
    let config = format!(
        "[events]\nformat = \"json\"\n{}{lost}",
        web(route, "", &[&origin])
    );
    let proxy = Proxy::start(&config);
    proxy.until_said("server lost/one is down");
    assert_eq!(proxy.connect().get("/lost").status, 503);
    proxy.until_said("listener web: ");
    let told = told(&proxy);
    let find = |what: &str| {
        let is_it = |event: &&Value| event["message"].as_str().unwrap().contains(what);
        told.iter().find(is_it).unwrap()
    };
    let down = find("server lost/one is down");
    assert_eq!(
        (&down["server"], &down["level"]),
        (&"lost/one".into(), &"WARN".into())
    );
    assert!(down["why"].as_str().unwrap().contains("refused"), "{down}");
    assert_eq!(find("pool lost has no server")["level"], "ERROR");
    let span = &find("listener web: ")["span"];
    assert_eq!(
        (&span["listener"], &span["route"]),
        (&"web".into(), &"web/route1".into())
    );
}

#[test]
fn a_reload_changes_the_levels_of_events() {
    let origin = Origin::named("app");
    let config = format!("[events]\nlevel = \"error\"\n{}", web("", "", &[&origin]));
    let proxy = Proxy::start(&config);
    proxy.ctl("disable server app/s0");
    proxy.edit("level = \"error\"", "level = \"info\"");
    proxy.ctl("reload");
    proxy.until_said("done for an operator: reload");
    proxy.ctl("enable server app/s0");
    proxy.until_said("done for an operator: enable server app/s0");
    assert!(!proxy.complaints().contains("disable server"));
}
