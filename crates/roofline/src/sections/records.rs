//! Records to disk, by the writer that runs have, beside a plain write of the same bytes.

use std::io;
use std::path::Path;

use crate::interleave::{Cost, Spent, interleaved, on_client_core};
use crate::passes::recording::{Form, Stretch, write, write_plainly};
use crate::{Ceiling, Context, Measured, Row, Section, Unit};

pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    for what in [What::Lines, What::Spool, What::Converting] {
        let ([own, plain], bytes) = on_client_core(context, || measure(context, what))?;
        told(
            Row::new(Section::Records, what.name(), Unit::RecordsPerS)
                .at("bytes_per_record", bytes)
                .measured(Measured {
                    achieved: own.per_s(),
                    cpu_ns: Some(own.cpu_ns),
                    ceiling: Some(Ceiling {
                        name: "a plain write of the same bytes".to_owned(),
                        value: plain.per_s(),
                        cpu_ns: Some(plain.cpu_ns),
                    }),
                })
                .limited_by(words(own, &std::env::temp_dir())),
        );
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum What {
    Lines,
    Spool,
    Converting,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Lines => "JSON lines, live",
            Self::Spool => "spool, while the run goes on",
            Self::Converting => "spool to JSON lines, after the run",
        }
    }

    fn of(self, folder: &Path, records: usize, cores: [usize; 2]) -> io::Result<Stretch> {
        let form = match self {
            Self::Lines => Form::Lines,
            Self::Spool | Self::Converting => Form::Spool,
        };
        let recording = write(folder, records, form, Some(cores))?;
        Ok(match self {
            Self::Lines | Self::Spool => recording.taking,
            Self::Converting => recording.converting,
        })
    }
}

/// The costs of one record, by the writer and by the plain write, and its bytes.
fn measure(context: &Context, what: What) -> io::Result<([Cost; 2], f64)> {
    let (rounds, records) = if context.quick {
        (2, 1 << 15)
    } else {
        (5, 1 << 16)
    };
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    let items = records as f64;
    let spent = |stretch: Stretch| Spent {
        items,
        wall: stretch.wall,
        cpu: stretch.cpu,
    };
    let cores = [context.server_core, context.client_core];
    let writing = || what.of(tempfile::tempdir()?.path(), records, cores);
    let bytes = writing()?.bytes;
    let mut own = || writing().map(spent);
    let mut plain = || {
        let folder = tempfile::tempdir()?;
        write_plainly(folder.path(), bytes).map(spent)
    };
    let costs = interleaved(rounds, [&mut own, &mut plain])?;
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
    let bytes_each = bytes as f64 / items;
    Ok((costs, bytes_each))
}

fn words(own: Cost, folder: &Path) -> String {
    let busy = own.cpu_ns / own.wall_ns;
    if busy > 0.8 {
        "one core: the writing thread makes the bytes of a record".to_owned()
    } else {
        let folder = folder.display();
        let share = busy * 100.0;
        format!("waits, for {folder} or for its core: the writing thread was busy {share:.0} %")
    }
}
