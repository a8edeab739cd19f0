//! The examples of the standards, and what else cameras and players send.

use super::*;
use proptest::prelude::*;

fn mufasa(password: &str) -> Credentials {
    Credentials {
        user: "Mufasa".to_owned(),
        password: password.to_owned(),
    }
}

fn parameter(header: &str, name: &str) -> String {
    split(header)[0].1[name].clone()
}

/// RFC 2617, section 3.5.
#[test]
fn the_example_of_rfc_2617() {
    let header = "Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
                  nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", \
                  opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
    let mut answering = Answering::best(header).unwrap();
    let answer = answering.authorization(
        &mufasa("Circle Of Life"),
        "GET",
        "/dir/index.html",
        "0a4f113b",
    );
    assert_eq!(
        parameter(&answer, "response"),
        "6629fae49393a05397450978507c4ef1"
    );
    assert_eq!(parameter(&answer, "nc"), "00000001");
    assert_eq!(
        parameter(&answer, "opaque"),
        "5ccc069c403ebaf9f0171e9517f40e41"
    );
    let again = answering.authorization(&mufasa("Circle Of Life"), "GET", "/", "0a4f113b");
    assert_eq!(parameter(&again, "nc"), "00000002");
}

/// RFC 7616, section 3.9.1: both algorithms, of which the stronger one is taken.
#[test]
fn the_examples_of_rfc_7616() {
    let of = |algorithm: &str| {
        format!(
            "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", \
             algorithm={algorithm}, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        )
    };
    let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
    let answer = |header: &str| {
        let mut answering = Answering::best(header).unwrap();
        let credentials = mufasa("Circle of Life");
        answering.authorization(&credentials, "GET", "/dir/index.html", cnonce)
    };
    let sha = "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1";
    let md5 = "8ca523f5e9506fed4657c9700eebdbec";
    assert_eq!(parameter(&answer(&of("SHA-256")), "response"), sha);
    assert_eq!(parameter(&answer(&of("MD5")), "response"), md5);
    let both = format!("{}, {}, Basic realm=\"x\"", of("MD5"), of("SHA-256"));
    assert_eq!(parameter(&answer(&both), "response"), sha);
}

/// RFC 7617, section 2.
#[test]
fn the_example_of_basic() {
    let mut answering = Answering::best("Basic realm=\"WallyWorld\"").unwrap();
    let credentials = Credentials {
        user: "Aladdin".to_owned(),
        password: "open sesame".to_owned(),
    };
    let answer = answering.authorization(&credentials, "DESCRIBE", "rtsp://a", "");
    assert_eq!(answer, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

#[test]
fn a_server_takes_what_its_own_client_answers() {
    let checking = Checking::new("cameras", [7; 16]);
    let password_of = |user: &str| (user == "Mufasa").then(|| "Circle of Life".to_owned());
    let check = |header: Option<&str>, method| checking.check(header, method, password_of);
    assert_eq!(check(None, "PLAY"), Err(Refused::Missing));
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        let mut answering = Answering::best(&checking.challenge(algorithm)).unwrap();
        let mut answer =
            |password| answering.authorization(&mufasa(password), "PLAY", "rtsp://a/b", "c");
        assert_eq!(
            check(Some(&answer("Circle of Life")), "PLAY").unwrap(),
            "Mufasa"
        );
        assert_eq!(
            check(Some(&answer("Circle of Life")), "SETUP"),
            Err(Refused::Wrong)
        );
        assert_eq!(check(Some(&answer("circle")), "PLAY"), Err(Refused::Wrong));
        // What another connection was asked is of no use here.
        let other = Checking::new("cameras", [8; 16]);
        let replayed = other.check(Some(&answer("Circle of Life")), "PLAY", password_of);
        assert_eq!(replayed, Err(Refused::Wrong));
    }
    let basic = |text: &str| format!("basic {}", STANDARD.encode(text));
    assert!(check(Some(&basic("Mufasa:Circle of Life")), "PLAY").is_ok());
    for wrong in ["Mufasa:", "Mufasa:circle", "Scar:", ":", ""] {
        assert_eq!(
            check(Some(&basic(wrong)), "PLAY"),
            Err(Refused::Wrong),
            "{wrong}"
        );
    }
}

/// A user whom nobody knows has no password, not an empty one.
#[test]
fn an_unknown_user_with_an_empty_password_is_refused() {
    let checking = Checking::new("cameras", [7; 16]);
    let mut answering = Answering::best(&checking.challenge(Algorithm::Md5)).unwrap();
    let nobody = Credentials {
        user: "nobody".to_owned(),
        password: String::new(),
    };
    let answer = answering.authorization(&nobody, "PLAY", "rtsp://a", "c");
    assert_eq!(
        checking.check(Some(&answer), "PLAY", |_| None),
        Err(Refused::Wrong)
    );
}

#[test]
fn challenges_of_cameras_are_understood() {
    let digest = |header: &str| match Answering::best(header).unwrap().challenge {
        Challenge::Digest {
            realm,
            nonce,
            counts,
            ..
        } => (realm, nonce, counts),
        Challenge::Basic { .. } => panic!("{header}"),
    };
    let plain = "Digest realm=\"IP Camera(12345)\", nonce=\"abc\", stale=\"FALSE\"";
    let expected = ("IP Camera(12345)".to_owned(), "abc".to_owned(), false);
    assert_eq!(digest(plain), expected);
    assert!(!Answering::is_stale(plain));
    assert!(Answering::is_stale("Digest realm=a, nonce=b, stale=true"));
    assert_eq!(digest(&format!("Basic realm=\"a, b\", {plain}")), expected);
    assert_eq!(
        digest("digest realm = \"say \\\"hi\\\"\",nonce=x").0,
        "say \"hi\""
    );
    for unknown in [
        "",
        "Digest",
        "Negotiate abc",
        "Digest realm=a, nonce=b, qop=auth-int",
    ] {
        assert!(Answering::best(unknown).is_none(), "{unknown}");
    }
    let other = "Digest realm=a, nonce=b, algorithm=SHA-512-256";
    assert!(Answering::best(other).is_none());
}

proptest! {
    #[test]
    fn nonsense_does_no_harm(header in ".*") {
        let _ = Answering::best(&header);
        let _ = Checking::new("r", [0; 16]).check(Some(&header), "PLAY", |_| None);
    }

    #[test]
    fn parameters_are_read_as_they_were_quoted(value in "[^\r\n]*") {
        let header = format!("Digest a=1, b={}, c=2", quoted(&value));
        let parameters = &split(&header)[0].1;
        prop_assert_eq!(&parameters["b"], &value);
        prop_assert_eq!(&parameters["c"], "2");
    }
}
