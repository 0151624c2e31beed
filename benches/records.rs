//! Records to files, by the thread that writes them in a run: its CPU time.

mod support;

use std::io;

use criterion::{Criterion, SamplingMode, Throughput};
use ridgeline_clock::Nanos;
use ridgeline_roofline::passes::recording::{Form, write};

use crate::support::CpuTime;

const RECORDS: usize = 16_384;

fn main() -> io::Result<()> {
    let mut criterion = support::criterion();
    records(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

fn records(criterion: &mut Criterion<CpuTime>) -> io::Result<()> {
    let mut group = criterion.benchmark_group("records");
    group.sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Elements(RECORDS as u64));
    for (name, form) in [("lines", Form::Lines), ("spool", Form::Spool)] {
        // It says itself when not every record was written in this form.
        let one = || -> io::Result<Nanos> {
            let folder = tempfile::tempdir()?;
            let recording = write(folder.path(), RECORDS, form, None)?;
            Ok(recording.taking.cpu + recording.converting.cpu)
        };
        assert!(one()? > Nanos::ZERO);
        let mut failed = None;
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|passes| {
                let spent = (0..passes).map(|_| one()).sum::<io::Result<Total>>();
                match spent {
                    Ok(Total(spent)) => spent,
                    Err(error) => {
                        failed = Some(error);
                        Nanos(1)
                    }
                }
            });
        });
        failed.map_or(Ok(()), Err)?;
    }
    group.finish();
    Ok(())
}

struct Total(Nanos);

impl std::iter::Sum<Nanos> for Total {
    fn sum<I: Iterator<Item = Nanos>>(spans: I) -> Self {
        Self(spans.fold(Nanos::ZERO, |sum, span| sum + span))
    }
}
