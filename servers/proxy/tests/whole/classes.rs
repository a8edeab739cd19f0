//! Classes of listeners and routes, and what each of them has cost.

use serde_json::Value;

use super::support::{Origin, Proxy, until};

fn row(proxy: &Proxy, class: &str) -> Value {
    let rows: Vec<Value> = serde_json::from_str(&proxy.ctl("show cpu json")).unwrap();
    let found = rows.iter().find(|row| row["class"] == class);
    found.unwrap().clone()
}

#[test]
fn a_route_with_a_class_of_its_own_has_its_own_account() {
    let origin = Origin::named("x");
    let config = "[class.video]\nshare = 7\n[class.front]\n\
         [listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
         class = \"front\"\n\
         [[listener.web.route]]\npath = \"/video\"\npool = \"app\"\nclass = \"video\"\n"
        .to_owned()
        + &origin.config("app", "s0");
    let proxy = Proxy::start(&config);
    assert_eq!(row(&proxy, "video")["share"], 7);
    assert_eq!(row(&proxy, "video")["used_by"], "web/route1");
    assert_eq!(row(&proxy, "front")["used_by"], "web");
    let mut client = proxy.connect();
    let polls = |class: &str| row(&proxy, class)["polls"].as_u64().unwrap();
    assert_eq!(client.get("/other").text(), "x");
    assert!(polls("front") > 0);
    assert_eq!(polls("video"), 0, "nothing was asked for in it");
    for _ in 0..50 {
        assert_eq!(client.get("/video").text(), "x");
    }
    until("its polls are counted", || polls("video") > 0);
    // Shares are changed by a reload, while the proxy works.
    proxy.rewrite(&config.replace("share = 7", "share = 9"));
    proxy.ctl("reload");
    assert_eq!(row(&proxy, "video")["share"], 9);
    // Checks and operators are in a class of their own.
    assert!(
        row(&proxy, "urgent")["used_by"]
            .as_str()
            .unwrap()
            .contains("operators")
    );
    assert!(polls("urgent") > 0);
    let text = proxy.ctl("show cpu");
    assert!(
        text.contains("video") && text.contains("workers 2: wall"),
        "{text}"
    );
}
