use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ridgeline_clock::Nanos;
use serde::Serialize;

use crate::child::{Listens, Served};
use crate::payload;
use crate::versus::arm::{Arm, Bench, Reading, Side};
use crate::versus::feeding::Feeding;
use crate::versus::figure::{Bound, Measure, Question, Relation};
use crate::versus::{Options, lateness, pipe, serving, timing};

/// A comparison that is worth making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Requests that are not streamed: the bare client against ridgeline.
    Request,
    /// Streams in one write each: many events a read.
    Coalesced,
    /// Streams of one write per event: one event a read, as real servers send.
    Paced,
    /// A million requests, all due at the start.
    Offline,
    /// wrk against ridgeline.
    Wrk,
    /// The bare client against itself: what the machine adds.
    #[value(name = "self")]
    #[serde(rename = "self")]
    Same,
    /// A million requests from outside: `ridgeline bench` against `ridgeline worker` and a feeder on the
    /// server's core.
    Service,
    /// A constant rate: how late ridgeline starts requests, beside the bare sleeper.
    Lag,
    /// The mock server in model mode: how late it writes, beside the bare sleeper.
    Lateness,
    /// How far ridgeline's TTFT and gaps are from those of the mock server, beside the bare socket pair.
    Timing,
    /// Open streams: what each adds to ridgeline's resident set.
    Memory,
    /// Servers, requests that are not streamed: the bare server against ridgeline's mock server.
    ServeRequest,
    /// Servers, streams in one write each.
    ServeCoalesced,
    /// Servers, streams of one write per event.
    ServePaced,
    /// The bare server against itself.
    ServeSelf,
    /// Servers: nginx with a fixed answer against ridgeline's mock server.
    Nginx,
    /// Servers: that of mlcommons/endpoints for rooflines against ridgeline's mock server.
    EndpointsServer,
    /// Messages of 128 bytes over ipc between two processes: libzmq against ridgeline.
    #[value(name = "zmq-128")]
    #[serde(rename = "zmq-128")]
    Zmq128,
    /// The same, messages of 4 KiB.
    #[value(name = "zmq-4096")]
    #[serde(rename = "zmq-4096")]
    Zmq4096,
}

/// Open streams of arm A of `memory`, and how many more B has unless told.
const STREAMS_FEW: u32 = 1_000;
const STREAMS_MORE: u32 = 8_000;
/// `memory`: a stream has this many events, a second apart, and one more for each time that so many
/// streams are opened: all are open at once.
const STREAM_SECONDS: u32 = 8;
const OPENED_PER_S: u32 = 5_000;

/// What runs in turns.
pub(crate) struct Sides {
    /// A first.
    pub(crate) both: [Box<dyn Side>; 2],
    /// The server of two clients, which goes on until the end.
    _served: Option<Served>,
}

impl Preset {
    /// Rounds, where none are asked for.
    pub(crate) fn rounds(self) -> u32 {
        // The resident set hardly differs from run to run.
        if self == Self::Memory { 1 } else { 5 }
    }

    /// Whether the events of the answers count.
    pub(crate) fn streams(self) -> bool {
        matches!(
            self,
            Self::Coalesced | Self::Paced | Self::ServeCoalesced | Self::ServePaced
        )
    }

    /// Whether servers are compared, not clients.
    fn serves(self) -> bool {
        matches!(
            self,
            Self::ServeRequest
                | Self::ServeCoalesced
                | Self::ServePaced
                | Self::ServeSelf
                | Self::Nginx
                | Self::EndpointsServer
        )
    }

    /// The length of the messages, where messages are sent.
    fn message_bytes(self) -> Option<usize> {
        match self {
            Self::Zmq128 => Some(128),
            Self::Zmq4096 => Some(4096),
            _ => None,
        }
    }

    /// The two sides of the comparison.
    pub(crate) fn sides(self, options: &Options) -> io::Result<Sides> {
        if self.serves() {
            let [a, b] = serving::sides(self, options)?;
            return Ok(Sides {
                both: [Box::new(a), Box::new(b)],
                _served: None,
            });
        }
        if let Some(bytes) = self.message_bytes() {
            let [a, b] = pipe::sides(options, bytes, self.requests(options))?;
            return Ok(Sides {
                both: [Box::new(a), Box::new(b)],
                _served: None,
            });
        }
        if self == Self::Lateness {
            let (a, b) = lateness::sides(options)?;
            return Ok(Sides {
                both: [Box::new(a), Box::new(b)],
                _served: None,
            });
        }
        if self == Self::Timing {
            let (a, b) = timing::sides(options)?;
            return Ok(Sides {
                both: [Box::new(a), Box::new(b)],
                _served: None,
            });
        }
        let mut server = options.programs.command("bare-server");
        server.arg("--attached").args(self.server(options));
        let served = Served::start(&mut server, options.server_core, Listens::Says)?;
        if self == Self::Service {
            let bench = self.ridgeline(options, served.address())?;
            let program = built(&options.ridgeline)?;
            let worker = Feeding::new(program, served.address(), self.requests(options))?;
            return Ok(Sides {
                both: [Box::new(bench), Box::new(worker)],
                _served: Some(served),
            });
        }
        let [a, b] = self.arms(options, served.address())?;
        Ok(Sides {
            both: [Box::new(a), Box::new(b)],
            _served: Some(served),
        })
    }

    /// The server's flags.
    pub(crate) fn server(self, options: &Options) -> Vec<String> {
        let events = options.events.to_string();
        let flags: &[&str] = match self {
            Self::Coalesced => &["--mode", "coalesced", "--events", &events],
            Self::Paced => &["--mode", "paced", "--events", &events],
            Self::Memory => {
                let more = streams_more(options);
                let events = (STREAM_SECONDS + more / OPENED_PER_S).to_string();
                // Connections that close beside those that are open.
                let connections = (more + more / 8).max(16_384).to_string();
                let flags = [
                    "--mode", "timed", "--itl-us", "1000000", "--events", &events,
                ];
                let room = ["--connections-max", &connections];
                return flags.iter().chain(&room).map(|&f| f.into()).collect();
            }
            _ => &["--mode", "request"],
        };
        flags.iter().map(|&flag| flag.to_owned()).collect()
    }

    /// The two arms, A first.
    pub(crate) fn arms(self, options: &Options, address: &str) -> io::Result<[Arm; 2]> {
        let bare = || bare(self, options, address);
        Ok(match self {
            Self::Same => [
                Arm {
                    name: "bare-client (1)",
                    ..bare()
                },
                bare(),
            ],
            Self::Wrk => [wrk(options, address)?, self.ridgeline(options, address)?],
            Self::Lag => {
                let rate = match options.rate {
                    Some(rate) => rate,
                    None => ceiling(options, address)? / 4.0,
                };
                let mut ridgeline = self.ridgeline(options, address)?;
                let flags = ["--arrival-pattern", "constant", "--request-rate"];
                ridgeline.args.extend(flags.map(OsString::from));
                ridgeline.args.push(format!("{rate:.0}").into());
                [sleeper(options, rate), ridgeline]
            }
            Self::Memory => {
                let more = streams_more(options);
                let with = |streams: u32| {
                    let (connections, requests) = (Some(streams), Some(u64::from(streams)));
                    let options = Options {
                        connections,
                        requests,
                        ..options.clone()
                    };
                    self.ridgeline(&options, address)
                };
                [
                    Arm {
                        name: "ridgeline, few streams",
                        ..with(STREAMS_FEW)?
                    },
                    with(more)?,
                ]
            }
            _ => [bare(), self.ridgeline(options, address)?],
        })
    }

    /// ridgeline's client, which sends what the preset asks for.
    pub(crate) fn ridgeline(self, options: &Options, address: &str) -> io::Result<Arm> {
        let program = built(&options.ridgeline)?;
        let bench = Bench {
            address,
            core: options.client_core,
            streaming: self.streams() || matches!(self, Self::Memory | Self::Lateness),
            timestamps: options.timestamps,
        };
        let stop = self.stop(options);
        let mut args = vec!["--prompt", payload::PROMPT];
        args.extend(stop.iter().map(String::as_str));
        let connections = options.connections.unwrap_or(64).to_string();
        // A rate decides by itself how much is in flight.
        if self != Self::Lag {
            args.extend(["--concurrency", &connections]);
        }
        if self == Self::Offline {
            args.push("--offline");
        }
        if self == Self::Memory {
            // All streams are due at once, and many take time to open.
            args.extend(["--drain-timeout", "120s"]);
        }
        Ok(Arm::ridgeline(program, &bench, args))
    }

    /// When a run of ridgeline ends, as flags.
    fn stop(self, options: &Options) -> [String; 2] {
        match self {
            Self::Wrk | Self::Lag => ["--duration".into(), format!("{}s", options.seconds)],
            _ => ["--request-count".into(), self.requests(options).to_string()],
        }
    }

    /// Requests of a run: several seconds of each kind, so that start-up does not count.
    pub(crate) fn requests(self, options: &Options) -> u64 {
        options.requests.unwrap_or(match self {
            Self::Coalesced | Self::ServeCoalesced => 40_000,
            Self::Paced | Self::ServePaced => 2_500,
            Self::Zmq128 => 10_000_000,
            _ => 1_000_000,
        })
    }

    /// A run that warms a server up: a fiftieth of one that counts.
    pub(crate) fn warm_up(self, options: &Options) -> Options {
        let requests = self.requests(options).div_ceil(50);
        Options {
            requests: Some(requests),
            ..options.clone()
        }
    }

    /// What is asked of the samples, and what is promised (`SPEC.md`).
    pub(crate) fn questions(self, options: &Options) -> Vec<Question> {
        use Bound::{AtLeast, AtMost, Near};
        let ratio = |measure, bound: Option<Bound>| Question {
            measure,
            relation: Relation::Ratio,
            // What is promised is promised without kernel stamps, and of the default sizes.
            bound: bound.filter(|_| !options.timestamps),
        };
        let (cpu, rate) = if self.streams() {
            (Measure::CpuNsPerEvent, Measure::EventsPerS)
        } else if self.message_bytes().is_some() {
            (Measure::CpuNsPerMessage, Measure::MessagesPerS)
        } else {
            (Measure::CpuNsPerRequest, Measure::RequestsPerS)
        };
        let (cpu_bound, rate_bound) = match self {
            Self::Request => (Some(AtMost(1.18)), Some(AtLeast(0.85))),
            Self::Coalesced => (Some(AtMost(1.25)), None),
            Self::Paced => (Some(AtMost(1.15)), Some(AtLeast(0.8))),
            Self::Offline => (None, Some(AtLeast(0.85))),
            Self::Service => (None, Some(AtLeast(0.7))),
            Self::Wrk => (None, Some(AtLeast(1.0))),
            Self::Same | Self::ServeSelf => (Some(Near(0.03)), None),
            Self::ServeRequest | Self::ServeCoalesced | Self::ServePaced => {
                (Some(AtMost(1.2)), None)
            }
            Self::Nginx => (None, Some(AtLeast(1.5))),
            Self::Zmq128 => (None, Some(AtLeast(1.0))),
            Self::Zmq4096 => (None, Some(AtLeast(2.5))),
            Self::EndpointsServer => (None, Some(AtLeast(2.0))),
            Self::Lag => return vec![ratio(Measure::LagP50Ns, Some(AtMost(2.0)))],
            Self::Lateness => {
                let late = [Measure::LagP50Ns, Measure::LagP99Ns];
                return late.map(|late| ratio(late, Some(AtMost(2.0)))).into();
            }
            Self::Timing => return timing_questions(),
            Self::Memory => {
                let more = streams_more(options);
                return vec![Question {
                    measure: Measure::ResidentBytes,
                    relation: Relation::Slope(f64::from(more.saturating_sub(STREAMS_FEW))),
                    bound: Some(AtMost(2048.0)),
                }];
            }
        };
        vec![ratio(cpu, cpu_bound), ratio(rate, rate_bound)]
    }
}

/// By the kernel's stamps, of which gaps and the median of TTFT are promised, and beside them by the program's
/// clock.
fn timing_questions() -> Vec<Question> {
    let ratio = |measure, bound| Question {
        measure,
        relation: Relation::Ratio,
        bound,
    };
    let promised = [
        (Measure::TtftErrorP50Ns, 2.2),
        (Measure::GapErrorP50Ns, 2.0),
        (Measure::GapErrorP99Ns, 2.0),
    ];
    let promised = promised.map(|(measure, most)| ratio(measure, Some(Bound::AtMost(most))));
    let beside = [
        Measure::TtftErrorP99Ns,
        Measure::TtftReadErrorP50Ns,
        Measure::TtftReadErrorP99Ns,
        Measure::GapReadErrorP50Ns,
        Measure::GapReadErrorP99Ns,
    ];
    let beside = beside.map(|measure| ratio(measure, None));
    promised.into_iter().chain(beside).collect()
}

/// Open streams of arm B of `memory`.
fn streams_more(options: &Options) -> u32 {
    options.connections.unwrap_or(STREAMS_FEW + STREAMS_MORE)
}

/// The program, if it is there.
pub(crate) fn built(program: &Path) -> io::Result<PathBuf> {
    if program.is_file() {
        return Ok(program.to_owned());
    }
    let text = format!(
        "{}: build it first: cargo build --release",
        program.display()
    );
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

pub(crate) fn bare(preset: Preset, options: &Options, address: &str) -> Arm {
    let mut args = vec![address.to_owned()];
    args.extend(match (preset, options.requests) {
        // Servers that differ by much: a run of either is to last.
        (Preset::Nginx | Preset::EndpointsServer, None) => {
            ["--seconds".into(), options.seconds.to_string()]
        }
        _ => ["--requests".into(), preset.requests(options).to_string()],
    });
    args.extend([
        "--connections".into(),
        options.connections.unwrap_or(64).to_string(),
    ]);
    if preset.streams() {
        args.extend(["--mode", "stream"].map(str::to_owned));
    }
    if options.timestamps {
        args.push("--timestamps".into());
    }
    Arm::bare_client(&options.programs, args)
}

/// Requests per second of the bare client.
#[expect(clippy::cast_precision_loss, reason = "a count far below 2^53")]
pub(crate) fn ceiling(options: &Options, address: &str) -> io::Result<f64> {
    let arm = bare(Preset::Request, options, address);
    let sample = arm.sample(options)?;
    Ok(sample.requests as f64 / Nanos(sample.elapsed_ns.max(1)).as_secs_f64())
}

pub(crate) fn sleeper(options: &Options, rate: f64) -> Arm {
    let (rate, seconds) = (format!("{rate:.0}"), options.seconds.to_string());
    let args = ["--rate", &rate, "--seconds", &seconds];
    Arm::bare_sleeper(&options.programs, args)
}

/// wrk with one thread, sending the request that the others send.
fn wrk(options: &Options, address: &str) -> io::Result<Arm> {
    let to: SocketAddr = address.parse().map_err(io::Error::other)?;
    let request = payload::request(to, false);
    let end = memchr::memmem::find(&request, b"\r\n\r\n").unwrap_or(request.len() - 4) + 4;
    let script = tempfile::Builder::new()
        .suffix(".lua")
        .tempfile()?
        .into_temp_path();
    fs::write(&script, lua(&request[..end], &request[end..]))?;
    let connections = format!("-c{}", options.connections.unwrap_or(64));
    let args: Vec<OsString> = vec![
        "-t1".into(),
        connections.into(),
        format!("-d{}s", options.seconds).into(),
        "-s".into(),
        script.as_os_str().into(),
        format!("http://{address}/v1/chat/completions").into(),
    ];
    Ok(Arm {
        name: "wrk",
        program: PathBuf::from("wrk"),
        args,
        reading: Reading::Wrk,
        _file: Some(script),
    })
}

/// A script that has wrk send this head and body. wrk adds Host and Content-Length itself.
fn lua(head: &[u8], body: &[u8]) -> String {
    let (head, body) = (String::from_utf8_lossy(head), String::from_utf8_lossy(body));
    let headers: String = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(name, _)| !["Host", "Content-Length"].contains(name))
        .map(|(name, value)| format!("wrk.headers[\"{name}\"] = \"{value}\"\n"))
        .collect();
    format!("wrk.method = \"POST\"\nwrk.body = [==[{body}]==]\n{headers}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            rate: Some(1000.0),
            server_core: 0,
            ..Options::sample()
        }
    }

    fn words(arm: &Arm) -> String {
        arm.args
            .iter()
            .map(|a| a.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn ridgeline_is_asked_for_what_the_bare_client_does() {
        let options = options();
        let address = "127.0.0.1:9";
        let [bare, ridgeline] = Preset::Paced.arms(&options, address).unwrap();
        assert_eq!(
            words(&bare),
            "127.0.0.1:9 --requests 2500 --connections 64 --mode stream"
        );
        let text = words(&ridgeline);
        for flags in [
            "bench --url http://127.0.0.1:9 --model mock --endpoint-type chat --streaming",
            "--records none --rx-timestamps off --quiet --cores 1",
            "--request-count 2500 --concurrency 64",
        ] {
            assert!(text.contains(flags), "{text}");
        }
        let stamped = Options {
            timestamps: true,
            ..options.clone()
        };
        let [bare, ridgeline] = Preset::Request.arms(&stamped, address).unwrap();
        assert!(words(&bare).ends_with("--timestamps"));
        assert!(words(&ridgeline).contains("--no-streaming"));
        assert!(words(&ridgeline).contains("--rx-timestamps on"));
        let [_, offline] = Preset::Offline.arms(&options, address).unwrap();
        assert!(words(&offline).contains("--request-count 1000000"));
        assert!(words(&offline).contains("--offline"));
        let [sleeper, lag] = Preset::Lag.arms(&options, address).unwrap();
        assert_eq!(words(&sleeper), "--rate 1000 --seconds 4");
        assert!(words(&lag).contains("--arrival-pattern constant --request-rate 1000"));
        assert!(!words(&lag).contains("--concurrency"));
        let [few, many] = Preset::Memory.arms(&options, address).unwrap();
        assert!(words(&few).contains("--request-count 1000 --concurrency 1000"));
        assert!(words(&many).contains("--request-count 9000 --concurrency 9000"));
        let flags = |options: &Options| Preset::Memory.server(options).join(" ");
        assert!(flags(&options).ends_with("--events 9 --connections-max 16384"));
        let more = Options {
            connections: Some(50_000),
            ..options.clone()
        };
        assert!(flags(&more).ends_with("--events 18 --connections-max 56250"));
    }

    #[test]
    fn a_warm_up_is_short_and_servers_that_differ_run_by_time() {
        let options = options();
        let sent = |preset, options: &Options| words(&bare(preset, options, "127.0.0.1:9"));
        let warm_up = |preset: Preset| sent(preset, &preset.warm_up(&options));
        assert!(warm_up(Preset::ServeRequest).contains("--requests 20000 "));
        assert!(warm_up(Preset::ServePaced).contains("--requests 50 "));
        assert!(warm_up(Preset::Nginx).contains("--requests 20000 "));
        assert!(sent(Preset::Nginx, &options).contains("--seconds 4 "));
    }

    #[test]
    fn every_preset_asks_something_and_stamps_are_no_promise() {
        let stamped = Options {
            timestamps: true,
            ..options()
        };
        for preset in Preset::value_variants() {
            assert!(
                preset
                    .questions(&options())
                    .iter()
                    .any(|q| q.bound.is_some()),
                "{preset:?}"
            );
        }
        assert!(
            Preset::Request
                .questions(&stamped)
                .iter()
                .all(|q| q.bound.is_none())
        );
    }

    #[test]
    fn wrk_is_given_the_same_head_and_body() {
        let script = lua(
            b"POST / HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n",
            b"{\"c\": 1}",
        );
        assert_eq!(
            script,
            "wrk.method = \"POST\"\nwrk.body = [==[{\"c\": 1}]==]\nwrk.headers[\"Accept\"] = \"b\"\n"
        );
    }
}
