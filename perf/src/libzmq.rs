//! The ends of a pipe on libzmq, as most programs use it: one call a message, one I/O thread.
#![expect(clippy::print_stdout, reason = "its one line of output")]

use std::error::Error;

use clap::Parser;
use ridgeline_clock::{Clock, MonotonicClock};

use crate::pipe::{Count, End, PipeArgs};

/// Sends or receives messages with libzmq, PUSH to PULL.
#[derive(Debug, Parser)]
pub struct LibzmqPipeArgs {
    #[command(flatten)]
    args: PipeArgs,
}

impl LibzmqPipeArgs {
    /// Runs it to its end; the receiving end prints a line of JSON.
    ///
    /// # Errors
    /// When libzmq refuses something.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        let record_bytes = self.args.record_bytes()?;
        let context = zmq::Context::new();
        match self.args.end {
            End::Push => push(&context, &self.args, record_bytes),
            End::Pull => pull(&context, &self.args, record_bytes),
        }
    }
}

fn push(
    context: &zmq::Context,
    args: &PipeArgs,
    record_bytes: usize,
) -> Result<(), Box<dyn Error>> {
    let socket = context.socket(zmq::PUSH)?;
    socket.connect(&args.address)?;
    let record = vec![7; record_bytes];
    let mut message = Vec::with_capacity(args.message_bytes);
    for _ in 0..args.messages {
        message.clear();
        for _ in 0..args.records {
            message.extend_from_slice(&record);
        }
        socket.send(&message[..], 0)?;
    }
    // The context waits for what is not sent yet.
    Ok(())
}

fn pull(
    context: &zmq::Context,
    args: &PipeArgs,
    record_bytes: usize,
) -> Result<(), Box<dyn Error>> {
    let socket = context.socket(zmq::PULL)?;
    socket.bind(&args.address)?;
    let mut count = Count::new(record_bytes);
    let mut message = zmq::Message::new();
    while count.messages() < args.messages {
        socket.recv(&mut message, 0)?;
        count.add(&message, || MonotonicClock.now());
    }
    let crossed = count.crossed(MonotonicClock.now());
    println!("{}", serde_json::to_string(&crossed)?);
    Ok(())
}
