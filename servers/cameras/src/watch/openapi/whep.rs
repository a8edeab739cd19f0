//! WHEP among the requests.

use axum::routing::{delete, options, patch, post};

use super::Operation;
use crate::watch::webrtc::requests::{self, FRAGMENT, SDP};

pub(super) fn operations() -> [Operation; 4] {
    let offers = "/api/cameras/{camera}/whep";
    let session = "/api/cameras/{camera}/whep/{session}";
    [
        Operation {
            body: Some((SDP, "Description")),
            status: "201",
            answer: SDP,
            ..Operation::new(
                "post",
                offers,
                "whep",
                "WHEP: an offer begins a session of WebRTC, whose address is in Location",
                post(requests::offer),
            )
        },
        Operation {
            status: "204",
            answer: "",
            ..Operation::new(
                "options",
                offers,
                "whep_options",
                "What offers are to be sent as",
                options(requests::options),
            )
        },
        Operation {
            body: Some((FRAGMENT, "Description")),
            status: "204",
            answer: "",
            ..Operation::new(
                "patch",
                session,
                "whep_addresses",
                "Addresses of the browser, which are not needed; If-Match is the session's ETag",
                patch(requests::patch),
            )
        },
        Operation {
            answer: "",
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
