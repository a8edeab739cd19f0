//! Who may do what.

use super::*;

fn token(name: &str, secret: &str, cameras: &[&str]) -> Token {
    let digest = Sha256::digest(secret.as_bytes());
    Token {
        name: name.to_owned(),
        sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        permissions: vec![Permission::Watch],
        cameras: cameras.iter().map(|camera| (*camera).to_owned()).collect(),
    }
}

fn asks(access: &Access, method: &Method, headers: &[(&str, &str)]) -> Result<Rights, u16> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, value.parse().unwrap());
    }
    let uri = "/api/cameras".parse().unwrap();
    access
        .rights(method, &uri, &map)
        .map_err(|refusal| refusal.0.as_u16())
}

#[test]
fn without_tokens_this_machine_may_do_everything() {
    let access = Access::new(&[]).unwrap();
    let get = &Method::GET;
    for host in ["127.0.0.1:80", "localhost", "[::1]:8090", "LOCALHOST:1"] {
        let rights = asks(&access, get, &[("host", host)]).unwrap();
        assert!(rights.allow(Permission::Manage, "yard"), "{host}");
    }
    for host in ["example.org", "10.0.0.1:80", "localhost.example.org", ""] {
        assert_eq!(asks(&access, get, &[("host", host)]), Err(403), "{host}");
    }
    assert_eq!(asks(&access, get, &[]), Err(403));
}

#[test]
fn a_token_is_taken_from_where_clients_can_put_it() {
    let access = Access::new(&[token("a", "correct-horse", &[])]).unwrap();
    let basic = format!("Basic {}", BASE64_STANDARD.encode("anybody:correct-horse"));
    let wrong = format!("Basic {}", BASE64_STANDARD.encode("correct-horse:"));
    let get = |name, value| asks(&access, &Method::GET, &[(name, value)]);
    assert!(get("authorization", "Bearer correct-horse").is_ok());
    assert!(get("authorization", "bearer correct-horse").is_ok());
    assert!(get("authorization", &basic).is_ok());
    assert!(get("cookie", "x=y; evenkeel-cameras=correct-horse").is_ok());
    for (name, value) in [
        ("host", "localhost"),
        ("authorization", "Bearer correct-hors"),
        ("authorization", "Bearer "),
        ("authorization", "correct-horse"),
        ("authorization", &wrong),
        ("authorization", "Basic !"),
        ("cookie", "evenkeel-camera=correct-horse"),
    ] {
        assert_eq!(get(name, value), Err(401), "{value}");
    }
}

#[test]
fn tokens_are_for_what_they_say() {
    let access = Access::new(&[token("a", "one-horse", &["yard"])]).unwrap();
    let rights = access.of(b"one-horse").unwrap();
    assert!(rights.allow(Permission::Watch, "yard"));
    assert!(!rights.allow(Permission::Watch, "door") && !rights.know("door"));
    assert!(!rights.allow(Permission::Manage, "yard"));
    assert_eq!(access.of(&[b'x'; 1_000]), None);
    for digest in ["", "12", &"g".repeat(64), &"+".repeat(64), &"0".repeat(63)] {
        let token = Token {
            sha256: digest.to_owned(),
            ..token("bad", "", &[])
        };
        assert_eq!(
            Access::new(&[token]).unwrap_err(),
            TokenError("bad".to_owned())
        );
    }
}

#[test]
fn pages_of_others_change_nothing_and_open_no_socket() {
    let access = Access::new(&[token("a", "correct-horse", &[])]).unwrap();
    let cookie = ("cookie", "evenkeel-cameras=correct-horse");
    let host = ("host", "cameras.example:8090");
    let (own, foreign) = (
        ("origin", "http://cameras.example:8090"),
        ("origin", "http://evil.example"),
    );
    let post = |headers: &[_]| asks(&access, &Method::POST, headers).map(drop);
    assert_eq!(post(&[cookie, host, own]), Ok(()));
    assert_eq!(post(&[cookie, host, foreign]), Err(403));
    assert_eq!(post(&[cookie, host, ("origin", "null")]), Err(403));
    assert_eq!(post(&[cookie, host, ("origin", "http://\u{e9}")]), Err(403));
    assert_eq!(post(&[cookie, host, own, foreign]), Err(403));
    assert_eq!(post(&[cookie, host, ("host", "evil.example")]), Err(400));
    assert_eq!(
        post(&[cookie, host, ("sec-fetch-site", "cross-site")]),
        Err(403)
    );
    assert_eq!(
        post(&[cookie, host, ("sec-fetch-site", "same-origin")]),
        Ok(())
    );
    let get = |headers: &[_]| asks(&access, &Method::GET, headers).map(drop);
    let socket = ("upgrade", "websocket");
    assert_eq!(get(&[cookie, host, socket, own]), Ok(()));
    assert_eq!(get(&[cookie, host, socket, foreign]), Err(403));
    assert_eq!(
        get(&[cookie, host, ("sec-fetch-site", "cross-site")]),
        Err(403)
    );
}
