//! Sweeps, locks and barriers, by the state machines of `weft_protocol::window` over the control words behind each
//! copy.

use std::time::{Duration, Instant};

use weft_protocol::window::{Barrier, BarrierAction, Bid, Lock, LockAction, Node, Sweep};

use super::memory::{LOCKS, NODES};
use super::{Targets, Waiting, Window, WindowError};

fn set(nodes: u64) -> impl Iterator<Item = Node> {
    (0..NODES as u8).filter(move |node| nodes >> node & 1 == 1).map(Node)
}

impl Window {
    /// Waits until all earlier writes of this member are in the copies of the targets.
    ///
    /// # Errors
    /// [`WindowError`]: not mapped, or a member makes no progress.
    pub fn sweep(&mut self, targets: Targets) -> Result<(), WindowError> {
        let targets = self.mask(targets)?;
        let mut sweep = Sweep::of(targets);
        for node in set(targets) {
            self.reach(node, self.written)?;
            sweep.acknowledge(node);
        }
        Ok(())
    }

    /// Writes this member's word of a lock or of the barrier to all, and waits until it is in its own copy.
    fn announce(&mut self, lock: usize, value: u32) -> Result<(), WindowError> {
        let all = self.mask(Targets::All)?;
        let offset = self.shared.word_of(lock, self.own);
        self.put(all, offset, &value.to_ne_bytes())?;
        self.reach(self.own, self.written)
    }

    fn announced_word(&self, lock: usize, node: Node) -> u32 {
        self.shared.word(self.own, self.shared.word_of(lock, node))
    }

    /// Acquires a lock; waits at most `limit` for its holder to release it.
    ///
    /// # Errors
    /// [`WindowError::LockTaken`], [`WindowError::Held`] if this member holds it, and as [`Window::write`].
    pub fn lock(&mut self, index: usize, limit: Duration) -> Result<(), WindowError> {
        let lock = self.locks.get(index).ok_or(WindowError::NoLock(index))?;
        if lock.is_held() {
            return Err(WindowError::Held(index));
        }
        let locked = self.acquire(index, limit);
        if locked.is_err() {
            // The next bid starts afresh.
            self.locks[index] = Lock::new(self.own);
        }
        locked
    }

    fn acquire(&mut self, index: usize, limit: Duration) -> Result<(), WindowError> {
        if !self.access.takes {
            self.mask(Targets::One(self.own))?;
        }
        let began = Instant::now();
        let mut tries = 0_u32;
        let mut action = self.locks[index].acquire();
        loop {
            action = match action {
                Some(LockAction::Write(bid)) => self.bid(index, bid)?,
                Some(LockAction::Acquired) => return Ok(()),
                Some(LockAction::BackOff) => {
                    if began.elapsed() > limit {
                        return Err(WindowError::LockTaken(index, limit));
                    }
                    tries += 1;
                    self.back_off(index, tries)?;
                    self.locks[index].retry()
                }
                // The machine answers a bid by one of the actions above.
                Some(LockAction::Released) | None => return Err(WindowError::NotHeld(index)),
            };
        }
    }

    /// Writes a bid, waits for it to arrive in this member's copy, and feeds all words of the lock to the state
    /// machine.
    fn bid(&mut self, index: usize, bid: Bid) -> Result<Option<LockAction>, WindowError> {
        self.announce(index, bid.set.into())?;
        for node in (0..NODES as u8).map(Node).filter(|node| *node != self.own) {
            let set = self.announced_word(index, node) != 0;
            self.locks[index].arrive(Bid { node, set });
        }
        Ok(self.locks[index].arrive(bid))
    }

    /// Backs off: longer with each try, and differently for each member. Removes a dead holder.
    fn back_off(&mut self, index: usize, tries: u32) -> Result<(), WindowError> {
        let spread = u64::from(self.own.0) * 7 + u64::from(tries) * 13;
        let rounds = (16_u64 << tries.min(6)) + spread % 61;
        for _ in 0..rounds {
            std::hint::spin_loop();
        }
        std::thread::yield_now();
        if tries.is_multiple_of(16) {
            std::thread::sleep(Duration::from_micros(20 * (spread % 17)));
            let own = self.own;
            let mut others = (0..NODES as u8).map(Node).filter(|node| *node != own);
            let dead =
                others.find(|node| self.announced_word(index, *node) != 0 && self.has_ended(*node));
            if dead.is_some() {
                self.remove_dead()?;
            }
        }
        Ok(())
    }

    /// Releases a lock.
    ///
    /// # Errors
    /// [`WindowError::NotHeld`], and as [`Window::write`].
    pub fn unlock(&mut self, index: usize) -> Result<(), WindowError> {
        let lock = self.locks.get_mut(index).ok_or(WindowError::NoLock(index))?;
        let Some(LockAction::Write(bid)) = lock.release() else {
            return Err(WindowError::NotHeld(index));
        };
        self.bid(index, bid).map(drop)
    }

    pub(super) fn release_all(&mut self) {
        for index in 0..LOCKS {
            if self.locks[index].is_held() {
                // If the release cannot be written, the others notice that this member has left.
                let _ = self.unlock(index);
            }
        }
    }

    /// Clears the control words of former members and of `new`, which has not written any. The caller holds the
    /// directory's lock, so that nobody joins meanwhile.
    pub(super) fn clear_words(&mut self, new: Option<Node>) {
        if !self.access.takes || !self.access.writes {
            return;
        }
        for node in (0..NODES as u8).map(Node) {
            if self.shared.is_on_line(node) && Some(node) != new {
                continue;
            }
            for lock in 0..=LOCKS {
                if self.announced_word(lock, node) != 0 {
                    let offset = self.shared.word_of(lock, node);
                    // If the write fails, the next caller clears the word.
                    let _ = self.put(self.shared.on_line(), offset, &0_u32.to_ne_bytes());
                }
            }
        }
    }

    /// Waits until `members` members, this one included, have reached the barrier, and the earlier writes of each are in
    /// all copies. Members that end meanwhile are not waited for.
    ///
    /// # Errors
    /// [`WindowError::Barrier`] if not all arrive in time, [`WindowError::TooManyMembers`] if there are more.
    pub fn barrier(&mut self, members: u32, limit: Duration) -> Result<(), WindowError> {
        let began = Instant::now();
        self.mask(Targets::One(self.own))?;
        if self.barrier.is_none() {
            let all = self.wait_for_members(members, began, limit)?;
            self.barrier = Some(Barrier::new(self.own, all));
        }
        // Taken out, since `pass` borrows all of this window.
        let Some(mut barrier) = self.barrier.take() else { return Ok(()) };
        let result = self.pass(&mut barrier, members, began, limit);
        self.barrier = Some(barrier);
        result
    }

    /// Waits until `wanted` members are on line; returns their set.
    fn wait_for_members(
        &mut self,
        wanted: u32,
        began: Instant,
        limit: Duration,
    ) -> Result<u64, WindowError> {
        let mut waiting = Waiting::new(self.patience);
        loop {
            let all = self.shared.on_line();
            let there = all.count_ones();
            if there == wanted {
                return Ok(all);
            }
            if there > wanted && self.remove_dead()? == 0 {
                return Err(WindowError::TooManyMembers { there, wanted });
            }
            if began.elapsed() > limit {
                return Err(WindowError::Barrier { there, wanted, limit });
            }
            self.pause_or_wait(&mut waiting);
        }
    }

    fn pass(
        &mut self,
        barrier: &mut Barrier,
        wanted: u32,
        began: Instant,
        limit: Duration,
    ) -> Result<(), WindowError> {
        let mut action = Some(barrier.enter());
        let mut waiting = Waiting::new(self.patience);
        let mut seen = [0_u32; NODES];
        loop {
            action = match action {
                Some(BarrierAction::Pass) => return Ok(()),
                Some(BarrierAction::Sweep(targets)) => {
                    let mut next = None;
                    for node in set(targets) {
                        self.reach(node, self.written)?;
                        next = next.or(barrier.acknowledge(node));
                    }
                    next
                }
                Some(BarrierAction::Announce(number)) => {
                    self.announce(LOCKS, number)?;
                    barrier.arrive(self.own, number)
                }
                None => {
                    let mut next = None;
                    for node in set(barrier.on_line() & !self.own.bit()) {
                        let number = self.announced_word(LOCKS, node);
                        let index = usize::from(node.0);
                        if number != seen[index] {
                            seen[index] = number;
                            next = next.or(barrier.arrive(node, number));
                        } else if waiting.looks % 64 == 63 && self.has_ended(node) {
                            next = next.or(barrier.remove(node));
                        }
                    }
                    if next.is_none() && began.elapsed() > limit {
                        let there = seen.iter().filter(|number| **number != 0).count() as u32 + 1;
                        return Err(WindowError::Barrier { there, wanted, limit });
                    }
                    if next.is_none() {
                        self.pause_or_wait(&mut waiting);
                    }
                    next
                }
            };
        }
    }

    /// Spins briefly, and sleeps after many rounds.
    fn pause_or_wait(&mut self, waiting: &mut Waiting) {
        waiting.looks += 1;
        if waiting.looks < 128 {
            self.help(self.own);
            std::hint::spin_loop();
        } else {
            self.wait(Duration::from_millis(1));
        }
    }
}
