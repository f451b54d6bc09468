//! Runs a schedule on a machine.
//!
//! An operation needs its processor to begin, and a computation keeps it to its end; where a host has
//! fewer processors than the `cpu`s of its ranks, it also needs one of those. The host path accounts
//! for the cost of a call. Receives begin as soon as nothing delays them, whether their processor is
//! busy or not, so that messages match them.

use std::collections::VecDeque;

use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::schedule::{Action, After, Followers, Operation, Schedule};
use crate::drive::carrier::{Carrier, Destination};
use crate::program::{Activity, Interval, Machine, OpId, Outgoing, ProgramError, Received, Wanted};

/// The observer of a run is called after this many steps, which take some milliseconds.
const TOLD_EACH: u64 = 1 << 10;

/// The results of running a schedule.
#[derive(Debug)]
pub struct Played<C> {
    /// When each rank had finished.
    pub ends: Vec<Time>,
    /// How many messages were shorter than the receives that took them expected, which MPI allows.
    pub shorter: u64,
    /// The machine, with its account and channels.
    pub machine: Machine<C>,
}

impl<C> Played<C> {
    /// When the last rank had finished: the application's time.
    pub fn end(&self) -> Time {
        self.ends.iter().copied().max().unwrap_or(Time::ZERO)
    }
}

struct Player<'a, C> {
    schedule: &'a Schedule,
    machine: Machine<C>,
    ranks: Vec<Rank>,
    /// The rank and the operation of each operation of the machine.
    known: Vec<(u16, u32)>,
    left: usize,
    /// Operations that wait for nothing any more and have not begun.
    ready: VecDeque<(u16, u32)>,
    shorter: u64,
}

struct Rank {
    followers: Followers,
    waits: Vec<u32>,
    over: Vec<bool>,
    cpus: Vec<Cpu>,
    /// Sends and receives in progress, oldest first; those that have ended are removed when they
    /// reach the front.
    sends: VecDeque<u32>,
    receives: VecDeque<u32>,
    computing: u32,
    /// Computations that have their `cpu` and wait for a processor of the host.
    queued: u32,
    /// What the rank does, and since when.
    activity: Option<(Activity, Time)>,
    end: Time,
}

#[derive(Default)]
struct Cpu {
    busy: bool,
    /// Operations that wait for the computation that occupies the processor.
    queue: VecDeque<u32>,
}

/// Runs every operation of a schedule, rank by rank on a machine with at least as many ranks.
/// `observe` is called now and then with (operations done, operations in all); when it returns
/// `false` the run ends.
///
/// # Errors
/// [`ProgramError`] if the program does not finish.
pub fn play<C: Carrier>(
    schedule: &Schedule,
    machine: Machine<C>,
    halt: &Halt,
    observe: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Played<C>, ProgramError> {
    let ranks = schedule.ranks.iter().map(|script| {
        let (followers, waits) = script.followers();
        let cpus = script.operations().iter().map(|own| own.cpu).max().unwrap_or(0);
        Rank {
            followers,
            over: vec![false; waits.len()],
            waits,
            cpus: (0..=cpus).map(|_| Cpu::default()).collect(),
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            computing: 0,
            queued: 0,
            activity: None,
            end: Time::ZERO,
        }
    });
    let ranks = ranks.collect();
    let mut player = Player {
        schedule,
        machine,
        ranks,
        known: Vec::new(),
        left: schedule.len(),
        ready: VecDeque::new(),
        shorter: 0,
    };
    player.run(halt, observe)?;
    let ends = player.ranks.iter().map(|rank| rank.end).collect();
    Ok(Played { ends, shorter: player.shorter, machine: player.machine })
}

impl<C: Carrier> Player<'_, C> {
    fn run(
        &mut self,
        halt: &Halt,
        observe: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), ProgramError> {
        let all = self.left;
        let ranks = self.ranks.iter().zip(0..);
        let free = |(own, rank): (&Rank, u16)| {
            let numbers = (0..).zip(&own.waits).filter(|(_, waits)| **waits == 0);
            numbers.map(|(number, _)| (rank, number)).collect::<Vec<_>>()
        };
        self.ready = ranks.flat_map(free).collect();
        let (mut done, mut steps) = (Vec::new(), 0);
        loop {
            self.start_ready();
            self.machine.take_done(&mut done);
            if let Some(error) = self.machine.failure() {
                return Err(error);
            }
            if !done.is_empty() {
                done.drain(..).for_each(|op| self.finish(op));
                continue;
            }
            if self.left == 0 {
                return self.machine.failure().map_or(Ok(()), Err);
            }
            let before = steps;
            steps += self.machine.fast_forward(halt.left(steps)) + 1;
            let is_told = steps / TOLD_EACH > before / TOLD_EACH;
            let is_enough = is_told && !observe(all - self.left, all);
            if let Some(why) =
                halt.check_since(before, steps).or(is_enough.then_some(Stopped::Asked))
            {
                return Err(ProgramError::Stopped { time: self.machine.now(), why });
            }
            if !self.machine.step() {
                return Err(self.machine.stuck(self.waiting()));
            }
            self.begin_queued();
        }
    }

    /// Begins all that waits for nothing but, perhaps, its processor.
    fn start_ready(&mut self) {
        while let Some((rank, number)) = self.ready.pop_front() {
            let operation = self.operation(rank, number);
            let cpu = &mut self.ranks[usize::from(rank)].cpus[usize::from(operation.cpu)];
            let needs_cpu = matches!(operation.action, Action::Compute(_) | Action::Send { .. });
            if cpu.busy && needs_cpu {
                cpu.queue.push_back(number);
            } else {
                self.start(rank, number, operation);
            }
        }
    }

    fn start(&mut self, rank: u16, number: u32, operation: Operation) {
        let own = &mut self.ranks[usize::from(rank)];
        let mut is_queued = false;
        let op = match operation.action {
            Action::Compute(span) => {
                own.cpus[usize::from(operation.cpu)].busy = true;
                if self.machine.outlasts_clock(span) {
                    let (time, line) = (self.machine.now(), operation.line);
                    self.machine.fail(ProgramError::TooLong { rank, line, time, span });
                }
                let op = self.machine.compute(rank, span);
                is_queued = self.machine.is_queued(op);
                if is_queued {
                    own.queued += 1;
                } else {
                    own.computing += 1;
                }
                op
            }
            Action::Sleep(span) => self.machine.sleep(rank, span),
            Action::Send { to, tag, size } => {
                own.sends.push_back(number);
                self.machine.send(Outgoing {
                    from: rank,
                    to: Destination::Host(to),
                    tag,
                    size,
                    value: 0,
                    channel: None,
                    nic: operation.nic,
                })
            }
            Action::Receive { from, tag, .. } => {
                own.receives.push_back(number);
                let wanted = Wanted { from: Some(from), tag: Some(tag) };
                self.machine.receive(rank, wanted)
            }
        };
        if self.known.len() <= op.index() {
            self.known.resize(op.index() + 1, (0, 0));
        }
        self.known[op.index()] = (rank, number);
        if !is_queued {
            self.release(rank, number, After::Begun);
        }
        self.note(rank);
    }

    /// Computations that waited for a processor of their host have one.
    fn begin_queued(&mut self) {
        for place in 0..self.machine.begun().len() {
            let (rank, number) = self.known[self.machine.begun()[place].index()];
            let own = &mut self.ranks[usize::from(rank)];
            own.queued -= 1;
            own.computing += 1;
            self.release(rank, number, After::Begun);
            self.note(rank);
        }
    }

    fn finish(&mut self, op: OpId) {
        let (rank, number) = self.known[op.index()];
        let operation = self.operation(rank, number);
        self.compare(rank, op, operation);
        self.machine.release(op);
        self.left -= 1;
        let now = self.machine.now();
        let own = &mut self.ranks[usize::from(rank)];
        own.over[number as usize] = true;
        own.end = now;
        if let Action::Compute(_) = operation.action {
            own.computing -= 1;
            let cpu = &mut own.cpus[usize::from(operation.cpu)];
            cpu.busy = false;
            self.serve_queue(rank, operation.cpu);
        }
        self.release(rank, number, After::Over);
        self.note(rank);
    }

    /// Compares a message with the receive that took it: one that is longer does not fit.
    fn compare(&mut self, rank: u16, op: OpId, operation: Operation) {
        let Action::Receive { from, tag, size: accepted } = operation.action else { return };
        let Some(Received { size, .. }) = self.machine.outcome(op) else { return };
        self.shorter += u64::from(size < accepted);
        if size > accepted {
            let (line, size, accepted) = (operation.line, size.0, accepted.0);
            let error = ProgramError::Truncated { rank, line, from, tag, size, accepted };
            self.machine.fail(error);
        }
    }

    /// A processor is free: what waits for it begins, up to the next computation.
    fn serve_queue(&mut self, rank: u16, cpu: u16) {
        loop {
            let own = &mut self.ranks[usize::from(rank)].cpus[usize::from(cpu)];
            let next = if own.busy { None } else { own.queue.pop_front() };
            let Some(number) = next else { return };
            self.start(rank, number, self.operation(rank, number));
        }
    }

    /// The operations that waited for this event of an operation no longer wait for it.
    fn release(&mut self, rank: u16, number: u32, what: After) {
        let own = &mut self.ranks[usize::from(rank)];
        for (next, after) in own.followers.of(number) {
            if *after == what {
                let waits = &mut own.waits[*next as usize];
                *waits -= 1;
                if *waits == 0 {
                    self.ready.push_back((rank, *next));
                }
            }
        }
    }

    fn operation(&self, rank: u16, number: u32) -> Operation {
        self.schedule.ranks[usize::from(rank)].operations()[number as usize]
    }

    /// Notes what a rank does from now on, if it is another thing.
    fn note(&mut self, rank: u16) {
        let script = self.schedule.ranks[usize::from(rank)].operations();
        let own = &mut self.ranks[usize::from(rank)];
        let over = &own.over;
        let oldest = |queue: &mut VecDeque<u32>| {
            while queue.front().is_some_and(|number| over[*number as usize]) {
                queue.pop_front();
            }
            queue.front().map(|number| script[*number as usize].action)
        };
        let activity = if own.computing > 0 {
            Some(Activity::Compute)
        } else if own.queued > 0 {
            Some(Activity::Queued)
        } else {
            match oldest(&mut own.sends).or_else(|| oldest(&mut own.receives)) {
                Some(Action::Send { to, .. }) => Some(Activity::Send(to)),
                Some(Action::Receive { from, .. }) => Some(Activity::Wait(Some(from))),
                Some(Action::Compute(_) | Action::Sleep(_)) | None => None,
            }
        };
        let now = self.machine.now();
        let before = own.activity;
        if before.map(|(activity, _)| activity) == activity {
            return;
        }
        own.activity = activity.map(|activity| (activity, now));
        if let Some((activity, from)) = before.filter(|(_, from)| *from < now) {
            self.machine.account_mut().spend(Interval { rank, from, until: now, activity });
        }
    }

    /// What every unfinished rank waits for.
    fn waiting(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (own, rank) in self.ranks.iter().zip(0..) {
            for number in own.sends.iter().chain(&own.receives) {
                let Operation { action, line, .. } = self.operation(rank, *number);
                let place = if line > 0 { format!(" (line {line})") } else { String::new() };
                match action {
                    _ if own.over[*number as usize] => {}
                    Action::Send { to, tag, .. } => {
                        lines.push(format!("rank {rank} sends to rank {to} with tag {tag}{place}"))
                    }
                    Action::Receive { from, tag, .. } => lines.push(format!(
                        "rank {rank} waits for a message of rank {from} with tag {tag}{place}"
                    )),
                    Action::Compute(_) | Action::Sleep(_) => {}
                }
            }
        }
        lines
    }
}
