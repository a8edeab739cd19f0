//! How a certificate is had: an account, an order, challenges, and the certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::time::sleep;
use instant_acme::{
    Account, AuthorizationState, AuthorizationStatus, ChallengeType, Identifier, KeyAuthorization,
    NewAccount, NewOrder, Order, OrderStatus,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::ServerConfig;

use super::Wanted;
use super::challenges::{Answered, Challenge, Challenges};
use super::client::Client;
use super::store::{self, StoreError};
use crate::tls::{self, Identity, TlsError};

/// How often is asked how an order goes, at first and later.
const ASKED: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcmeError {
    /// The authority, or the way to it.
    #[error("the authority: {0}")]
    Authority(#[from] instant_acme::Error),
    /// It does not ask in a way that can be answered.
    #[error("the authority offers no challenge {0} for {1}")]
    NoChallenge(Challenge, String),
    /// It does not give the names.
    #[error("the authority does not let us have {0}: {1}")]
    Refused(String, String),
    /// It takes too long.
    #[error("the authority has not issued it within {0:?}")]
    Slow(Duration),
    /// What a challenge by TLS is answered with.
    #[error("a challenge by TLS cannot be answered: {0}")]
    Answer(String),
    /// The key or the request of the certificate.
    #[error("a request cannot be made: {0}")]
    Request(#[from] rcgen::Error),
    /// The state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was issued is of no use.
    #[error("what was issued is of no use: {0}")]
    Issued(#[from] TlsError),
    /// A thread for files.
    #[error("files cannot be used: {0}")]
    Thread(#[from] evenkeel::task::JoinError),
}

/// Orders a certificate and keeps it in this file.
pub(super) async fn order(
    wanted: &Wanted,
    path: &Path,
    challenges: &Arc<Challenges>,
) -> Result<Identity, AcmeError> {
    let account = account(wanted).await?;
    let names = wanted.names.iter();
    let identifiers: Vec<Identifier> = names.map(|name| Identifier::Dns(name.clone())).collect();
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    let answered = challenged(&mut order, wanted.challenge, challenges).await?;
    let ready = [
        OrderStatus::Ready,
        OrderStatus::Processing,
        OrderStatus::Valid,
    ];
    until(&mut order, &ready).await?;
    drop(answered);
    let (request, key) = request(wanted)?;
    if order.state().status == OrderStatus::Ready {
        order.finalize_csr(&request).await?;
    }
    until(&mut order, &[OrderStatus::Valid]).await?;
    let chain = order.certificate().await?.unwrap_or_default();
    let text = store::certificate(&wanted.directory, &chain, &key);
    let path = path.to_owned();
    evenkeel::spawn_blocking(move || kept(&path, &text)).await?
}

/// The account with the authority, which is made if there is none.
async fn account(wanted: &Wanted) -> Result<Account, AcmeError> {
    let (state, url) = (wanted.state.clone(), wanted.directory.clone());
    let known = evenkeel::spawn_blocking(move || {
        store::prepare(&state)?;
        store::probe(&state)?;
        store::account(&state, &url)
    });
    let known = known.await??;
    let builder = Account::builder_with_http(Box::new(Client(wanted.trust.clone())));
    if let Some(known) = known {
        return Ok(builder.from_credentials(known).await?);
    }
    let contacts: Vec<&str> = wanted.contacts.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contacts,
        // The configuration has to say so.
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let (state, url) = (wanted.state.clone(), wanted.directory.clone());
    let (account, made) = builder.create(&new, url.clone(), None).await?;
    let kept = evenkeel::spawn_blocking(move || store::keep_account(&state, &url, &made));
    kept.await??;
    Ok(account)
}

/// Answers the challenges of an order, and says so. Each is answered until what is returned is
/// dropped.
async fn challenged(
    order: &mut Order,
    kind: Challenge,
    challenges: &Arc<Challenges>,
) -> Result<Vec<Answered>, AcmeError> {
    let mut answered = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        match authorization.status {
            // As it was a while ago.
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => {
                let why = why(&authorization);
                let why = why.unwrap_or_else(|| format!("it is {other:?}"));
                return Err(AcmeError::Refused(name, why));
            }
        }
        let challenge = authorization.challenge(match kind {
            Challenge::Http => ChallengeType::Http01,
            Challenge::Tls => ChallengeType::TlsAlpn01,
        });
        let mut challenge = challenge.ok_or_else(|| AcmeError::NoChallenge(kind, name.clone()))?;
        let answer = challenge.key_authorization();
        answered.push(match kind {
            Challenge::Http => challenges.put(&challenge.token, answer.as_str()),
            Challenge::Tls => challenges.put_secured(&name, secured(&name, &answer)?),
        });
        challenge.set_ready().await.map_err(|why| match why {
            instant_acme::Error::Api(why) => AcmeError::Refused(name, why.to_string()),
            why => why.into(),
        })?;
    }
    Ok(answered)
}

/// How the challenge for a name is answered by TLS.
fn secured(name: &str, answer: &KeyAuthorization) -> Result<Arc<ServerConfig>, AcmeError> {
    let digest = answer.digest();
    let digest = digest.as_ref().try_into();
    let digest = digest.map_err(|_| AcmeError::Answer("its digest is not of SHA-256".to_owned()));
    tls::challenge(name, digest?).map_err(AcmeError::Answer)
}

/// Waits until an order has one of these states.
async fn until(order: &mut Order, states: &[OrderStatus]) -> Result<(), AcmeError> {
    let (mut wait, max) = ASKED;
    while !states.contains(&order.state().status) {
        if order.state().status == OrderStatus::Invalid {
            return Err(refused(order).await);
        }
        sleep(wait).await;
        wait = (wait * 2).min(max);
        order.refresh().await?;
    }
    Ok(())
}

/// What the authority says of an order that it refuses.
async fn refused(order: &mut Order) -> AcmeError {
    let of_order = order.state().error.as_ref().map(ToString::to_string);
    let mut authorizations = order.authorizations();
    while let Some(Ok(authorization)) = authorizations.next().await {
        let mut authorization = authorization;
        let name = authorization.identifier().to_string();
        // As it is now.
        let Ok(state) = authorization.refresh().await else {
            break;
        };
        if let Some(why) = why(state) {
            return AcmeError::Refused(name, why);
        }
    }
    let why = of_order.unwrap_or_else(|| "it does not say why".to_owned());
    AcmeError::Refused("this certificate".to_owned(), why)
}

/// What the authority says of a challenge that has failed.
fn why(state: &AuthorizationState) -> Option<String> {
    let failed = state.challenges.iter().find_map(|one| one.error.as_ref());
    failed.map(ToString::to_string)
}

/// The request for a certificate, and its key in the PEM format.
fn request(wanted: &Wanted) -> Result<(Vec<u8>, String), AcmeError> {
    let mut params = CertificateParams::new(wanted.names.clone())?;
    params.distinguished_name = DistinguishedName::new();
    let key = KeyPair::generate()?;
    let request = params.serialize_request(&key)?;
    Ok((request.der().to_vec(), key.serialize_pem()))
}

/// Keeps a certificate, and reads it as the next process will. One that cannot be used takes
/// nobody's place.
fn kept(path: &Path, text: &str) -> Result<Identity, AcmeError> {
    let mut tried = path.as_os_str().to_owned();
    tried.push(".tried");
    let tried = PathBuf::from(tried);
    store::write(&tried, text.as_bytes())?;
    let read = tls::identity(&tried, &tried);
    let _ = std::fs::remove_file(&tried);
    let identity = read?;
    store::write(path, text.as_bytes())?;
    Ok(identity)
}
