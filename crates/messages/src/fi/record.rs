//! Records what a program sends and receives and how long it computes in between, for `weft mpi --record`, which
//! makes a trace of the files of all ranks (`python/weft/mpi_record.py`).
//!
//! A line is an event: `p` names a peer, `c` nanoseconds of computing, `w` polls in a row that found nothing, `s` a
//! message sent, `d` one whose buffers are free again, `q` a receive posted, `r` a message received, `t` the first of
//! these and the last. A program computes while it is not in a call. Between two polls that find nothing it may wait
//! or compute: `w` has their number, the time between them, and the time from the first to the last.
//!
//! Times are nanoseconds of the monotonic clock, which all ranks of a host share: `s` ends with when the message was
//! sent; `d` and `r` with the poll before, which found nothing, and the poll that found it, which are the same if the
//! program did not wait; `r` with when its bytes were there, too.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use crate::endpoint::{Event, Received};
use crate::peers::{PeerId, Peers};
use crate::rendezvous::Name;
use crate::sys::{self, Errno};

/// The directory for the files of the ranks; none is written without it.
pub const DIRECTORY: &str = "WEFT_MESSAGES_RECORD";
/// The variables by which launchers tell a process its rank.
const RANKS: [&str; 2] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK"];
/// After a longer pause between two polls that find nothing the program has computed, in nanoseconds.
const ASKING_NS: u64 = 1000;

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

/// Polls in a row that found nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Polls {
    count: u64,
    /// The time between them, in nanoseconds.
    between_ns: u64,
    /// The time from the first to the last.
    all_ns: u64,
}

/// The file of one process.
#[derive(Debug)]
pub struct Record {
    out: BufWriter<File>,
    /// When the last call returned, and whether it recorded anything.
    left_ns: u64,
    has_happened: bool,
    computed_ns: u64,
    /// The polls that found nothing since the last line or computing, the time between them and in all.
    polls: Polls,
    /// When the present call began, and the one before it if that was a poll of the same wait.
    entered_ns: u64,
    looked_ns: u64,
    /// Peers whose names were written.
    known: Vec<bool>,
    /// When the first line was written, and when the call was left that wrote the last.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
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
            left_ns: sys::monotonic_ns(),
            has_happened: true,
            computed_ns: 0,
            polls: Polls::default(),
            entered_ns: 0,
            looked_ns: 0,
            known: Vec::new(),
            first_ns: None,
            last_ns: None,
            is_sending: false,
        })
    }

    /// A call begins.
    pub fn enter(&mut self) {
        let now_ns = sys::monotonic_ns();
        let since_ns = now_ns.saturating_sub(self.left_ns);
        let waits = !self.has_happened && since_ns <= ASKING_NS;
        if waits {
            self.polls.count += 1;
            self.polls.between_ns += since_ns;
            self.polls.all_ns += now_ns.saturating_sub(self.entered_ns);
        } else {
            self.computed_ns += since_ns;
        }
        self.looked_ns = if waits { self.entered_ns } else { now_ns };
        self.entered_ns = now_ns;
        self.has_happened = false;
    }

    /// The call ends.
    pub fn leave(&mut self) {
        self.left_ns = sys::monotonic_ns();
        if self.has_happened {
            self.last_ns = Some(self.left_ns);
        }
    }

    /// Writes a line, preceded by the computing before it. If the disk is full the end of the record is lost, which
    /// is detected when the trace is made.
    fn say(&mut self, line: std::fmt::Arguments<'_>) {
        self.first_ns.get_or_insert_with(sys::monotonic_ns);
        let computed_ns = std::mem::take(&mut self.computed_ns);
        if computed_ns > 0 {
            let _ = writeln!(self.out, "c {computed_ns}");
        }
        let Polls { count, between_ns, all_ns } = std::mem::take(&mut self.polls);
        if count > 0 {
            let _ = writeln!(self.out, "w {count} {between_ns} {all_ns}");
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
        let now_ns = sys::monotonic_ns();
        self.say(format_args!("s {to} {tag:x} {length} {context:x} {held} {now_ns}\n"));
    }

    /// A receive is posted.
    pub fn post(&mut self, context: usize) {
        self.say(format_args!("q {context:x}\n"));
    }

    /// Records an event.
    pub fn on_event(&mut self, event: &Event) {
        let (looked_ns, entered_ns) = (self.looked_ns, self.entered_ns);
        match event {
            Event::Sent { context, .. } if !self.is_sending => {
                self.say(format_args!("d {context:x} {looked_ns} {entered_ns}\n"));
            }
            Event::Received(received) => {
                let Received { context, source, envelope, length, .. } = received;
                let Some(from) = source.map(PeerId::index) else { return };
                let (tag, now_ns) = (envelope.tag, sys::monotonic_ns());
                self.say(format_args!(
                    "r {context:x} {from} {tag:x} {length} {looked_ns} {entered_ns} {now_ns}\n"
                ));
            }
            _ => {}
        }
    }

    /// Writes the names of the remaining peers and flushes the file.
    pub fn end(&mut self, peers: &Peers) {
        let all = (0_u32..).map(PeerId::of_index).take_while(|peer| peers.name(*peer).is_some());
        all.for_each(|peer| self.name(peers, peer));
        if let (Some(first_ns), Some(last_ns)) = (self.first_ns, self.last_ns) {
            let _ = writeln!(self.out, "t {first_ns} {last_ns}");
        }
        let _ = writeln!(self.out, "e");
        let _ = self.out.flush();
    }
}
