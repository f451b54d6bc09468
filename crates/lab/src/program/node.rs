//! Programs as sequential code, one `async fn` a rank, on an executor of one thread whose time is
//! the simulated one.
//!
//! ```
//! # use weft_lab::program::{Crew, Machine, Policy};
//! # use weft_lab::{Plan, Request, assemble::{Driver, Site}};
//! # use weft_kernel::{Halt, Streams};
//! # use weft_units::{Bytes, Time};
//! # let plan = Plan::new(&Request::new("clint", None, &[]))?;
//! # let spec = &plan.points[0].spec;
//! # let (streams, from, until) = (Streams::new(1), Time::ZERO, Time(u64::MAX / 2));
//! # let site = Site { name: "quick", hosts: 16, streams: &streams, from, until, sample: None };
//! # let quick = Driver::new(&spec.channel["quick"], None, site)?;
//! let machine = Machine::new(16, vec![("quick".into(), quick)], Policy::first(), false);
//! let mut crew = Crew::new(machine);
//! for me in crew.nodes() {
//!     crew.start(me.clone(), async move {
//!         match me.rank() {
//!             0 => {
//!                 me.send(1, 7, Bytes(32)).await;
//!                 me.receive(1, 7).await;
//!             }
//!             1 => {
//!                 me.receive(0, 7).await;
//!                 me.send(0, 7, Bytes(32)).await;
//!             }
//!             _ => {}
//!         }
//!     });
//! }
//! let end = crew.run(&Halt::new())?;
//! // Twice 36 bytes, two cables of 25 ns and a switch of 90 ns.
//! assert!(end.0 > 2 * 570_000 && end.0 < 2 * 800_000, "{end}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use weft_kernel::Halt;
use weft_units::{Bytes, Span, Time};

use super::error::ProgramError;
use super::machine::Machine;
use super::matching::{RESERVED_TAGS, Wanted};
use super::operation::{OpId, Outgoing, Received};
use crate::drive::carrier::{Carrier, Destination};

const BARRIER: u32 = RESERVED_TAGS;
const LOCK: u32 = RESERVED_TAGS + 0x100;
const GRANT: u32 = RESERVED_TAGS + 0x200;

/// The size of a message that requests, grants or releases a lock, or belongs to a barrier.
const CONTROL: Bytes = Bytes(8);

/// State shared by tasks and executor.
#[derive(Debug)]
struct Shared<C> {
    machine: Machine<C>,
    /// The task that waits for each operation.
    owners: Vec<u32>,
    /// The task that runs.
    current: u32,
}

/// A rank, as its program sees it. Copies are the same rank.
#[derive(Debug)]
pub struct Node<C> {
    shared: Rc<RefCell<Shared<C>>>,
    rank: u16,
    ranks: u16,
    channel: Option<usize>,
    /// Whether its purpose is to wait for requests.
    serves: bool,
}

impl<C> Clone for Node<C> {
    fn clone(&self) -> Node<C> {
        Node { shared: Rc::clone(&self.shared), ..*self }
    }
}

/// An operation that has begun. It goes on if it is dropped; it is over when it is awaited.
#[must_use = "what it brings, and when it is over, is known when it is awaited"]
#[derive(Debug)]
pub struct Operation<C: Carrier> {
    shared: Rc<RefCell<Shared<C>>>,
    op: OpId,
    serves: bool,
}

impl<C: Carrier> Node<C> {
    /// Its number.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u16 {
        self.ranks
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.shared.borrow().machine.now()
    }

    /// Returns this rank with all its messages on the channel of this name; `None` if there is no
    /// such channel.
    pub fn over(&self, channel: &str) -> Option<Node<C>> {
        let channel = Some(self.shared.borrow().machine.channel(channel)?);
        Some(Node { channel, ..self.clone() })
    }

    /// Returns this rank for a task that serves requests of others, and ends when all programs have
    /// ended.
    #[must_use]
    pub fn serving(&self) -> Node<C> {
        Node { serves: true, ..self.clone() }
    }

    /// Sends. Awaited, it is over when the last byte has left.
    pub fn send(&self, to: u16, tag: u32, size: Bytes) -> Operation<C> {
        self.send_value(to, tag, size, 0)
    }

    /// Sends a message in which a value is written.
    pub fn send_value(&self, to: u16, tag: u32, size: Bytes, value: u64) -> Operation<C> {
        let message = self.outgoing(Destination::Host(to), tag, size, value);
        self.begin(|machine| machine.send(message))
    }

    /// Receives the oldest message that fits; `None` for the sender or the tag is any
    /// but the [reserved ones](super::RESERVED_TAGS).
    pub fn receive(
        &self,
        from: impl Into<Option<u16>>,
        tag: impl Into<Option<u32>>,
    ) -> Operation<C> {
        let wanted = Wanted { from: from.into(), tag: tag.into() };
        self.begin(|machine| machine.receive(self.rank, wanted))
    }

    /// Computes for a while.
    pub fn compute(&self, span: Span) -> Operation<C> {
        self.begin(|machine| machine.compute(self.rank, span))
    }

    /// Stores a word into the memory of another rank, in a message of `size`.
    pub fn store(&self, to: u16, address: u64, value: u64, size: Bytes) -> Operation<C> {
        self.store_to(Destination::Host(to), address, value, size)
    }

    /// Stores a word into the memories of several ranks, by one multicast where the channel can.
    pub fn store_to(&self, to: Destination, address: u64, value: u64, size: Bytes) -> Operation<C> {
        let message = self.outgoing(to, 0, size, value);
        self.begin(|machine| machine.store(message, address))
    }

    /// The word at an address of its own memory; takes no time.
    pub fn load(&self, address: u64) -> u64 {
        self.shared.borrow().machine.load(self.rank, address)
    }

    /// Waits until a word of the own memory is at least `least`.
    pub fn until(&self, address: u64, least: u64) -> Operation<C> {
        self.begin(|machine| machine.until(self.rank, address, least))
    }

    /// Reads a word, in a message of `size`, from the memory of another rank without its program.
    pub fn read(&self, target: u16, address: u64, size: Bytes) -> Operation<C> {
        self.begin(|machine| machine.read(self.rank, target, address, size))
    }

    /// Writes a word, in a message of `size`, that another rank sees only when all of it, and all
    /// before it on the path, is known to be whole (Memory Channel 2, MEMORY CHANNEL 2 Enhanced
    /// Software Support). Ends when this rank knows; the value is 1 if the word was accepted and 0
    /// if the other rank left the cluster. With conditional writes by the adapters the word arrives
    /// after one message, otherwise after three, by round trip as in generation 1.
    pub fn conditional_write(
        &self,
        target: u16,
        address: u64,
        value: u64,
        size: Bytes,
    ) -> Operation<C> {
        self.begin(|machine| machine.conditional_write(self.rank, target, address, value, size))
    }

    /// Waits until this rank learns that another one is gone, which is the source of the result:
    /// the `number`th of which it learns, counted from 0. A rank is gone when its host leaves the
    /// cluster; its program stops there and does not come back with the host.
    pub fn departure(&self, number: usize) -> Operation<C> {
        self.begin(|machine| machine.departure(self.rank, number))
    }

    /// The ranks of which this one has learned that they are gone, in that order.
    pub fn departed(&self) -> Vec<u16> {
        self.shared.borrow().machine.departed(self.rank).to_vec()
    }

    /// Whether all ranks see the stores of `size` bytes that go to several of them in one order, the
    /// initiator's own copy among them.
    pub fn is_ordered(&self, size: Bytes) -> bool {
        self.shared.borrow().machine.is_ordered(self.channel, size)
    }

    /// Waits until every rank has reached the barrier: the dissemination barrier of Hensgen, Finkel
    /// and Manber ("Two algorithms for barrier synchronization", IJPP 17(1), 1988), in
    /// `ceil(log2(ranks))` rounds. Each rank passes on what it has received from others, so that
    /// this barrier does not survive the loss of a rank; [`Node::barrier_of_channel`] may.
    pub async fn barrier(&self) {
        let ranks = u32::from(self.ranks);
        let (mut distance, mut round) = (1, 0);
        while distance < ranks {
            let to = ((u32::from(self.rank) + distance) % ranks) as u16;
            let from = ((u32::from(self.rank) + ranks - distance) % ranks) as u16;
            let sent = self.send(to, BARRIER + round, CONTROL);
            self.receive(from, BARRIER + round).await;
            sent.await;
            distance *= 2;
            round += 1;
        }
    }

    /// Reaches the barrier that the channel itself provides; `None` if it provides none. That of a
    /// Memory Channel does not wait for hosts that are gone.
    pub fn barrier_of_channel(&self) -> Option<Operation<C>> {
        let op = self.shared.borrow_mut().machine.barrier(self.rank, self.channel)?;
        Some(Operation { shared: Rc::clone(&self.shared), op, serves: self.serves })
    }

    /// Asks the rank that serves locks ([`Crew::serve_locks`]) for a lock, and waits until it is
    /// held.
    pub async fn lock(&self, server: u16, lock: u32) {
        let asked = self.send_value(server, LOCK, CONTROL, u64::from(lock) << 1);
        self.receive(server, GRANT + lock % 0x1000_0000).await;
        asked.await;
    }

    /// Releases a lock; ends when the message that says so has left.
    pub fn unlock(&self, server: u16, lock: u32) -> Operation<C> {
        self.send_value(server, LOCK, CONTROL, u64::from(lock) << 1 | 1)
    }

    fn grant(&self, holder: u16, lock: u64) {
        drop(self.send(holder, GRANT + lock as u32 % 0x1000_0000, CONTROL));
    }

    /// Ends the run because of what a program did wrong.
    pub fn fail(&self, error: ProgramError) {
        self.shared.borrow_mut().machine.fail(error);
    }

    fn outgoing(&self, to: Destination, tag: u32, size: Bytes, value: u64) -> Outgoing {
        Outgoing { from: self.rank, to, tag, size, value, channel: self.channel, nic: 0 }
    }

    fn begin(&self, begin: impl FnOnce(&mut Machine<C>) -> OpId) -> Operation<C> {
        let op = begin(&mut self.shared.borrow_mut().machine);
        Operation { shared: Rc::clone(&self.shared), op, serves: self.serves }
    }
}

impl<C: Carrier> Future for Operation<C> {
    type Output = Received;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Received> {
        let mut shared = self.shared.borrow_mut();
        if let Some(received) = shared.machine.outcome(self.op) {
            return Poll::Ready(received);
        }
        if !self.serves {
            shared.machine.block(self.op);
        }
        let (place, current) = (self.op.index(), shared.current);
        if shared.owners.len() <= place {
            shared.owners.resize(place + 1, u32::MAX);
        }
        shared.owners[place] = current;
        Poll::Pending
    }
}

impl<C: Carrier> Drop for Operation<C> {
    fn drop(&mut self) {
        let mut shared = self.shared.borrow_mut();
        if let Some(owner) = shared.owners.get_mut(self.op.index()) {
            *owner = u32::MAX;
        }
        shared.machine.release(self.op);
    }
}

/// The programs of all ranks.
pub struct Crew<C> {
    shared: Rc<RefCell<Shared<C>>>,
    tasks: Vec<Task>,
    /// When the programs of each rank ended.
    ends: Vec<Time>,
}

struct Task {
    rank: u16,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    serves: bool,
}

impl<C: Carrier + 'static> Crew<C> {
    /// Nothing has begun yet.
    pub fn new(machine: Machine<C>) -> Crew<C> {
        let ends = vec![Time::ZERO; machine.ranks().into()];
        let shared = Shared { machine, owners: Vec::new(), current: 0 };
        Crew { shared: Rc::new(RefCell::new(shared)), tasks: Vec::new(), ends }
    }

    /// The ranks, in order.
    pub fn nodes(&self) -> Vec<Node<C>> {
        let ranks = self.shared.borrow().machine.ranks();
        let shared = |rank| {
            let shared = Rc::clone(&self.shared);
            Node { shared, rank, ranks, channel: None, serves: false }
        };
        (0..ranks).map(shared).collect()
    }

    /// How many hosts have ranks.
    pub fn hosts_in_use(&self) -> u16 {
        self.shared.borrow().machine.hosts_in_use()
    }

    /// The program of a rank. A rank may have several, which run concurrently; those that become
    /// ready in one instant run in that order.
    pub fn start(&mut self, node: Node<C>, program: impl Future<Output = ()> + 'static) {
        let future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(program);
        self.tasks.push(Task { rank: node.rank, future: Some(future), serves: node.serves });
    }

    /// A rank that answers requests for locks until all programs have ended, first come, first
    /// served. When the server learns that a rank is gone, the locks that the rank holds or waits
    /// for are free again.
    pub fn serve_locks(&mut self, node: &Node<C>) {
        let me = node.serving();
        let locks = Rc::new(RefCell::new(Locks::default()));
        let (server, own) = (me.clone(), Rc::clone(&locks));
        self.start(server.clone(), async move {
            loop {
                let asked = server.receive(None, LOCK).await;
                let (lock, released) = (asked.value >> 1, asked.value & 1 == 1);
                let holder = own.borrow_mut().ask(lock, asked.from, released);
                holder.into_iter().for_each(|holder| server.grant(holder, lock));
            }
        });
        self.start(me.clone(), async move {
            for number in 0.. {
                let gone = me.departure(number).await.from;
                let granted = locks.borrow_mut().remove(gone);
                granted.into_iter().for_each(|(lock, holder)| me.grant(holder, lock));
            }
        });
    }

    /// Runs every program to its end, or to that of its rank, and returns when it was.
    pub fn run(&mut self, halt: &Halt) -> Result<Time, ProgramError> {
        let mut ready: VecDeque<u32> = (0..self.tasks.len() as u32).collect();
        let mut left = self.tasks.iter().filter(|task| !task.serves).count();
        let (mut done, mut stopped, mut steps) = (Vec::new(), Vec::new(), 0);
        loop {
            while let Some(task) = ready.pop_front() {
                left -= usize::from(self.poll(task));
                if let Some(error) = self.shared.borrow_mut().machine.failure() {
                    return Err(error);
                }
                self.take_ready(&mut done, &mut ready);
            }
            let mut shared = self.shared.borrow_mut();
            if left == 0 {
                return Ok(shared.machine.now());
            }
            let before = steps;
            steps += shared.machine.fast_forward(halt.left(steps)) + 1;
            if let Some(why) = halt.check_since(before, steps) {
                return Err(ProgramError::Stopped { time: shared.machine.now(), why });
            }
            if !shared.machine.step() {
                return Err(shared.machine.deadlock());
            }
            if let Some(error) = shared.machine.failure() {
                return Err(error);
            }
            shared.machine.take_stopped(&mut stopped);
            drop(shared);
            left -= stopped.drain(..).map(|rank| self.stop(rank)).sum::<usize>();
            self.take_ready(&mut done, &mut ready);
        }
    }

    /// A rank is gone, and its programs with it. Returns how many of them had not finished.
    fn stop(&mut self, rank: u16) -> usize {
        let own = self.tasks.iter_mut().filter(|task| task.rank == rank);
        let left = own.filter_map(|task| task.future.take().filter(|_| !task.serves)).count();
        if left > 0 {
            self.ends[usize::from(rank)] = self.shared.borrow().machine.now();
        }
        left
    }

    /// When the program of each rank ended, the last of them if it has several.
    pub fn ends(&self) -> &[Time] {
        &self.ends
    }

    /// The machine, with what it shows; ends the programs.
    pub fn into_machine(mut self) -> Machine<C> {
        self.tasks.clear();
        let empty = Machine::new(0, Vec::new(), super::policy::Policy::first(), false);
        std::mem::replace(&mut self.shared.borrow_mut().machine, empty)
    }

    /// Continues a task. Returns whether a program ended.
    fn poll(&mut self, number: u32) -> bool {
        self.shared.borrow_mut().current = number;
        let task = &mut self.tasks[number as usize];
        let Some(future) = &mut task.future else { return false };
        let ended = future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if ended {
            task.future = None;
        }
        if ended && !task.serves {
            self.ends[usize::from(task.rank)] = self.shared.borrow().machine.now();
        }
        ended && !task.serves
    }

    /// The tasks whose operations are over, in the order in which those ended.
    fn take_ready(&mut self, done: &mut Vec<OpId>, ready: &mut VecDeque<u32>) {
        let mut shared = self.shared.borrow_mut();
        shared.machine.take_done(done);
        for op in done.drain(..) {
            let owner = shared.owners.get_mut(op.index());
            let owner = owner.map_or(u32::MAX, |owner| std::mem::replace(owner, u32::MAX));
            if owner != u32::MAX {
                ready.push_back(owner);
            }
        }
    }
}

/// Which rank holds each lock of a server, and which ranks wait for it.
#[derive(Debug, Default)]
struct Locks(BTreeMap<u64, VecDeque<u16>>);

impl Locks {
    /// A rank asks for a lock or releases it. Returns who gets it now.
    fn ask(&mut self, lock: u64, rank: u16, released: bool) -> Option<u16> {
        let queue = self.0.entry(lock).or_default();
        // The rank at the head holds the lock; it gets a message when it gets there.
        let is_new = if released {
            let is_holder = queue.front() == Some(&rank);
            if is_holder {
                queue.pop_front();
            }
            is_holder
        } else {
            queue.push_back(rank);
            queue.len() == 1
        };
        queue.front().copied().filter(|_| is_new)
    }

    /// A rank is gone. Returns which locks others get now.
    fn remove(&mut self, rank: u16) -> Vec<(u64, u16)> {
        let mut granted = Vec::new();
        for (lock, queue) in &mut self.0 {
            let was_held = queue.front() == Some(&rank);
            queue.retain(|other| *other != rank);
            granted.extend(queue.front().filter(|_| was_held).map(|holder| (*lock, *holder)));
        }
        granted
    }
}

impl<C> std::fmt::Debug for Crew<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crew of {} tasks", self.tasks.len())
    }
}
