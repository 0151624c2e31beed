/// What the kernel counted of TCP, of `/proc/net/snmp` and `/proc/net/netstat`: of every program of the
/// network namespace. A counter that it does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetCounts {
    /// Segments sent.
    pub segments_sent: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Connections that a listening socket had no room for.
    pub listen_drops: Option<u64>,
    /// Segments that a socket's backlog had no room for.
    pub backlog_drops: Option<u64>,
    /// Segments that a receive queue had no room for.
    pub receive_drops: Option<u64>,
}

/// Reads both files.
#[must_use]
pub fn net_counts(snmp: &str, netstat: &str) -> NetCounts {
    NetCounts {
        segments_sent: counter(snmp, "Tcp:", "OutSegs"),
        retransmits: counter(snmp, "Tcp:", "RetransSegs"),
        listen_drops: counter(netstat, "TcpExt:", "ListenDrops"),
        backlog_drops: counter(netstat, "TcpExt:", "TCPBacklogDrop"),
        receive_drops: counter(netstat, "TcpExt:", "TCPRcvQDrop"),
    }
}

/// A counter of a group, which is two lines: names, and below them values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names
        .split_ascii_whitespace()
        .position(|found| found == name)?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
         Tcp: RtoAlgorithm RtoMin RtoMax MaxConn InSegs OutSegs RetransSegs\n\
         Tcp: 1 200 120000 -1 186227288 186176244 26597\nUdpLite: InDatagrams\nUdpLite: 0\n";
    const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPBacklogDrop TCPRcvQDrop\n\
         TcpExt: 0 227 228 0 7\nIpExt: InNoRoutes\nIpExt: 0\n";

    #[test]
    fn counters_are_found_by_name() {
        let expected = NetCounts {
            segments_sent: Some(186_176_244),
            retransmits: Some(26_597),
            listen_drops: Some(228),
            backlog_drops: Some(0),
            receive_drops: Some(7),
        };
        assert_eq!(net_counts(SNMP, NETSTAT), expected);
        // An older kernel has fewer.
        let older = NETSTAT.replace(" TCPRcvQDrop", "").replace(" 7", "");
        assert_eq!(net_counts("", &older).receive_drops, None);
        assert_eq!(counter(SNMP, "Tcp:", "MaxConn"), None, "-1 is no count");
    }

    proptest! {
        #[test]
        fn nothing_can_be_too_strange(text in "(Tcp:|TcpExt:|cpu0|[0-9 :a-z()\n])*") {
            let _ = net_counts(&text, &text);
            let _ = super::super::cores(&text);
            let _ = super::super::stat(&text);
            let _ = super::super::schedstat(&text);
            let _ = super::super::switches(&text);
            let _ = super::super::throttling(&text);
            let _ = super::super::folders(&text, &text);
        }
    }
}
