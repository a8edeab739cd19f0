//! Programs that are driven over HTTP.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body, Proxy};

use super::process::LIMIT;
use super::stage::{Stage, expect, free};
use super::{Failure, origin};

/// So many clients at once.
const CLIENTS: usize = 8;
/// What each asks for: nothing, a segment, and more than buffers hold.
const LENGTHS: [usize; 3] = [0, 1_000, 3_000_000];

/// miniserve: lists a folder, sends files and parts of them, packs them, and takes one.
pub(super) fn files(stage: &mut Stage) -> Result<(), Failure> {
    let folder = stage.folder().join("served");
    fs::create_dir(&folder)?;
    for length in LENGTHS {
        fs::write(folder.join(length.to_string()), origin::payload(length))?;
    }
    let address = free()?;
    let port = address.port().to_string();
    let place = folder.display().to_string();
    let words = ["-i", "127.0.0.1", "-p", &port, "-r", "-u", "--", &place];
    let mut server = stage.start("miniserve", &words)?;
    server.listens(address)?;
    let base = format!("http://{address}");
    get_all(None, &base)?;
    let agent = agent(None);
    let list = get(&agent, &base, &[])?;
    let is_listed = String::from_utf8_lossy(&list.1).contains("3000000");
    expect("the folder is listed", &(list.0, is_listed), &(200, true))?;
    let part = get(&agent, &format!("{base}/1000"), &[("Range", "bytes=10-19")])?;
    let tenth = origin::payload(20).split_off(10);
    expect("ten bytes of a file", &part, &(206, tenth))?;
    let none = get(&agent, &format!("{base}/none"), &[])?.0;
    expect("a file that is missing", &none, &404)?;
    let packed = get(&agent, &format!("{base}/?download=tar"), &[])?.1;
    let sizes = sizes(&packed)?;
    expect("lengths in the archive", &sizes, &LENGTHS.to_vec())?;
    let text = "--it\r\nContent-Disposition: form-data; name=\"path\"; filename=\"sent\"\r\n\
                Content-Type: text/plain\r\n\r\nhello\r\n--it--\r\n";
    let kind = "multipart/form-data; boundary=it";
    post(&agent, &format!("{base}/upload?path=/"), kind, text)?;
    let sent = fs::read(folder.join("sent"))?;
    expect("the file that was sent", &sent, &b"hello".to_vec())?;
    drop(agent);
    stage.interrupt(server)
}

/// The lengths of an archive's files, from the shortest.
fn sizes(archive: &[u8]) -> Result<Vec<usize>, Failure> {
    let mut sizes = Vec::new();
    for entry in tar::Archive::new(archive).entries()? {
        let header = entry?.header().clone();
        if header.entry_type().is_file() {
            sizes.push(usize::try_from(header.size()?).unwrap_or(usize::MAX));
        }
    }
    sizes.sort_unstable();
    Ok(sizes)
}

/// dufs: takes files by several clients at once, lists them, sends them back, and deletes them.
pub(super) fn webdav(stage: &mut Stage) -> Result<(), Failure> {
    let folder = stage.folder().join("served");
    fs::create_dir(&folder)?;
    let address = free()?;
    let (port, place) = (address.port().to_string(), folder.display().to_string());
    let words = ["-b", "127.0.0.1", "-p", &port, "-A", &place];
    let mut server = stage.start("dufs", &words)?;
    server.listens(address)?;
    let base = format!("http://{address}");
    for_each_client(|client| {
        let agent = agent(None);
        for length in LENGTHS {
            let url = format!("{base}/{client}-{length}");
            let sent = agent.put(&url).send(&origin::payload(length)[..]);
            expect("a file is taken", &status(&url, sent)?, &201)?;
            let found = get(&agent, &url, &[])?;
            expect(
                "a file that was taken",
                &found,
                &(200, origin::payload(length)),
            )?;
            if client > 0 {
                expect(
                    "a file is deleted",
                    &status(&url, agent.delete(&url).call())?,
                    &204,
                )?;
            }
        }
        Ok(())
    })?;
    let list = get(&agent(None), &format!("{base}/?simple"), &[])?.1;
    let list = String::from_utf8_lossy(&list).into_owned();
    let mut names: Vec<&str> = list.lines().collect();
    names.sort_unstable();
    expect(
        "the files that are left",
        &names,
        &vec!["0-0", "0-1000", "0-3000000"],
    )?;
    stage.interrupt(server)
}

/// sthp: an HTTP proxy that goes on by SOCKS.
pub(super) fn proxy(stage: &mut Stage) -> Result<(), Failure> {
    let (origin, socks) = (origin::http()?, origin::socks()?);
    let address = free()?;
    let (port, socks) = (address.port().to_string(), socks.to_string());
    let mut server = stage.start("sthp", &["-p", &port, "-s", &socks])?;
    server.listens(address)?;
    get_all(Some(address), &format!("http://{origin}"))?;
    stage.terminate(server)
}

/// bore: a server, and a client that leads from there to a server of ours.
pub(super) fn tunnel(stage: &mut Stage) -> Result<(), Failure> {
    let origin = origin::http()?.port().to_string();
    // Its port is always the same, so an address of its own is what is free.
    let [_, b, c, d] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, b | 0x80, c, d).to_string();
    let secret = ["--secret", "not known to many"];
    let words = ["server", "--bind-addr", &host];
    let mut server = stage.start("bore", &[&words[..], &secret].concat())?;
    server.listens(SocketAddr::new(address(&host)?, 7835))?;
    let port = free()?.port();
    let (to, at) = (
        ["--to", &host, "-p", &port.to_string()],
        ["-l", "127.0.0.1"],
    );
    let words = [&["local", &origin], &to[..], &at, &secret].concat();
    let mut client = stage.start("bore", &words)?;
    let entry = SocketAddr::new(address(&host)?, port);
    client.listens(entry)?;
    get_all(None, &format!("http://{entry}"))?;
    stage.terminate(server)?;
    // It ends by itself, as its server has gone.
    client.ended()?;
    stage.keep(&client, None);
    Ok(())
}

fn address(host: &str) -> Result<std::net::IpAddr, Failure> {
    host.parse()
        .map_err(|_| Failure::NotRun(format!("{host} is no address")))
}

/// GraphQL: queries, fields that wait at once, changes, and an error.
pub(super) fn graphql(stage: &mut Stage) -> Result<(), Failure> {
    let address = free()?;
    let mut server = stage.start("graphql", &[&address.port().to_string()])?;
    server.listens(address)?;
    let (url, agent) = (format!("http://{address}/"), agent(None));
    let ask = |query: &str| -> Result<Value, Failure> {
        let body = json!({ "query": query }).to_string();
        let said = post(&agent, &url, "application/json", &body)?;
        serde_json::from_slice(&said)
            .map_err(|error| Failure::Wrong(format!("{query}: no JSON: {error}")))
    };
    let sums: String = (0..20)
        .map(|n| format!("s{n}: sum(left: {n}, right: 1) "))
        .collect();
    let sums = ask(&format!("{{ {sums} blocked }}"))?;
    let found = ["s0", "s19", "blocked"].map(|field| sums["data"][field].as_u64());
    expect("sums", &found, &[Some(1), Some(20), Some(500_500)])?;
    let all: Vec<_> = (0..CLIENTS)
        .map(|_| "mutation { add(text: \"note\") { text } }")
        .collect();
    for query in all {
        let added = json!({ "data": { "add": { "text": "note" } } });
        expect("a note that was added", &ask(query)?, &added)?;
    }
    let notes = ask("{ notes { id } }")?;
    let last = notes["data"]["notes"].as_array().and_then(|all| all.last());
    expect(
        "the last note",
        &last.cloned(),
        &Some(json!({ "id": CLIENTS })),
    )?;
    let refused = ask("mutation { add(text: \"\") { id } }")?;
    let message = refused["errors"][0]["message"].as_str();
    expect("an error", &message, &Some("a note needs a text"))?;
    drop(agent);
    stage.interrupt(server)
}

fn agent(proxy: Option<SocketAddr>) -> Agent {
    let proxy = proxy.and_then(|address| Proxy::new(&format!("http://{address}")).ok());
    let config = Agent::config_builder()
        .timeout_global(Some(LIMIT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(proxy);
    config.build().into()
}

/// Asks for every length, several clients at once.
fn get_all(proxy: Option<SocketAddr>, base: &str) -> Result<(), Failure> {
    for_each_client(|_| {
        let agent = agent(proxy);
        for length in LENGTHS {
            let found = get(&agent, &format!("{base}/{length}"), &[])?;
            expect("bytes", &found, &(200, origin::payload(length)))?;
        }
        Ok(())
    })
}

/// Runs this for all clients at once.
fn for_each_client(run: impl Fn(usize) -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    let run = &run;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || run(client)))
            .collect();
        let join = |client: thread::ScopedJoinHandle<Result<(), Failure>>| {
            let panicked = |_| Err(Failure::Wrong("a client has panicked".into()));
            client.join().unwrap_or_else(panicked)
        };
        clients.into_iter().try_for_each(join)
    })
}

fn status(url: &str, answer: Result<Response<Body>, ureq::Error>) -> Result<u16, Failure> {
    let failed = |error| Failure::Wrong(format!("{url}: {error}; expected an answer"));
    Ok(answer.map_err(failed)?.status().as_u16())
}

/// The status and the body.
fn get(agent: &Agent, url: &str, headers: &[(&str, &str)]) -> Result<(u16, Vec<u8>), Failure> {
    let mut request = agent.get(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let failed = |error| Failure::Wrong(format!("GET {url}: {error}; expected an answer"));
    let mut response = request.call().map_err(failed)?;
    let body = response.body_mut().read_to_vec().map_err(failed)?;
    Ok((response.status().as_u16(), body))
}

fn post(agent: &Agent, url: &str, kind: &str, body: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::Wrong(format!("POST {url}: {error}; expected an answer"));
    let request = agent.post(url).header("Content-Type", kind);
    let mut response = request.send(body).map_err(failed)?;
    response.body_mut().read_to_vec().map_err(failed)
}
