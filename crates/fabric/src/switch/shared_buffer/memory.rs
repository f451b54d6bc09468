//! The memory of one switch: what may enter it, and when an input pauses its cable.

use weft_units::Bytes;

use super::MOST_CLASSES;
use super::settings::{ClassSettings, PauseThreshold, QueueLimit};
use crate::switch::PortPair;

/// What a memory is made of.
#[derive(Clone, Debug)]
pub struct MemoryParts<'a> {
    /// Its size.
    pub memory: Bytes,
    /// How many ports share it.
    pub ports: usize,
    /// The traffic classes.
    pub classes: &'a [ClassSettings],
    /// What each input keeps for each class, input by input: headroom of those with pauses, the
    /// buffer of those with credits, and nothing for others.
    pub headroom: Vec<Bytes>,
}

/// The memory of a switch. Bytes are counted once: those of a class that loses nothing by input,
/// all others by queue.
///
/// First comes what every packet needs, in the order in which it fills the lines of the cache that the switch begins
/// with: the second one holds the rules of the first two classes.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Memory {
    /// What is shared: all but headroom and what is reserved for queues.
    pool: u64,
    used: u64,
    classes: usize,
    /// What each input holds of a class that loses nothing, of what is shared: all that most packets need to know,
    /// so that the inputs of all switches take little room in the cache. [`BEYOND`] is added while its headroom
    /// holds something.
    shared: Box<[u64]>,
    /// By class.
    rules: [Rule; MOST_CLASSES],
    /// The rest, by input and class too.
    inputs: Vec<Input>,
    /// What the queue of each output and class holds of classes that may lose something.
    queues: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Packets that find their queue full are lost.
    Lossy { reserved: u64, limit: Bound },
    /// Inputs pause their cables, and let them go on so far below.
    Lossless { limit: Bound, below: u64 },
    /// Inputs have buffers of their own, and the far ends of their cables keep within them.
    Credited,
}

/// A number of bytes, or of times what is free.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Alpha(f64),
    Bytes(u64),
}

impl Bound {
    /// Whether so many bytes are within it where so many are free.
    #[inline(always)]
    fn admits(self, bytes: u64, free: u64) -> bool {
        match self {
            // No memory has 2^53 bytes, up to which every number of them is one of these; and signed numbers take fewer
            // instructions to convert.
            Bound::Alpha(alpha) => bytes as i64 as f64 <= alpha * free as i64 as f64,
            Bound::Bytes(most) => bytes <= most,
        }
    }
}

/// What an input has of a class for itself.
#[derive(Clone, Copy, Debug, Default)]
struct Input {
    /// What its headroom holds, or its buffer where it gives credits.
    headroom: u64,
    /// What there is of that.
    kept: u64,
    pauses: bool,
}

/// The flag in `shared` that says that the headroom of an input is in use. No memory has that many bytes.
const BEYOND: u64 = 1 << 63;

/// What becomes of a packet at a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is held.
    Held,
    /// It is held, and its input now pauses its class.
    Pauses,
    /// Its queue is full.
    Full,
}

impl Memory {
    /// How many of its bytes come before its rules.
    pub(super) const BEFORE_RULES: usize = std::mem::offset_of!(Memory, rules);

    /// An empty memory. What headroom and reserves leave of it is shared.
    pub fn new(parts: MemoryParts<'_>) -> Memory {
        let MemoryParts { memory, ports, classes, headroom } = parts;
        let reserved = |own: &ClassSettings| own.reserved.map_or(0, |bytes| bytes.0);
        let kept: u64 = headroom.iter().map(|bytes| bytes.0).sum();
        let of_queues: u64 = classes.iter().map(|own| reserved(own) * ports as u64).sum();
        let rule = |own: &ClassSettings| match &own.pfc {
            None if own.credits.is_some() => Rule::Credited,
            None => Rule::Lossy {
                reserved: reserved(own),
                limit: match own.limit {
                    None => Bound::Alpha(1.0),
                    Some(QueueLimit::Alpha(alpha)) => Bound::Alpha(alpha.get()),
                    Some(QueueLimit::Bytes(bytes)) => Bound::Bytes(bytes.0),
                },
            },
            Some(pfc) => match &pfc.threshold {
                PauseThreshold::Static { xoff, xon } => Rule::Lossless {
                    limit: Bound::Bytes(xoff.0),
                    below: xoff.0.saturating_sub(xon.0),
                },
                PauseThreshold::Dynamic { alpha, below } => {
                    Rule::Lossless { limit: Bound::Alpha(alpha.get()), below: below.0 }
                }
            },
        };
        let input = |kept: &Bytes| Input { kept: kept.0, ..Input::default() };
        Memory {
            pool: memory.0.saturating_sub(kept + of_queues),
            used: 0,
            classes: classes.len(),
            shared: vec![0; headroom.len()].into(),
            rules: std::array::from_fn(|class| classes.get(class).map_or(Rule::Credited, rule)),
            inputs: headroom.iter().map(input).collect(),
            queues: vec![0; ports * classes.len()],
        }
    }

    /// What is shared and free.
    #[inline]
    fn free(&self) -> u64 {
        self.pool - self.used
    }

    /// A packet of `size` bytes of a class comes from an input for an output, both counted at this
    /// switch.
    #[inline]
    pub fn admit(&mut self, ports: PortPair, class: u8, size: u64) -> Admission {
        match self.hold(ports, class, size) {
            true => Admission::Held,
            false => self.admit_beyond(ports.input, class, size),
        }
    }

    /// Admits a packet that causes no signal, if there is room; its ports are counted at this
    /// switch. Returns whether it did.
    ///
    /// Packets that have left and were not [released](Self::release) can make it refuse a packet
    /// that would be held, but never hold one that would not.
    #[inline(always)]
    pub fn hold(&mut self, ports: PortPair, class: u8, size: u64) -> bool {
        let PortPair { input, output } = ports;
        debug_assert!(usize::from(class) < self.classes, "class {class} of {}", self.classes);
        let free = self.free();
        let place = |port: u32| port as usize * self.classes + usize::from(class);
        match self.rules[usize::from(class)] {
            Rule::Lossy { reserved, limit } => {
                let held = &mut self.queues[place(output)];
                let (before, after) =
                    (held.saturating_sub(reserved), (*held + size).saturating_sub(reserved));
                let more = after - before;
                let is_held = after == 0 || (limit.admits(after, free) && more <= free);
                if is_held {
                    *held += size;
                    self.used += more;
                }
                is_held
            }
            Rule::Lossless { limit, .. } => {
                let shared = &mut self.shared[place(input)];
                // What came after a pause stays apart until it has left, as it would else take what
                // others share.
                let is_held =
                    *shared < BEYOND && limit.admits(*shared + size, free) && size <= free;
                if is_held {
                    *shared += size;
                    self.used += size;
                }
                is_held
            }
            Rule::Credited => {
                let own = &mut self.inputs[place(input)];
                let is_held = own.headroom + size <= own.kept;
                if is_held {
                    own.headroom += size;
                }
                is_held
            }
        }
    }

    /// What becomes of a packet that is not simply [held](Self::hold): the headroom of a class that
    /// loses nothing takes it.
    pub fn admit_beyond(&mut self, input: u32, class: u8, size: u64) -> Admission {
        if !matches!(self.rules[usize::from(class)], Rule::Lossless { .. }) {
            return Admission::Full;
        }
        let place = input as usize * self.classes + usize::from(class);
        let own = &mut self.inputs[place];
        if own.headroom + size > own.kept {
            return Admission::Full;
        }
        own.headroom += size;
        self.shared[place] |= BEYOND;
        match std::mem::replace(&mut own.pauses, true) {
            true => Admission::Held,
            false => Admission::Pauses,
        }
    }

    /// The last byte of a packet has left; its ports are those of the switch. Returns whether its
    /// input lets its class go on because of that.
    #[inline]
    pub fn release(&mut self, ports: PortPair, class: u8, size: u64) -> bool {
        let place = ports.input as usize * self.classes + usize::from(class);
        let Rule::Lossless { limit, below } = self.rules[usize::from(class)] else {
            self.let_go(ports, class, size);
            return false;
        };
        let (own, shared) = (&mut self.inputs[place], &mut self.shared[place]);
        let of_headroom = own.headroom.min(size);
        own.headroom -= of_headroom;
        debug_assert!(
            *shared & !BEYOND >= size - of_headroom,
            "what an input holds is released once"
        );
        *shared -= size - of_headroom;
        self.used -= size - of_headroom;
        if own.headroom > 0 {
            return false;
        }
        *shared &= !BEYOND;
        let free = self.pool - self.used;
        let is_low = *shared == 0 || limit.admits(*shared + below, free);
        is_low && std::mem::take(&mut own.pauses)
    }

    /// Releases a packet from an input that does not pause its cable; its ports are those of the
    /// switch.
    #[inline(always)]
    pub fn let_go(&mut self, ports: PortPair, class: u8, size: u64) {
        let PortPair { input, output } = ports;
        let place = |port: u32| port as usize * self.classes + usize::from(class);
        match self.rules[usize::from(class)] {
            Rule::Lossy { reserved, .. } => {
                let held = &mut self.queues[place(output)];
                let before = held.saturating_sub(reserved);
                *held -= size;
                self.used -= before - held.saturating_sub(reserved);
            }
            Rule::Lossless { .. } => {
                let place = place(input);
                debug_assert!(!self.inputs[place].pauses, "input {input} does not pause");
                debug_assert!(self.shared[place] < BEYOND, "input {input} needs no headroom");
                self.shared[place] -= size;
                self.used -= size;
            }
            Rule::Credited => self.inputs[place(input)].headroom -= size,
        }
    }

    /// Whether inputs give credits for a class.
    #[inline]
    pub fn gives_credits(&self, class: u8) -> bool {
        matches!(self.rules[usize::from(class)], Rule::Credited)
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Factor;

    use super::super::settings::PfcSettings;
    use super::*;

    fn through(input: u32, output: u32) -> PortPair {
        PortPair { input, output }
    }

    /// What an input holds of class 0: of what is shared, and of its headroom.
    fn held_from(memory: &Memory, input: usize) -> [u64; 2] {
        let place = input * memory.classes;
        [memory.shared[place] & !BEYOND, memory.inputs[place].headroom]
    }

    fn lossy(alpha: f64, reserved: u64) -> ClassSettings {
        ClassSettings {
            limit: Some(QueueLimit::Alpha(Factor::new(alpha).expect("a factor"))),
            reserved: Some(Bytes(reserved)),
            ..ClassSettings::default()
        }
    }

    /// A bound admits bytes up to the whole part of a share of what is free.
    #[test]
    fn a_share_admits_as_many_bytes_as_it_has_whole() {
        for alpha in [1.0 / 128.0, 1.0 / 3.0, 0.5, 1.0, 8.0, 1024.0] {
            for free in [0, 1, 2, 3, 127, 128, 129, 999_999, (1 << 40) - 1, 1 << 40] {
                let whole = (alpha * free as f64) as u64;
                for bytes in [whole.saturating_sub(1), whole, whole + 1] {
                    let admits = Bound::Alpha(alpha).admits(bytes, free);
                    assert_eq!(admits, bytes <= whole, "{bytes} of {alpha} times {free}");
                }
            }
        }
    }

    /// Choudhury and Hahne: n queues that want more than they get hold alpha / (1 + n alpha) of the
    /// memory each, and 1 / (1 + n alpha) of it stays free.
    #[test]
    fn congested_queues_share_as_dynamic_thresholds_say() {
        for (alpha, queues) in [(1.0, 1), (1.0, 2), (1.0, 7), (0.5, 4), (2.0, 3), (8.0, 2)] {
            let total = 1_000_000_u64;
            let classes = [lossy(alpha, 0)];
            let parts = MemoryParts {
                memory: Bytes(total),
                ports: 8,
                classes: &classes,
                headroom: vec![Bytes(0); 8],
            };
            let mut memory = Memory::new(parts);
            // Packets of 100 bytes, to each output in turn, until none is held any more.
            let mut is_growing = true;
            while is_growing {
                is_growing = false;
                for output in 0..queues {
                    is_growing |= memory.admit(through(7, output), 0, 100) == Admission::Held;
                }
            }
            let share = alpha / (1.0 + f64::from(queues) * alpha) * total as f64;
            for output in 0..queues {
                let held = memory.queues[output as usize] as f64;
                assert!((held - share).abs() <= 100.0 * (1.0 + alpha), "{alpha}, {queues}: {held}");
            }
            let free = total as f64 / (1.0 + f64::from(queues) * alpha);
            let rest = memory.free() as f64;
            assert!((rest - free).abs() <= 100.0 * f64::from(queues) * (1.0 + alpha), "{rest}");
        }
    }

    #[test]
    fn a_reserve_is_there_when_others_hold_all_that_is_shared() {
        let classes = [lossy(1024.0, 200)];
        let (memory, headroom) = (Bytes(1000), vec![Bytes(0); 2]);
        let mut memory = Memory::new(MemoryParts { memory, ports: 2, classes: &classes, headroom });
        assert_eq!([memory.pool, memory.used], [600, 0]);
        let held = (0..9).filter(|_| memory.admit(through(0, 0), 0, 100) == Admission::Held).count()
            as u64;
        // Its own reserve and all that is shared.
        assert_eq!([held, memory.used], [8, 600]);
        assert_eq!(memory.admit(through(0, 1), 0, 100), Admission::Held);
        assert_eq!(memory.admit(through(0, 1), 0, 101), Admission::Full);
        assert_eq!(memory.admit(through(0, 1), 0, 100), Admission::Held);
        assert!(!memory.release(through(0, 0), 0, 100));
        assert_eq!(memory.used, 500);
        for _ in 0..7 {
            memory.release(through(0, 0), 0, 100);
        }
        memory.release(through(0, 1), 0, 200);
        assert_eq!((memory.used, memory.queues), (0, vec![0, 0]));
    }

    fn lossless(threshold: PauseThreshold) -> ClassSettings {
        let pfc = PfcSettings { threshold, headroom: None, response: weft_units::Span::ZERO };
        ClassSettings { pfc: Some(pfc), ..ClassSettings::default() }
    }

    /// Xoff at 300 bytes, xon at 100, headroom for two packets of 100.
    #[test]
    fn an_input_pauses_at_xoff_and_goes_on_at_xon() {
        let classes = [lossless(PauseThreshold::Static { xoff: Bytes(300), xon: Bytes(100) })];
        let (memory, headroom) = (Bytes(1000), vec![Bytes(200); 2]);
        let mut memory = Memory::new(MemoryParts { memory, ports: 2, classes: &classes, headroom });
        let came = [(); 6].map(|()| memory.admit(through(0, 1), 0, 100));
        use Admission::{Full, Held, Pauses};
        assert_eq!(came, [Held, Held, Held, Pauses, Held, Full]);
        assert_eq!((held_from(&memory, 0), memory.used), ([300, 200], 300));
        // Headroom is apart from the pool.
        assert_eq!(memory.pool, 600);
        // The other input is not concerned.
        assert_eq!(memory.admit(through(1, 1), 0, 100), Held);
        // Headroom empties first, then what is shared, down to xon.
        let goes_on = [(); 4].map(|()| memory.release(through(0, 1), 0, 100));
        assert_eq!(goes_on, [false, false, false, true]);
        assert_eq!(held_from(&memory, 0), [100, 0]);
        assert!(!memory.release(through(0, 1), 0, 100));
    }

    /// Two inputs share 1200 bytes with alpha = 1: each pauses when it holds a third, which it
    /// never exceeds but by its headroom.
    #[test]
    fn a_dynamic_threshold_falls_with_what_is_free() {
        let alpha = Factor::new(1.0).expect("a factor");
        let classes = [lossless(PauseThreshold::Dynamic { alpha, below: Bytes(100) })];
        let (memory, headroom) = (Bytes(1600), vec![Bytes(200); 2]);
        let mut memory = Memory::new(MemoryParts { memory, ports: 2, classes: &classes, headroom });
        let mut came = Vec::new();
        for _ in 0..5 {
            came.push([0, 1].map(|input| memory.admit(through(input, 0), 0, 100)));
        }
        assert!(came[..4].iter().flatten().all(|own| *own == Admission::Held), "{came:?}");
        assert_eq!(came[4], [Admission::Pauses; 2]);
        assert_eq!([0, 1].map(|input| held_from(&memory, input)), [[400, 100]; 2]);
        // One goes on when it holds 300 and 500 are free: the headroom is empty and 300 + 100 fits.
        assert!(!memory.release(through(0, 0), 0, 100) && memory.release(through(0, 0), 0, 100));
    }
}
