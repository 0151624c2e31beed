use std::net::{IpAddr, Ipv4Addr};

use crate::run::{CORES_MAX, DriverKind};

/// Where the server listens, and on which cores.
#[derive(Clone, Debug, clap::Args)]
pub struct ListenArgs {
    /// The address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// The port to listen on; 0: any free one, which is printed
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// How to talk to the kernel
    #[arg(long, value_enum, default_value_t = DriverKind::Auto)]
    pub driver: DriverKind,
    /// One pinned thread per core (0,2-3); none: one thread, not pinned
    #[arg(long, value_name = "LIST|none", default_value = "none", value_parser = cores)]
    pub cores: Cores,
}

/// `--cores`: the cores to pin one shard each to, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Option<Vec<usize>>);

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
