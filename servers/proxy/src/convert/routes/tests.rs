//! Routes that say what the rules say.

use super::*;
use crate::convert::condition::Literal;

const HERE: Here = Here {
    is_tls: false,
    port: Some(80),
};

fn begins(path: &str) -> Atom {
    Atom::Path(PathIs::Begins(path.to_owned()))
}

fn literal(is_not: bool, any_of: &[Atom]) -> Literal {
    Literal {
        is_not,
        any_of: any_of.to_vec(),
    }
}

fn rule(of: &[Literal], to: &'static str) -> Rule<&'static str> {
    Rule {
        line: 1,
        of: vec![of.to_vec()],
        to,
    }
}

/// What the rules say of a request, by their own words.
fn by_rules(rules: &[Rule<&'static str>], is_so: &dyn Fn(&Atom) -> bool) -> &'static str {
    let all = |literals: &Vec<Literal>| {
        literals
            .iter()
            .all(|literal| literal.any_of.iter().any(is_so) != literal.is_not)
    };
    let found = rules.iter().find(|rule| rule.of.iter().any(all));
    found.map_or("default", |rule| rule.to)
}

/// What the routes say of it.
fn by_routes(
    routes: &[(Match, &'static str)],
    (host, path, method): (&str, &str, &str),
) -> &'static str {
    let fits = |of: &Match| {
        let host_fits = |name: &String| match name.strip_prefix('*') {
            Some(end) => host.len() > end.len() && host.ends_with(end),
            None => host == name,
        };
        let path_fits = |is: &PathIs| match is {
            PathIs::Is(whole) => path == whole,
            PathIs::Begins(with) => path.starts_with(with.as_str()),
            PathIs::Ends(with) => path.ends_with(with.as_str()),
            PathIs::Both(from, to) => {
                path.starts_with(from.as_str()) && path.ends_with(to.as_str())
            }
        };
        of.host.as_ref().is_none_or(host_fits)
            && of.path.as_ref().is_none_or(path_fits)
            && of
                .methods
                .as_ref()
                .is_none_or(|all| all.iter().any(|one| one == method))
    };
    routes.iter().find(|(of, _)| fits(of)).unwrap().1
}

#[test]
fn clients_are_in_the_networks_that_both_have() {
    let of = |networks: &[&str]| {
        let networks = networks.iter().map(|text| text.parse().unwrap()).collect();
        Match::of(&Atom::Client(networks), HERE).unwrap()
    };
    for (one, other, common) in [
        (
            &["10.0.0.0/8"][..],
            &["10.1.0.0/16"][..],
            &["10.1.0.0/16"][..],
        ),
        (
            &["10.1.0.0/16", "::1/128"],
            &["10.0.0.0/8"],
            &["10.1.0.0/16"],
        ),
        (&["10.0.0.0/8"], &["11.0.0.0/8", "::/0"], &[]),
    ] {
        let found = of(one).and(&of(other)).unwrap();
        assert_eq!(found, (!common.is_empty()).then(|| of(common)), "{one:?}");
        assert_eq!(
            found,
            of(other).and(&of(one)).unwrap(),
            "the other way round"
        );
    }
    let pattern = |text: &str| Match::of(&Atom::PathMatches(text.to_owned()), HERE).unwrap();
    assert_eq!(pattern("a").and(&pattern("a")).unwrap(), Some(pattern("a")));
    assert!(pattern("a").and(&pattern("b")).is_err(), "there is one");
}

#[test]
fn what_must_not_be_goes_where_the_rest_would_send_it() {
    let rules = [
        rule(
            &[
                literal(false, &[begins("/a")]),
                literal(true, &[begins("/a/b")]),
            ],
            "one",
        ),
        rule(
            &[literal(false, &[Atom::Methods(vec!["PUT".to_owned()])])],
            "two",
        ),
    ];
    let routes = compiled(&rules, "default", HERE).unwrap();
    for (path, method, to) in [
        ("/a", "GET", "one"),
        ("/a/b", "GET", "default"),
        ("/a/b", "PUT", "two"),
        ("/c", "PUT", "two"),
        ("/c", "GET", "default"),
    ] {
        assert_eq!(
            by_routes(&routes, ("h", path, method)),
            to,
            "{method} {path}"
        );
    }
}

#[test]
fn what_is_the_same_for_a_listener_is_decided_here() {
    let rules = [
        rule(&[literal(true, &[Atom::Tls(true)])], "plain"),
        rule(&[], "never"),
    ];
    let routes = compiled(&rules, "default", HERE).unwrap();
    assert_eq!(routes, [(Match::default(), "plain")]);
    let rules = [rule(&[literal(false, &[Atom::Port(81)])], "other")];
    let routes = compiled(&rules, "default", HERE).unwrap();
    assert_eq!(routes, [(Match::default(), "default")]);
}

mod random {
    use proptest::prelude::*;

    use super::*;

    const HOSTS: [&str; 4] = ["a.example", "b.a.example", "c.example", "example"];
    const PATHS: [&str; 6] = ["/", "/a", "/a/b", "/a/b.png", "/c.png", "/ab"];
    const METHODS: [&str; 3] = ["GET", "PUT", "HEAD"];

    fn atom() -> impl Strategy<Value = Atom> {
        let host = |text: &str| Atom::Host(text.to_owned());
        prop_oneof![
            (0..HOSTS.len()).prop_map(move |index| host(HOSTS[index])),
            Just(host("*.example")),
            Just(host("*.a.example")),
            (0..PATHS.len()).prop_map(|index| Atom::Path(PathIs::Is(PATHS[index].to_owned()))),
            prop_oneof![Just("/"), Just("/a"), Just("/a/")].prop_map(begins),
            Just(Atom::Path(PathIs::Ends(".png".to_owned()))),
            (0..METHODS.len())
                .prop_map(|index| Atom::Methods(vec![METHODS[index].to_owned(), "GET".to_owned()])),
            any::<bool>().prop_map(Atom::Always),
            any::<bool>().prop_map(Atom::Tls),
        ]
    }

    fn rules() -> impl Strategy<Value = Vec<Rule<&'static str>>> {
        let literal = (any::<bool>(), prop::collection::vec(atom(), 1..3));
        let literal = literal.prop_map(|(is_not, any_of)| Literal { is_not, any_of });
        let of = prop::collection::vec(prop::collection::vec(literal, 1..3), 1..3);
        let to = prop_oneof![Just("one"), Just("two"), Just("three")];
        let rule = (of, to).prop_map(|(of, to)| Rule { line: 1, of, to });
        prop::collection::vec(rule, 0..4)
    }

    proptest! {
        #[test]
        fn routes_say_what_the_rules_say(rules in rules()) {
            // What cannot be said is an error, and no route.
            let Ok(routes) = compiled(&rules, "default", HERE) else {
                return Ok(());
            };
            let thinned = thinned(routes.clone());
            prop_assert!(thinned.len() <= routes.len());
            for host in HOSTS {
                for path in PATHS {
                    for method in METHODS {
                        let is_so = |atom: &Atom| {
                            let of = Match::of(atom, HERE);
                            of.is_some_and(|of| {
                                by_routes(&[(of, "x"), (Match::default(), "")],
                                    (host, path, method)) == "x"
                            })
                        };
                        prop_assert_eq!(
                            by_rules(&rules, &is_so),
                            by_routes(&routes, (host, path, method)),
                            "{} {}{}", method, host, path
                        );
                        prop_assert_eq!(
                            by_routes(&routes, (host, path, method)),
                            by_routes(&thinned, (host, path, method)),
                            "{} {}{}", method, host, path
                        );
                    }
                }
            }
        }
    }
}
