//! The settings of a switch with a shared buffer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::misfit::Misfit;
use weft_units::{Bytes, Factor, Fraction, PositiveCount, Span};

use super::MOST_CLASSES;

/// Settings of a switch whose ports share a memory of so many bytes, with a queue for each port and
/// traffic class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedBufferSettings {
    /// From an input to the queue of an output.
    #[serde(default)]
    pub latency: Span,
    /// When a packet may leave.
    #[serde(default)]
    pub forwarding: SwitchForwarding,
    /// The memory that all ports share.
    pub memory: Bytes,
    /// The traffic classes by number, 0 to 7. A class that is not listed shares the cable by weight
    /// 1 and the memory by a dynamic threshold with alpha 1, and loses what finds its queue full.
    #[serde(default)]
    pub classes: BTreeMap<String, ClassSettings>,
}

/// When a packet may leave a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwitchForwarding {
    /// As soon as its header has arrived, unless the outgoing link is faster than the incoming one.
    /// Then the packet waits until that link will not run dry.
    #[default]
    CutThrough,
    /// When its last byte has arrived.
    StoreAndForward,
}

/// A traffic class at a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassSettings {
    /// Its share of a cable.
    #[serde(default)]
    pub schedule: ScheduleSettings,
    /// How much of the memory the queue of a port may hold. For classes without `pfc` and
    /// `credits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<QueueLimit>,
    /// What the queue of each port has for itself, besides what it shares. For classes without
    /// `pfc` and `credits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// The class loses nothing: an input whose packets hold too much pauses its cable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc: Option<PfcSettings>,
    /// The class loses nothing: each input has a buffer of so many bytes for it, apart from what is
    /// shared, and the far end of its cable sends what that has room for (credits by virtual lane,
    /// as InfiniBand has them).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<Bytes>,
    /// Packets are marked when their queue is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnSettings>,
    /// A packet that finds its queue full is cut to its header. For classes without `pfc` and
    /// `credits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<TrimSettings>,
}

/// How classes share a cable. Strict ones go first, that with the highest number before the others;
/// what they leave is divided by weight (IEEE 802.1Q, 8.6.8: strict priority and enhanced
/// transmission selection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleSettings {
    /// Before all classes with a lower number, and all with a weight.
    Strict,
    /// By deficit round robin, with a quantum of this many times the largest packet (Shreedhar and
    /// Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995).
    Weight(PositiveCount),
}

impl Default for ScheduleSettings {
    fn default() -> ScheduleSettings {
        ScheduleSettings::Weight(PositiveCount::ONE)
    }
}

/// How much of the shared memory one queue may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// This factor times the free part of the shared memory (Choudhury and Hahne, "Dynamic queue
    /// length thresholds for shared-memory packet switches", IEEE/ACM Trans. Netw. 6(2) 1998).
    Alpha(Factor),
    /// A fixed number of bytes.
    Bytes(Bytes),
}

/// Priority flow control of a class (IEEE 802.1Qbb).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfcSettings {
    /// When an input pauses its cable, and when it lets it go on.
    pub threshold: PauseThreshold,
    /// The space that each input reserves for packets that still arrive after a pause. If absent,
    /// what the cable (rate, length), the largest packet, `response` and the latency of the switch
    /// need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Bytes>,
    /// From the last byte of a pause at the far end to the instant from which on nothing more of
    /// the class begins there. A frame speaks of all classes: the longest response of them counts.
    #[serde(default)]
    pub response: Span,
}

/// When an input pauses a class of its cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseThreshold {
    /// At a number of bytes.
    Static {
        /// What an input holds of the class without pausing it.
        xoff: Bytes,
        /// At which it lets the class resume.
        xon: Bytes,
    },
    /// At a share of what is free.
    Dynamic {
        /// What an input may hold of the class without pausing it, as a multiple of the free part
        /// of the shared memory.
        alpha: Factor,
        /// How far below that it lets the class resume.
        below: Bytes,
    },
}

/// When packets are marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EcnSettings {
    /// When the length of the queue is taken.
    pub at: MarkAt,
    /// How the mark depends on it.
    pub law: EcnLaw,
}

/// When a packet is marked: by the bytes of its class that wait at its output, without the packet
/// that is being sent and without itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkAt {
    /// When it joins its queue: by what is before it.
    Enqueue,
    /// When it leaves its queue, as its first byte is sent: by what it leaves behind.
    Dequeue,
    /// When its last byte has left: by what waits then, with all that came while it was sent.
    /// Simulators that hand on whole packets mark so (htsim's composite queue); a switch has sent
    /// the header by then.
    Departure,
}

/// How a mark depends on the length of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EcnLaw {
    /// Always where more waits than `threshold` (the K of Alizadeh et al., "Data center TCP
    /// (DCTCP)", SIGCOMM 2010).
    Step {
        /// What may wait without a mark.
        threshold: Bytes,
    },
    /// With a probability that grows from 0 at `kmin` to `pmax` at `kmax`, and always above (random
    /// early detection by the instantaneous length, as in Zhu et al., "Congestion control for
    /// large-scale RDMA deployments", SIGCOMM 2015).
    Red {
        /// At which marks begin.
        kmin: Bytes,
        /// At which the probability is `pmax`.
        kmax: Bytes,
        /// The probability there.
        pmax: Fraction,
    },
}

/// What becomes of a packet that is trimmed to its header (Handley et al., "Re-architecting
/// datacenter networks and stacks for low latency and high performance", SIGCOMM 2017; Ultra
/// Ethernet 1.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrimSettings {
    /// The size of the trimmed packet on the wire.
    pub header: Bytes,
    /// Its class from then on.
    pub class: u8,
}

impl SharedBufferSettings {
    /// The settings of each class, by number, up to the highest that is listed or that trimmed
    /// packets have. An error names the key below `shared_buffer`, its value and what is accepted.
    pub fn by_class(&self) -> Result<Vec<ClassSettings>, Misfit> {
        let accepted = format!("a class in 0..={}", MOST_CLASSES - 1);
        let mut classes = vec![ClassSettings::default()];
        for (name, own) in &self.classes {
            let number = name.parse().ok().filter(|number: &usize| *number < MOST_CLASSES);
            let Some(number) = number.filter(|number| number.to_string() == *name) else {
                return Err(Misfit::new(format!("classes.{name}"), "given", accepted));
            };
            let last = own.trim.map_or(number, |trim| number.max(usize::from(trim.class)));
            if last >= MOST_CLASSES {
                let key = format!("classes.{name}.trim.class");
                return Err(Misfit::new(key, last, accepted));
            }
            if classes.len() <= last {
                classes.resize(last + 1, ClassSettings::default());
            }
            classes[number] = own.clone();
        }
        for (number, own) in classes.iter().enumerate() {
            own.check(number, &classes)
                .map_err(|misfit| misfit.under(format_args!("classes.{number}")))?;
        }
        Ok(classes)
    }
}

impl ClassSettings {
    /// Whether packets of the class are held back and not lost.
    pub const fn loses_nothing(&self) -> bool {
        self.pfc.is_some() || self.credits.is_some()
    }

    fn check(&self, number: usize, classes: &[ClassSettings]) -> Result<(), Misfit> {
        let unread = [
            ("limit", self.limit.is_some()),
            ("reserved", self.reserved.is_some()),
            ("trim", self.trim.is_some()),
        ];
        let given = unread.iter().find(|(_, given)| *given);
        if self.pfc.is_some() && self.credits.is_some() {
            let accepted = "pfc or credits, either of which loses nothing";
            return Err(Misfit::new("credits", "given", accepted));
        }
        let lossless = match self.pfc {
            Some(_) => "pfc",
            None => "credits",
        };
        if let (true, Some((key, _))) = (self.loses_nothing(), given) {
            let accepted = format!(
                "no {key} beside {lossless}, which loses nothing: what the class holds is bounded \
                 by where it came from, and no queue is ever full"
            );
            return Err(Misfit::new(*key, "given", accepted));
        }
        if let Some(QueueLimit::Alpha(alpha)) = self.limit
            && alpha.get() == 0.0
        {
            let accepted = "more than 0, with which no queue holds anything";
            return Err(Misfit::new("limit.alpha", alpha, accepted));
        }
        if let Some(pfc) = &self.pfc {
            pfc.check()?;
        }
        if let Some(EcnSettings { law: EcnLaw::Red { kmin, kmax, .. }, .. }) = &self.ecn
            && kmin >= kmax
        {
            let accepted = format!("less than kmax, {kmax}");
            return Err(Misfit::new("ecn.law.red.kmin", kmin, accepted));
        }
        if let Some(trim) = self.trim {
            let of_header = &classes[usize::from(trim.class)];
            if usize::from(trim.class) == number || of_header.trim.is_some() {
                let accepted = "another class, which is not trimmed itself";
                return Err(Misfit::new("trim.class", trim.class, accepted));
            }
            if of_header.loses_nothing() {
                let accepted = "a class without pfc or credits: headers replace packets that found \
                                no room, and no headroom is kept for them";
                return Err(Misfit::new("trim.class", trim.class, accepted));
            }
        }
        Ok(())
    }
}

impl PfcSettings {
    fn check(&self) -> Result<(), Misfit> {
        match &self.threshold {
            PauseThreshold::Static { xoff, xon } if xon > xoff => {
                let accepted = format!("at most xoff, {xoff}");
                Err(Misfit::new("pfc.threshold.static.xon", xon, accepted))
            }
            PauseThreshold::Dynamic { alpha, .. } if alpha.get() == 0.0 => {
                let accepted = "more than 0, with which an input pauses its cable for every packet";
                let key = "pfc.threshold.dynamic.alpha";
                Err(Misfit::new(key, alpha, accepted))
            }
            _ => Ok(()),
        }
    }
}
