//! How packets get from one side to the other: the header `Transport` (RFC 2326, section 12.39).

/// One way, as it is asked for or agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// In the connection, by these channels; otherwise in datagrams.
    pub interleaved: Option<(u8, u8)>,
    /// Whether it goes over TCP.
    pub is_tcp: bool,
    /// Whether it goes to a group of receivers.
    pub is_multicast: bool,
    /// Where the client receives datagrams: packets, and reports.
    pub client_port: Option<(u16, u16)>,
    /// Where the server does.
    pub server_port: Option<(u16, u16)>,
    /// Whether the client is the one that sends.
    pub records: bool,
}

/// The ways in a header, in the order of preference. Those of other protocols are left out.
pub fn parse(header: &str) -> Vec<Transport> {
    header.split(',').filter_map(one).collect()
}

fn one(text: &str) -> Option<Transport> {
    let mut parts = text.split(';').map(str::trim);
    let protocol = parts.next()?.to_ascii_uppercase();
    let is_tcp = match &*protocol {
        "RTP/AVP" | "RTP/AVP/UDP" => false,
        "RTP/AVP/TCP" => true,
        _ => return None,
    };
    let mut transport = Transport {
        is_tcp,
        ..Transport::default()
    };
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match &*name.trim().to_ascii_lowercase() {
            "interleaved" => transport.interleaved = pair(value),
            "multicast" => transport.is_multicast = true,
            "client_port" => transport.client_port = pair(value),
            "server_port" => transport.server_port = pair(value),
            "mode" => {
                let mode = value.trim_matches('"').to_ascii_lowercase();
                transport.records = matches!(&*mode, "record" | "receive");
            }
            _ => {}
        }
    }
    Some(transport)
}

/// Two numbers; of one alone the second is the next one.
fn pair<T: std::str::FromStr + Copy + TryFrom<u32>>(text: &str) -> Option<(T, T)>
where
    u32: From<T>,
{
    match text.split_once('-') {
        Some((first, second)) => first.trim().parse().ok().zip(second.trim().parse().ok()),
        None => {
            let first: T = text.trim().parse().ok()?;
            T::try_from(u32::from(first) + 1)
                .ok()
                .map(|next| (first, next))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_in_order() {
        let header = "RTP/SAVP;unicast, RTP/AVP;unicast;client_port=5000-5001;mode=\"PLAY\", \
                      rtp/avp/tcp;unicast; interleaved = 2;mode=record, RTP/AVP;multicast";
        let parsed = parse(header);
        let udp = Transport {
            client_port: Some((5_000, 5_001)),
            ..Transport::default()
        };
        let tcp = Transport {
            is_tcp: true,
            interleaved: Some((2, 3)),
            records: true,
            ..Transport::default()
        };
        let group = Transport {
            is_multicast: true,
            ..Transport::default()
        };
        assert_eq!(parsed, [udp, tcp, group]);
        for nonsense in ["", "RTP", "RTP/AVP/QUIC;a=b"] {
            assert_eq!(parse(nonsense), [], "{nonsense}");
        }
        let out_of_range = parse("RTP/AVP/TCP;interleaved=255;client_port=70000-1");
        assert_eq!(out_of_range[0].interleaved, None);
        assert_eq!(out_of_range[0].client_port, None);
    }
}
