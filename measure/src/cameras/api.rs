//! The interface for programs, over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{LIMIT, Result};

/// A connection that is used again and again.
#[derive(Debug)]
pub struct Api {
    stream: BufReader<TcpStream>,
}

/// What is said of a camera.
#[derive(Debug)]
pub struct Camera(Value);

impl Camera {
    /// Whether its pictures come.
    pub fn is_live(&self) -> bool {
        self.0["state"] == "live"
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Packets that never came, or that could not be used, and pictures that this took along.
    pub fn lost(&self) -> u64 {
        let of = |name: &str| self.0["details"]["ingest"][name].as_u64().unwrap_or(0);
        of("lost") + of("late") + of("dropped") + of("malformed")
    }

    /// Groups that were not recorded.
    pub fn groups_lost(&self) -> u64 {
        let lost = self.0["recording"]["lost_gops"].as_object();
        lost.map_or(0, |lost| lost.values().filter_map(Value::as_u64).sum())
    }

    /// Groups that were recorded.
    pub fn groups(&self) -> u64 {
        self.0["recording"]["gops"].as_u64().unwrap_or(0)
    }

    /// Sessions with it, of which each but the first is one that broke.
    pub fn sessions(&self) -> u64 {
        self.0["sessions"].as_u64().unwrap_or(0)
    }
}

impl Api {
    /// Connects.
    ///
    /// # Errors
    ///
    /// There is no answer, or another one than expected.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// What is there.
    ///
    /// # Errors
    ///
    /// There is no answer, or another one than expected.
    pub fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        self.ask("GET", path)
    }

    /// Has the configuration read again.
    ///
    /// # Errors
    ///
    /// There is no answer, or another one than expected.
    pub fn reload(&mut self) -> Result<()> {
        self.ask("POST", "/api/reload").map(drop)
    }

    fn ask(&mut self, method: &str, path: &str) -> Result<Vec<u8>> {
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut first, mut length, mut is_chunked) = (String::new(), 0, false);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(format!("{path}: the connection was closed").into());
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some((name, value)) = line.split_once(':') {
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse()?;
                }
                is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
            }
            if line == "\r\n" {
                break;
            }
        }
        let body = match is_chunked {
            true => self.chunks()?,
            false => self.exactly(length)?,
        };
        if first.starts_with("HTTP/1.1 200") {
            return Ok(body);
        }
        let said = String::from_utf8_lossy(&body).into_owned();
        Err(format!("{path}: {} {said}", first.trim()).into())
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A body in chunks, as MediaMTX has them for long answers; without trailers.
    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16)?;
            body.extend(self.exactly(length)?);
            self.exactly(2)?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    /// All cameras of ours.
    ///
    /// # Errors
    ///
    /// There is no answer, or another one than expected.
    pub fn cameras(&mut self) -> Result<Vec<Camera>> {
        let said: Value = serde_json::from_slice(&self.get("/api/cameras")?)?;
        let cameras = said["cameras"].as_array().ok_or("no list of cameras")?;
        Ok(cameras.iter().cloned().map(Camera).collect())
    }

    /// Bytes that wait for disks.
    ///
    /// # Errors
    ///
    /// There is no answer, or another one than expected.
    pub fn waiting(&mut self) -> Result<u64> {
        let said: Value = serde_json::from_slice(&self.get("/api/volumes")?)?;
        Ok(said["waiting_bytes"].as_u64().ok_or("no waiting bytes")?)
    }

    /// How many gaps the recordings of all cameras have, and how many of these have a recording.
    ///
    /// # Errors
    ///
    /// There is no answer, or another one than expected.
    pub fn gaps(&mut self) -> Result<(usize, usize)> {
        let (mut gaps, mut recorded) = (0, 0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        // A day is enough: the server has begun in this run.
        let (from, until) = (now - 86_400_000, now + 3_600_000);
        for camera in self.cameras()? {
            let name = camera.name();
            let path = format!("/api/cameras/{name}/recordings?from={from}&until={until}");
            let said: Value = serde_json::from_slice(&self.get(&path)?)?;
            gaps += said["gaps"].as_array().map_or(0, Vec::len);
            recorded += usize::from(said["ranges"].as_array().is_some_and(|it| !it.is_empty()));
        }
        Ok((gaps, recorded))
    }
}
