//! Reading traces, and running them.

use std::fmt::Write;
use std::io::{BufReader, Read};

use serde_json::{Value, json};
use weft_kernel::Halt;
use weft_lab::program::settings::{Ways, open};
use weft_lab::program::{Placement, ProgramError};
use weft_lab::trace::collectives::Collective;
use weft_lab::trace::{goal, play};
use weft_lab::{Bytes, Error, Request, Time};

use crate::process;

const RANKS: u16 = 16;

/// A text as long as one likes that is nowhere as a whole: the same script for every rank.
struct Endless {
    script: Vec<u8>,
    rank: u16,
    /// The file that is being read, and the position in it.
    piece: Vec<u8>,
    place: usize,
}

impl Endless {
    fn new(operations: u32) -> Endless {
        let mut script = String::new();
        // Each step of a ring is a send and a receive behind both of the step before.
        for step in 0..operations.div_ceil(2 * u32::from(RANKS)) {
            let (sends, receives) = (2 * step, 2 * step + 1);
            // Writing into a text cannot fail.
            let _ = writeln!(script, "l{sends}: send 2048b to 1 tag 3758096384");
            let _ = writeln!(script, "l{receives}: recv 2048b from 15 tag 3758096384");
            if step > 0 {
                for (waits, before) in [(0, 2), (0, 1), (1, 2), (1, 1)] {
                    let _ = writeln!(script, "l{} requires l{}", sends + waits, sends - before);
                }
            }
        }
        let script = script.into_bytes();
        let piece = format!("num_ranks {RANKS}\n").into_bytes();
        Endless { script, rank: 0, piece, place: 0 }
    }
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.place == self.piece.len() && self.rank < RANKS {
            self.piece = format!("rank {} {{\n", self.rank).into_bytes();
            self.piece.extend(&self.script);
            self.piece.extend(b"}\n");
            (self.place, self.rank) = (0, self.rank + 1);
        }
        let read = (&self.piece[self.place..]).read(buffer)?;
        self.place += read;
        Ok(read)
    }
}

/// Reads a text of about so many operations.
pub fn read(operations: u32) -> Result<Value, Error> {
    let text = Endless::new(operations);
    let held = process::peak_rss_bytes();
    let before = process::cpu_seconds();
    let schedule = goal::read(BufReader::new(text))?;
    let seconds = process::cpu_seconds() - before;
    let operations = schedule.len() as f64;
    Ok(json!({
        "name": "goal-ring",
        "operations": schedule.len(),
        "operations_read_per_cpu_s": operations / seconds,
        "bytes_of_memory_per_operation": (process::peak_rss_bytes() - held) as f64 / operations,
    }))
}

/// Reads a text in a process of its own, counts the instructions of that if `count` says so, and
/// runs the same collective on Clint's bulk channel.
pub fn read_and_run(operations: u32, count: bool) -> Result<Value, Error> {
    let refuse = |problem| Error::Program { seed: 1, error: ProgramError::Program(problem) };
    let mut line = process::measure_reading(operations, count).map_err(refuse)?;
    let ring = Collective::AllreduceRing;
    let rounds = operations.div_ceil(2 * ring.messages(RANKS.into()) as u32);
    let schedule = ring.schedule(RANKS, Bytes(16 * 2048), rounds);
    let request = Request::new("clint", None, &[]);
    let placement = &Placement::Block;
    let ways = Ways { channel: Some("bulk"), route: &[], placement, ranks_per_host: None };
    let machine = open(&request, ways, None, 1)?;
    let before = process::cpu_seconds();
    let played = play(&schedule, machine, &Halt::new(), &mut |_, _| true);
    let played = played.map_err(|error| Error::Program { seed: 1, error })?;
    let seconds = process::cpu_seconds() - before;
    line["operations_run_per_cpu_s"] = json!(schedule.len() as f64 / seconds);
    line["time_us"] = json!(played.end().since(Time::ZERO).as_us());
    Ok(line)
}
