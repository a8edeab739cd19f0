//! WHEP among the requests.

use axum::routing::{delete, get, options, patch, post};

use super::Operation;
use crate::watch::webrtc::requests::{self, FRAGMENT, SDP};

pub(super) fn operations() -> impl Iterator<Item = Operation> {
    of_offers().into_iter().chain(of_sessions())
}

fn of_offers() -> [Operation; 3] {
    let offers = "/api/cameras/{camera}/whep";
    [
        Operation {
            body: Some((SDP, "Description")),
            status: "201",
            answers: &[SDP],
            ..Operation::new(
                "post",
                offers,
                "whep",
                "WHEP: an offer begins a session of WebRTC, whose address is in Location",
                post(requests::offer),
            )
        },
        Operation {
            answers: &[SDP],
            ..Operation::new(
                "get",
                offers,
                "whep_place",
                "That offers are taken here: no body, and the type of descriptions",
                get(requests::place),
            )
        },
        Operation {
            answers: &[],
            ..Operation::new(
                "options",
                offers,
                "whep_options",
                "What offers are to be sent as",
                options(requests::options),
            )
        },
    ]
}

fn of_sessions() -> [Operation; 3] {
    let session = "/api/cameras/{camera}/whep/{session}";
    [
        Operation {
            status: "204",
            answers: &[],
            ..Operation::new(
                "get",
                session,
                "whep_session",
                "That there is such a session",
                get(requests::session),
            )
        },
        Operation {
            body: Some((FRAGMENT, "Description")),
            status: "204",
            answers: &[],
            ..Operation::new(
                "patch",
                session,
                "whep_addresses",
                "Addresses of the browser, which are not needed; If-Match is the session's ETag",
                patch(requests::patch),
            )
        },
        Operation {
            answers: &[],
            ..Operation::new(
                "delete",
                session,
                "whep_end",
                "Ends a session of WebRTC",
                delete(requests::end),
            )
        },
    ]
}
