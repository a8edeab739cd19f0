//! Users, tokens, credentials and TLS of NATS. Needs `nats-server`; without it, the tests say so
//! and pass.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::nats::{Nats, free_port, run};
use crate::support::program::{Server, run_command};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair as CertificateKey};
use txlog::nats::{NatsConfig, NatsLogin, NatsStore};
use txlog::store::Store;

/// A directory with the files of a test, in which a NATS server has its own.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn start(&self, configuration: &str) -> Option<Nats> {
        let directory = self.0.path().join("nats");
        let store = format!("jetstream {{ store_dir: {directory:?} }}\n{configuration}");
        Nats::start_with(&directory, free_port(), &store)
    }
}

async fn with(nats: &Nats, login: NatsLogin) -> Result<NatsStore, String> {
    let config = NatsConfig {
        login,
        ..nats.config()
    };
    used(config).await
}

/// Connects, and appends a record.
async fn used(config: NatsConfig) -> Result<NatsStore, String> {
    let store = NatsStore::connect(config)
        .await
        .map_err(|e| e.to_string())?;
    store.submit("used".into()).await.unwrap().await.unwrap();
    Ok(store)
}

fn refused(connected: Result<NatsStore, String>, reason: &str) {
    let error = connected.expect_err("it is taken");
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_user_logs_in_with_the_password_in_a_file() {
    let files = Files::new();
    let configuration = "authorization { user: keeper, password: \"s3cret word\" }";
    let Some(nats) = files.start(configuration) else {
        return;
    };
    let right = files.write("right", "s3cret word\n");
    let wrong = files.write("wrong", "other");
    let user = |password: &Path| NatsLogin::User {
        name: "keeper".to_owned(),
        password: password.to_owned(),
    };
    run(async {
        with(&nats, user(&right)).await.unwrap();
        refused(
            with(&nats, user(&wrong)).await,
            "refused the login (with a user",
        );
        refused(
            with(&nats, NatsLogin::None).await,
            "refused the login (without",
        );
        let missing = user(&files.0.path().join("missing"));
        refused(with(&nats, missing).await, "see whether the path is right");
        refused(
            with(&nats, user(&files.write("empty", "\n"))).await,
            "is empty",
        );
    });
    let password = right.to_str().unwrap();
    let options = ["--nats-user", "keeper", "--nats-password-file", password];
    let server = Server::start_with(&[&["--nats", &nats.address][..], &options].concat());
    let address = server.address.to_string();
    let (done, _, errors) = run_command(&["append", "--server", &address, "a"]);
    assert!(done, "{errors}");
    // Without the file, and with two logins.
    let serve = ["serve", "--nats", &nats.address];
    for given in [
        &options[..2],
        &[&options[..], &["--nats-token-file", "x"]].concat(),
    ] {
        let (done, _, errors) = run_command(&[&serve[..], given].concat());
        assert!(!done && errors.contains("Usage"), "{errors}");
    }
}

#[test]
fn a_token_is_read_from_a_file_again_for_each_connection() {
    let files = Files::new();
    let Some(nats) = files.start("authorization { token: first }") else {
        return;
    };
    let file = files.write("token", "first\n");
    let login = NatsLogin::Token(file.clone());
    run(async {
        let store = with(&nats, login.clone()).await.unwrap();
        let port = nats.address.rsplit_once(':').unwrap().1.parse().unwrap();
        drop(nats);
        let directory = files.0.path().join("nats");
        let configuration =
            format!("jetstream {{ store_dir: {directory:?} }}\nauthorization {{ token: next }}");
        let nats = Nats::start_with(&directory, port, &configuration).unwrap();
        let error = store.maintain().await.unwrap_err();
        assert!(
            error.text.contains("refused the login (with a token)"),
            "{error}"
        );
        files.write("token", "next");
        store.maintain().await.unwrap();
        with(&nats, login).await.unwrap();
        store.submit("more".into()).await.unwrap().await.unwrap();
    });
}

#[test]
fn a_user_without_permissions_hears_which_are_missing() {
    let files = Files::new();
    let configuration = "authorization { users: [
        { user: a, password: p, permissions: { publish: \"other\", subscribe: \">\" } },
        { user: b, password: p, permissions: { publish: \">\", subscribe: \"other\" } }] }";
    let Some(nats) = files.start(configuration) else {
        return;
    };
    let password = files.write("password", "p");
    run(async {
        for name in ["a", "b"] {
            let login = NatsLogin::User {
                name: name.to_owned(),
                password: password.clone(),
            };
            refused(with(&nats, login).await, "needs to publish to $JS.API.>");
        }
    });
}

/// A JWT of NATS's, signed by `by`.
fn jwt(by: &KeyPair, of: &KeyPair, kind: &str, claims: &str) -> String {
    let encoded = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let head = encoded("{\"typ\":\"JWT\",\"alg\":\"ed25519-nkey\"}");
    let (by_key, of_key) = (by.public_key(), of.public_key());
    let body = encoded(&format!(
        "{{\"jti\":\"x\",\"iat\":1700000000,\"iss\":\"{by_key}\",\"sub\":\"{of_key}\",\
         \"name\":\"{kind}\",\"nats\":{{\"type\":\"{kind}\",\"version\":2{claims}}}}}"
    ));
    let signed = format!("{head}.{body}");
    let signature = BASE64_URL_SAFE_NO_PAD.encode(by.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

#[test]
fn credentials_are_a_jwt_and_a_seed_in_a_file() {
    let files = Files::new();
    let operator = KeyPair::new_operator();
    let (account, system) = (KeyPair::new_account(), KeyPair::new_account());
    let user = KeyPair::new_user();
    let limits = ",\"limits\":{\"subs\":-1,\"data\":-1,\"payload\":-1,\"imports\":-1,\
        \"exports\":-1,\"wildcards\":true,\"conn\":-1,\"leaf\":-1";
    let all =
        format!("{limits},\"mem_storage\":-1,\"disk_storage\":-1,\"streams\":-1,\"consumer\":-1}}");
    let of_user = ",\"pub\":{},\"sub\":{},\"subs\":-1,\"data\":-1,\"payload\":-1";
    let configuration = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\n\
         resolver_preload: {{ {}: {}, {}: {} }}",
        jwt(&operator, &operator, "operator", ""),
        system.public_key(),
        account.public_key(),
        jwt(&operator, &account, "account", &all),
        system.public_key(),
        jwt(&operator, &system, "account", &format!("{limits}}}")),
    );
    let Some(nats) = files.start(&configuration) else {
        return;
    };
    let credentials = |jwt: &str, seed: &str| {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    };
    let right = jwt(&account, &user, "user", of_user);
    let seed = user.seed().unwrap();
    let right = files.write("right.creds", &credentials(&right, &seed));
    // Signed by nobody whom the server knows.
    let stranger = jwt(&KeyPair::new_account(), &user, "user", of_user);
    let stranger = files.write("stranger.creds", &credentials(&stranger, &seed));
    let nonsense = files.write("nonsense.creds", "nonsense");
    run(async {
        with(&nats, NatsLogin::Credentials(right)).await.unwrap();
        let login = NatsLogin::Credentials(stranger);
        refused(
            with(&nats, login).await,
            "refused the login (with a file of credentials)",
        );
        let login = NatsLogin::Credentials(nonsense);
        refused(with(&nats, login).await, "nonsense.creds");
    });
}

/// A certificate for 127.0.0.1, its key, and the certificate of who signed it.
fn certificates(files: &Files, name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = CertificateKey::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let own_key = CertificateKey::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = own.signed_by(&own_key, &issuer).unwrap();
    (
        files.write(&format!("{name}.pem"), &own.pem()),
        files.write(&format!("{name}-key.pem"), &own_key.serialize_pem()),
        files.write(&format!("{name}-ca.pem"), &ca.pem()),
    )
}

#[test]
fn the_connection_is_encrypted_with_a_server_that_is_trusted() {
    let files = Files::new();
    let (certificate, key, ca) = certificates(&files, "own");
    let (.., other_ca) = certificates(&files, "other");
    let configuration = format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}");
    let Some(nats) = files.start(&configuration) else {
        return;
    };
    let trusting = |ca: &Path| NatsConfig {
        ca: Some(ca.to_owned()),
        ..nats.config()
    };
    run(async {
        used(trusting(&ca)).await.unwrap();
        refused(
            used(trusting(&other_ca)).await,
            "give by --nats-ca who signed",
        );
        refused(
            used(trusting(&files.0.path().join("no.pem"))).await,
            "no.pem",
        );
        // The system does not trust it.
        refused(used(nats.config()).await, "give by --nats-ca who signed");
    });
    let ca = ca.to_str().unwrap();
    let server = Server::start_with(&["--nats", &nats.address, "--nats-ca", ca]);
    let address = server.address.to_string();
    let (done, _, errors) = run_command(&["append", "--server", &address, "a"]);
    assert!(done, "{errors}");
}

#[test]
fn a_server_without_tls_is_refused_if_it_was_asked_for() {
    let files = Files::new();
    let (.., ca) = certificates(&files, "own");
    let Some(nats) = files.start("") else { return };
    run(async {
        let config = NatsConfig {
            ca: Some(ca),
            ..nats.config()
        };
        refused(used(config).await, "no TLS with NATS");
        let config = NatsConfig {
            tls: true,
            ..nats.config()
        };
        refused(used(config).await, "NATS at");
        used(nats.config()).await.unwrap();
    });
}
