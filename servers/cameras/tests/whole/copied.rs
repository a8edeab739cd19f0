//! What a program has recorded is in a store, and it is played from there.

use serde_json::Value;

use super::recorded::json;
use super::store::{Fault, Store};
use super::support::{Program, simulator, until};

#[test]
fn a_program_copies_to_a_store_and_plays_from_it() {
    let (disk, store, simulator) = (tempfile::tempdir().unwrap(), Store::start(), simulator());
    let credentials = disk.path().join("s3.toml");
    std::fs::write(
        &credentials,
        "access_key = \"a\"\nsecret_key = \"very-secret\"\n",
    )
    .unwrap();
    let config = format!(
        "[recording]\nsegment = \"200ms\"\nsync = \"10ms\"\n\
         [tier.archive]\nendpoint = \"http://{}\"\nbucket = \"b\"\npatience = \"300ms\"\n\
         retry_max = \"20ms\"\ncredentials = {credentials:?}\n\
         [volume.disk]\npath = {:?}\nreserve = \"1MiB\"\ntier = \"archive\"\n\
         [watch]\nlisten = \"127.0.0.1:0\"\n\
         [camera.gate]\nurl = {:?}\ndelivery = \"5ms\"\nrecord = {{ volume = \"disk\" }}\n",
        store.address,
        disk.path(),
        simulator.url(0)
    );
    let mut program = Program::start(&config);
    let tier = |program: &Program| json(program, "/api/volumes")["tiers"][0].clone();
    until("some are copied", || {
        tier(&program)["copied"].as_u64() > Some(3)
    });
    // It says that a store fails, once and without secrets, and goes on when it works.
    store.set_fault(Fault::Fails);
    program.until_said("tier archive: the answer is 503 SlowDown; trying again");
    store.set_fault(Fault::None);
    program.until_said("tier archive: it works again");
    let said = program.said();
    assert!(
        !said.contains("very-secret") && !said.contains("Signature"),
        "{said}"
    );
    program.terminate();
    let copied = store
        .keys()
        .iter()
        .filter(|key| key.ends_with(".mp4"))
        .count();
    // Another disk: all that is left is in the store.
    std::fs::remove_dir_all(disk.path().join("gate")).unwrap();
    program.start_again();
    let now = json(&program, "/api/cameras")["now_ms"].as_u64().unwrap();
    let around = format!("from={}&until={}", now - 60_000, now + 60_000);
    let (head, clip) = program.http(
        "GET",
        &format!("/api/cameras/gate/clip.mp4?{around}"),
        "",
        "",
    );
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let fragments = clip.windows(4).filter(|four| four == b"moof").count();
    assert!(
        fragments >= copied,
        "{fragments} fragments of {copied} segments"
    );
    let listed = json(&program, &format!("/api/cameras/gate/recordings?{around}"));
    assert_eq!(listed["tier_unreachable"], Value::Bool(false));
    assert!(!listed["ranges"].as_array().unwrap().is_empty(), "{listed}");
    // What a store does not say is said to be missing.
    store.set_fault(Fault::Fails);
    let earlier = format!("from={}&until={}", now - 200_000_000, now - 190_000_000);
    let listed = json(&program, &format!("/api/cameras/gate/recordings?{earlier}"));
    assert_eq!(listed["tier_unreachable"], Value::Bool(true), "{listed}");
}
