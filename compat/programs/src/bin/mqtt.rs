//! An MQTT client: `mqtt PORT` publishes in every quality of service what it has subscribed to.

use std::time::Duration;

use programs::Error;
use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, Packet, QoS};

/// So many messages in each quality of service.
const EACH: usize = 50;
const QUALITIES: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

#[tokio::main]
async fn main() -> Result<(), Error> {
    let port = std::env::args().nth(1).ok_or("mqtt PORT")?.parse()?;
    let (reader, mut events) = client("reader", port);
    reader.subscribe("notes/#", QoS::ExactlyOnce).await?;
    wait(&mut events, |packet| matches!(packet, Packet::SubAck(_))).await?;
    let writer = tokio::spawn(write(port));
    let mut payloads = Vec::new();
    while payloads.len() < EACH * QUALITIES.len() {
        if let Event::Incoming(Packet::Publish(message)) = events.poll().await? {
            payloads.push(String::from_utf8(message.payload.to_vec())?);
        }
    }
    writer.await??;
    payloads.sort();
    payloads.dedup();
    println!("{} messages", payloads.len());
    Ok(())
}

fn client(name: &str, port: u16) -> (AsyncClient, EventLoop) {
    let mut options = MqttOptions::new(name, "127.0.0.1", port);
    options.set_keep_alive(Duration::from_secs(5));
    AsyncClient::new(options, 10)
}

/// Serves the connection until such a packet has come.
async fn wait(events: &mut EventLoop, is: impl Fn(&Packet) -> bool) -> Result<(), Error> {
    loop {
        if let Event::Incoming(packet) = events.poll().await?
            && is(&packet)
        {
            return Ok(());
        }
    }
}

async fn write(port: u16) -> Result<(), Error> {
    let (writer, mut events) = client("writer", port);
    let publish = tokio::spawn(async move {
        for (at, quality) in QUALITIES.into_iter().enumerate() {
            for number in 0..EACH {
                let payload = format!("{at}-{number:02}");
                writer.publish("notes/a", quality, false, payload).await?;
            }
        }
        Ok::<_, rumqttc::ClientError>(writer)
    });
    let mut confirmed = 0;
    while confirmed < 2 * EACH {
        let event = events.poll().await?;
        let is = matches!(
            event,
            Event::Incoming(Packet::PubAck(_) | Packet::PubComp(_))
        );
        confirmed += usize::from(is);
    }
    publish.await??.disconnect().await?;
    Ok(())
}
