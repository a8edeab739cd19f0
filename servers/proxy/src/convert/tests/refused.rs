//! What `check` would refuse of a result is an error of its line.

use super::converted;
use crate::config;

/// The errors of a configuration, of which the result is good if there are none.
fn errors(text: &str) -> String {
    let converted = converted(text);
    let errors = converted.remarks.iter().filter(|remark| remark.is_error);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    if errors.is_empty() {
        let checked = config::parse("result", &converted.toml);
        checked.unwrap_or_else(|wrong| panic!("{wrong}\n{}", converted.toml));
    }
    errors.join("\n")
}

#[test]
fn a_server_over_tls_has_a_name_that_a_certificate_could_have() {
    for (server, is_good) in [
        ("a.example:443 ssl verify none", true),
        ("127.0.0.1:443 ssl verify none", true),
        ("a-.example:443 ssl verify none", false),
        ("a-.example:443 ssl verify none sni str(b.example)", true),
        ("127.0.0.1:443 ssl verify none verifyhost [::1]", false),
        ("a-.example:443", true),
    ] {
        let errors = errors(&format!(
            "frontend in\n mode http\n bind :80\n default_backend b\n\
             backend b\n mode http\n server a {server}\n"
        ));
        assert_eq!(errors.is_empty(), is_good, "{server}: {errors}");
        let is_said = errors.contains("certificate could have");
        assert!(is_good || is_said, "{server}: {errors}");
    }
}

#[test]
fn no_address_is_a_part_of_another_one() {
    for (one, other, is_good) in [
        (":80", "127.0.0.1:80", false),
        ("127.0.0.1:80", ":80", false),
        ("127.0.0.1:80,:80", ":81", false),
        (":::80", ":80", false),
        (":80", "127.0.0.1:81", true),
        ("127.0.0.1:80", "127.0.0.2:80", true),
    ] {
        let errors = errors(&format!(
            "frontend one\n mode http\n bind {one}\n default_backend b\n\
             frontend two\n mode http\n bind {other}\n default_backend b\n\
             backend b\n mode http\n server a 127.0.0.1:8080\n"
        ));
        assert_eq!(errors.is_empty(), is_good, "{one} {other}: {errors}");
        assert!(
            is_good || errors.contains("overlap"),
            "{one} {other}: {errors}"
        );
    }
}

#[test]
fn an_answer_is_one_that_can_be_given() {
    for (answer, said) in [
        ("status 200 content-type text/plain string pong", ""),
        (
            "status 200 content-type text/plain content-type text/html string pong",
            "",
        ),
        ("status 204", ""),
        ("status 204 string pong", "has no body"),
        (
            "status 200 content-type t\u{7f}xt/plain string pong",
            "is no content type",
        ),
    ] {
        let errors = errors(&format!(
            "frontend in\n mode http\n bind :80\n http-request return {answer} if {{ path /p }}\n \
             default_backend b\nbackend b\n mode http\n server a 127.0.0.1:8080\n"
        ));
        assert_eq!(errors.is_empty(), said.is_empty(), "{answer}: {errors}");
        assert!(errors.contains(said), "{answer}: {errors}");
    }
}
