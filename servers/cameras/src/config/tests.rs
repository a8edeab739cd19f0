//! What is read, and what is refused with its line.

use super::*;

fn problems(text: &str) -> Vec<(usize, String)> {
    match parse("cameras.toml", text) {
        Err(ConfigError::Wrong { problems }) => {
            let shown = |problem: Problem| (problem.line, problem.message);
            problems.into_iter().map(shown).collect()
        }
        Err(error) => panic!("{error}"),
        Ok(config) => panic!("it is taken: {config:?}"),
    }
}

#[test]
fn a_configuration_is_read_with_its_defaults() {
    let config = parse(
        "cameras.toml",
        "[rtsp]\nlisten = \"127.0.0.1:0\"\n\
         [camera.gate]\nurl = \"rtsp://192.0.2.1/main\"\nuser = \"u\"\npassword = \"p\"\n\
         transport = \"udp\"\ndelivery = \"40ms\"\n\
         [camera.yard]\n",
    )
    .unwrap();
    let gate = config.cameras["gate"].get_ref();
    assert_eq!(gate.url.as_ref().unwrap().get_ref().path(), "/main");
    assert_eq!(gate.transport, Transport::Udp);
    assert_eq!(*gate.delivery.get_ref(), Duration::from_millis(40));
    let yard = config.cameras["yard"].get_ref();
    assert!(yard.url.is_none());
    assert_eq!(*yard.delivery.get_ref(), Duration::from_millis(350));
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.ingest.connects_max, 16);
}

#[test]
fn every_problem_has_its_line_and_says_what_to_do() {
    let text = "[process]\nworkers = 0\n\
                [rtsp]\nlisten = \"0.0.0.0:8554\"\n\
                [camera.gate]\nurl = \"rtsp://192.0.2.1/main\"\nuser = \"u\"\n\
                [camera.\"a/b\"]\nurl = \"rtsp://192.0.2.1/\"\n";
    let found = problems(text);
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 4, 5, 8], "{found:?}");
    assert!(found[1].1.contains("[[rtsp.user]]"));
    assert!(found[2].1.contains("go together"));
    assert!(found[3].1.contains("is no name"));
    for (text, said) in [
        ("[camera.gate]\nurl = \"http://a/b\"\n", "rtsp://HOST/PATH"),
        ("[camera.gate]\nurl = \"nonsense\"\n", "rtsp://HOST/PATH"),
        ("[camera.gate]\nurll = \"x\"\n", "unknown field"),
        ("[camera.gate]\n", "nothing listens"),
        ("[limits]\nlag = \"5\"\n", "is no time"),
        ("[limits]\nmemory = \"5\"\n", "is no number of bytes"),
        (
            "[limits]\ncamera_memory = \"2GiB\"\n",
            "is more than limits.memory",
        ),
        ("[rtsp]\nlisten = \"nowhere\"\n", "is no address"),
    ] {
        let found = problems(text);
        assert!(found[0].1.contains(said), "{text}: {found:?}");
    }
}

#[test]
fn listeners_have_addresses_of_their_own() {
    let of = |rtsp: &str, watch: &str, admin: &str| {
        format!(
            "[process]\nadmin_page = \"{admin}\"\n[rtsp]\nlisten = \"{rtsp}\"\n\
             [watch]\nlisten = \"{watch}\"\n"
        )
    };
    for (rtsp, watch, admin) in [
        ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:1", "127.0.0.2:1", "127.0.0.1:2"),
        ("127.0.0.1:1", "[::1]:1", "127.0.0.1:2"),
    ] {
        parse("cameras.toml", &of(rtsp, watch, admin)).unwrap();
    }
    let found = problems(&of("127.0.0.1:1", "127.0.0.1:1", "0.0.0.0:1"));
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 5], "{found:?}");
    for (found, name) in found.iter().zip(["process.admin_page", "watch.listen"]) {
        let said = format!("{name} has the address of rtsp.listen");
        assert!(found.1.contains(&said), "{found:?}");
    }
}

#[test]
fn users_have_passwords_and_cameras_that_are_there() {
    let text = "[rtsp]\nlisten = \"0.0.0.0:8554\"\n\
                [[rtsp.user]]\nname = \"a\"\npassword = \"\"\n\
                [[rtsp.user]]\nname = \"a\"\npassword = \"x\"\nview = [\"*\", \"none\"]\n";
    let said: Vec<String> = problems(text)
        .into_iter()
        .map(|(_, message)| message)
        .collect();
    assert!(said[0].contains("and a password"), "{said:?}");
    assert!(said[1].contains("two users"), "{said:?}");
    assert!(said[2].contains("no camera \"none\""), "{said:?}");
}

/// What is written into logs has no passwords.
#[test]
fn passwords_are_not_shown() {
    let config = parse(
        "cameras.toml",
        "[rtsp]\nlisten = \"127.0.0.1:0\"\n\
         [[rtsp.user]]\nname = \"a\"\npassword = \"hidden\"\n\
         [camera.gate]\nurl = \"rtsp://u:hidden@192.0.2.1/\"\n\
         user = \"u\"\npassword = \"hidden\"\n",
    )
    .unwrap();
    assert!(!format!("{config:?}").contains("hidden"));
}

#[test]
fn packets_that_are_held_back_for_longer_than_silence_may_last_are_refused() {
    let text = "[ingest]\nsilence = \"1s\"\n[rtsp]\nlisten = \"127.0.0.1:0\"\n[camera.gate]\n\
                url = \"rtsp://192.0.2.1/\"\ndelivery = \"1s\"\n";
    let found = problems(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, 7);
    assert!(found[0].1.contains("ingest.silence"), "{found:?}");
    // The default too, which stands nowhere.
    let short = text.replace("\"1s\"\n[rtsp]", "\"300ms\"\n[rtsp]");
    let found = problems(&short.replace("delivery = \"1s\"\n", ""));
    assert_eq!((found.len(), found[0].0), (1, 5), "{found:?}");
    for good in [
        text.replace("delivery = \"1s\"", "delivery = \"999ms\""),
        // Nothing is held back of these.
        text.replace("delivery", "transport = \"udp\"\ndelivery"),
        text.replace("url = \"rtsp://192.0.2.1/\"\n", ""),
    ] {
        assert!(parse("cameras.toml", &good).is_ok(), "{good}");
    }
}
