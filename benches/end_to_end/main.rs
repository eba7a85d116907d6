//! What a call through evenkeel costs beside the same call without it, over real sockets: `cargo bench --bench end_to_end`.
//!
//! A child process has the servers, on loopback, so that this one is the client alone. Judged are calls to one address: as the
//! only instance behind evenkeel, and without it. What three instances make of it is printed beside: more connections, each with
//! less to do.
//!
//! Both sides make the same number of calls with the same number of callers, in 11 pairs of runs, on a runtime as
//! `#[tokio::main]` makes it on two cores. A run is many short slices, and those of a pair take turns. Told are the median of the
//! pairs' ratios of calls per second and of 99th percentiles, with the least and the most, and the allocations that a call makes
//! more in this process. A row that falls short is measured again, and is short when it is so three times in a row; then the
//! process ends with an error. Words behind `--` select rows: `-- tower`.

#[path = "../support/counting.rs"]
mod counting;
mod pairs;
mod rows;
mod servers;

use std::process::ExitCode;

use pairs::Table;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn main() -> ExitCode {
    if let Some(what) = std::env::var_os(servers::CHILD) {
        return servers::serve(&what.to_string_lossy());
    }
    let mut table = Table::from_args();
    rows::reqwest(&mut table);
    rows::tower(&mut table);
    rows::tonic(&mut table);
    rows::gateway(&mut table);
    table.end()
}
