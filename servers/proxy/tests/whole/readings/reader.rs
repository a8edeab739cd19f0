//! Readers of HTTP/1 that repair what others refuse, each in its own way.

/// How a reader takes what the standard leaves open or forbids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// LF alone ends a line.
    pub(crate) takes_lf: bool,
    /// Names are taken without blanks and control characters around them.
    pub(crate) trims_names: bool,
    /// `_` in a name is read as `-`.
    pub(crate) takes_underscores: bool,
    /// A coding that has `chunked` in it is `chunked`; else only the plain word is.
    pub(crate) guesses_chunked: bool,
    /// A length counts for more than chunks.
    pub(crate) prefers_length: bool,
    /// Of several lengths the last one counts, and not the first one.
    pub(crate) takes_last: bool,
    /// A length is as many digits as it begins with.
    pub(crate) takes_digits: bool,
}

/// A request as a reader takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The first line.
    pub(crate) line: String,
    /// The bytes of the body, without the framing.
    pub(crate) body: Vec<u8>,
}

/// A reader does not see the end of a request, or no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incomplete;

/// What all readers take these bytes for; the strict one is the first.
pub(crate) fn readings(bytes: &[u8]) -> Vec<Result<Vec<Read>, Incomplete>> {
    (0_u8..128)
        .map(|bits| {
            let is = |bit: u8| bits & (1 << bit) != 0;
            let reading = Reading {
                takes_lf: is(0),
                trims_names: is(1),
                takes_underscores: is(2),
                guesses_chunked: is(3),
                prefers_length: is(4),
                takes_last: is(5),
                takes_digits: is(6),
            };
            reading.all(bytes)
        })
        .collect()
}

impl Reading {
    pub(crate) const STRICT: Self = Self {
        takes_lf: false,
        trims_names: false,
        takes_underscores: false,
        guesses_chunked: false,
        prefers_length: false,
        takes_last: false,
        takes_digits: false,
    };

    /// Whether it sees the end of the first request.
    pub(crate) fn first_is_whole(&self, bytes: &[u8]) -> bool {
        self.next(bytes).is_ok()
    }

    /// All requests.
    fn all(&self, mut bytes: &[u8]) -> Result<Vec<Read>, Incomplete> {
        let mut requests = Vec::new();
        while !bytes.is_empty() {
            let (request, rest) = self.next(bytes)?;
            requests.push(request);
            bytes = rest;
        }
        Ok(requests)
    }

    fn next<'a>(&self, bytes: &'a [u8]) -> Result<(Read, &'a [u8]), Incomplete> {
        let (line, mut rest) = self.line(bytes)?;
        let mut lengths = Vec::new();
        let mut is_chunked = false;
        loop {
            let (header, after) = self.line(rest)?;
            rest = after;
            if header.is_empty() {
                break;
            }
            let Some(colon) = header.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let value = String::from_utf8_lossy(&header[colon + 1..]).to_ascii_lowercase();
            let value = value.trim_matches([' ', '\t']);
            match self.name(&header[..colon]).as_str() {
                "content-length" => lengths.extend(self.length(value)),
                "transfer-encoding" => {
                    is_chunked |=
                        value == "chunked" || (self.guesses_chunked && value.contains("chunked"));
                }
                _ => {}
            }
        }
        let length = if self.takes_last {
            lengths.last()
        } else {
            lengths.first()
        };
        let line = String::from_utf8_lossy(line).into_owned();
        let (body, rest) = match length {
            Some(&length) if self.prefers_length || !is_chunked => {
                let body = rest.get(..length).ok_or(Incomplete)?;
                (body.to_vec(), &rest[length..])
            }
            _ if is_chunked => self.chunks(rest)?,
            _ => (Vec::new(), rest),
        };
        Ok((Read { line, body }, rest))
    }

    fn line<'a>(&self, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Incomplete> {
        let mut from = 0;
        while let Some(at) = bytes[from..].iter().position(|&byte| byte == b'\n') {
            let end = from + at;
            let line = &bytes[..end];
            if let Some(line) = line.strip_suffix(b"\r") {
                return Ok((line, &bytes[end + 1..]));
            }
            if self.takes_lf {
                return Ok((line, &bytes[end + 1..]));
            }
            from = end + 1;
        }
        Err(Incomplete)
    }

    fn name(&self, name: &[u8]) -> String {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let name = if self.trims_names {
            let is_blank = |c: char| c.is_whitespace() || c.is_control();
            name.trim_matches(is_blank).to_owned()
        } else {
            name
        };
        if self.takes_underscores {
            name.replace('_', "-")
        } else {
            name
        }
    }

    fn length(&self, value: &str) -> Option<usize> {
        let digits = value.bytes().take_while(u8::is_ascii_digit).count();
        if digits < value.len() && !self.takes_digits {
            return None;
        }
        value[..digits].parse().ok()
    }

    fn chunks<'a>(&self, mut rest: &'a [u8]) -> Result<(Vec<u8>, &'a [u8]), Incomplete> {
        let mut body = Vec::new();
        loop {
            let (line, after) = self.line(rest)?;
            let digits = line
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            let size = std::str::from_utf8(&line[..digits]).map_err(|_| Incomplete)?;
            let size = usize::from_str_radix(size, 16).map_err(|_| Incomplete)?;
            rest = after;
            if size == 0 {
                break;
            }
            body.extend_from_slice(rest.get(..size).ok_or(Incomplete)?);
            let (end, after) = self.line(&rest[size..])?;
            if !end.is_empty() {
                return Err(Incomplete);
            }
            rest = after;
        }
        loop {
            let (trailer, after) = self.line(rest)?;
            rest = after;
            if trailer.is_empty() {
                return Ok((body, rest));
            }
        }
    }
}

#[test]
fn readers_differ_where_programs_do() {
    let plain = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n";
    let all = readings(plain);
    assert_eq!(all[0].as_ref().unwrap().len(), 2);
    assert!(all.iter().all(|one| *one == all[0]));
    for doubtful in [
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent_Length: 1\r\n\r\na",
        "POST / HTTP/1.1\r\nContent-Length : 1\r\n\r\na",
        "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nX: y\nContent-Length: 1\r\n\r\na",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\naa",
        "POST / HTTP/1.1\r\nContent-Length: 1,2\r\n\r\na",
    ] {
        let all = readings(doubtful.as_bytes());
        assert!(all.iter().any(|one| *one != all[0]), "{doubtful:?}");
    }
}
