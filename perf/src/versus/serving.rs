//! Servers under the bare client's load: the server is measured, the client stays the same.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use memchr::memmem;
use ridgeline_clock::{Clock, MonotonicClock};
use serde_json::Value;
use tempfile::TempDir;

use crate::child::{Listens, Served};
use crate::client;
use crate::payload;
use crate::versus::Options;
use crate::versus::arm::{Sample, Side};
use crate::versus::preset::{Preset, bare, built};

/// A server that is measured: a process of its own for every run, on the server's core.
#[derive(Debug)]
pub(crate) struct Serving {
    name: &'static str,
    program: PathBuf,
    args: Vec<OsString>,
    listens: Listens,
    /// What the client sends, and for how long.
    preset: Preset,
    /// Holds the files that arguments name; deleted with the side.
    _folder: Option<TempDir>,
}

impl Side for Serving {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Starts the server and warms it; then its CPU clock is read, the client runs, and the clock is
    /// read again: neither start-up nor warm-up counts.
    fn sample(&self, options: &Options) -> io::Result<Sample> {
        let served = self.start(options)?;
        let address = served.address().to_owned();
        let load = |options: &Options| bare(self.preset, options, &address).sample(options);
        load(&self.preset.warm_up(options))?;
        cost(served, || load(options))
    }
}

/// What a load costs a program that is warm, which is stopped after it. The rest is what the load says.
pub(super) fn cost(
    served: Served,
    load: impl FnOnce() -> io::Result<Sample>,
) -> io::Result<Sample> {
    let (before, start) = (served.cpu()?, MonotonicClock.now());
    let loaded = load()?;
    let (cpu, wall) = (served.cpu()? - before, MonotonicClock.now() - start);
    let (ended, _) = served.stop()?;
    Ok(Sample {
        cpu_ns: cpu.0,
        wall_ns: wall.0,
        resident_bytes_max: ended.resident_bytes_max,
        ..loaded
    })
}

impl Serving {
    fn start(&self, options: &Options) -> io::Result<Served> {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        Served::start(&mut command, options.server_core, self.listens)
    }

    /// The answer to the request that the client sends, head and framing included.
    fn answer(&self, options: &Options) -> io::Result<Vec<u8>> {
        let served = self.start(options)?;
        let address = served.address().parse().map_err(io::Error::other)?;
        client::ask(address, &payload::request(address, self.preset.streams()))
    }
}

/// The two servers of a preset, A first. All but ridgeline's answer with what ridgeline's answered
/// when it was asked once before.
pub(crate) fn sides(preset: Preset, options: &Options) -> io::Result<[Serving; 2]> {
    if preset == Preset::ServeSelf {
        let side = |name| bare_server(preset, options, name, None);
        return Ok([side("bare-server (1)")?, side("bare-server")?]);
    }
    let ours = mock_server(preset, options)?;
    let answer = ours.answer(options)?;
    let theirs = match preset {
        Preset::Nginx => nginx(preset, body_of(&answer)?)?,
        Preset::EndpointsServer => endpoints(preset, options, body_of(&answer)?)?,
        _ => bare_server(preset, options, "bare-server", Some(&answer))?,
    };
    Ok([theirs, ours])
}

/// ridgeline's mock server in instant mode.
fn mock_server(preset: Preset, options: &Options) -> io::Result<Serving> {
    let program = built(&options.ridgeline)?;
    let core = options.server_core.to_string();
    let (tokens, per_write) = match preset {
        Preset::ServeCoalesced => (options.events, "all"),
        Preset::ServePaced => (options.events, "1"),
        _ => (64, "all"),
    };
    let args = ["mock-server", "--mode", "instant", "--port", "0", "--cores"];
    let args = args.into_iter().map(OsString::from);
    let flags = [
        &core,
        "--events-per-write",
        per_write,
        "--max-tokens-default",
        &tokens.to_string(),
    ];
    Ok(Serving {
        name: "ridgeline",
        program,
        args: args.chain(flags.map(OsString::from)).collect(),
        listens: Listens::Says,
        preset,
        _folder: None,
    })
}

/// The bare server, with `answer` for every request, or one of its own.
fn bare_server(
    preset: Preset,
    options: &Options,
    name: &'static str,
    answer: Option<&[u8]>,
) -> io::Result<Serving> {
    let mode = match preset {
        Preset::ServeCoalesced => "coalesced",
        Preset::ServePaced => "paced",
        _ => "request",
    };
    let (program, mut args) = options.programs.words("bare-server");
    args.extend(["--attached", "--mode", mode].map(OsString::from));
    let mut folder = None;
    if let Some(answer) = answer {
        let made = tempfile::tempdir()?;
        let path = made.path().join("answer");
        fs::write(&path, answer)?;
        args.extend(["--answer".into(), path.into_os_string()]);
        folder = Some(made);
    }
    Ok(Serving {
        name,
        program,
        args,
        listens: Listens::Says,
        preset,
        _folder: folder,
    })
}

/// nginx with one worker, which answers everything with `body` by `return 200`.
fn nginx(preset: Preset, body: &[u8]) -> io::Result<Serving> {
    let program = find_nginx()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "nginx is not installed"))?;
    let address = free_port()?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("nginx.conf");
    fs::write(&config, nginx_config(folder.path(), address, body)?)?;
    let args = ["-e", "stderr", "-c"].map(OsString::from);
    Ok(Serving {
        name: "nginx",
        program,
        args: args.into_iter().chain([config.into_os_string()]).collect(),
        listens: Listens::At(address),
        preset,
        _folder: Some(folder),
    })
}

/// nginx, in the path or where Debian has it.
#[must_use]
pub fn find_nginx() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders
        .map(|folder| folder.join("nginx"))
        .find(|program| program.is_file())
}

/// What costs time and is not needed is off: logs, the end of connections after some requests. Its
/// temporary files stay in `folder`.
fn nginx_config(folder: &Path, address: SocketAddr, body: &[u8]) -> io::Result<String> {
    let body = str::from_utf8(body).map_err(io::Error::other)?;
    // These mean something within a quoted word of nginx's.
    if body.contains(['\'', '\\', '$']) {
        return Err(io::Error::other("nginx can't be told this body"));
    }
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {}/{kind};\n", folder.display()))
        .concat();
    Ok(format!(
        "daemon off;\nworker_processes 1;\nerror_log stderr crit;\npid {}/pid;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n  access_log off;\n  server_tokens off;\n{temporary}\
         \x20 keepalive_timeout 3600s;\n  keepalive_requests 1000000000;\n\
         \x20 server {{\n    listen {address} backlog=4096;\n    default_type application/json;\n\
         \x20   location / {{ return 200 '{body}'; }}\n  }}\n}}\n",
        folder.display()
    ))
}

/// The server for rooflines of mlcommons/endpoints, with one worker and a text of our length.
fn endpoints(preset: Preset, options: &Options, body: &[u8]) -> io::Result<Serving> {
    let python = options.endpoints_python.clone().ok_or_else(|| {
        let text = "no Python that has mlcommons/endpoints was named (--endpoints-python)";
        io::Error::new(io::ErrorKind::NotFound, text)
    })?;
    let address = free_port()?;
    let (port, length) = (address.port().to_string(), text_bytes(body)?.to_string());
    let args = [
        "-m",
        "inference_endpoint.testing.max_throughput_server",
        "--host",
        "127.0.0.1",
        "--port",
        &port,
        "--num-workers",
        "1",
        "--output-length",
        &length,
    ];
    Ok(Serving {
        name: "endpoints",
        program: python,
        args: args.map(OsString::from).to_vec(),
        listens: Listens::At(address),
        preset,
        _folder: None,
    })
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn body_of(answer: &[u8]) -> io::Result<&[u8]> {
    let end = memmem::find(answer, b"\r\n\r\n").map(|at| at + 4);
    end.map(|end| &answer[end..])
        .ok_or_else(|| io::Error::other("the answer has no end of its head"))
}

/// The length of the text of a chat completion.
fn text_bytes(body: &[u8]) -> io::Result<usize> {
    let value: Value = serde_json::from_slice(body).map_err(io::Error::other)?;
    let text = value.pointer("/choices/0/message/content");
    text.and_then(Value::as_str)
        .map(str::len)
        .ok_or_else(|| io::Error::other("the answer is no chat completion with a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_is_told_the_body_unless_it_would_read_it_otherwise() {
        let address = "127.0.0.1:81".parse().unwrap();
        let folder = Path::new("/nowhere");
        let config = nginx_config(folder, address, br#"{"a": "b"}"#).unwrap();
        for line in [
            "    location / { return 200 '{\"a\": \"b\"}'; }\n",
            "    listen 127.0.0.1:81 backlog=4096;\n",
            "  scgi_temp_path /nowhere/scgi;\n",
        ] {
            assert!(config.contains(line), "{config}");
        }
        for body in [&b"it's"[..], b"$host", b"\\", b"\xff"] {
            assert!(nginx_config(folder, address, body).is_err());
        }
    }

    #[test]
    fn the_text_and_the_body_of_an_answer_are_found() {
        let answer = payload::completion();
        let body = body_of(&answer).unwrap();
        assert_eq!(
            text_bytes(body).unwrap(),
            "Deep, and older than any word for it.".len()
        );
        assert!(text_bytes(b"{}").is_err());
        assert!(body_of(b"HTTP/1.1 200 OK\r\n").is_err());
    }
}
