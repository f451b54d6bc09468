//! What the table of descriptors holds for each descriptor, in one word.
//!
//! Until a connection is old enough to look for its other end, a call on it needs nothing but this
//! word: it counts the call in, and down to the call that looks. So a short connection costs two
//! changes of one word for each call, and no memory of its own.

use weft_protocol::break_even::BreakEven;

use crate::table::lost::LostTo;

/// The word of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

const CONNECTION: u64 = 2 << 62;
const EPOLL: u64 = 3 << 62;
const OWN: u64 = 1 << 62;
const WHAT: u64 = 3 << 62;
/// Set once a connection is known to stay with the kernel for good.
const PLAIN: u64 = 1 << 61;
/// Set in the word of a connection while a thread tells an `epoll` instance of the descriptor.
const CONTROLLED: u64 = 1 << 60;
/// Of a descriptor that is nothing else: a listening socket, whose port is known.
const LISTENER: u64 = 1 << 60;
/// For a descriptor that is nothing else: a TCP socket that is not connected yet.
const STREAM: u64 = 1 << 59;
/// How many more calls bypass the library.
const QUIET: u64 = 1 << 50;
const MOST_QUIET: u64 = (1 << 10) - 1;
/// In their place, once a connection stays with the kernel for good: the `epoll` instance that has
/// been told of the number, plus one, or zero. From this bit on, the word equals the [word of that
/// instance](told_by).
const TOLD: u64 = 1 << TOLD_FROM;
const TOLD_FROM: u32 = 51;
const MOST_TOLD: u64 = (1 << 9) - 1;
/// Whether the descriptor is in that instance.
const IN: u64 = QUIET;
/// Tells the connections apart that have had this descriptor one after another.
const LIFE: u64 = 1 << 24;
const LIVES: u64 = (1 << 26) - 1;
/// How many of them are in the kernel now.
const INSIDE: u64 = 1 << 16;
const MOST_INSIDE: u64 = (1 << 8) - 1;
/// A place, or a port, or what is known of a connection that has no place yet.
const INDEX: u64 = (1 << 16) - 1;
/// Set in the index of a connection that has no place yet: then it holds its kind and how often the
/// wait for its first attempt to join was doubled.
const UNPLACED: u64 = 1 << 15;
const KIND: u64 = (1 << 8) - 1;
const DOUBLING: u64 = 1 << 8;
const DOUBLINGS: u64 = (1 << 4) - 1;

/// The word of the `epoll` instance that has been told of a descriptor with this word: its bits
/// from [`TOLD`] on, sign-extended, so that one shift finds it. Two is added, so that neither an
/// unknown descriptor, whose shifted word is 0, nor an instance, whose shifted word is -1, seems to
/// name an unknown descriptor, whose word is 0.
const fn told_by(word: u64) -> u64 {
    ((word as i64 >> TOLD_FROM) as u64).wrapping_add(2)
}

/// What a descriptor is to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing: the kernel's alone.
    Unknown,
    /// A connection that has no place yet: nothing but its calls was ever of interest.
    Unplaced,
    /// A connection's place.
    Connection(usize),
    /// An epoll instance's place.
    Epoll(usize),
    /// One of the library's own, which the program does not know of.
    Own,
}

impl Word {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self(0);

    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The word of an entry none of whose calls bypass the library. A connection without a place
    /// has a word only through [`Word::unplaced`].
    pub const fn of(entry: Entry) -> Self {
        Self(match entry {
            Entry::Unknown | Entry::Unplaced => 0,
            Entry::Connection(place) => CONNECTION | (place as u64 & INDEX),
            Entry::Epoll(place) => told_by(CONNECTION | PLAIN | ((place as u64 + 1) * TOLD)),
            Entry::Own => OWN,
        })
    }

    /// A listening socket with this port.
    pub const fn listener(port: u16) -> Self {
        Self(LISTENER | port as u64)
    }

    /// A TCP socket that is not yet connected.
    pub const STREAM: Self = Self(STREAM);

    /// A new connection of a kind, in its `life`th life: the calls before its first attempt to join
    /// bypass the library.
    pub const fn unplaced(kind: u32, first: BreakEven, life: u32) -> Self {
        let index = UNPLACED | (kind as u64 & KIND) | (first.doublings() as u64 * DOUBLING);
        let new = Self(CONNECTION | index | ((life as u64 & LIVES) * LIFE));
        new.hushed(first.after() - 1)
    }

    /// A descriptor that a thread is taking away. To code for which that makes no difference it
    /// looks like a connection without a place; calls on it look further.
    pub const fn taken(thread: u32, to: LostTo) -> Self {
        let closed = if matches!(to, LostTo::Nobody) { DOUBLING } else { 0 };
        Self(CONNECTION | UNPLACED | closed | ((thread as u64 & LIVES) * LIFE))
    }

    /// Whether a thread is closing the descriptor.
    pub const fn is_closed(self) -> bool {
        self.is_taken() && self.0 & DOUBLING != 0
    }

    /// Whether a thread is putting something else at the descriptor, or what was there.
    pub const fn is_replaced(self) -> bool {
        self.is_taken() && self.0 & DOUBLING == 0
    }

    /// Whether a thread is taking the descriptor away. No connection is of no kind.
    pub const fn is_taken(self) -> bool {
        self.is_promising() && self.0 & (UNPLACED | KIND) == UNPLACED
    }

    /// The kind of a connection that has no place yet and may be accelerated, and when it was to be
    /// joined.
    pub const fn newcomer(self) -> Option<(u32, BreakEven)> {
        if !self.is_promising() || self.0 & UNPLACED == 0 || self.is_taken() {
            return None;
        }
        let doublings = (self.0 / DOUBLING) & DOUBLINGS;
        Some(((self.0 & KIND) as u32, BreakEven::doubled(doublings as u32)))
    }

    /// Returns the word with the connection at a place of the table.
    pub const fn placed(self, place: usize) -> Self {
        Self((self.0 & !INDEX) | (place as u64 & INDEX))
    }

    /// Whether it is the connection at this place.
    #[inline]
    pub const fn is_at(self, place: usize) -> bool {
        self.0 & (WHAT | INDEX) == CONNECTION | place as u64
    }

    /// Whether both stand for the same connection.
    pub const fn is_same(self, other: Self) -> bool {
        (self.0 ^ other.0) & (WHAT | (LIVES * LIFE)) == 0
    }

    #[inline]
    pub const fn entry(self) -> Entry {
        let index = (self.0 & INDEX) as usize;
        match self.0 & WHAT {
            CONNECTION if self.0 & UNPLACED != 0 => Entry::Unplaced,
            CONNECTION => Entry::Connection(index),
            EPOLL => Entry::Epoll(((self.0 - 3) & MOST_TOLD) as usize),
            OWN => Entry::Own,
            _ => Entry::Unknown,
        }
    }

    /// The index of an `epoll` instance, if it is one.
    #[inline(always)]
    pub const fn instance(self) -> Option<usize> {
        if self.0 & WHAT == EPOLL { Some(((self.0 - 3) & MOST_TOLD) as usize) } else { None }
    }

    /// The port of a listening socket, if it is known to be one.
    pub const fn port(self) -> Option<u16> {
        if self.0 & (WHAT | LISTENER) == LISTENER { Some((self.0 & INDEX) as u16) } else { None }
    }

    /// Whether it is a connection that may be accelerated.
    #[inline]
    pub const fn is_promising(self) -> bool {
        self.0 & (WHAT | PLAIN) == CONNECTION
    }

    /// Returns the word for a connection that stays with the kernel for good.
    pub const fn plain(self) -> Self {
        if self.0 & PLAIN != 0 { self } else { Self((self.0 & !(MOST_QUIET * QUIET)) | PLAIN) }
    }

    /// Returns the word with the `epoll` instance that has been told of the descriptor, and whether
    /// it is registered there. Kept only for connections that stay with the kernel for good.
    pub const fn told_of(self, instance: Option<(usize, bool)>) -> Self {
        if !self.is_plain() {
            return self;
        }
        let told = match instance {
            Some((index, is_in)) if index < MOST_TOLD as usize => {
                ((index as u64 + 1) * TOLD) | if is_in { IN } else { 0 }
            }
            _ => 0,
        };
        Self((self.0 & !(MOST_QUIET * QUIET)) | told)
    }

    /// The `epoll` instance that is told of it, and whether it is in that.
    pub const fn told(self) -> Option<(usize, bool)> {
        let told = (self.0 / TOLD) & MOST_TOLD;
        if self.is_plain() && told != 0 {
            Some((told as usize - 1, self.0 & IN != 0))
        } else {
            None
        }
    }

    /// Whether it is a connection that stays with the kernel for good, this instance has been told
    /// of it, and no thread is changing that now.
    #[inline]
    pub const fn is_told_of_in(self, epoll: Self) -> bool {
        told_by(self.0) == epoll.0
    }

    /// Returns the word after the descriptor was added to that instance, or removed from it.
    #[inline]
    pub const fn put_in(self, is_in: bool) -> Self {
        Self(if is_in { self.0 | IN } else { self.0 & !IN })
    }

    /// Whether only the kernel waits for it: it is no `epoll` instance that is followed, and no
    /// connection that may join. A connection whose calls bypass the library cannot join now.
    #[inline]
    pub const fn is_awaited_in_kernel(self) -> bool {
        match self.0 & WHAT {
            CONNECTION => self.0 & (PLAIN | (MOST_QUIET * QUIET)) != 0,
            EPOLL => false,
            _ => true,
        }
    }

    /// Whether it is a connection that stays with the kernel for good.
    #[inline]
    pub const fn is_plain(self) -> bool {
        self.0 & (WHAT | PLAIN) == CONNECTION | PLAIN
    }

    /// The word with a mark, under which one thread changes the descriptor's registration in an
    /// `epoll` instance: no other thread does so meanwhile, and none joins the connection. `None`
    /// if a thread has marked it, or if the connection is accelerated or about to be.
    #[inline]
    pub const fn controlled(self) -> Option<Self> {
        let passes = self.0 & (PLAIN | (MOST_QUIET * QUIET)) != 0;
        if self.0 & (WHAT | CONTROLLED) == CONNECTION && passes {
            Some(Self(self.0 | CONTROLLED))
        } else {
            None
        }
    }

    /// Like [`controlled`](Self::controlled), only for a connection that may still be accelerated:
    /// the word of one that stays with the kernel has further fields.
    #[inline(always)]
    pub const fn controlled_while_quiet(self) -> Option<Self> {
        if self.0 & (WHAT | PLAIN | CONTROLLED) == CONNECTION && self.0 & (MOST_QUIET * QUIET) != 0
        {
            Some(Self(self.0 | CONTROLLED))
        } else {
            None
        }
    }

    /// The word with that mark, of a connection in any state.
    pub const fn held(self) -> Option<Self> {
        if self.0 & (WHAT | CONTROLLED) == CONNECTION {
            Some(Self(self.0 | CONTROLLED))
        } else {
            None
        }
    }

    /// Whether the word is marked so.
    pub const fn is_controlled(self) -> bool {
        self.0 & (WHAT | CONTROLLED) == CONNECTION | CONTROLLED
    }

    /// The word without that mark.
    #[inline]
    pub const fn released(self) -> Self {
        Self(self.0 & !CONTROLLED)
    }

    /// Returns the word with this many further calls that bypass the library, or the most that fit.
    /// All calls bypass it on a connection that stays with the kernel for good; none are counted
    /// without a connection.
    pub const fn hushed(self, quiet: u32) -> Self {
        if !self.is_promising() {
            return self;
        }
        let most = MOST_QUIET as u32;
        let quiet = if quiet < most { quiet } else { most };
        Self((self.0 & !(MOST_QUIET * QUIET)) | (quiet as u64 * QUIET))
    }

    /// How many more calls bypass the library.
    pub const fn quiet(self) -> u32 {
        if self.is_promising() { ((self.0 / QUIET) & MOST_QUIET) as u32 } else { 0 }
    }

    /// How many calls that bypass the library are in the kernel now.
    pub const fn inside(self) -> u32 {
        if self.is_connection() { ((self.0 / INSIDE) & MOST_INSIDE) as u32 } else { 0 }
    }

    const fn is_connection(self) -> bool {
        self.0 & WHAT == CONNECTION
    }

    /// Returns the word with no call in the kernel: for the child of a fork, in which all other
    /// threads are gone.
    pub const fn deserted(self) -> Self {
        if !self.is_connection() {
            return self;
        }
        let alone = Self(self.0 & !(MOST_INSIDE * INSIDE));
        // A thread that was telling an instance of it had not said all.
        if self.is_controlled() { alone.released().told_of(None) } else { alone }
    }

    /// Counts in a call that bypasses the library; `None` if the library must handle it.
    #[inline]
    pub const fn come_in(self) -> Option<Self> {
        let full = MOST_INSIDE * INSIDE;
        if self.is_promising() && self.0 & (MOST_QUIET * QUIET) != 0 && self.0 & full != full {
            Some(Self(self.0 + INSIDE - QUIET))
        } else {
            None
        }
    }

    /// Returns the word after the only call in the kernel has returned.
    #[inline]
    pub const fn gone_out(self) -> Self {
        Self(self.0 - INSIDE)
    }

    /// Counts out a call that entered with the word `entered`; `None` if the descriptor stands for
    /// something else by now.
    #[inline]
    pub const fn go_out(self, entered: Self) -> Option<Self> {
        if self.is_same(entered) && self.0 & (MOST_INSIDE * INSIDE) != 0 {
            Some(self.gone_out())
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection at a place, some of whose calls bypass the library.
    fn connection(place: usize, life: u32) -> Word {
        Word::unplaced(1, BreakEven::from_word(0), life).placed(place)
    }

    #[test]
    fn a_word_says_what_it_was_made_of() {
        for entry in [Entry::Unknown, Entry::Connection(8191), Entry::Epoll(3), Entry::Own] {
            assert_eq!(Word::of(entry).entry(), entry);
            let index = if let Entry::Epoll(index) = entry { Some(index) } else { None };
            assert_eq!(Word::of(entry).instance(), index);
            assert_eq!(Word::of(entry).port(), None);
            assert_eq!(Word::of(entry).come_in(), None, "no call passes by");
            assert_eq!(Word::of(entry).newcomer(), None);
        }
        assert_eq!(Word::listener(65_535).port(), Some(65_535));
        assert_eq!(Word::listener(80).entry(), Entry::Unknown);
    }

    #[test]
    fn a_connection_without_a_place_says_of_what_kind_it_is() {
        for doublings in 0..=BreakEven::DOUBLINGS {
            let first = BreakEven::doubled(doublings);
            let word = Word::unplaced(64, first, u32::MAX);
            assert_eq!(word.entry(), Entry::Unplaced);
            assert_eq!((word.newcomer(), word.port()), (Some((64, first)), None));
            assert_eq!(word.quiet(), first.after() - 1);
            let placed = word.come_in().unwrap().placed(8191);
            assert_eq!((placed.entry(), placed.newcomer()), (Entry::Connection(8191), None));
            assert_eq!((placed.quiet(), placed.inside()), (first.after() - 2, 1));
            assert!(placed.is_same(word));
            assert_eq!(word.plain().newcomer(), None, "it is the kernel's");
            assert_eq!(word.plain().entry(), Entry::Unplaced);
        }
    }

    #[test]
    fn a_mark_is_of_one_of_which_calls_pass_by() {
        let quiet = connection(5, 1);
        let marked = quiet.controlled().unwrap();
        assert_eq!(quiet.controlled_while_quiet(), Some(marked));
        assert!(marked.is_controlled() && marked.released() == quiet);
        for other in [marked, quiet.hushed(0), Word::of(Entry::Epoll(5)), Word::listener(80)] {
            assert_eq!([other.controlled(), other.controlled_while_quiet()], [None; 2]);
        }
        let plain = quiet.plain();
        assert_eq!((plain.controlled_while_quiet(), plain.controlled().is_some()), (None, true));
    }

    #[test]
    fn so_many_calls_pass_by_as_were_granted() {
        let mut word = connection(5, 1);
        for left in (0..11).rev() {
            let entered = word.come_in().unwrap();
            assert_eq!((entered.quiet(), entered.inside()), (left, 1));
            word = entered.go_out(entered).unwrap();
            assert_eq!(word.inside(), 0);
        }
        assert_eq!((word.come_in(), word.entry()), (None, Entry::Connection(5)));
        assert!(word.is_at(5) && !word.is_at(4) && !Word::of(Entry::Epoll(5)).is_at(5));
        assert_eq!(word.hushed(u32::MAX).quiet(), 1023);
    }

    #[test]
    fn one_that_is_the_kernels_says_in_which_instance_it_is() {
        let plain = connection(5, 1).come_in().unwrap().plain();
        assert_eq!((plain.told(), plain.quiet()), (None, 0));
        for index in [0, 1, 255] {
            let epoll = Word::of(Entry::Epoll(index));
            assert!(!plain.is_told_of_in(epoll));
            let told = plain.told_of(Some((index, true)));
            assert_eq!((told.told(), told.entry()), (Some((index, true)), Entry::Connection(5)));
            assert!(told.is_told_of_in(epoll) && told.put_in(false).is_told_of_in(epoll));
            assert!(!told.is_told_of_in(Word::of(Entry::Epoll(index + 1))));
            assert!(!told.is_told_of_in(Word::UNKNOWN) && !told.is_told_of_in(plain));
            assert_eq!(epoll.entry(), Entry::Epoll(index));
            // Nor is any other descriptor told of in it, nor is it in another.
            let others = [Word::UNKNOWN, Word::STREAM, Word::of(Entry::Own), Word::listener(80)];
            for other in
                [others, [epoll, plain, connection(5, u32::MAX), told.controlled().unwrap()]]
                    .concat()
            {
                assert!(!other.is_told_of_in(epoll), "{other:?}");
                assert!(!others.into_iter().any(|of| other.is_told_of_in(of)), "{other:?}");
            }
            assert_eq!(told.put_in(false).told(), Some((index, false)));
            assert_eq!(told.put_in(false).put_in(true), told);
            // Nothing else changes what it says, and it changes nothing else.
            assert_eq!((told.plain(), told.hushed(0), told.hushed(9)), (told, told, told));
            assert_eq!((told.quiet(), told.inside(), told.is_promising()), (0, 1, false));
            assert_eq!(told.gone_out().told(), Some((index, true)));
            let held = told.controlled().unwrap();
            assert!(!held.is_told_of_in(epoll), "a thread tells an instance of it");
            assert_eq!((held.told(), held.released()), (Some((index, true)), told));
            assert_eq!(held.deserted().told(), None, "it had not said all");
            assert_eq!(told.deserted().told(), Some((index, true)));
            assert_eq!(told.told_of(None), plain);
        }
        let promising = connection(5, 1);
        assert_eq!(promising.told_of(Some((3, true))), promising);
        assert!(promising.hushed(1023).told().is_none());
    }

    /// The word of an instance has ones where that of a connection has its counts.
    #[test]
    fn what_is_no_connection_has_no_counts() {
        let instances = [0, 1, 255].map(|index| Word::of(Entry::Epoll(index)));
        let others = [Word::UNKNOWN, Word::STREAM, Word::of(Entry::Own), Word::listener(80)];
        for word in instances.into_iter().chain(others) {
            assert_eq!((word.quiet(), word.inside()), (0, 0), "{word:?}");
            assert_eq!([word.hushed(0), word.hushed(9), word.deserted()], [word; 3], "{word:?}");
        }
    }

    #[test]
    fn whoever_comes_out_late_leaves_a_new_connection_alone() {
        let entered = connection(5, 1).come_in().unwrap();
        let next = connection(5, 2).come_in().unwrap();
        assert_eq!(next.go_out(entered), None);
        assert_eq!(Word::UNKNOWN.go_out(entered), None);
        assert_eq!(entered.plain().hushed(0).go_out(entered).unwrap().inside(), 0);
    }

    #[test]
    fn whoever_came_in_before_there_was_a_place_comes_out_of_it() {
        let entered = Word::unplaced(3, BreakEven::from_word(0), 1).come_in().unwrap();
        let out = entered.placed(5).go_out(entered).unwrap();
        assert_eq!((out.inside(), out.entry()), (0, Entry::Connection(5)));
    }

    #[test]
    fn a_number_that_is_taken_away_is_no_connection_and_no_call_passes_by() {
        let taken = Word::taken(4_194_303, LostTo::Nobody);
        assert!(taken.is_taken() && taken.is_closed() && taken.is_promising());
        assert_ne!(taken, Word::taken(4_194_302, LostTo::Nobody));
        let replaced = Word::taken(4_194_303, LostTo::Another);
        assert!(
            replaced.is_replaced()
                && !taken.is_replaced()
                && !replaced.is_closed()
                && replaced.newcomer().is_none()
        );
        assert_eq!((taken.newcomer(), taken.come_in()), (None, None));
        assert_eq!((taken.entry(), taken.inside(), taken.quiet()), (Entry::Unplaced, 0, 0));
        assert_eq!(taken.go_out(connection(5, 4_194_303).come_in().unwrap()), None);
        assert!(!connection(5, 1).is_taken() && !Word::UNKNOWN.is_taken());
        let first = BreakEven::from_word(0);
        assert!(
            !Word::unplaced(1, first, 1).is_taken() && !Word::unplaced(64, first, 1).is_taken()
        );
    }

    #[test]
    fn no_count_runs_over() {
        let mut word = connection(5, u32::MAX).hushed(1023);
        for inside in 1..=255 {
            word = word.come_in().unwrap();
            assert_eq!(word.inside(), inside);
        }
        assert_eq!(word.come_in(), None, "no more can be counted");
        assert_eq!(word.entry(), Entry::Connection(5));
        assert_eq!(word.deserted().inside(), 0);
        assert_eq!(word.plain().come_in(), None);
    }
}
