//! Live parts over WebSockets.

use std::time::Duration;

use cameras::watch::Settings;
use evenkeel::net::TcpStream;
use futures_util::StreamExt;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::{LIMIT, Sender, Site, boxes, runtime, until};

type Socket = WebSocketStream<TcpStream>;

async fn connect(site: &Site, camera: &str) -> Result<Socket, String> {
    let address = site.server.address();
    let stream = TcpStream::connect(address).await.unwrap();
    let url = format!("ws://{address}/api/cameras/{camera}/live");
    let connected = client_async(url, stream).await;
    connected
        .map(|(socket, _)| socket)
        .map_err(|error| error.to_string())
}

/// The next message that says something.
async fn next(socket: &mut Socket) -> Message {
    loop {
        let next = evenkeel::time::timeout(LIMIT, socket.next()).await.unwrap();
        match next.unwrap().unwrap() {
            Message::Ping(_) => {}
            message => return message,
        }
    }
}

fn json(message: &Message) -> Value {
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

#[test]
fn a_viewer_gets_the_head_and_then_every_part() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let mut camera = Sender::new(&site.hub, "door");
        camera.send(1);
        let mut socket = connect(&site, "door").await.unwrap();
        camera.send(2);
        let head = json(&next(&mut socket).await);
        assert_eq!(head["type"], "head");
        assert_eq!(head["kind"], "video/mp4; codecs=\"avc1.64000D\"");
        assert_eq!(
            boxes(&next(&mut socket).await.into_data()),
            ["ftyp", "moov"]
        );
        assert_eq!(
            boxes(&next(&mut socket).await.into_data()),
            ["moof", "mdat"]
        );
        // A new session is another head.
        drop(camera);
        let mut camera = Sender::new(&site.hub, "door");
        camera.send(2);
        loop {
            let message = next(&mut socket).await;
            if message.is_text() {
                assert_eq!(json(&message)["type"], "head");
                break;
            }
        }
        socket.close(None).await.unwrap();
    });
}

#[test]
fn a_viewer_that_takes_nothing_jumps_and_holds_up_nobody() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let mut camera = Sender::new(&site.hub, "door");
        camera.bytes = 20_000;
        let sends = camera.keep_sending(Duration::from_millis(1));
        let mut slow = connect(&site, "door").await.unwrap();
        let mut quick = connect(&site, "door").await.unwrap();
        assert!(next(&mut slow).await.is_text());
        // What the kernel holds for the slow one is some megabytes.
        let mut taken = 0;
        while taken < 16_000_000 {
            taken += next(&mut quick).await.len();
        }
        let mut lagged = false;
        while !lagged {
            let message = next(&mut slow).await;
            lagged = message.is_text() && json(&message)["type"] == "lagged";
        }
        drop(sends);
    });
}

#[test]
fn there_are_no_more_sockets_than_there_may_be() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            sockets_max: 1,
            ..Settings::default()
        };
        let site = Site::begin(directory.path(), settings).await;
        let first = connect(&site, "yard").await.unwrap();
        let refused = connect(&site, "yard").await.unwrap_err();
        assert!(refused.contains("503"), "{refused}");
        drop(first);
        let freed = async {
            while connect(&site, "yard").await.is_err() {
                evenkeel::time::sleep(Duration::from_millis(5)).await;
            }
        };
        evenkeel::time::timeout(LIMIT, freed).await.unwrap();
        until("nobody else watches", || {
            site.hub.status_of("yard").unwrap().viewers <= 1
        })
        .await;
    });
}
