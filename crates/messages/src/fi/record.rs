//! Records what a program sends and receives and how long it computes in between, for `weft mpi --record`, which
//! makes a trace of the files of all ranks (`python/weft/mpi_record.py`).
//!
//! A line is an event: `p` names a peer, `c` nanoseconds of computing, `s` a message sent, `d` one whose buffers
//! are free again, `q` a receive posted, `r` a message received, `t` the monotonic
//! clock at the first of these and at the last, in nanoseconds. A program computes while it is not in a call,
//! except between two polls that find nothing.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::endpoint::{Event, Received};
use crate::peers::{PeerId, Peers};
use crate::rendezvous::Name;
use crate::sys::{self, Errno};

/// The directory for the files of the ranks; none is written without it.
pub const DIRECTORY: &str = "WEFT_MESSAGES_RECORD";
/// The variables by which launchers tell a process its rank.
const RANKS: [&str; 2] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK"];
/// A pause this short between two polls that find nothing is not computing.
const ASKING: Duration = Duration::from_micros(1);

/// A message that was accepted to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// Its tag; 0 if it has none.
    pub tag: u64,
    /// Its length, in bytes.
    pub length: usize,
    /// What the program calls it by.
    pub context: usize,
    /// Whether its buffers are still in use.
    pub is_held: bool,
}

/// The file of one process.
#[derive(Debug)]
pub struct Record {
    out: BufWriter<File>,
    /// When the last call returned, and whether it recorded anything.
    left: Instant,
    has_happened: bool,
    computed: Duration,
    /// Peers whose names were written.
    known: Vec<bool>,
    /// When the first line was written, and when the call was left that wrote the last.
    first: Option<Instant>,
    last: Option<Instant>,
    /// Whether a send is in progress, whose own event is not recorded.
    is_sending: bool,
}

fn hexadecimal(name: Name) -> String {
    name.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Record {
    /// Creates the file of an endpoint's process.
    pub fn new(directory: &Path, own: Name) -> Result<Self, Errno> {
        let path = directory.join(format!("{}-{:08x}", own.pid, own.serial));
        let file = File::create_new(path).map_err(|error| sys::number(&error))?;
        let mut out = BufWriter::with_capacity(1 << 16, file);
        let rank = RANKS.iter().find_map(|name| std::env::var(name).ok());
        let rank = rank.unwrap_or_else(|| "-".to_owned());
        writeln!(out, "n {} {rank}", hexadecimal(own)).map_err(|error| sys::number(&error))?;
        Ok(Self {
            out,
            left: Instant::now(),
            has_happened: true,
            computed: Duration::ZERO,
            known: Vec::new(),
            first: None,
            last: None,
            is_sending: false,
        })
    }

    /// A call begins.
    pub fn enter(&mut self) {
        let since = self.left.elapsed();
        if self.has_happened || since > ASKING {
            self.computed += since;
        }
        self.has_happened = false;
    }

    /// The call ends.
    pub fn leave(&mut self) {
        self.left = Instant::now();
        if self.has_happened {
            self.last = Some(self.left);
        }
    }

    /// Writes a line, preceded by the computing before it. If the disk is full the end of the record is lost, which
    /// is detected when the trace is made.
    fn say(&mut self, line: std::fmt::Arguments<'_>) {
        self.first.get_or_insert_with(Instant::now);
        let computed = std::mem::take(&mut self.computed).as_nanos();
        if computed > 0 {
            let _ = writeln!(self.out, "c {computed}");
        }
        let _ = self.out.write_fmt(line);
        self.has_happened = true;
    }

    fn name(&mut self, peers: &Peers, peer: PeerId) {
        if self.known.len() <= peer.index() {
            self.known.resize(peer.index() + 1, false);
        }
        if let Some(name) = peers.name(peer).filter(|_| !self.known[peer.index()]) {
            self.known[peer.index()] = true;
            let _ = writeln!(self.out, "p {} {}", peer.index(), hexadecimal(name));
        }
    }

    /// A send begins.
    pub fn begin_send(&mut self) {
        self.is_sending = true;
    }

    /// A send has returned; `sent` is the message, if it was accepted.
    pub fn end_send(&mut self, peers: &Peers, to: PeerId, sent: Option<Accepted>) {
        self.is_sending = false;
        let Some(Accepted { tag, length, context, is_held }) = sent else { return };
        self.name(peers, to);
        let (to, held) = (to.index(), u8::from(is_held));
        self.say(format_args!("s {to} {tag:x} {length} {context:x} {held}\n"));
    }

    /// A receive is posted.
    pub fn post(&mut self, context: usize) {
        self.say(format_args!("q {context:x}\n"));
    }

    /// Records an event.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::Sent { context, .. } if !self.is_sending => {
                self.say(format_args!("d {context:x}\n"));
            }
            Event::Received(received) => {
                let Received { context, source, envelope, length, .. } = received;
                let Some(from) = source.map(PeerId::index) else { return };
                self.say(format_args!("r {context:x} {from} {:x} {length}\n", envelope.tag));
            }
            _ => {}
        }
    }

    /// Writes the names of the remaining peers and flushes the file.
    pub fn end(&mut self, peers: &Peers) {
        let all = (0_u32..).map(PeerId::of_index).take_while(|peer| peers.name(*peer).is_some());
        all.for_each(|peer| self.name(peers, peer));
        if let (Some(first), Some(last)) = (self.first, self.last) {
            let now = sys::monotonic_ns();
            let at = |then: Instant| now.saturating_sub(then.elapsed().as_nanos() as u64);
            let _ = writeln!(self.out, "t {} {}", at(first), at(last));
        }
        let _ = writeln!(self.out, "e");
        let _ = self.out.flush();
    }
}
