//! The attribute macros.
#![cfg(feature = "macros")]

use std::io;

#[evenkeel::test(workers = 1, busy_wait = "none")]
async fn options_are_taken() {
    assert_eq!(evenkeel::spawn(async { 1 + 1 }).await.unwrap(), 2);
}

#[evenkeel::test]
async fn a_test_may_return_a_result() -> io::Result<()> {
    let listener = evenkeel::net::TcpListener::bind("127.0.0.1:0").await?;
    assert_ne!(listener.local_addr()?.port(), 0);
    Ok(())
}

#[evenkeel::test]
#[should_panic(expected = "on purpose")]
async fn a_test_keeps_its_attributes() {
    panic!("on purpose");
}

mod elsewhere {
    pub(super) use ::evenkeel as renamed;

    #[renamed::test(crate = "renamed")]
    async fn the_crate_may_go_by_another_name() {
        renamed::task::yield_now().await;
    }
}

#[test]
fn main_becomes_an_ordinary_function() {
    #[evenkeel::main(workers = 1)]
    async fn main() -> Result<u8, io::Error> {
        let text = std::future::ready("7").await;
        text.parse().map_err(io::Error::other)
    }
    assert_eq!(main().unwrap(), 7);
}
