//! Whether the mean of a run means anything: the verdict.

use std::fmt;

use serde::{Deserialize, Serialize};
use weft_fabric::measure::Progress;

use weft_units::Span;

use super::{BATCHES, Estimate, WarmUp};

/// Growth of the backlog, in standard errors, above which it is not chance.
const GROWS: f64 = 3.0;

/// Growth of the backlog, in standard errors, up to which it is.
const STANDS: f64 = 2.0;

/// A run reports that something is stalled only if it watched for this many times the latency of
/// a packet in an empty network.
const PATIENCE: u64 = 100;

/// What became of a run, the worst last. Only a settled run has a mean that does not depend on its
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The backlog is stable: what is offered is accepted (or given up by a stated rule).
    Settled,
    /// Too few packets arrived to tell: fewer than an interval has batches, while others are in
    /// flight.
    TooShort,
    /// It may settle and has not yet: the backlog or the latency still rises at the end, but not
    /// so steadily that the load is certainly beyond the limit.
    Transient,
    /// The backlog grows without end: the offered load is beyond the limit.
    Saturated,
    /// Some hosts have packets in flight, none of which arrived in the second half of the run,
    /// while those of other hosts did.
    PartlyStuck,
    /// Packets wait, and nothing was delivered in the second half of the run.
    Stuck,
    /// Flows had no route left to their targets when the run ended, as cables had failed.
    Unreachable,
    /// The run was stopped from outside before its end.
    Stopped,
}

impl Verdict {
    /// Whether something is stalled, so that what arrived before says nothing about a latency.
    pub const fn is_stuck(self) -> bool {
        matches!(self, Verdict::PartlyStuck | Verdict::Stuck)
    }

    /// Whether the result says what waits for what.
    pub const fn names_who_waits(self) -> bool {
        self.is_stuck() || matches!(self, Verdict::Unreachable)
    }

    /// The name in columns.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Settled => "settled",
            Verdict::TooShort => "too short",
            Verdict::Transient => "transient",
            Verdict::Saturated => "saturated",
            Verdict::PartlyStuck => "partly stuck",
            Verdict::Stuck => "stuck",
            Verdict::Unreachable => "unreachable",
            Verdict::Stopped => "stopped",
        }
    }
}

/// How a run ended, in addition to its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Whether it was stopped from outside.
    pub stopped: bool,
    /// How many hosts have packets in flight, none of which arrived in the second half.
    pub standing: usize,
    /// How many flows had no route left to their targets.
    pub unreachable: u64,
    /// The least latency of a packet in an empty network.
    pub unloaded: Span,
}

/// A verdict and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Packets generated in the measured window.
    pub offered: u64,
    /// Packets delivered in the measured window.
    pub accepted: u64,
    /// Packets neither delivered nor given up at the end.
    pub backlog: u64,
    /// Growth of the backlog over the second half of the window, in packets.
    pub growth: i64,
    /// That growth divided by the standard error that chance alone would give it.
    pub significance: f64,
}

impl Judgement {
    /// A mean as it may be shown: with the verdict and the backlog if the run did not settle, since
    /// it then depends on the length of the run.
    pub fn show(&self, estimate: &Estimate) -> String {
        let Estimate { mean, half_width_95, .. } = estimate;
        let mean = match half_width_95 {
            Some(half_width) => format!("{mean:.4} ± {half_width:.4}"),
            None => format!("{mean:.4}"),
        };
        match self.verdict {
            Verdict::Settled => mean,
            verdict => format!("{mean} ({verdict}, backlog {})", self.backlog),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Judges a run by the counters at equal steps of its measured window (`Observations::progress`), by
/// how it ended, and by the warm-up found in the latency, if there is a series of it. The first rule
/// that applies:
///
/// 1. **stopped** if it was.
/// 2. **unreachable** if flows that had not ended had no route left.
/// 3. **stuck** if packets were waiting at the middle and none was delivered since, **partly stuck**
///    if that is so for some hosts: both only if the second half lasted a hundred times as long as a
///    packet takes through an empty network, and **too short** otherwise.
/// 4. **too short** if packets are under way and fewer than 32 arrived.
/// 5. **saturated** if the backlog grew over the second half by more than three standard errors and
///    not less than half as much as over the first: growth that slows down is that of a queue that
///    fills. The standard error is that of the sum of the growths of the single steps as if they
///    were independent. Those of a queue that never empties are, nearly; those of a settled queue
///    cancel out, so that the test errs to the safe side. It has no scale: one overloaded port of
///    many is seen as well as all of them.
/// 6. **transient** if it grew by more than two standard errors, if the latency has no end of its
///    warm-up in the first half, or if packets came and the window was never sampled.
/// 7. **settled** otherwise; also if nothing was offered.
///
/// A load that a stated rule sheds (a retry limit, an overflow without retransmission) leaves no
/// backlog: the latency of what is delivered settles, and the loss shows in `accepted`.
pub fn judge(progress: &[Progress], ending: Ending, warm_up: Option<WarmUp>) -> Judgement {
    let (first, last) = match progress {
        [first, .., last] => (*first, *last),
        [only] => (Progress { time: only.time, ..Progress::default() }, *only),
        [] => Default::default(),
    };
    let middle = progress.len() / 2;
    let backlogs: Vec<f64> = progress.iter().map(|sample| sample.backlog() as f64).collect();
    let Growth { packets: growth, significance } =
        growth(backlogs.get(middle..).unwrap_or_default());
    let earlier = growth_of(&backlogs[..progress.len().min(middle + 1)]);
    let settled_latency = warm_up.is_none_or(|warm_up| warm_up.found);
    let watched = progress.get(middle).map_or(Span::ZERO, |sample| last.time.since(sample.time));
    let is_patient = watched.0 / PATIENCE >= ending.unloaded.0;
    let left = (last.delivered + last.abandoned).saturating_sub(first.delivered + first.abandoned);
    let verdict = if ending.stopped {
        Verdict::Stopped
    } else if ending.unreachable > 0 {
        Verdict::Unreachable
    } else if progress.get(middle).is_some_and(|sample| is_stuck(sample, &last)) {
        if is_patient { Verdict::Stuck } else { Verdict::TooShort }
    } else if ending.standing > 0 && is_patient {
        Verdict::PartlyStuck
    } else if last.backlog() > 0 && left < BATCHES as u64 {
        Verdict::TooShort
    } else if significance > GROWS && growth >= earlier / 2.0 {
        Verdict::Saturated
    } else if significance > STANDS || !settled_latency || (middle < 2 && last.generated > 0) {
        Verdict::Transient
    } else {
        Verdict::Settled
    };
    Judgement {
        verdict,
        offered: last.generated.saturating_sub(first.generated),
        accepted: last.delivered.saturating_sub(first.delivered),
        backlog: last.backlog(),
        growth: growth as i64,
        significance,
    }
}

fn is_stuck(middle: &Progress, last: &Progress) -> bool {
    middle.time < last.time
        && middle.backlog() > 0
        && middle.delivered == last.delivered
        && middle.abandoned == last.abandoned
}

fn growth_of(backlogs: &[f64]) -> f64 {
    match backlogs {
        [first, .., last] => last - first,
        _ => 0.0,
    }
}

/// By how much a backlog grew.
struct Growth {
    /// From the first to the last, in packets.
    packets: f64,
    /// That growth divided by the standard error of a sum of independent steps.
    significance: f64,
}

fn growth(backlogs: &[f64]) -> Growth {
    let growth = growth_of(backlogs);
    let steps = backlogs.len().saturating_sub(1) as f64;
    if steps < 2.0 || growth <= 0.0 {
        return Growth { packets: growth, significance: 0.0 };
    }
    let mean = growth / steps;
    let deviations = backlogs.windows(2).map(|pair| pair[1] - pair[0] - mean);
    let variance = deviations.map(|deviation| deviation * deviation).sum::<f64>() / (steps - 1.0);
    // A backlog that grows by the same number at every step grows beyond any doubt; a number
    // instead of infinity, because not every table can hold one.
    let significance = growth / libm::sqrt(steps * variance);
    Growth { packets: growth, significance: significance.min(1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Time;

    /// Counters at 65 instants of a run that generates ten packets a step, with a given backlog.
    fn run(backlog: impl Fn(u64) -> u64) -> Vec<Progress> {
        let sample = |step| Progress {
            time: Time(step),
            generated: 10 * step + backlog(0),
            delivered: 10 * step + backlog(0) - backlog(step),
            abandoned: 0,
        };
        (0..65).map(sample).collect()
    }

    fn verdict(progress: &[Progress]) -> Verdict {
        judge(progress, Ending::default(), None).verdict
    }

    #[test]
    fn an_empty_run_is_settled() {
        assert_eq!(
            judge(&[Progress::default(); 65], Ending::default(), None).verdict,
            Verdict::Settled
        );
        assert_eq!(verdict(&[]), Verdict::Settled);
        assert_eq!(verdict(&[Progress::default()]), Verdict::Settled);
    }

    #[test]
    fn what_grows_to_the_end_is_saturated_and_what_stops_growing_is_not() {
        assert_eq!(verdict(&run(|step| 3 * step)), Verdict::Saturated);
        assert_eq!(verdict(&run(|step| 3 * step.min(20))), Verdict::Settled);
        assert_eq!(verdict(&run(|step| 3 * step.min(34))), Verdict::Settled);
        assert_eq!(verdict(&run(|step| 3 * step.min(40))), Verdict::Transient);
        assert_eq!(verdict(&run(|step| 5 + step % 4)), Verdict::Settled);
    }

    #[test]
    fn growth_that_slows_down_is_transient() {
        let filling = |step: u64| (100.0 * (1.0 - (-(step as f64) / 16.0).exp())) as u64;
        assert_eq!(verdict(&run(filling)), Verdict::Transient);
    }

    #[test]
    fn nothing_delivered_while_packets_wait_is_stuck() {
        let mut progress = run(|_| 3);
        for sample in &mut progress[20..] {
            (sample.generated, sample.delivered) = (210, 200);
        }
        assert_eq!(verdict(&progress), Verdict::Stuck);
        // The second half is 32 ps long: less than a hundred times a picosecond.
        let ended = Ending { unloaded: Span(1), ..Ending::default() };
        assert_eq!(judge(&progress, ended, None).verdict, Verdict::TooShort);
        assert_eq!(
            judge(&progress, Ending { stopped: true, ..ended }, None).verdict,
            Verdict::Stopped
        );
        // All delivered, and nothing more to do.
        progress[20..].iter_mut().for_each(|sample| sample.delivered = 210);
        assert_eq!(verdict(&progress), Verdict::Settled);
        // Nothing delivered, but given up by a stated rule.
        for (step, sample) in progress.iter_mut().enumerate() {
            *sample = Progress {
                time: Time(step as u64),
                generated: 10 * step as u64 + 1,
                delivered: 0,
                abandoned: 10 * step as u64,
            };
        }
        assert_eq!(verdict(&progress), Verdict::Settled);
    }

    #[test]
    fn flows_without_a_way_are_named_before_what_stands_still() {
        let ended = Ending { standing: 2, unreachable: 1, ..Ending::default() };
        assert_eq!(judge(&run(|_| 3), ended, None).verdict, Verdict::Unreachable);
        assert_eq!(judge(&run(|step| 3 * step), ended, None).verdict, Verdict::Unreachable);
        let ended = Ending { stopped: true, ..ended };
        assert_eq!(judge(&run(|_| 3), ended, None).verdict, Verdict::Stopped);
    }

    #[test]
    fn a_part_that_stands_still_is_named_before_the_rest_is_judged() {
        let ended = Ending { standing: 2, ..Ending::default() };
        assert_eq!(judge(&run(|_| 3), ended, None).verdict, Verdict::PartlyStuck);
        assert_eq!(judge(&run(|step| 3 * step), ended, None).verdict, Verdict::PartlyStuck);
        let ended = Ending { unloaded: Span(1), ..ended };
        assert_eq!(judge(&run(|_| 3), ended, None).verdict, Verdict::Settled);
    }

    /// 31 packets arrive while one is in flight, then 32; and 31 with none left.
    #[test]
    fn fewer_packets_than_an_interval_has_batches_prove_nothing() {
        let few = |arrived: u64, left: u64| {
            let sample = |step: u64| Progress {
                time: Time(step),
                generated: arrived * step / 64 + left,
                delivered: arrived * step / 64,
                abandoned: 0,
            };
            verdict(&(0..65).map(sample).collect::<Vec<_>>())
        };
        assert_eq!(few(31, 1), Verdict::TooShort);
        assert_eq!(few(32, 1), Verdict::Settled);
        assert_eq!(few(31, 0), Verdict::Settled);
    }

    #[test]
    fn a_latency_without_end_of_warm_up_is_transient() {
        let found = |found| Some(WarmUp { truncated: 0, found });
        assert_eq!(judge(&run(|_| 3), Ending::default(), found(true)).verdict, Verdict::Settled);
        assert_eq!(judge(&run(|_| 3), Ending::default(), found(false)).verdict, Verdict::Transient);
    }

    #[test]
    fn a_window_that_was_never_sampled_proves_nothing() {
        let end = Progress { generated: 9, delivered: 9, ..Progress::default() };
        assert_eq!(verdict(&[end]), Verdict::Transient);
    }

    #[test]
    fn a_mean_that_did_not_settle_says_so() {
        let estimate = Estimate {
            mean: 12.5,
            half_width_95: Some(0.25),
            batches: 32,
            truncated: 0,
            lag_1: 0.0,
        };
        let shown = judge(&run(|_| 3), Ending::default(), None).show(&estimate);
        assert_eq!(shown, "12.5000 ± 0.2500");
        let shown = judge(&run(|step| 3 * step), Ending::default(), None).show(&estimate);
        assert_eq!(shown, "12.5000 ± 0.2500 (saturated, backlog 192)");
    }
}
