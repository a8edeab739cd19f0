//! A test that is marked twice.

#[evenkeel::test]
#[test]
async fn it() {}

fn main() {}
