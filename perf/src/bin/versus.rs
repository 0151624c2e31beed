//! The interleaved comparison: two clients in turns against one server, or two servers in turns
//! under one client's load.
#![expect(clippy::print_stdout, reason = "a table and one line of JSON")]
#![expect(clippy::print_stderr, reason = "progress, run by run")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::{Parser, ValueEnum};
use ridgeline_clock::Nanos;
use ridgeline_perf::program;
use ridgeline_perf::versus::{self, Options, Preset, Programs, Sample, drivers};

/// Ridgeline against the bare ceilings, in rounds of A B B A; read perf/METHOD.md first.
///
/// Servers are kept to one core and clients to another. Prints a table, then the figures and
/// all samples as one line of JSON.
#[derive(Debug, Parser)]
struct Args {
    /// What to compare.
    #[arg(value_parser = PossibleValuesParser::new(names()).map(|name| Compared::named(&name)))]
    preset: Compared,
    /// For drivers: which, as `ridgeline bench --driver` names them.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "uring,epoll,monoio,glommio"
    )]
    drivers: Vec<String>,
    /// Rounds of four runs [default: 5; memory: 1].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Requests of a run [default: several seconds' worth].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Content events of a stream.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    events: u64,
    /// Connections [default: 64; the open streams of B for memory: 9000, for lateness and timing: 100].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=262_144))]
    connections: Option<u32>,
    /// Kernel receive stamps in both arms.
    #[arg(long)]
    timestamps: bool,
    /// Seconds of a run, for wrk, lag, lateness, timing, nginx and endpoints-server.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Requests per second for lag [default: a quarter of the measured ceiling], writes per second for
    /// lateness [default: 200 a stream, at most 5000] and for timing [default: --share].
    #[arg(long)]
    rate: Option<f64>,
    /// For timing: the share of the events per second that ridgeline reads of its mock server here, one a
    /// write.
    #[arg(long, default_value_t = 0.5)]
    share: f64,
    /// The ridgeline program [default: the one beside this one].
    #[arg(long)]
    ridgeline: Option<PathBuf>,
    /// For endpoints-server: a Python that has mlcommons/endpoints installed.
    #[arg(long, value_name = "PROGRAM")]
    endpoints_python: Option<PathBuf>,
    /// The core of the server.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// The core of the clients.
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    /// The longest a run may take, in seconds.
    #[arg(long, default_value_t = 120)]
    limit_seconds: u64,
    /// End with code 5 when a promise is not kept.
    #[arg(long)]
    check: bool,
}

/// Two arms, or all drivers.
#[derive(Clone, Copy, Debug)]
enum Compared {
    Pair(Preset),
    Drivers,
}

const DRIVERS: &str = "drivers";

fn names() -> Vec<PossibleValue> {
    let pairs = Preset::value_variants().iter();
    let about =
        "Ridgeline's drivers, each over the bare program: requests, streams, a rate; one table";
    pairs
        .filter_map(ValueEnum::to_possible_value)
        .chain([PossibleValue::new(DRIVERS).help(about)])
        .collect()
}

impl Compared {
    /// One of `names`.
    fn named(name: &str) -> Self {
        Preset::from_str(name, false).map_or(Self::Drivers, Self::Pair)
    }
}

fn main() -> ExitCode {
    program::end(run(&Args::parse()))
}

fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(what) = missing(args) {
        println!("{what}: skipped");
        return Ok(ExitCode::SUCCESS);
    }
    if !(args.share > 0.0 && args.share <= 1.0) {
        return Err("--share must be above 0 and at most 1".into());
    }
    let own = std::env::current_exe()?;
    let programs = own
        .parent()
        .ok_or("this program lies in no folder")?
        .to_owned();
    let options = Options {
        rounds: args.rounds,
        requests: args.requests,
        events: args.events,
        connections: args.connections,
        timestamps: args.timestamps,
        seconds: args.seconds,
        rate: args.rate,
        share: args.share,
        ridgeline: args
            .ridgeline
            .clone()
            .unwrap_or_else(|| programs.join("ridgeline")),
        endpoints_python: args.endpoints_python.clone(),
        programs: Programs::Folder(programs),
        server_core: args.server_core,
        client_core: args.client_core,
        limit: Nanos::from_secs(args.limit_seconds),
    };
    let told = |arm: &str, sample: &Sample| {
        let (cpu, elapsed) = (Nanos(sample.cpu_ns), Nanos(sample.elapsed_ns));
        eprintln!(
            "{arm:<24} {:>9} requests, {cpu} CPU, {elapsed}",
            sample.requests
        );
    };
    let Compared::Pair(preset) = args.preset else {
        let table = drivers::run(&args.drivers, &options, told)?;
        print!("{table}");
        println!("{}", serde_json::to_string(&table)?);
        return Ok(ExitCode::SUCCESS);
    };
    let comparison = versus::run(preset, &options, told)?;
    print!("{comparison}");
    println!("{}", serde_json::to_string(&comparison)?);
    let broken = args.check && !comparison.kept();
    Ok(ExitCode::from(if broken { 5 } else { 0 }))
}

/// What of others' programs the preset needs and is not there.
fn missing(args: &Args) -> Option<&'static str> {
    let Compared::Pair(preset) = args.preset else {
        return None;
    };
    match preset {
        Preset::Wrk if !is_installed("wrk") => Some("wrk is not installed"),
        Preset::Nginx if versus::find_nginx().is_none() => Some("nginx is not installed"),
        Preset::EndpointsServer if args.endpoints_python.is_none() => {
            Some("no Python with mlcommons/endpoints was named (--endpoints-python)")
        }
        Preset::Zmq128 | Preset::Zmq4096 if !is_beside("libzmq-pipe") => Some(
            "libzmq is not built in (cargo build --release -p ridgeline-perf --features libzmq)",
        ),
        _ => None,
    }
}

fn is_beside(program: &str) -> bool {
    std::env::current_exe().is_ok_and(|own| own.with_file_name(program).is_file())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
