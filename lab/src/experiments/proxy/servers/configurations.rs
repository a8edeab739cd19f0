//! What is written into the proxies' files: all have the same limits and times.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Behind;
use crate::sys;

/// Where a proxy listens.
pub(super) struct Places {
    pub(super) http: SocketAddr,
    pub(super) tcp: SocketAddr,
    /// For HTTP/2, where that has a listener of its own.
    pub(super) h2: SocketAddr,
    pub(super) page: SocketAddr,
    /// The operator's socket.
    pub(super) admin: PathBuf,
}

/// Classes as HAProxy's first three had it: operators are urgent, megabytes are bulk.
pub(super) fn of_ours(
    at: &Places,
    threads: usize,
    to: &Behind,
    process: &str,
    listener: &str,
) -> String {
    let mut text = format!(
        "\
[process]
workers = {threads}
connections_max = 9000
admin_socket = \"{}\"
{process}
[class.urgent]
share = 16
[class.normal]
share = 33
[class.bulk]
share = 50
[log.requests]
to = \"file:/dev/null\"
",
        at.admin.display()
    );
    let http = "log = \"requests\"\n\
                [[listener.http.route]]\npath_is = \"/big\"\npool = \"http\"\nclass = \"bulk\"\n";
    let sections = [
        ("http", at.http, to.http, http),
        ("tcp", at.tcp, to.bytes, ""),
    ];
    for (name, bind, server, more) in sections {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\
[listener.{name}]
bind = \"{bind}\"
mode = \"{name}\"
pool = \"{name}\"
connections_per_client_max = 9000
{listener}
{more}[[pool.{name}.server]]
name = \"s\"
address = \"{server}\"
"
        );
    }
    text
}

/// It has classes of its own, which are not set.
pub(super) fn of_haproxy(
    at: &Places,
    threads: usize,
    to: &Behind,
    global: &str,
    defaults: &str,
) -> String {
    let mut text = format!(
        "\
global
  nbthread {threads}
  maxconn 9000
  maxpipes 400
  log stdout format raw local0
  stats socket {}
  {global}
defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-request 10s
  timeout http-keep-alive 60s
  http-reuse always
  {defaults}
",
        at.admin.display()
    );
    let http = "  log global\n  option httplog\n";
    let sections = [
        ("http", at.http, to.http, http),
        ("tcp", at.tcp, to.bytes, ""),
    ];
    for (name, bind, server, more) in sections {
        let _ = write!(
            text,
            "\
listen {name}
  mode {name}
  maxconn 9000
  bind {bind}
{more}  server s {server}
"
        );
    }
    text
}

/// It passes on bytes by a module, where there is one.
pub(super) fn of_nginx(at: &Places, threads: usize, to: &Behind, streams: Option<&str>) -> String {
    let Places {
        http,
        tcp,
        h2,
        page,
        admin: _,
    } = at;
    let (module, stream) = match streams {
        Some(module) => (
            format!("load_module {module};\n"),
            format!(
                "stream {{\n  proxy_timeout 60s;\n  \
                 server {{ listen {tcp}; proxy_pass {}; }}\n}}\n",
                to.bytes
            ),
        ),
        None => Default::default(),
    };
    // A master is needed for several, and would otherwise only watch.
    let master = if threads > 1 { "on" } else { "off" };
    // What it writes to is its own; where root starts it, its processes stay root's.
    let user = if sys::is_root() { "user root;\n" } else { "" };
    format!(
        "\
{module}{user}daemon off;
master_process {master};
worker_processes {threads};
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 9000; }}
http {{
  access_log /dev/null combined;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  keepalive_requests 1000000000;
  tcp_nodelay on;
  upstream origin {{
    server {};
    keepalive 64;
    keepalive_requests 1000000000;
  }}
  proxy_http_version 1.1;
  proxy_set_header Connection \"\";
  proxy_max_temp_file_size 0;
  server {{
    listen {http};
    listen {h2} http2;
    location / {{ proxy_pass http://origin; }}
  }}
  server {{
    listen {page};
    access_log off;
    location = /status {{ stub_status; }}
  }}
}}
{stream}",
        to.http
    )
}

#[cfg(test)]
mod tests {
    use super::super::{By, KNOBS, PROXIES};
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn places() -> (Places, Behind) {
        let places = Places {
            http: address(1),
            tcp: address(2),
            h2: address(3),
            page: address(4),
            admin: "/a/admin".into(),
        };
        let behind = Behind {
            http: address(5),
            bytes: address(6),
        };
        (places, behind)
    }

    #[test]
    fn ours_takes_its_configuration_with_every_knob() {
        let (places, behind) = places();
        for proxy in PROXIES.iter().chain(&KNOBS) {
            if let By::Ours { process, listener } = proxy.by {
                let text = of_ours(&places, 2, &behind, process, listener);
                let config = proxy::config::parse("ours", &text);
                let config = config.unwrap_or_else(|error| panic!("{}: {error}", proxy.name));
                assert_eq!(config.process.get_ref().workers, Some(2));
                assert_eq!(config.classes["bulk"].get_ref().share, Some(50));
            }
        }
    }

    #[test]
    fn theirs_say_who_is_where() {
        let (places, behind) = places();
        let text = of_haproxy(&places, 2, &behind, "one", "two");
        for line in [
            "  nbthread 2\n",
            "  stats socket /a/admin\n",
            "  one\ndefaults\n",
            "  two\nlisten http\n",
            "  bind 127.0.0.1:2\n  server s 127.0.0.1:6\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let text = of_nginx(&places, 2, &behind, Some("/m.so"));
        for line in [
            "load_module /m.so;\n",
            "worker_processes 2;\n",
            "    listen 127.0.0.1:3 http2;\n",
            "    server 127.0.0.1:5;\n",
            "listen 127.0.0.1:2; proxy_pass 127.0.0.1:6;",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!of_nginx(&places, 2, &behind, None).contains("\nstream {"));
    }
}
