//! What a camera is asked: a body in an envelope, with a digest of the password beside it
//! (WS-Security, UsernameToken Profile 1.0).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::rtsp::auth::Credentials;

/// A question in its envelope. `now` is the camera's time, without fractions, as
/// `2026-11-26T20:00:00Z`: cameras whose clock is wrong refuse what is old by it.
pub(super) fn envelope(body: &str, credentials: Option<&Credentials>, now: &str) -> String {
    let mut nonce = [0; 16];
    // Without randomness a digest is as good as the time in it.
    let _ = getrandom::fill(&mut nonce);
    let header = credentials.map_or_else(String::new, |it| security(it, nonce, now));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\">{header}\
         <s:Body>{body}</s:Body></s:Envelope>"
    )
}

fn security(credentials: &Credentials, nonce: [u8; 16], now: &str) -> String {
    let space = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss";
    let user = escaped(&credentials.user);
    let digest = digest(&credentials.password, nonce, now);
    let nonce = STANDARD.encode(nonce);
    format!(
        "<s:Header><w:Security s:mustUnderstand=\"1\" \
         xmlns:w=\"{space}-wssecurity-secext-1.0.xsd\" \
         xmlns:u=\"{space}-wssecurity-utility-1.0.xsd\"><w:UsernameToken>\
         <w:Username>{user}</w:Username>\
         <w:Password Type=\"{space}-username-token-profile-1.0#PasswordDigest\">{digest}\
         </w:Password><w:Nonce EncodingType=\"{space}-soap-message-security-1.0#Base64Binary\">\
         {nonce}</w:Nonce><u:Created>{now}</u:Created></w:UsernameToken></w:Security></s:Header>"
    )
}

fn digest(password: &str, nonce: [u8; 16], now: &str) -> String {
    let digest = Sha1::new()
        .chain_update(nonce)
        .chain_update(now)
        .chain_update(password);
    STANDARD.encode(digest.finalize())
}

/// A text as it stands in a document.
pub(super) fn escaped(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_one_of_the_specification() {
        // The example of ONVIF's Application Programmer's Guide, section 6.1.1.3.
        let nonce = STANDARD.decode("LKqI6G/AikKCQrN0zqZFlg==").unwrap();
        let nonce = nonce.try_into().unwrap();
        let digest = digest("userpassword", nonce, "2010-09-16T07:50:45Z");
        assert_eq!(digest, "tuOSpGlFlIXsozq4HFNeeGeFLEI=");
    }

    #[test]
    fn what_stands_in_a_name_is_no_part_of_the_envelope() {
        let credentials = Credentials {
            user: "a</w:Username>&".to_owned(),
            password: String::new(),
        };
        let envelope = envelope("<b/>", Some(&credentials), "now");
        assert!(
            envelope.contains("a&lt;/w:Username&gt;&amp;<"),
            "{envelope}"
        );
    }
}
