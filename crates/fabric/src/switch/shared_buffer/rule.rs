//! What all ports of a switch have, and how long packets take on a kind of link.

use std::hint::select_unpredictable;

use weft_kernel::Stream;
use weft_units::{Bytes, Span};

use super::marks::at_departure;
use super::memory::Memory;
use super::ports::SwitchRule;
use super::settings::{ClassSettings, EcnLaw, EcnSettings, MarkAt, TrimSettings};
use super::turns::Sharing;
use super::{MOST_CLASSES, PAUSE_FRAME};
use crate::link::LinkSettings;

/// What all ports of a switch have, or all hosts: first what every packet reads, in as few lines of the
/// cache as that takes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Rule {
    pub first: u32,
    pub most: u32,
    /// Inputs and classes of the memory that pause their cables: while there are any, it matters
    /// when exactly packets leave.
    pub pausing: u32,
    /// How many ports there are, and whether they get an event for every departure.
    pub ports: u32,
    pub tells_all: bool,
    pub is_fifo: bool,
    /// Begins with the lines of the cache that this begins with.
    pub memory: Option<Memory>,
    /// By queue: up to how many waiting bytes departures may be planned. Until then packets leave the
    /// port in the order in which they come if no other queue has any, and nothing is decided about
    /// them when they do. Zero if none is planned.
    pub plannable: [u64; MOST_CLASSES],
    pub ecn: [Option<EcnSettings>; MOST_CLASSES],
    pub latency: Span,
    pub sharing: Sharing,
    pub trim: [Option<TrimSettings>; MOST_CLASSES],
    pub random: Option<Stream>,
}

/// A kind of link, with what it does to the sizes that nearly all packets have.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub settings: LinkSettings,
    pub packet: (u32, Span),
    pub small: Span,
    /// The last other size that was [noted](Self::note_span): mostly that of acknowledgments.
    noted: (u32, Span),
}

impl Link {
    /// A link whose packets have `size` bytes at the most.
    pub fn new(settings: LinkSettings, size: u32) -> Link {
        Link {
            packet: (size, settings.span(Bytes(size.into()))),
            small: settings.span(PAUSE_FRAME),
            noted: (0, settings.span(Bytes(0))),
            settings,
        }
    }

    #[inline]
    pub fn span(&self, size: u32) -> Span {
        self.known(size).unwrap_or_else(|| self.span_of_other(size))
    }

    /// How long a packet of one of the two most frequent sizes takes. Which of them one has is a branch that would often
    /// be guessed wrong.
    #[inline(always)]
    fn known(&self, size: u32) -> Option<Span> {
        let (is_packet, is_noted) = (size == self.packet.0, size == self.noted.0);
        let span = select_unpredictable(is_packet, self.packet.1, self.noted.1);
        (is_packet | is_noted).then_some(span)
    }

    #[inline(never)]
    fn span_of_other(&self, size: u32) -> Span {
        match size {
            64 => self.small,
            _ => self.settings.span(Bytes(size.into())),
        }
    }

    /// The same, which is known from then on until another size is noted.
    #[inline(always)]
    pub fn note_span(&mut self, size: u32) -> Span {
        if let Some(span) = self.known(size) {
            return span;
        }
        self.noted = (size, self.span_of_other(size));
        self.noted.1
    }
}

// The rules of the memory begin the second line.
const _: () = assert!(std::mem::offset_of!(Rule, memory) + Memory::BEFORE_RULES == 64);

impl Rule {
    /// What `ports` ports have, from the first one on.
    pub fn new(first: u32, ports: u32, sharing: Sharing, own: Option<SwitchRule>) -> Rule {
        let mut rule = Rule {
            first,
            ports,
            tells_all: own.as_ref().is_some_and(|own| own.classes.iter().any(at_departure)),
            pausing: 0,
            plannable: [0; MOST_CLASSES],
            latency: Span::ZERO,
            is_fifo: false,
            most: u32::MAX,
            sharing,
            ecn: [const { None }; MOST_CLASSES],
            trim: [None; MOST_CLASSES],
            memory: None,
            random: None,
        };
        let Some(own) = own else { return rule };
        for (class, settings) in own.classes.iter().enumerate().take(MOST_CLASSES) {
            rule.ecn[class].clone_from(&settings.ecn);
            rule.trim[class] = settings.trim;
        }
        rule.is_fifo = own.classes.is_empty();
        let (latency, most, memory, random) = (own.latency, own.most, own.memory, Some(own.random));
        Rule { latency, most, memory, random, ..rule }
    }
}

impl Rule {
    /// The queue that packets of a class wait in.
    #[inline]
    pub fn queue_of(&self, class: u8) -> usize {
        if self.is_fifo { 0 } else { usize::from(class) }
    }

    /// Lets ports plan when packets leave, as far as that follows from when they come.
    pub fn let_plan(&mut self) {
        if self.tells_all {
            return;
        }
        for (most, ecn) in self.plannable.iter_mut().zip(&self.ecn) {
            *most = match ecn {
                // Up to there no packet is marked by what waits behind it, and nothing is drawn.
                Some(own) if own.at == MarkAt::Dequeue => match &own.law {
                    EcnLaw::Step { threshold } => threshold.0,
                    EcnLaw::Red { kmin, .. } => kmin.0,
                },
                _ => u64::MAX,
            };
        }
    }

    /// The same of a switch that is elsewhere.
    pub fn without_memory(&self) -> Rule {
        let Rule { first, ports, tells_all, latency, is_fifo, most, sharing, trim, .. } = *self;
        let (ecn, memory, random, pausing) = (self.ecn.clone(), None, None, 0);
        Rule {
            first,
            ports,
            tells_all,
            latency,
            is_fifo,
            most,
            sharing,
            ecn,
            trim,
            memory,
            random,
            pausing,
            plannable: [0; MOST_CLASSES],
        }
    }
}

/// The longest response that any class of a switch counts on.
pub(super) fn response(rule: &SwitchRule) -> Span {
    let of_class = |own: &ClassSettings| own.pfc.as_ref().map_or(Span::ZERO, |pfc| pfc.response);
    rule.classes.iter().map(of_class).max().unwrap_or(Span::ZERO)
}
