//! An MQTT broker within a program: `broker CONFIGURATION`. Beneath the broker's own program is
//! nothing but Tokio, since that lacks the feature `rt-multi-thread`; here it has it.

use std::{fs, thread};

use programs::{Error, end};
use rumqttd::Broker;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).ok_or("broker CONFIGURATION")?;
    let config = toml::from_str(&fs::read_to_string(path)?)?;
    // It goes on until the process ends, unless it cannot begin.
    thread::spawn(move || {
        if let Err(error) = Broker::new(config).start() {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    });
    end().await;
    Ok(())
}
