//! A NATS client: `nats ADDRESS` publishes and subscribes, asks and answers, and keeps a stream.

use async_nats::jetstream::{self, consumer::pull, stream};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;
use programs::Error;

/// So many messages of each kind.
const EACH: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).ok_or("nats ADDRESS")?;
    let client = async_nats::connect(&address).await?;
    let received = published(&client).await?;
    let answered = answered(&client).await?;
    let kept = kept(client).await?;
    println!("{received} received, {answered} answered, {kept} kept");
    Ok(())
}

/// Messages that come in the order in which they were published.
async fn published(client: &Client) -> Result<usize, Error> {
    let mut messages = client.subscribe("notes.*").await?;
    for number in 0..EACH {
        let payload = number.to_string().into();
        client.publish(format!("notes.{number}"), payload).await?;
    }
    client.flush().await?;
    for number in 0..EACH {
        let message = messages.next().await.ok_or("the subscription has ended")?;
        if message.payload != number.to_string().as_bytes() {
            return Err(format!("{:?} came in place of {number}", message.payload).into());
        }
    }
    messages.unsubscribe().await?;
    Ok(EACH)
}

/// Requests at once, each to be answered with itself.
async fn answered(client: &Client) -> Result<usize, Error> {
    let requests = client.subscribe("echo").await?;
    let server = tokio::spawn(answer(client.clone(), requests));
    client.flush().await?;
    let asking = (0..EACH).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let payload = number.to_string();
            let answer = client.request("echo", payload.clone().into()).await?;
            Ok::<_, async_nats::RequestError>(answer.payload == payload.as_bytes())
        })
    });
    let mut right = 0;
    for asked in asking.collect::<Vec<_>>() {
        right += usize::from(asked.await??);
    }
    server.abort();
    Ok(right)
}

async fn answer(client: Client, mut requests: Subscriber) -> Result<(), async_nats::PublishError> {
    while let Some(request) = requests.next().await {
        if let Some(reply) = request.reply {
            client.publish(reply, request.payload).await?;
        }
    }
    Ok(())
}

/// Messages that the server keeps, each acknowledged by it and by their reader.
async fn kept(client: Client) -> Result<usize, Error> {
    let context = jetstream::new(client);
    let stream = context
        .create_stream(stream::Config {
            name: "kept".into(),
            subjects: vec!["kept.*".into()],
            ..Default::default()
        })
        .await?;
    for number in 0..EACH {
        let payload = number.to_string().into();
        context.publish("kept.a", payload).await?.await?;
    }
    let consumer = stream
        .create_consumer(pull::Config {
            durable_name: Some("reader".into()),
            ..Default::default()
        })
        .await?;
    let mut messages = consumer.messages().await?.take(EACH);
    let mut kept = 0;
    while let Some(message) = messages.next().await {
        let message = message?;
        message.ack().await?;
        kept += usize::from(message.payload == kept.to_string().as_bytes());
    }
    Ok(kept)
}
