//! Files that change are read again.

use super::support::{Authority, Origin, Proxy, Trust, until, web};

#[test]
fn a_configuration_that_changes_is_read_again() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let proxy = Proxy::start_with("watch = \"10ms\"", &web("", "", &[&one]));
    assert_eq!(proxy.connect().get("/").text(), "one");
    // Written in place.
    let server = |origin: &Origin| origin.address.to_string();
    proxy.edit(&server(&one), &server(&two));
    proxy.until_said("a file has changed, and was read again");
    assert_eq!(proxy.connect().get("/").text(), "two");
    // Replaced, as editors do it.
    let (file, beside) = (proxy.path("proxy.toml"), proxy.path("beside"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&beside, text.replace(&server(&two), &server(&one))).unwrap();
    std::fs::rename(&beside, &file).unwrap();
    until("it was read", || proxy.connect().get("/").text() == "one");
    // One that is wrong is said once, and changes nothing.
    proxy.edit("mode = \"http\"", "mode = \"htp\"");
    proxy.until_said("unknown variant `htp`");
    assert_eq!(proxy.connect().get("/").text(), "one");
    // And then it is mended.
    proxy.edit("mode = \"htp\"", "mode = \"http\"");
    proxy.edit(&server(&one), &server(&two));
    until("it was read", || proxy.connect().get("/").text() == "two");
    let said = proxy.complaints();
    assert_eq!(said.matches("unknown variant `htp`").count(), 1, "{said}");
}

#[test]
fn a_certificate_that_changes_is_read_again() {
    let (origin, authority) = (Origin::named("x"), Authority::new("a"));
    let old = authority.issue("web", &["a.example"]);
    let tls = format!("[listener.web.tls]\n{}", old.config("certificate"));
    let proxy = Proxy::start_with("watch = \"10ms\"", &web(&tls, "", &[&origin]));
    let trust = Trust::of(&authority);
    let shown = || {
        trust
            .connect(proxy.address("web"), "a.example")
            .certificate()
    };
    let before = old.der();
    assert_eq!(shown(), before);
    // Into the same files. Between the two, the key is not that of the certificate.
    let new = authority.issue("web", &["a.example"]);
    until("the new one is shown", || shown() == new.der());
    assert_ne!(new.der(), before);
}
