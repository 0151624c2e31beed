//! `ridgeline roofline`: what this machine's client can do, and how many such machines a load needs.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ridgeline_clock::Nanos;
use ridgeline_report::{Environment, write_whole};
use ridgeline_roofline::plan::{Count, Demand, Plan};
use ridgeline_roofline::{
    Context, Cores, Found, Origin, PAGE, Profile, ROOFLINE, Roofline, Run, SAFE_SHARE, Section,
    page, promise, table,
};

use crate::backend::Backend;
use crate::complaint::Complaint;
use crate::config::DriverKind;
use crate::measuring::Measuring;
use crate::share::Share;
use crate::{folder, headroom, machine, signals, terminal};

/// The exit code when a promise is not kept.
const BROKEN: u8 = 5;
/// The exit code after a signal.
const INTERRUPTED: u8 = 130;

/// The flags of `ridgeline roofline`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RooflineArgs {
    #[command(subcommand)]
    command: Option<RooflineCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum RooflineCommand {
    /// How many cores and hosts of this kind a load needs, by what was measured here
    #[command(
        after_help = "Numbers take k, M and G: ridgeline roofline plan --requests-per-s 1M --open-streams 200k"
    )]
    Plan(PlanArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// Fewer points and shorter runs: within two minutes instead of ten
    #[arg(long)]
    quick: bool,
    /// Only these, with commas between them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sections: Vec<Section>,
    /// The folder for the results [default: a new one in results]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The core of servers [default: the first that may be used]
    #[arg(long, value_name = "N")]
    server_core: Option<usize>,
    /// The core of clients, and of what has no server [default: the next]
    #[arg(long, value_name = "N")]
    client_core: Option<usize>,
    /// Print the document instead of the table
    #[arg(long)]
    json: bool,
    /// Say which promises of perf/SPEC.md hold (sections scanner, engine and transport), and end with code 5
    /// when one does not
    #[arg(long, conflicts_with = "json")]
    check: bool,
}

#[derive(Args, Debug)]
struct PlanArgs {
    /// Requests a second
    #[arg(long, value_name = "COUNT")]
    requests_per_s: Option<Count>,
    /// Streams open at the same time
    #[arg(long, value_name = "COUNT")]
    open_streams: Option<Count>,
    /// Events a second, of all streams together
    #[arg(long, value_name = "COUNT")]
    events_per_s: Option<Count>,
    /// The server sends many events at a time; one is what real servers do
    #[arg(long)]
    coalesced: bool,
    /// Cores of each host that clients get [default: those of the machine that was measured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    cores_per_host: Option<u32>,
    /// How much of a core's ceiling is used
    #[arg(long, value_name = "SHARE", default_value_t = Share(SAFE_SHARE))]
    safe_share: Share,
    /// A machine profile [default: this machine's, from its last `ridgeline roofline`]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Measures, or plans by what was measured. The exit code.
pub(crate) fn command(args: &RooflineArgs) -> Result<u8, Complaint> {
    match &args.command {
        Some(RooflineCommand::Plan(args)) => plan(args),
        None => measure(&args.run),
    }
}

fn measure(args: &RunArgs) -> Result<u8, Complaint> {
    let cores = cores(args, &machine::allowed_cores()?)?;
    let sections: &[Section] = if args.sections.is_empty() {
        &Section::ALL
    } else {
        &args.sections
    };
    let (backend, fallback) = Backend::choose(DriverKind::Auto)?;
    let kept = folder::make(args.output_dir.as_deref(), "roofline", &[PAGE, ROOFLINE])?;
    if let Some(note) = fallback {
        terminal::note(&format!("note: {note}"));
    }
    let context = Context {
        quick: args.quick,
        ridgeline: std::env::current_exe()?,
        drivers: Backend::usable(),
        server_core: cores.server,
        client_core: cores.client,
        run_length: None,
    };
    let started = folder::wall_clock();
    // Before the load that is about to come.
    let environment = Environment::read(backend.name());
    let found = run(sections, context)?;
    let interrupted = found.interrupted;
    let roofline = Roofline::new(found, origin(args, cores, environment, started));
    // What was measured is shown even if it can't be kept.
    let written = write(&roofline, &kept.path);
    if args.json {
        let text = serde_json::to_string_pretty(&roofline)?;
        terminal::print(&format!("{text}\n"))?;
    } else {
        let text = table::render(&roofline, terminal::width(), terminal::has_colour());
        let folder = kept.path.display();
        terminal::print(&format!("{text}\nResults     {folder}\n"))?;
    }
    let kept = !args.check || promises(&roofline)?;
    save_profile(&roofline);
    written?;
    Ok(match (interrupted, kept) {
        (true, _) => INTERRUPTED,
        (false, true) => 0,
        (false, false) => BROKEN,
    })
}

/// Prints what was promised and what was found. Whether all is kept.
fn promises(roofline: &Roofline) -> Result<bool, Complaint> {
    let checked = promise::check(&roofline.rows);
    let lines: String = checked.iter().map(|one| format!("{one}\n")).collect();
    terminal::print(&format!("\nPromises of perf/SPEC.md\n{lines}"))?;
    // Sections of which nothing is promised keep nothing.
    Ok(!checked.is_empty() && checked.iter().all(promise::Checked::is_kept))
}

/// Runs the sections, with what watches over them.
fn run(sections: &[Section], context: Context) -> Result<Found, Complaint> {
    let run = Run::new(sections, context);
    signals::watch_roofline(run.interrupt())
        .map_err(|error| Complaint::new(format!("cannot wait for signals: {error}")))?;
    let mut measuring = Measuring::start();
    let found = run.run(&mut |told| measuring.hear(&told));
    measuring.end();
    Ok(found)
}

fn origin(args: &RunArgs, cores: Cores, environment: Environment, started: Nanos) -> Origin {
    Origin {
        program: headroom::program(),
        optimised: headroom::OPTIMISED,
        host: ridgeline_roofline::host(),
        environment,
        cores,
        started_unix_ns: started.0,
        quick: args.quick,
    }
}

fn write(roofline: &Roofline, folder: &Path) -> Result<(), Complaint> {
    roofline.write(folder)?;
    write_whole(&folder.join(PAGE), page(roofline).as_bytes())?;
    Ok(())
}

/// Keeps the ceilings for `bench` and `plan`. A place that can't be written to costs nothing else.
fn save_profile(roofline: &Roofline) {
    let Some(profile) = Profile::of(roofline) else {
        return;
    };
    let Some(folder) = headroom::profiles() else {
        terminal::note(
            "warning: no profile of this machine was kept: neither HOME nor RIDGELINE_PROFILES names a place",
        );
        return;
    };
    match profile.save(&folder) {
        Ok(path) => terminal::note(&format!("profile: {}", path.display())),
        Err(error) => terminal::note(&format!(
            "warning: no profile of this machine was kept: {error}; RIDGELINE_PROFILES names another folder"
        )),
    }
}

/// The two cores: those that were named, else the first two.
fn cores(args: &RunArgs, allowed: &[usize]) -> Result<Cores, Complaint> {
    for (flag, core) in [
        ("--server-core", args.server_core),
        ("--client-core", args.client_core),
    ] {
        if let Some(core) = core
            && !allowed.contains(&core)
        {
            return Err(Complaint::new(format!(
                "{flag} {core}: this process may not use that core, or there is none; it may use {}",
                machine::ranges(allowed)
            )));
        }
    }
    let other_than = |taken: Option<usize>| {
        let free = allowed.iter().copied().find(|core| Some(*core) != taken);
        free.or(taken).unwrap_or(0)
    };
    let server = args
        .server_core
        .unwrap_or_else(|| other_than(args.client_core));
    let client = args.client_core.unwrap_or_else(|| other_than(Some(server)));
    Ok(Cores { server, client })
}

fn plan(args: &PlanArgs) -> Result<u8, Complaint> {
    let profile = match &args.profile {
        Some(path) => Profile::read(path)?,
        None => headroom::own_profile().ok_or_else(|| {
            Complaint::new(
                "there is no profile of this machine: measure it with `ridgeline roofline`, or name a \
                 file with --profile",
            )
        })?,
    };
    let demand = Demand {
        requests_per_s: args.requests_per_s,
        open_streams: args.open_streams,
        events_per_s: args.events_per_s,
        coalesced: args.coalesced,
        cores_per_host: args.cores_per_host,
        safe_share: args.safe_share.positive("--safe-share")?,
    };
    let plan = Plan::new(&demand, &profile)?;
    if !profile.optimised {
        terminal::note(
            "warning: the profile is of a debug build: none of its figures is a ceiling",
        );
    }
    terminal::print(&format!("{plan}Profile     {}\n", profile.describe()))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(server_core: Option<usize>, client_core: Option<usize>) -> RunArgs {
        RunArgs {
            quick: true,
            sections: Vec::new(),
            output_dir: None,
            server_core,
            client_core,
            json: false,
            check: false,
        }
    }

    #[test]
    fn each_end_has_a_core_where_there_are_two() {
        let placed = |server, client, allowed: &[usize]| {
            let cores = cores(&args(server, client), allowed).unwrap();
            (cores.server, cores.client)
        };
        assert_eq!(placed(None, None, &[3, 5, 8]), (3, 5));
        assert_eq!(placed(None, Some(3), &[3, 5]), (5, 3));
        assert_eq!(placed(Some(5), None, &[3, 5]), (5, 3));
        assert_eq!(placed(Some(5), Some(5), &[3, 5]), (5, 5));
        assert_eq!(placed(None, None, &[4]), (4, 4));
        let error = cores(&args(None, Some(9)), &[0, 1])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--client-core 9") && error.contains("it may use 0-1"),
            "{error}"
        );
    }
}
