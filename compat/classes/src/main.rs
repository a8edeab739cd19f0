//! Serves one request for each path, and says what came of it.

use std::error::Error;

use classes::{answer, own_routes, routes};
use evenkeel::{Class, ClassConfig};

fn main() -> Result<(), Box<dyn Error>> {
    // Before there is a runtime.
    let video = Class::define("video", ClassConfig::new().share(40))?;
    Ok(serve(video)?)
}

#[tokio::main]
async fn serve(video: Class) -> std::io::Result<()> {
    for path in ["/plain", "/health", "/export", "/video", "/plan"] {
        let service = routes().merge(own_routes(video));
        let said = answer(service, path, "x-plan: gold\r\n").await?;
        println!("{path}: {said}");
    }
    Ok(())
}
