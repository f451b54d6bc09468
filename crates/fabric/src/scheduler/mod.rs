//! Crossbar schedulers: from the requests of inputs for outputs to a matching, once a slot.
//!
//! One file per algorithm. A new one is a file with a settings type that implements `Algorithm`
//! and a line in the list at the foot of this file; with it the scheduler stands in the schema and
//! in the conformance suite (`tests/scheduler_conformance.rs`).

mod arbiter;
mod diagonal;
mod islip;
mod iterations;
mod least_choice_first;
mod least_choice_first_distributed;
mod matching;
mod maximum_matching;
mod pim;
mod ports;
mod random_maximal;
mod requests;
mod tally;
mod wavefront;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

pub use arbiter::{Arbiter, Matcher};
pub use islip::{Islip, IslipSettings};
pub use iterations::Iterations;
pub use least_choice_first::{Counts, LeastChoiceFirst, LeastChoiceFirstSettings, Ties};
pub use least_choice_first_distributed::{
    LeastChoiceFirstDistributed, LeastChoiceFirstDistributedSettings,
};
pub use matching::Matching;
pub use maximum_matching::{MaximumMatching, MaximumMatchingSettings, Order};
pub use pim::{Pim, PimSettings};
pub use ports::{Members, PortSet};
pub use random_maximal::{RandomMaximal, RandomMaximalSettings};
pub use requests::Requests;
pub use wavefront::{Wavefront, WavefrontSettings};

/// The largest switch.
pub const MAX_PORTS: usize = 1024;

/// An algorithm that decides, slot by slot, which initiator sends to which target, among up to
/// 64 `W` ports.
pub trait Scheduler<const W: usize = 1> {
    /// Replaces `matching` by the connections of the next slot: a subset of `requests` in which no
    /// initiator and no target occurs twice. All three are of the size that the scheduler was
    /// built for. Only algorithms that say so draw from `random`.
    fn schedule(&mut self, requests: &Requests<W>, random: &mut Stream, matching: &mut Matching<W>);

    /// What [`schedule`](Self::schedule) does when there is this request alone, which every
    /// algorithm lets through. Returns whether that is done; false without any effect if it takes
    /// the whole algorithm. A switch of a fabric that is not crowded has most often one request.
    fn schedule_lone(&mut self, _initiator: usize, _target: usize) -> bool {
        false
    }

    /// Prefetches what [`schedule`](Self::schedule) reads. Without any effect on results.
    fn prefetch(&self, _random: &Stream) {}
}

/// Why a scheduler cannot be built or described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerError {
    /// The number of ports does not fit.
    #[error("a scheduler for {ports} ports: accepted is 1 to {most}")]
    Ports {
        /// The number asked for.
        ports: usize,
        /// The largest that is accepted.
        most: usize,
    },
    /// The number of iterations is out of range.
    #[error("iterations = {iterations}: accepted is 1 to {MAX_PORTS}")]
    Iterations {
        /// The number asked for.
        iterations: u32,
    },
}

/// What the settings of an algorithm tell: how to build it, and what it promises.
trait Algorithm: Sized {
    /// The algorithm with its state.
    type Scheduler<const W: usize>: Scheduler<W>;

    /// The scheduler in its first state; `ports` is 1 to [`PortSet::MOST`].
    fn build<const W: usize>(&self, ports: usize) -> Self::Scheduler<W>;

    /// See [`SchedulerSettings::is_maximal`].
    fn is_maximal(&self) -> bool;

    /// See [`SchedulerSettings::serves_within`]; nothing is promised unless an algorithm says so.
    fn serves_within(&self, _ports: usize) -> Option<u64> {
        None
    }

    /// See [`SchedulerSettings::serves_unchanged_within`]; likewise.
    fn serves_unchanged_within(&self, _ports: usize) -> Option<u64> {
        None
    }

    /// See [`SchedulerSettings::variants`].
    fn variants() -> Vec<Self>;
}

/// Writes the settings, the schedulers and everything that must name each of them once, so that
/// no list can be forgotten.
macro_rules! schedulers {
    ($($(#[$doc:meta])* $key:literal => $name:ident($settings:ty, $scheduler:ident),)*) => {
        /// The choice of a scheduler, as it stands in a composition file.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        pub enum SchedulerSettings {
            $($(#[$doc])* #[serde(rename = $key)] $name($settings),)*
        }

        /// Any of the schedulers, without indirection.
        #[allow(clippy::large_enum_variant, reason = "one stands in a switch, and is not moved")]
        #[derive(Clone, Debug)]
        pub enum AnyScheduler<const W: usize = 1> {
            $($(#[$doc])* $name($scheduler<W>),)*
        }

        impl<const W: usize> Scheduler<W> for AnyScheduler<W> {
            #[inline]
            fn schedule(
                &mut self,
                requests: &Requests<W>,
                random: &mut Stream,
                matching: &mut Matching<W>,
            ) {
                match self {
                    $(AnyScheduler::$name(own) => own.schedule(requests, random, matching),)*
                }
            }

            #[inline]
            fn schedule_lone(&mut self, initiator: usize, target: usize) -> bool {
                match self {
                    $(AnyScheduler::$name(own) => own.schedule_lone(initiator, target),)*
                }
            }

            #[inline]
            fn prefetch(&self, random: &Stream) {
                match self { $(AnyScheduler::$name(own) => own.prefetch(random),)* }
            }
        }

        impl SchedulerSettings {
            /// Every algorithm with its default settings, by its name in files.
            pub fn all_defaults() -> Vec<(&'static str, SchedulerSettings)> {
                vec![$(($key, SchedulerSettings::$name(<$settings>::default())),)*]
            }

            /// Every algorithm in every combination of its choices, with few and with many
            /// iterations: what the conformance suite runs.
            pub fn variants() -> Vec<SchedulerSettings> {
                let mut variants = Vec::new();
                $(variants.extend(
                    <$settings>::variants().into_iter().map(SchedulerSettings::$name),
                );)*
                variants
            }

            /// The name of the algorithm in files.
            pub const fn name(&self) -> &'static str {
                match self { $(SchedulerSettings::$name(_) => $key,)* }
            }

            /// The scheduler in its first state.
            ///
            /// # Errors
            /// [`SchedulerError::Ports`] unless the switch has 1 to [`PortSet::MOST`] ports.
            pub fn build<const W: usize>(
                &self,
                ports: usize,
            ) -> Result<AnyScheduler<W>, SchedulerError> {
                let most = PortSet::<W>::MOST;
                if !(1..=most).contains(&ports) {
                    return Err(SchedulerError::Ports { ports, most });
                }
                Ok(match self {
                    $(SchedulerSettings::$name(own) => AnyScheduler::$name(own.build(ports)),)*
                })
            }

            /// Whether no request is left whose initiator and target are both without connection.
            pub fn is_maximal(&self) -> bool {
                match self { $(SchedulerSettings::$name(own) => own.is_maximal(),)* }
            }

            /// The number of slots within which a standing request is served, whatever the other
            /// requests do; `None` if they can starve it.
            pub fn serves_within(&self, ports: usize) -> Option<u64> {
                match self { $(SchedulerSettings::$name(own) => own.serves_within(ports),)* }
            }

            /// The number of slots within which every request is served while the requests do not
            /// change; `None` if starvation is possible even then, or if only chance serves a
            /// request.
            pub fn serves_unchanged_within(&self, ports: usize) -> Option<u64> {
                match self {
                    $(SchedulerSettings::$name(own) => own.serves_unchanged_within(ports),)*
                }
            }
        }
    };
}

schedulers! {
    /// Least choice first, central: targets in turn, each to the initiator with the fewest choices.
    "least_choice_first" => LeastChoiceFirst(LeastChoiceFirstSettings, LeastChoiceFirst),
    /// Least choice first, distributed: rounds of request, grant and accept.
    "least_choice_first_distributed" => LeastChoiceFirstDistributed(
        LeastChoiceFirstDistributedSettings, LeastChoiceFirstDistributed
    ),
    /// iSLIP: rounds with round-robin pointers.
    "islip" => Islip(IslipSettings, Islip),
    /// Parallel iterative matching: rounds with random choices.
    "pim" => Pim(PimSettings, Pim),
    /// Wrapped wavefront: the diagonals of the request matrix, one after another.
    "wavefront" => Wavefront(WavefrontSettings, Wavefront),
    /// Maximum-size matching: as many connections as possible.
    "maximum_matching" => MaximumMatching(MaximumMatchingSettings, MaximumMatching),
    /// Random maximal matching: greedy in random order.
    "random_maximal" => RandomMaximal(RandomMaximalSettings, RandomMaximal),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct Switch {
        scheduler: SchedulerSettings,
    }

    fn refusal(file: &str) -> String {
        toml::from_str::<Switch>(file).unwrap_err().message().to_string()
    }

    #[test]
    fn every_variant_survives_a_file() {
        for scheduler in SchedulerSettings::variants() {
            let switch = Switch { scheduler };
            let file = toml::to_string(&switch).unwrap();
            assert!(file.contains(switch.scheduler.name()), "{file}");
            assert_eq!(toml::from_str::<Switch>(&file).unwrap(), switch, "{file}");
        }
    }

    #[test]
    fn what_a_file_leaves_out_is_default() {
        for (name, scheduler) in SchedulerSettings::all_defaults() {
            let file = format!("[scheduler.{name}]");
            assert_eq!(toml::from_str::<Switch>(&file).unwrap(), Switch { scheduler });
        }
    }

    #[test]
    fn wrong_settings_are_refused_with_what_is_accepted() {
        assert_eq!(
            refusal("[scheduler.islip]\niterations = 0"),
            "iterations = 0: accepted is 1 to 1024"
        );
        assert_eq!(
            refusal("[scheduler.wavefront]\niterations = 4"),
            "unknown field `iterations`, there are no fields"
        );
        assert_eq!(
            refusal("scheduler.least_choice_first.ties = 'high'"),
            "unknown variant `high`, expected one of `rotating`, `random`, `lowest`"
        );
    }

    #[test]
    fn a_switch_too_small_or_too_large_is_refused() {
        for (_, settings) in SchedulerSettings::all_defaults() {
            for ports in [0, 65] {
                let refused = settings.build::<1>(ports).map(drop);
                assert_eq!(refused, Err(SchedulerError::Ports { ports, most: 64 }));
            }
            for ports in [0, 1025] {
                let refused = settings.arbiter(ports).map(drop);
                assert_eq!(refused, Err(SchedulerError::Ports { ports, most: MAX_PORTS }));
            }
        }
    }

    #[test]
    fn the_schema_states_the_range_of_iterations() {
        let schema = schemars::schema_for!(Iterations);
        assert_eq!(schema.get("minimum").and_then(|value| value.as_u64()), Some(1));
        assert_eq!(schema.get("maximum").and_then(|value| value.as_u64()), Some(1024));
    }
}
