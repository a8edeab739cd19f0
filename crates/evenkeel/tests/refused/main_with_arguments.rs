#[evenkeel::main]
async fn main(arguments: Vec<String>) {}
