#[evenkeel::test]
#[test]
async fn it() {}

fn main() {}
