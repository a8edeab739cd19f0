//! Classes of listeners and routes, and what each of them has cost.

use serde_json::Value;

use super::support::{Origin, Proxy, until};

fn rows(proxy: &Proxy) -> Vec<Value> {
    serde_json::from_str(&proxy.ctl("show cpu json")).unwrap()
}

fn row(proxy: &Proxy, class: &str) -> Value {
    let rows = rows(proxy);
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
    // Checks and operators have a row of their own.
    assert!(
        row(&proxy, "(operators)")["used_by"]
            .as_str()
            .unwrap()
            .contains("operators")
    );
    assert!(polls("(operators)") > 0);
    let text = proxy.ctl("show cpu");
    assert!(
        text.contains("video") && text.contains("workers 2: wall"),
        "{text}"
    );
}

#[test]
fn forty_routes_have_forty_accounts() {
    const ROUTES: usize = 40;
    let origin = Origin::named("x");
    let classes: String = (0..ROUTES)
        .map(|number| format!("[class.r{number}]\nshare = {}\n", number + 1))
        .collect();
    let routes: String = (0..ROUTES)
        .map(|number| {
            format!(
                "[[listener.web.route]]\npath = \"/r{number}\"\npool = \"app\"\n\
                 class = \"r{number}\"\n"
            )
        })
        .collect();
    let listener = "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n";
    let proxy = Proxy::start(&format!(
        "{classes}{listener}{routes}{}",
        origin.config("app", "s0")
    ));
    let polls = |rows: &[Value], number: usize| {
        let name = format!("r{number}");
        let row = rows.iter().find(|row| row["class"] == *name).unwrap();
        assert_eq!(row["share"], number + 1);
        assert_eq!(row["used_by"], format!("web/route{}", number + 1));
        row["polls"].as_u64().unwrap()
    };
    // Those with even numbers are asked, and those alone have costs.
    let mut client = proxy.connect();
    let asked = || (0..ROUTES).step_by(2);
    until("each that is asked has its polls", || {
        for number in asked() {
            assert_eq!(client.get(&format!("/r{number}/a")).text(), "x");
        }
        let rows = rows(&proxy);
        asked().all(|number| polls(&rows, number) > 0)
    });
    let rows = rows(&proxy);
    assert!(asked().all(|number| polls(&rows, number + 1) == 0));
    // All together have what the process used: what belongs to no route is there as well.
    for beside in ["(I/O checks)", "(spinning)", "(stealing)", "(monitor)"] {
        let row = rows.iter().find(|row| row["class"] == beside).unwrap();
        assert!(row["run_ms"].as_f64().unwrap() >= 0.0, "{row}");
    }
}
