//! Requests that programs read differently, put together from parts.
//!
//! The ideas are from RFC 9112, sections 3, 5, 6 and 11.2, from what was published of request
//! smuggling (Watchfire 2005; PortSwigger, "HTTP desync attacks", 2019, and "Browser-powered desync
//! attacks", 2022; "T-Reqs", 2021; "HDiff", 2022), and from the advisories CVE-2021-40346,
//! CVE-2023-25725 and CVE-2023-40225 of HAProxy and CVE-2019-20372 of nginx. The words are our own.

/// A request, or several, as they are sent.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// What is odd about it.
    pub(crate) name: String,
    /// What is sent.
    pub(crate) bytes: Vec<u8>,
    /// Nothing is odd about it, and it has to arrive.
    pub(crate) is_plain: bool,
}

/// What stands behind a request, and might be taken for another one.
const BEHIND: &str = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A body that is chunks, or the beginning of a body with a length.
const CHUNKS: &str = "4\r\nabcd\r\n0\r\n\r\n";

struct Corpus(Vec<Case>);

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut corpus = Corpus(Vec::new());
    corpus.plain();
    corpus.codings();
    corpus.lengths();
    corpus.chunks();
    corpus.lines();
    corpus.first_lines();
    corpus.hosts();
    corpus.connections();
    corpus.names_and_values();
    corpus.0
}

impl Corpus {
    fn add(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push(Case {
            name: name.into(),
            bytes: bytes.into(),
            is_plain: false,
        });
    }

    /// Headers, with chunks behind them, and what might be a request.
    fn headers(&mut self, name: impl Into<String>, headers: &str) {
        let request = format!(
            "POST /case HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{headers}\r\n{CHUNKS}\
             {BEHIND}"
        );
        self.add(name, request);
    }

    fn plain(&mut self) {
        for (name, headers, body) in [
            ("no body", "", ""),
            ("a length", "Content-Length: 4\r\n", "abcd"),
            ("no length", "Content-Length: 0\r\n", ""),
            ("chunks", "Transfer-Encoding: chunked\r\n", CHUNKS),
            (
                "chunks in capitals",
                "TRANSFER-ENCODING: CHUNKED\r\n",
                CHUNKS,
            ),
            ("no chunks", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            (
                "trailers",
                "Transfer-Encoding: chunked\r\n",
                "1\r\na\r\n0\r\nX-T: y\r\n\r\n",
            ),
            (
                "an extension",
                "Transfer-Encoding: chunked\r\n",
                "1;a=b\r\na\r\n0\r\n\r\n",
            ),
            ("a blank value", "X:  \t \r\n", ""),
            ("many values", "Accept: a, b\r\nAccept: c\r\n", ""),
        ] {
            for method in ["POST", "PUT", "PATCH", "GET"] {
                self.add(
                    format!("plain: {name} by {method}"),
                    format!(
                        "{method} /case HTTP/1.1\r\nHost: a.example\r\nConnection: \
                         close\r\n{headers}\r\n{body}"
                    ),
                );
                if let Some(case) = self.0.last_mut() {
                    case.is_plain = true;
                }
            }
        }
    }

    fn codings(&mut self) {
        let names = [
            "Transfer-Encoding",
            "Transfer-Encoding ",
            "Transfer-Encoding\t",
            " Transfer-Encoding",
            "Transfer_Encoding",
            "\u{b}Transfer-Encoding",
            "Transfer-Encoding\u{c}",
            "X: y\r\n Transfer-Encoding",
            "X: y\nTransfer-Encoding",
            "X: y\rTransfer-Encoding",
            "Transfer\u{0}-Encoding",
        ];
        let values = [
            "chunked",
            "Chunked",
            "chunked ",
            "\tchunked",
            "xchunked",
            "chunkedx",
            "x chunked",
            "chunked, identity",
            "identity, chunked",
            "identity",
            "gzip, chunked",
            "chunked,",
            ",chunked",
            "\"chunked\"",
            "chunked;q=1",
            "\u{b}chunked",
            "chunked\u{c}",
            "chun\u{0}ked",
            "\r\n chunked",
            "chunked, chunked",
            "",
        ];
        for name in names {
            for value in values {
                for length in ["", "Content-Length: 4\r\n"] {
                    // The plain one is among the others.
                    if (name, value, length) == (names[0], "chunked", "") {
                        continue;
                    }
                    let shown = format!("coding {name:?}: {value:?} {length:?}");
                    self.headers(shown, &format!("{length}{name}: {value}\r\n"));
                }
            }
        }
        for two in [
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "Content-Length: 4\r\nX: y\r\nTransfer-Encoding: chunked\r\n",
        ] {
            self.headers(format!("codings {two:?}"), two);
        }
        let old = format!(
            "POST /case HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKS}\
             {BEHIND}"
        );
        self.add("coding in HTTP/1.0", old);
    }

    fn lengths(&mut self) {
        for value in [
            "+4",
            "-4",
            "0x4",
            "4.0",
            "4e0",
            "4 4",
            "4, 4",
            "4,5",
            "4;",
            "4\u{b}",
            "\u{c}4",
            "",
            " ",
            "four",
            "\u{664}",
            "18446744073709551620",
            "9223372036854775812",
            "4\u{0}",
            "'4'",
            "4\r\n 4",
            "0x",
            "1_4",
            "NaN",
        ] {
            self.headers(
                format!("length {value:?}"),
                &format!("Content-Length: {value}\r\n"),
            );
        }
        for name in [
            "Content-Length ",
            "Content-Length\t",
            " Content-Length",
            "Content_Length",
            "Content\u{ad}-Length",
            "Content-Length\u{0}",
            "X: y\nContent-Length",
            "X: y\rContent-Length",
        ] {
            self.headers(format!("length by {name:?}"), &format!("{name}: 4\r\n"));
        }
        for two in [
            "Content-Length: 4\r\nContent-Length: 4\r\n",
            "Content-Length: 4\r\nContent-Length: 0\r\n",
            "Content-Length: 0\r\nContent-Length: 4\r\n",
            "Content-Length: 4\r\nContent_Length: 40\r\n",
            "content-length: 4\r\nCONTENT-LENGTH: 5\r\n",
        ] {
            self.headers(format!("lengths {two:?}"), two);
        }
    }

    fn chunks(&mut self) {
        let bodies = [
            "0x4\r\nabcd\r\n0\r\n\r\n",
            "+4\r\nabcd\r\n0\r\n\r\n",
            "-4\r\nabcd\r\n0\r\n\r\n",
            "4 \r\nabcd\r\n0\r\n\r\n",
            " 4\r\nabcd\r\n0\r\n\r\n",
            "4\t\r\nabcd\r\n0\r\n\r\n",
            "4\u{b}\r\nabcd\r\n0\r\n\r\n",
            "4\nabcd\n0\n\n",
            "4\r\nabcd\n0\r\n\r\n",
            "4\r\nabcd\r0\r\n\r\n",
            "4\rabcd\r\n0\r\n\r\n",
            "4;x\nabcd\r\n0\r\n\r\n",
            "4;x\r\r\nabcd\r\n0\r\n\r\n",
            "4;\"\n\"\r\nabcd\r\n0\r\n\r\n",
            "4\r\n\r\nabcd\r\n0\r\n\r\n",
            "4\r\nabcde\r\n0\r\n\r\n",
            "4\r\nabcd0\r\n\r\n",
            "4\r\nabcdXX0\r\n\r\n",
            "4\r\nabc\r\n0\r\n\r\n",
            "\r\n4\r\nabcd\r\n0\r\n\r\n",
            "4g\r\nabcd\r\n0\r\n\r\n",
            "4,\r\nabcd\r\n0\r\n\r\n",
            "4.\r\nabcd\r\n0\r\n\r\n",
            "\r\n",
            "x\r\n\r\n",
            "10000000000000004\r\nabcd\r\n0\r\n\r\n",
            "fffffffffffffffff\r\nabcd\r\n0\r\n\r\n",
            "-0\r\n\r\n",
            "0x0\r\n\r\n",
            "0\r\n\n",
            "0\n\r\n",
            "0\r\nContent-Length: 5\r\n\r\n",
            "0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "0\r\nHost: b.example\r\n\r\n",
            "0\r\nX : y\r\n\r\n",
            "0\r\n X: y\r\n\r\n",
            "0\r\nX\r\n\r\n",
            "0\r\nX: y\nZ: y\r\n\r\n",
        ];
        for body in bodies {
            self.add(
                format!("chunks {body:?}"),
                format!(
                    "POST /case HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\
                     Transfer-Encoding: chunked\r\n\r\n{body}{BEHIND}"
                ),
            );
        }
    }

    fn lines(&mut self) {
        for (name, head) in [
            (
                "LF in the first line",
                "GET /case HTTP/1.1\nHost: a.example\r\n\r\n",
            ),
            (
                "LF in a header",
                "GET /case HTTP/1.1\r\nHost: a.example\nX: y\r\n\r\n",
            ),
            (
                "LF at the end",
                "GET /case HTTP/1.1\r\nHost: a.example\r\n\n",
            ),
            ("LF everywhere", "GET /case HTTP/1.1\nHost: a.example\n\n"),
            (
                "CR in the first line",
                "GET /case HTTP/1.1\rHost: a.example\r\n\r\n",
            ),
            (
                "CR in a header",
                "GET /case HTTP/1.1\r\nHost: a.example\rX: y\r\n\r\n",
            ),
            ("two CR", "GET /case HTTP/1.1\r\r\nHost: a.example\r\n\r\n"),
            (
                "two CR in a header",
                "GET /case HTTP/1.1\r\nHost: a.example\r\r\nX: y\r\n\r\n",
            ),
            ("LF CR", "GET /case HTTP/1.1\n\rHost: a.example\r\n\r\n"),
            (
                "a fold",
                "GET /case HTTP/1.1\r\nHost: a.example\r\nX: y\r\n z\r\n\r\n",
            ),
            (
                "a fold of nothing",
                "GET /case HTTP/1.1\r\nHost: a.example\r\n \r\nX: y\r\n\r\n",
            ),
            (
                "a fold at first",
                "GET /case HTTP/1.1\r\n Host: a.example\r\n\r\n",
            ),
            (
                "a tab at first",
                "GET /case HTTP/1.1\r\n\tX: y\r\nHost: a.example\r\n\r\n",
            ),
            (
                "empty lines before",
                "\r\n\r\n\r\nGET /case HTTP/1.1\r\nHost: a.example\r\n\r\n",
            ),
            (
                "LF before",
                "\nGET /case HTTP/1.1\r\nHost: a.example\r\n\r\n",
            ),
            (
                "a blank before",
                " GET /case HTTP/1.1\r\nHost: a.example\r\n\r\n",
            ),
        ] {
            self.add(format!("lines: {name}"), format!("{head}{BEHIND}"));
        }
    }

    fn first_lines(&mut self) {
        for line in [
            "GET  /case HTTP/1.1",
            "GET /case  HTTP/1.1",
            "GET\t/case\tHTTP/1.1",
            "GET /case HTTP/1.1 ",
            "GET /case HTTP/1.1\t",
            "GET /case HTTP/1.1 HTTP/1.0",
            "GET /ca se HTTP/1.1",
            "GET /case\u{b}HTTP/1.1",
            "GET /case\u{0} HTTP/1.1",
            "GET /case#x HTTP/1.1",
            "GET /case\u{e4} HTTP/1.1",
            "GET case HTTP/1.1",
            "GET ?case HTTP/1.1",
            "GET * HTTP/1.1",
            "GET http://b.example/case HTTP/1.1",
            "GET http://a.example@b.example/case HTTP/1.1",
            "GET http:///case HTTP/1.1",
            "GET http://a.example?case HTTP/1.1",
            "GET HTTPS://a.example/case HTTP/1.1",
            "GET ftp://a.example/case HTTP/1.1",
            "GET //b.example/case HTTP/1.1",
            "GET /case HTTP/1.2",
            "GET /case HTTP/1.10",
            "GET /case HTTP/01.1",
            "GET /case HTTP/2.0",
            "GET /case HTTP/0.9",
            "GET /case http/1.1",
            "GET /case HTTP/1.1x",
            "GET /case HTTP/1,1",
            "GET /case HTTP 1.1",
            "GET /case HTTP/1.",
            "GET /case",
            "GET",
            "G\u{e4}T /case HTTP/1.1",
            "GET: /case HTTP/1.1",
            "GET/ /case HTTP/1.1",
            "get /case HTTP/1.1",
            "CONNECT a.example:80 HTTP/1.1",
            "CONNECT /case HTTP/1.1",
            "PRI * HTTP/2.0",
        ] {
            let text = format!("{line}\r\nHost: a.example\r\nConnection: close\r\n\r\n{BEHIND}");
            self.add(format!("first line {line:?}"), text);
        }
    }

    fn hosts(&mut self) {
        for headers in [
            "",
            "Host: a.example\r\nHost: a.example\r\n",
            "Host: a.example\r\nHost: b.example\r\n",
            "Host: a.example\r\nhost : b.example\r\n",
            "Host : a.example\r\n",
            "Host: a.example, b.example\r\n",
            "Host: a.example b.example\r\n",
            "Host: a.example/b\r\n",
            "Host: x@a.example\r\n",
            "Host: a.example#b\r\n",
            "Host: a.example?b\r\n",
            "Host: a.example\u{0}b\r\n",
            "Host: a.example\u{b}\r\n",
            "Host: \r\n b.example\r\n",
            "Host\u{0}: a.example\r\n",
            "Hos_t: a.example\r\n",
            " Host: a.example\r\n",
        ] {
            let text = format!("GET /case HTTP/1.1\r\n{headers}Connection: close\r\n\r\n{BEHIND}");
            self.add(format!("host {headers:?}"), text);
        }
    }

    fn connections(&mut self) {
        for headers in [
            "Connection: Content-Length\r\nContent-Length: 4\r\n",
            "Connection: close, Content-Length\r\nContent-Length: 4\r\n",
            "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
            "Connection: Host\r\n",
            "Connection: close, X-Forwarded-For, Cookie\r\n",
            "Connection: keep-alive, close\r\n",
            "Connection: \u{b}close\r\n",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 4\r\n",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n",
            "Connection: Upgrade\r\nUpgrade: a, b\r\n",
            "Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 4\r\n",
            "Expect: 100-continue, x\r\nContent-Length: 4\r\n",
            "Expect: x\r\nContent-Length: 4\r\n",
            "TE: trailers, chunked\r\n",
            "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n",
            "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n",
        ] {
            for method in ["GET", "POST", "HEAD"] {
                let text = format!(
                    "{method} /case HTTP/1.1\r\nHost: a.example\r\n{headers}\r\n{CHUNKS}{BEHIND}"
                );
                self.add(format!("connection {method} {headers:?}"), text);
            }
        }
    }

    fn names_and_values(&mut self) {
        for header in [
            "X y",
            ": y",
            "X",
            "X\u{e4}: y",
            "X(a): y",
            "X;: y",
            "X\": y",
            "X/Y: z",
            "X: \u{0}",
            "X: \u{1}",
            "X: \u{7f}",
            "X: \u{b}y",
            "X: y\u{8}",
            "X\t: y",
            "\u{0}X: y",
            "\u{feff}X: y",
            "Content-Length-: 4",
            "-Content-Length: 4",
            "Content.Length: 4",
            "Content Length: 4",
            "X-Forwarded_For: 1.2.3.4",
            "X_Forwarded_For: 1.2.3.4",
        ] {
            self.headers(format!("header {header:?}"), &format!("{header}\r\n"));
        }
        let long = format!("X: {}\r\n", "y".repeat(70_000));
        self.headers("a header that is too long", &long);
        let many = "X: y\r\n".repeat(2_000);
        self.headers("too many headers", &many);
    }
}
