//! A lock without a server: bids by ordered broadcast (Memory Channel 2, Additional MEMORY CHANNEL
//! Network Features). Each rank writes a word of its own to all ranks, itself included, and has the
//! lock if no other word is set when its own arrives.

use weft_protocol::window::{Bid, Lock, LockAction, Node as LockNode};
use weft_units::{Bytes, Span};

use super::error::ProgramError;
use super::node::{Crew, Node};
use crate::drive::carrier::{Carrier, Destination};

/// A bid is one word.
const WORD: Bytes = Bytes(4);

/// The number of failed bids after which the back-off no longer grows.
const MOST_TRIES: u64 = 8;

/// One rank with its view of the lock, whose words are the first ones of the memories: that of rank
/// `r` is at address `r`. A word counts its writes: an odd number is a valid bid.
#[derive(Debug)]
pub struct OrderedLock<C: Carrier> {
    me: Node<C>,
    lock: Lock,
    word: u64,
    back_off: Span,
}

impl<C: Carrier> OrderedLock<C> {
    /// The lock as a rank sees it. `back_off` is what rank 0 waits after its first failed bid; others
    /// wait more, each a different time, and all of them more with every bid.
    ///
    /// # Errors
    /// [`ProgramError::Program`] where the channel keeps no order, or the ranks are too many.
    pub fn new(me: Node<C>, back_off: Span) -> Result<OrderedLock<C>, ProgramError> {
        if !(2..=64).contains(&me.ranks()) || !me.is_ordered(WORD) {
            let problem = "ordered_lock needs 2 to 64 ranks, on more than one host, and a channel \
                           that keeps one order of messages to several hosts; accepted: mapped \
                           windows around a hub (switch.hub, bus or crossbar)";
            return Err(ProgramError::Program(problem.to_owned()));
        }
        let lock = Lock::new(LockNode(me.rank() as u8));
        Ok(OrderedLock { me, lock, word: 0, back_off })
    }

    /// Whether this rank has the lock.
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }

    /// Bids until this rank has the lock.
    pub async fn acquire(&mut self) {
        let mut action = self.lock.acquire();
        let mut tries = 0;
        while let Some(next) = action {
            action = match next {
                LockAction::Write(bid) => self.write(bid).await,
                LockAction::BackOff => {
                    tries = MOST_TRIES.min(tries + 1);
                    let turn = u64::from(self.me.rank()) + 1;
                    self.me.compute(self.back_off * (turn * tries)).await;
                    self.lock.retry()
                }
                LockAction::Acquired | LockAction::Released => return,
            };
        }
    }

    /// Gives the lock back.
    pub async fn release(&mut self) {
        if let Some(LockAction::Write(bid)) = self.lock.release() {
            self.write(bid).await;
        }
    }

    /// Writes its own word to all ranks, and reads its copy when the write has arrived there.
    async fn write(&mut self, bid: Bid) -> Option<LockAction> {
        let (me, ranks) = (&self.me, self.me.ranks());
        self.word += 1;
        let own = u64::from(me.rank());
        let stored = me.store_to(all(me), own, self.word, WORD);
        me.until(own, self.word).await;
        stored.await;
        for other in (0..ranks).filter(|other| *other != me.rank()) {
            let set = me.load(other.into()) % 2 == 1;
            self.lock.arrive(Bid { node: LockNode(other as u8), set });
        }
        self.lock.arrive(bid)
    }
}

impl<C: Carrier + 'static> Crew<C> {
    /// Clears the words of an [`OrderedLock`] whose ranks are gone: the lowest of the remaining
    /// ranks, the manager of the cluster, writes an even number for them, which is no bid. That
    /// write follows all of theirs in the order of the channel, since their ports were closed
    /// before.
    pub fn keep_ordered_lock(&mut self) {
        for me in self.nodes() {
            let me = me.serving();
            self.start(me.clone(), async move {
                for number in 0.. {
                    me.departure(number).await;
                    let gone = me.departed();
                    let manager = (0..me.ranks()).find(|rank| !gone.contains(rank));
                    // All of them: the manager may be new, and the previous one may not have got to
                    // it.
                    for rank in gone.into_iter().filter(|_| manager == Some(me.rank())) {
                        // Others may have seen a bid that this rank has not.
                        let even = (me.load(rank.into()) | 1) + 1;
                        me.store_to(all(&me), rank.into(), even, WORD).await;
                    }
                }
            });
        }
    }
}

fn all<C: Carrier>(me: &Node<C>) -> Destination {
    Destination::Hosts(u64::MAX >> (64 - u32::from(me.ranks())))
}
