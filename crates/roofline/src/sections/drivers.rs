//! The same requests on every driver that can be used here, each beside the bare client.

use std::io;

use ridgeline_clock::Nanos;
use ridgeline_perf::payload;

use crate::sections::turns::{self, Tally, Turns, words};
use crate::{Context, Row, Section, Unit};

/// As most rows of the client's section have it.
const CONNECTIONS: &str = "64";

/// Requests a second, driver by driver.
///
/// # Errors
/// When a program can't be started, fails or takes too long.
pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    let served = turns::serve(context, &words(&["--mode", "request"]))?;
    let bare = |end: &[&str]| {
        let flags = [&["--connections", CONNECTIONS], end].concat();
        turns::bare_client(context, &served, &words(&flags))
    };
    let short = turns::seconds(Nanos(context.run().0 / 5));
    let mut warm_up = Tally::default();
    let arm = bare(&["--seconds", &short]);
    turns::run_once(context, Some(&served), &arm, &mut warm_up)?;
    let requests = turns::filling(&warm_up, context.run(), 64).to_string();
    let ceiling = bare(&["--requests", &requests]);
    let own = |driver: &str| {
        let flags = [
            "--concurrency",
            CONNECTIONS,
            "--prompt",
            payload::PROMPT,
            "--request-count",
            &requests,
            "--driver",
            driver,
        ];
        turns::bench(context, &served, false, &words(&flags))
    };
    let arms: Vec<_> = context.drivers.iter().map(|driver| own(driver)).collect();
    let mut all = Tally::default();
    let mut each = vec![Tally::default(); arms.len()];
    turns::run_once(context, Some(&served), &ceiling, &mut all)?;
    for (arm, tally) in arms.iter().zip(&mut each) {
        turns::run_once(context, Some(&served), arm, tally)?;
    }
    if !context.quick {
        for (arm, tally) in arms.iter().zip(&mut each).rev() {
            turns::run_once(context, Some(&served), arm, tally)?;
        }
        turns::run_once(context, Some(&served), &ceiling, &mut all)?;
    }
    for (driver, own) in context.drivers.iter().zip(each) {
        let limited_by = turns::limited_by(context, &own);
        let turns = Turns {
            ceiling: all.clone(),
            own,
        };
        let name = format!("{driver}, {CONNECTIONS} connections");
        told(
            Row::new(Section::Drivers, name, Unit::RequestsPerS)
                .measured(turns.measured("bare client", 1.0))
                .limited_by(limited_by),
        );
    }
    Ok(())
}
