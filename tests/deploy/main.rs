//! What deploy/ ships: manifests that fit one another, command lines that the program takes, a plan that
//! it accepts, a script that runs a load, and a seccomp profile that the program runs under.
#![expect(clippy::unwrap_used, reason = "a test")]

mod commands;
mod kubernetes;
mod kustomize;
mod lines;
mod manifests;
#[path = "../outside/mock.rs"]
mod mock;
#[path = "../outside/program.rs"]
mod program;
mod seccomp;
mod slurm;
