//! What a single test of a condition asks for: what is looked at, how, and the values of which one
//! has to fit.

use std::net::IpAddr;

use ipnet::IpNet;

use super::condition::{Atom, PathIs};
use super::settings::is_token;
use super::values;
use crate::config::{NETWORKS_MAX, Pattern};

/// The largest file of values that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Is,
    Begins,
    Ends,
    /// It is somewhere.
    Within,
    /// Between dots.
    Domain,
    /// Between slashes.
    Directory,
    /// By a regular expression.
    Matches,
    Found,
}

/// Names of headers' tests, and how they compare.
const HEADERS: [(&str, How); 10] = [
    ("req.hdr", How::Is),
    ("req.fhdr", How::Is),
    ("hdr_beg", How::Begins),
    ("hdr_end", How::Ends),
    ("hdr_dom", How::Domain),
    ("hdr_reg", How::Matches),
    ("hdr_sub", How::Within),
    ("hdr_cnt", How::Found),
    ("req.hdr_cnt", How::Found),
    ("hdr", How::Is),
];

/// What a test asks for; one of them has to be so.
pub(super) fn atoms(words: &[&str]) -> Result<Vec<Atom>, String> {
    let (&what, rest) = words.split_first().ok_or("a test is empty")?;
    let (mut how, mut ignores_case, mut rest) = (None, false, rest);
    let mut values = Vec::new();
    loop {
        match rest {
            ["-i", after @ ..] => (ignores_case, rest) = (true, after),
            ["-m", kind, after @ ..] => (how, rest) = (Some(how_of(kind)?), after),
            ["-f", file, after @ ..] => {
                values.extend(of_file(file)?);
                rest = after;
            }
            ["--", after @ ..] => {
                rest = after;
                break;
            }
            [flag, ..] if flag.len() == 2 && flag.starts_with('-') => {
                return Err(format!("the flag {flag} of a test has no counterpart here"));
            }
            _ => break,
        }
    }
    values.extend(rest.iter().map(|&value| value.to_owned()));
    let test = Test {
        how,
        ignores_case,
        values,
    };
    test.of(what)
}

fn how_of(kind: &str) -> Result<How, String> {
    match kind {
        "str" => Ok(How::Is),
        "beg" => Ok(How::Begins),
        "end" => Ok(How::Ends),
        "sub" => Ok(How::Within),
        "dom" => Ok(How::Domain),
        "dir" => Ok(How::Directory),
        "reg" => Ok(How::Matches),
        "found" => Ok(How::Found),
        other => Err(format!("values cannot be compared by {other} here")),
    }
}

/// The values of a file, one in each line, as they are now.
fn of_file(path: &str) -> Result<Vec<String>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("cannot read {path}: {error}");
    let length = std::fs::metadata(path)
        .map_err(|error| wrong(&error))?
        .len();
    if length > FILE_BYTES_MAX {
        let said = format!("it has more than {FILE_BYTES_MAX} bytes, which are too many values");
        return Err(wrong(&said));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let lines = text.lines().map(str::trim);
    let said = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(said.map(str::to_owned).collect())
}

struct Test {
    how: Option<How>,
    ignores_case: bool,
    values: Vec<String>,
}

impl Test {
    fn of(&self, what: &str) -> Result<Vec<Atom>, String> {
        match what {
            "always_true" => return Ok(vec![Atom::Always(true)]),
            "always_false" => return Ok(vec![Atom::Always(false)]),
            "ssl_fc" => return Ok(vec![Atom::Tls(true)]),
            "src" => return self.client(),
            "req.ssl_sni" | "req_ssl_sni" | "ssl_fc_sni" => {
                return self.each(|value| server_name(value, self.how.unwrap_or(How::Is)));
            }
            "ssl_fc_sni_end" => return self.each(|value| server_name(value, How::Ends)),
            "method" => {
                if let Some(name) = self.values.iter().find(|name| !is_token(name)) {
                    return Err(format!("{name:?} is no method"));
                }
                return self.checked(vec![Atom::Methods(self.values.clone())]);
            }
            "dst_port" => {
                return self.each(|port| {
                    let port = port.parse().map_err(|_| format!("{port} is no port"))?;
                    Ok(vec![Atom::Port(port)])
                });
            }
            _ => {}
        }
        if let Some(kind) = what.strip_prefix("path") {
            return self.path(kind, what);
        }
        for (before, how) in HEADERS {
            let inner = what
                .strip_prefix(before)
                .and_then(|rest| rest.strip_prefix('('));
            let Some((name, converters)) = inner.and_then(|rest| rest.split_once(')')) else {
                continue;
            };
            let is_whole = before == "req.fhdr";
            return self.header(name, converters, self.how.unwrap_or(how), is_whole);
        }
        Err(format!(
            "routes go by client, host, path, header and method, and not by {what}"
        ))
    }

    fn each(&self, atoms: impl Fn(&str) -> Result<Vec<Atom>, String>) -> Result<Vec<Atom>, String> {
        let mut all = Vec::new();
        for value in &self.values {
            all.extend(atoms(value)?);
        }
        self.checked(all)
    }

    fn checked(&self, atoms: Vec<Atom>) -> Result<Vec<Atom>, String> {
        if self.values.is_empty() || atoms.is_empty() {
            return Err("the test has no value".to_owned());
        }
        Ok(atoms)
    }

    fn client(&self) -> Result<Vec<Atom>, String> {
        if self.how.is_some() {
            return Err("clients are compared by their networks alone".to_owned());
        }
        let networks = self.values.iter().map(|value| network(value));
        let networks = networks.collect::<Result<Vec<IpNet>, String>>()?;
        if networks.len() > NETWORKS_MAX {
            let count = networks.len();
            return Err(format!(
                "{count} networks are too many: a route has {NETWORKS_MAX}"
            ));
        }
        self.checked(vec![Atom::Client(networks)])
    }

    fn path(&self, kind: &str, what: &str) -> Result<Vec<Atom>, String> {
        let how = match (kind, self.how) {
            ("", how) => how.unwrap_or(How::Is),
            ("_beg", None) => How::Begins,
            ("_end", None) => How::Ends,
            ("_sub", None) => How::Within,
            ("_dir", None) => How::Directory,
            ("_reg", None) => How::Matches,
            _ => {
                return Err(format!(
                    "{what} has no counterpart: take path, path_beg, path_end, path_sub, \
                     path_dir or path_reg"
                ));
            }
        };
        self.each(|value| self.path_value(value, how))
    }

    fn path_value(&self, value: &str, how: How) -> Result<Vec<Atom>, String> {
        if how != How::Matches && !values::is_of_path(value) {
            return Err(format!("{value:?} stands in no path"));
        }
        let has_letters = value.bytes().any(|byte| byte.is_ascii_alphabetic());
        let is_plain = !(self.ignores_case && has_letters);
        let owned = value.to_owned();
        Ok(vec![match how {
            How::Ends if is_plain => Atom::Path(PathIs::Ends(owned)),
            // No path begins otherwise.
            How::Is | How::Begins if !value.starts_with('/') => Atom::Always(false),
            How::Is if is_plain => Atom::Path(PathIs::Is(owned)),
            How::Begins if is_plain => Atom::Path(PathIs::Begins(owned)),
            How::Domain | How::Found => return Err("paths have no domains".to_owned()),
            how => Atom::PathMatches(self.pattern(value, how, ["^", "$"])?),
        }])
    }

    fn header(
        &self,
        name: &str,
        converters: &str,
        how: How,
        is_whole: bool,
    ) -> Result<Vec<Atom>, String> {
        if !is_token(name) {
            return Err(format!("{name:?} is no name of a header"));
        }
        let is_host = name.eq_ignore_ascii_case("host");
        let keeps_all = [
            "",
            ",lower",
            ",field(1,:)",
            ",field(1,:),lower",
            ",lower,field(1,:)",
        ];
        let is_plain = converters.is_empty() || (is_host && keeps_all.contains(&converters));
        if !is_plain {
            return Err(format!(
                "the converter {converters} has no counterpart here"
            ));
        }
        if how == How::Found && !is_host {
            let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
            let is_there = matches!(values[..], [] | ["gt", "0"] | ["ge", "1"] | ["1"]);
            return match is_there {
                true => Ok(vec![Atom::Header(name.to_owned(), "*".to_owned())]),
                false => Err("headers are there or not, and are not counted".to_owned()),
            };
        }
        self.each(|value| {
            if is_host {
                host(value, how)
            } else {
                self.value(name, value, how, is_whole)
            }
        })
    }

    fn value(
        &self,
        name: &str,
        value: &str,
        how: How,
        is_whole: bool,
    ) -> Result<Vec<Atom>, String> {
        let has_letters = value.bytes().any(|byte| byte.is_ascii_alphabetic());
        if is_whole && how == How::Is && !(self.ignores_case && has_letters) && value != "*" {
            return Ok(vec![Atom::Header(name.to_owned(), value.to_owned())]);
        }
        // A list is compared by its members.
        let ends = match is_whole {
            true => ["^", "$"],
            false => ["(?:^|,)[ \\t]*", "[ \\t]*(?:,|$)"],
        };
        let pattern = self.pattern(value, how, ends)?;
        Ok(vec![Atom::HeaderMatches(name.to_owned(), pattern)])
    }

    /// A pattern that is found where a value fits, with what a text begins and ends with.
    fn pattern(&self, value: &str, how: How, ends: [&str; 2]) -> Result<String, String> {
        let pattern = pattern(value, how, ends)?;
        match self.ignores_case {
            true => Ok(format!("(?i){pattern}")),
            false => Ok(pattern),
        }
    }
}

/// A name that clients ask for by TLS. Case does not count here.
fn server_name(value: &str, how: How) -> Result<Vec<Atom>, String> {
    let value = value.to_ascii_lowercase();
    let plain = value.strip_prefix('.').unwrap_or(&value);
    if !values::is_host(plain) || plain.contains([':', '*', '[']) {
        return Err(format!("{value:?} is no name that is asked for by TLS"));
    }
    match how {
        How::Is if plain == value => Ok(vec![Atom::ServerName(plain.to_owned())]),
        How::Ends if plain != value => Ok(vec![Atom::ServerName(format!("*.{plain}"))]),
        _ => {
            Err("names by TLS are whole, or all below one, such as `-m end .a.example`".to_owned())
        }
    }
}

/// The host. Ports and case do not count here.
fn host(value: &str, how: How) -> Result<Vec<Atom>, String> {
    if how == How::Matches {
        return Ok(vec![Atom::HostMatches(expression(value)?)]);
    }
    let value = value.to_ascii_lowercase();
    let name = match value.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => &value,
    };
    let plain = name.strip_prefix('.').unwrap_or(name);
    if !values::is_host(plain) || plain.starts_with("*.") {
        return Err(format!("{value:?} is no host"));
    }
    let below = || Atom::Host(format!("*.{plain}"));
    match how {
        How::Is if name == plain => Ok(vec![Atom::Host(plain.to_owned())]),
        How::Ends if name != plain => Ok(vec![below()]),
        // As a part between dots, of which the end is what is meant.
        How::Domain if plain.contains('.') => Ok(vec![Atom::Host(plain.to_owned()), below()]),
        How::Begins | How::Ends | How::Within => {
            Ok(vec![Atom::HostMatches(pattern(name, how, ["^", "$"])?)])
        }
        _ => Err("hosts are whole names, or all names below one".to_owned()),
    }
}

fn pattern(value: &str, how: How, [begin, end]: [&str; 2]) -> Result<String, String> {
    let plain = regex::escape(value);
    Ok(match how {
        How::Is => format!("{begin}{plain}{end}"),
        How::Begins => format!("{begin}{plain}"),
        How::Ends => format!("{plain}{end}"),
        How::Within => plain,
        How::Directory => {
            let name = regex::escape(value.trim_matches('/'));
            format!("(?:^|/){name}(?:/|$)")
        }
        How::Domain => format!("(?:^|[./?:]){plain}(?:[./?:]|$)"),
        How::Matches => expression(value)?,
        How::Found => return Err("the test has no value".to_owned()),
    })
}

/// A regular expression, if it is one here.
fn expression(text: &str) -> Result<String, String> {
    let made = Pattern::<false>::try_from(text.to_owned());
    made.map(|_| text.to_owned())
}

/// A network by its length or its mask, or an address.
fn network(text: &str) -> Result<IpNet, String> {
    let wrong = || format!("{text:?} is no network of clients");
    let network = match text.split_once('/') {
        None => text
            .parse::<IpAddr>()
            .map(IpNet::from)
            .map_err(|_| wrong())?,
        Some((address, mask)) => match mask.parse::<IpAddr>() {
            Ok(mask) => {
                let address = address.parse().map_err(|_| wrong())?;
                IpNet::with_netmask(address, mask).map_err(|_| wrong())?
            }
            Err(_) => text.parse().map_err(|_| wrong())?,
        },
    };
    Ok(network.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Vec<Atom>, String> {
        atoms(&line.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn patterns_fit_where_the_values_would() {
        for (line, fits, other) in [
            ("path_reg ^/v[0-9]+/", "/v1/", "/v/"),
            ("path_sub /private/", "/a/private/b", "/a/privates"),
            ("path_dir img", "/a/img/b", "/a/imgs"),
            ("path -i /About", "/about", "/about/x"),
            ("path_end -i .JPG", "/a.jpg", "/a.jpg/b"),
            ("hdr_sub(user-agent) -i BOT", "a robot", "a rob"),
            ("hdr_beg(accept) text/", "a, text/html", "a text/html"),
            ("hdr_end(accept) /json", "a/json ,b", "a/json5, b"),
            ("req.fhdr(x) -m beg b", "b, a", "a, b"),
            ("hdr(x) -m reg ^a+$", "aaa", "b"),
            ("hdr(x) -i YES", "no, yes", "yes!"),
            ("hdr_beg(host) static.", "static.a.example", "a.static.b"),
            (r"hdr_reg(host) ^a[0-9]\.", "a1.example", "a.example"),
        ] {
            let found = of(line).unwrap();
            let [
                Atom::PathMatches(pattern)
                | Atom::HostMatches(pattern)
                | Atom::HeaderMatches(_, pattern),
            ] = &found[..]
            else {
                panic!("{line}: {found:?}");
            };
            let pattern = Pattern::<false>::try_from(pattern.clone()).unwrap();
            assert!(pattern.is_in(fits.as_bytes()), "{line}: {fits}");
            assert!(!pattern.is_in(other.as_bytes()), "{line}: {other}");
        }
        assert!(of("path_reg (?=a)").unwrap_err().contains("look"));
    }

    #[test]
    fn clients_are_networks_of_all_forms_and_of_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# ours\n\n 10.1.2.3/8 \n").unwrap();
        let path = file.path().display();
        let line = format!("src -f {path} 192.0.2.1 10.0.0.0/255.255.0.0 ::1");
        let networks = ["10.0.0.0/8", "192.0.2.1/32", "10.0.0.0/16", "::1/128"];
        let networks = networks.map(|text| text.parse().unwrap());
        assert_eq!(of(&line).unwrap(), [Atom::Client(networks.to_vec())]);
        for (line, said) in [
            ("src", "no value"),
            ("src a.example", "no network"),
            ("src 10.0.0.0/255.0.255.0", "no network"),
            ("src -f /not/there", "cannot read"),
            ("src -m reg 10", "networks alone"),
        ] {
            let error = of(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
