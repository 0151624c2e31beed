//! More in flight than one ring, or one pair of addresses, has room for: what is added to hold it.

use std::net::{IpAddr, Ipv4Addr};

use ridgeline_engine::Limits;
use ridgeline_net::Peer;

use crate::backend::Backend;
use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::machine;
use crate::placement::Placement;
use crate::setup;

/// Requests in flight that are asked for by number; none: the load takes what there is room for.
pub(crate) fn asked(config: &BenchConfig) -> Option<u32> {
    let slots = config.limits.as_ref().and_then(|bounds| bounds.slots);
    config.concurrency.or(slots)
}

/// Starts as many shards per core as `asked` requests in flight take, unless their number was named. A
/// ring's table holds as many sockets as the process may have descriptors, and no more. What the
/// user should know.
pub(crate) fn shards(
    asked: Option<u32>,
    config: &BenchConfig,
    backend: Backend,
    placement: &mut Placement,
) -> Result<Option<String>, Complaint> {
    // On other drivers all shards share one table.
    let (Some(asked), None, Backend::Uring) = (asked, config.shards, backend) else {
        return Ok(None);
    };
    let descriptors = machine::descriptors();
    let times = shards_per_place(
        asked,
        placement.shards,
        &setup::limits(config)?,
        descriptors,
    );
    if times == 1 {
        return Ok(None);
    }
    placement.multiply(times);
    Ok(Some(format!(
        "{asked} requests in flight take {} rings, each with a shard of its own: the limit on \
         descriptors (ulimit -Hn) leaves {descriptors} connections to each",
        placement.shards
    )))
}

/// The least number of shards in each of `places` with which every shard's connections fit its table;
/// 1 where none does.
fn shards_per_place(asked: u32, places: u32, limits: &Limits, descriptors: u64) -> u32 {
    let fits = |times: &u32| {
        let slots = asked.div_ceil(places.saturating_mul(*times));
        u64::from(limits.connections(slots)) <= descriptors
    };
    let most = asked.div_ceil(places.max(1)).max(1);
    (1..=most).find(fits).unwrap_or(1)
}

/// Connections that the embedded server is asked to have room for, where those of the requests in flight are
/// more than one ring has.
pub(crate) fn mock_connections(config: &BenchConfig) -> Result<Option<u32>, Complaint> {
    let Some(asked) = asked(config) else {
        return Ok(None);
    };
    let connections = setup::limits(config)?.connections(asked);
    let is_more = u64::from(connections) > machine::descriptors();
    Ok(is_more.then_some(connections.min(MOCK_CONNECTIONS_MAX)))
}

/// It shares this process's memory with the client, and both take some kilobytes for each connection.
const MOCK_CONNECTIONS_MAX: u32 = 1 << 18;

/// Receive buffers of a ring of which there are `rings` in the place of one, unless their number was
/// named: together they have what one would have had, as long as each has enough.
pub(crate) fn buffers(config: &BenchConfig, usual: u16, rings: u32) -> u16 {
    let named = config
        .limits
        .as_ref()
        .and_then(|bounds| bounds.receive_buffers);
    match (
        named,
        usual.checked_div(u16::try_from(rings).unwrap_or(u16::MAX)),
    ) {
        // The kernel takes powers of two.
        (None, Some(share @ 1..)) if rings > 1 => (1 << share.ilog2()).max(BUFFERS_MIN),
        (None, _) if rings > 1 => BUFFERS_MIN,
        _ => usual,
    }
}

/// With fewer buffers the thousands of streams of a ring end their receives faster than they are armed again while
/// others are still being opened, and events are read with their next ones (16 for 16,000 streams: two thirds of
/// the first events came a second late; 64: none).
const BUFFERS_MIN: u16 = 64;

/// Finished requests that may wait to be written, for each of `rings` rings in the place of one, unless their
/// number was named: likewise.
pub(crate) fn queued(config: &BenchConfig, usual: usize, rings: u32) -> usize {
    let named = config
        .limits
        .as_ref()
        .and_then(|bounds| bounds.records_queued_max);
    match named {
        Some(_) => usual,
        None => (usual / rings.max(1) as usize).max(QUEUED_MIN),
    }
}

/// Fewer finished requests than these may end at one time in any load.
const QUEUED_MIN: usize = 4 << 10;

/// Connects from several loopback addresses where the server is on loopback and one pair of addresses
/// has too few ports, unless addresses were named. What the user should know.
pub(crate) fn sources(
    asked: Option<u32>,
    config: &mut BenchConfig,
    peers: &mut Vec<Peer>,
    ports: u64,
) -> Option<String> {
    let asked = u64::from(asked?);
    // Addresses of several endpoints are told apart by their places.
    let several = config.url.len() > 1;
    if several || !config.source_addresses.is_empty() || asked <= ports * peers.len() as u64 {
        return None;
    }
    let is_local = |peer: &Peer| match peer {
        Peer::Tcp(address) => address.ip().is_loopback(),
        Peer::Unix(_) => false,
    };
    let is_v4 = |peer: &Peer| matches!(peer, Peer::Tcp(address) if address.is_ipv4());
    if !(peers.iter().all(is_local) && peers.iter().any(is_v4)) {
        return None;
    }
    // Of IPv6 there is one loopback address.
    peers.retain(is_v4);
    // Half of a range is found without a long search; the rest is still held by connections that closed.
    let count = asked.div_ceil((ports / 2).max(1));
    let count = u8::try_from(count).unwrap_or(u8::MAX).min(SOURCES_MAX);
    let source = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    config.source_addresses = (1..=count).map(source).collect();
    Some(format!(
        "connecting from 127.0.0.1 to 127.0.0.{count}: one pair of addresses has {ports} ports"
    ))
}

/// 127.0.0.1 to 127.0.0.254.
const SOURCES_MAX: u8 = 254;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_too_small_takes_more_shards() {
        let limits = Limits::default();
        let per_place =
            |asked, places, descriptors| shards_per_place(asked, places, &limits, descriptors);
        assert_eq!(per_place(16, 1, 19_936), 1);
        // 18,748 slots and their spare connections are 19,935.
        assert_eq!(per_place(18_748, 1, 19_936), 1);
        assert_eq!(per_place(18_750, 1, 19_936), 2);
        assert_eq!(per_place(50_000, 1, 19_936), 3);
        assert_eq!(per_place(50_000, 2, 19_936), 2);
        // No table that small holds even one connection and what it needs beside it.
        assert_eq!(per_place(50_000, 1, 10), 1);
    }

    #[test]
    fn rings_of_one_place_share_its_buffers() {
        let config = |yaml: &str| crate::file::parse(yaml).unwrap();
        assert_eq!(queued(&config(""), 1 << 16, 1), 1 << 16);
        assert_eq!(queued(&config(""), 1 << 16, 4), 1 << 14);
        assert_eq!(queued(&config(""), 1 << 16, 1_000), QUEUED_MIN);
        let named = config("limits: {records-queued-max: 65536}");
        assert_eq!(queued(&named, 1 << 16, 4), 1 << 16);
        let shared = |rings| buffers(&config(""), 128, rings);
        assert_eq!([1, 2, 3, 4, 200].map(shared), [128, 64, 64, 64, 64]);
        let named = config("limits: {receive-buffers: 512}");
        assert_eq!(buffers(&named, 512, 3), 512);
    }

    #[test]
    fn loopback_has_more_addresses() {
        let peer = |text: &str| Peer::Tcp(text.parse().unwrap());
        let added = |asked, peers: &[&str], named: &str| {
            let mut config = BenchConfig {
                source_addresses: named
                    .split_terminator(',')
                    .map(|a| a.parse().unwrap())
                    .collect(),
                ..BenchConfig::default()
            };
            let mut peers: Vec<Peer> = peers.iter().map(|text| peer(text)).collect();
            let note = sources(Some(asked), &mut config, &mut peers, 28_232);
            (note.is_some(), config.source_addresses.len(), peers.len())
        };
        assert_eq!(added(28_232, &["127.0.0.1:80"], ""), (false, 0, 1));
        assert_eq!(added(28_233, &["127.0.0.1:80"], ""), (true, 3, 1));
        assert_eq!(added(50_000, &["127.0.0.1:80"], ""), (true, 4, 1));
        assert_eq!(
            added(70_000, &["127.0.0.1:80", "[::1]:80"], ""),
            (true, 5, 1)
        );
        // Not ours to choose, or none to choose from.
        assert_eq!(added(50_000, &["127.0.0.1:80"], "127.0.0.9"), (false, 1, 1));
        assert_eq!(added(50_000, &["192.0.2.1:80"], ""), (false, 0, 1));
        assert_eq!(added(50_000, &["[::1]:80"], ""), (false, 0, 1));
    }

    #[test]
    fn a_number_is_that_of_the_load_or_of_the_file() {
        let number = |yaml: &str| asked(&crate::file::parse(yaml).unwrap());
        assert_eq!(number(""), None);
        assert_eq!(number("concurrency: 7"), Some(7));
        assert_eq!(number("limits: {slots: 9}"), Some(9));
    }
}
