//! All that a run observes about one channel.

use weft_units::{Bytes, Span, Time};

use super::Recorder;

/// The latency definitions of the papers, each by its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Latency {
    /// Generation of the packet to the start of the transmission that succeeds (Clint 4.1).
    Queueing,
    /// Generation of the packet to the start of its first transmission.
    FirstAttempt,
    /// Generation of the packet to the arrival of its last byte at the target.
    OneWay,
    /// Start of the transmission that succeeds to the arrival of the last byte at the target.
    Transit,
    /// Start of the transmission that succeeds to the end of its acknowledgment (Clint 3.2).
    RoundTrip,
}

/// Why a packet was dropped. Each is a stated rule of some part; nothing is lost otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drop {
    /// It lost against another packet in a bufferless switch.
    Collision,
    /// The output buffer of the switch was full.
    Overflow,
    /// The target had no receive buffer.
    NoReceiveBuffer,
    /// Its check code was wrong at the target.
    Corrupted,
    /// The target had disabled its initiator.
    Disabled,
}

/// What a packet collided with in a bufferless switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collision {
    /// Another request packet.
    Request,
    /// An acknowledgment packet.
    Acknowledgment,
}

/// The counters and recorders of one channel of one run. Attempts are counted apart from packets:
/// a dropped attempt that is sent again is not a lost packet.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// Records and counters of throughput start here (end of warm-up).
    pub from: Time,
    /// Packets handed over by the workload, whole run.
    pub generated: u64,
    /// Packets delivered to their target, whole run.
    pub delivered: u64,
    /// Packets given up by a stated rule (retry limit), whole run.
    pub abandoned: u64,
    /// Packets delivered since `from`.
    pub delivered_measured: u64,
    /// Payload delivered since `from`.
    pub payload_measured: Bytes,
    /// Transmissions started, retries included, since `from`.
    pub attempts: u64,
    latencies: [Recorder; Latency::ALL.len()],
    drops: [u64; Drop::ALL.len()],
    collisions: [u64; Collision::ALL.len()],
}

impl Latency {
    /// Every definition, in the order of the columns.
    pub const ALL: [Latency; 5] = [
        Latency::Queueing,
        Latency::FirstAttempt,
        Latency::OneWay,
        Latency::Transit,
        Latency::RoundTrip,
    ];
}

impl Drop {
    /// Every rule, in the order of the columns.
    pub const ALL: [Drop; 5] =
        [Drop::Collision, Drop::Overflow, Drop::NoReceiveBuffer, Drop::Corrupted, Drop::Disabled];
}

impl Collision {
    /// Every kind, in the order of the columns.
    pub const ALL: [Collision; 2] = [Collision::Request, Collision::Acknowledgment];
}

impl Observations {
    /// Observations that start to record at `from`.
    pub fn starting(from: Time) -> Observations {
        Observations { from, ..Observations::default() }
    }

    /// Records one latency known at `now`, unless `now` lies in the warm-up.
    #[inline]
    pub fn latency(&mut self, kind: Latency, now: Time, span: Span) {
        if now >= self.from {
            self.latencies[kind as usize].record(now, span);
        }
    }

    /// Counts one delivery of `payload` bytes.
    #[inline]
    pub fn deliver(&mut self, now: Time, payload: Bytes) {
        self.delivered += 1;
        if now >= self.from {
            self.delivered_measured += 1;
            self.payload_measured += payload;
        }
    }

    /// Counts one start of a transmission.
    #[inline]
    pub fn attempt(&mut self, now: Time) {
        if now >= self.from {
            self.attempts += 1;
        }
    }

    /// Counts one dropped transmission.
    #[inline]
    pub fn drop(&mut self, rule: Drop, now: Time) {
        if now >= self.from {
            self.drops[rule as usize] += 1;
        }
    }

    /// Counts one collision.
    #[inline]
    pub fn collide(&mut self, with: Collision, now: Time) {
        if now >= self.from {
            self.collisions[with as usize] += 1;
        }
    }

    /// The recorder of one latency definition.
    pub fn recorder(&self, kind: Latency) -> &Recorder {
        &self.latencies[kind as usize]
    }

    /// How many transmissions were dropped by a rule.
    pub fn dropped(&self, rule: Drop) -> u64 {
        self.drops[rule as usize]
    }

    /// How many collisions there were with one kind of packet.
    pub fn collisions(&self, with: Collision) -> u64 {
        self.collisions[with as usize]
    }

    /// Packets that are neither delivered nor given up: what the parts must still hold.
    pub fn outstanding(&self) -> u64 {
        self.generated - self.delivered - self.abandoned
    }
}
