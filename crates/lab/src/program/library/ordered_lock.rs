//! A lock that nobody serves: bids by ordered broadcast (Memory Channel).

use weft_protocol::window::{Bid, Lock, LockAction, Node as LockNode};
use weft_units::{Bytes, Span};

use super::{Finish, Notes, OrderedLockSettings};
use crate::drive::carrier::{Carrier, Destination};
use crate::program::error::ProgramError;
use crate::program::node::{Crew, Node};

/// A bid is one word.
const WORD: Bytes = Bytes(4);

/// Failed bids after which the back-off grows no more.
const MOST_TRIES: u64 = 8;

/// One rank with its view of the lock. Its word in the memories counts its writes: an odd number
/// is a bid that stands.
struct Bidder<C: Carrier> {
    me: Node<C>,
    lock: Lock,
    word: u64,
}

pub(super) fn run<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    OrderedLockSettings { rounds, hold, back_off }: OrderedLockSettings,
    notes: Notes,
) -> Finish {
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            if !(2..=64).contains(&me.ranks()) || !me.is_ordered(WORD) {
                let problem = "ordered_lock needs 2 to 64 ranks and a channel that keeps one order \
                               of messages to several hosts; accepted: one with switch.hub, bus or \
                               crossbar";
                return me.fail(ProgramError::Program(problem.to_owned()));
            }
            let lock = Lock::new(LockNode(me.rank() as u8));
            let mut bidder = Bidder { me: me.clone(), lock, word: 0 };
            for _ in 0..rounds.get() {
                let begun = me.now();
                bidder.acquire(back_off).await;
                own.note(begun, me.now(), Bytes(0));
                if hold > Span::ZERO {
                    me.compute(hold).await;
                }
                bidder.release().await;
            }
        });
    }
    Box::new(move || {
        let mut metrics =
            notes.spans(["program_lock_mean_us", "program_lock_min_us", "program_lock_max_us"]);
        metrics.push(("program_locks_per_s", notes.per_s()));
        metrics
    })
}

impl<C: Carrier> Bidder<C> {
    async fn acquire(&mut self, back_off: Span) {
        let mut action = self.lock.acquire();
        let mut tries = 0;
        while let Some(next) = action {
            action = match next {
                LockAction::Write(bid) => self.write(bid).await,
                LockAction::BackOff => {
                    tries = MOST_TRIES.min(tries + 1);
                    let turn = u64::from(self.me.rank()) + 1;
                    self.me.compute(back_off * (turn * tries)).await;
                    self.lock.retry()
                }
                LockAction::Acquired | LockAction::Released => return,
            };
        }
    }

    async fn release(&mut self) {
        if let Some(LockAction::Write(bid)) = self.lock.release() {
            self.write(bid).await;
        }
    }

    /// Writes the own word everywhere, and looks at the copy when the write has come there.
    async fn write(&mut self, bid: Bid) -> Option<LockAction> {
        let (me, ranks) = (&self.me, self.me.ranks());
        self.word += 1;
        let all = Destination::Hosts(u64::MAX >> (64 - u32::from(ranks)));
        let own = u64::from(me.rank());
        let stored = me.store_to(all, own, self.word, WORD);
        me.until(own, self.word).await;
        stored.await;
        for other in (0..ranks).filter(|other| *other != me.rank()) {
            let set = me.load(other.into()) % 2 == 1;
            self.lock.arrive(Bid { node: LockNode(other as u8), set });
        }
        self.lock.arrive(bid)
    }
}
