//! A network of its own, whose frames are Ethernet's: what the loopback device carries in one piece
//! of any size arrives here in segments.

use std::net::{IpAddr, Ipv4Addr};

use crate::error::Result;
use crate::process::{Undoing, run};

/// Of the range that is set aside for measuring networks.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 71, 1);
const LOAD: Ipv4Addr = Ipv4Addr::new(198, 18, 71, 2);

/// A pair of devices: one end here, the other in a namespace. Both go with it.
pub(super) struct Veth {
    pub(super) network: String,
    _undoing: Undoing,
}

impl Veth {
    /// # Errors
    /// When the machine does not allow it.
    pub(super) fn open() -> Result<Veth> {
        let network = format!("evenkeel-lab-{}", std::process::id());
        let make = ["ip", "netns", "add", &network];
        let undoing = Undoing::after(&make, &["ip", "netns", "delete", &network])?;
        let veth = Veth {
            network,
            _undoing: undoing,
        };
        veth.set_up()?;
        Ok(veth)
    }

    /// The address that servers have there.
    pub(super) fn host(&self) -> IpAddr {
        SERVER.into()
    }

    fn set_up(&self) -> Result<()> {
        let network = self.network.as_str();
        // Names of devices have at most 15 characters.
        let here = format!("ekl{}", std::process::id());
        let there = "eth0";
        let (server, load) = (format!("{SERVER}/30"), format!("{LOAD}/30"));
        let mtu = ["mtu", "1500", "gso_max_segs", "1", "up"];
        let inside = ["ip", "-n", network];
        run(&[
            "ip", "link", "add", &here, "type", "veth", "peer", "name", there, "netns", network,
        ])?;
        run(&["ip", "address", "add", &server, "dev", &here])?;
        run(&[&inside[..], &["address", "add", &load, "dev", there]].concat())?;
        run(&[&["ip", "link", "set", &here][..], &mtu].concat())?;
        run(&[&inside[..], &["link", "set", there], &mtu].concat())?;
        // With time stamps a segment would have room for 1 448 bytes, not for a frame.
        let stamps = "echo 0 > /proc/sys/net/ipv4/tcp_timestamps";
        run(&["ip", "netns", "exec", network, "sh", "-c", stamps]).map(drop)
    }
}
