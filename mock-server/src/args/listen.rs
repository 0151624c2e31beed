use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use ridgeline_clock::Nanos;

use super::span;
use crate::run::{CORES_MAX, DriverKind, Placement};

/// Where the server listens, and on which cores.
#[derive(Clone, Debug, clap::Args)]
pub struct ListenArgs {
    /// The address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = host)]
    pub host: IpAddr,
    /// The port to listen on; 0: any free one, which is printed
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// A socket in the file system to listen on, in place of an address: unix:PATH
    #[arg(long, value_name = "unix:PATH", value_parser = socket,
          conflicts_with_all = ["host", "port", "tls_cert", "tls_self_signed"])]
    pub listen: Option<Arc<Path>>,
    /// How to talk to the kernel
    #[arg(long, value_enum, default_value_t = DriverKind::Auto)]
    pub driver: DriverKind,
    /// One pinned thread per core (0,2-3); none: one thread, not pinned
    #[arg(long, value_name = "LIST|none", default_value = "none", value_parser = cores)]
    pub cores: Cores,
    /// Connections to have room for at one time; more threads per core are started if one ring
    /// can't hold them [default: what one thread per core can]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_max: Option<u32>,
    /// After SIGINT or SIGTERM: how long answers under way may take to end
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = span)]
    pub drain_timeout: Nanos,
    /// A line a second on stderr: rates, and what is under way
    #[arg(long)]
    pub stats: bool,
    /// No /admin/config and /admin/reset
    #[arg(long)]
    pub no_admin: bool,
}

impl ListenArgs {
    /// Where the server runs.
    #[must_use]
    pub fn placement(&self) -> Placement {
        Placement {
            unix: self.listen.clone(),
            driver: self.driver,
            cores: self.cores.0.clone(),
            connections_max: self.connections_max,
            ..Placement::at(SocketAddr::new(self.host, self.port))
        }
    }
}

/// `--cores`: the cores to pin one shard each to, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Option<Vec<usize>>);

fn socket(text: &str) -> Result<Arc<Path>, String> {
    match text.strip_prefix("unix:") {
        Some(path) if !path.is_empty() => Ok(Path::new(path).into()),
        _ => Err("expected a socket like unix:/run/server.sock".to_owned()),
    }
}

fn host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse()
        .map_err(|_| "expected an IP address (0.0.0.0 for all of this machine's)".to_owned())
}

fn cores(text: &str) -> Result<Cores, String> {
    if text == "none" {
        return Ok(Cores(None));
    }
    let number = |text: &str| -> Result<usize, String> {
        let core = text.parse().ok().filter(|core| *core < CORES_MAX);
        core.ok_or_else(|| format!("{text:?} is no core: expected `none` or a list like 0,2-3"))
    };
    let mut cores = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        for core in number(first)?..=number(last)? {
            if cores.contains(&core) {
                return Err(format!("core {core} is named twice"));
            }
            cores.push(core);
        }
    }
    Ok(Cores(Some(cores)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_a_path() {
        assert_eq!(&*socket("unix:/a/b").unwrap(), Path::new("/a/b"));
        for wrong in ["", "unix:", "/a/b"] {
            assert!(socket(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hosts_are_addresses_or_localhost() {
        assert_eq!(host("localhost"), Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(host("::1"), Ok(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)));
        for wrong in ["", "127.0.0.1:80", "example.com"] {
            assert!(
                host(wrong).unwrap_err().contains("an IP address"),
                "{wrong}"
            );
        }
    }
}
