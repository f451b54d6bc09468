//! What fast-forward skipped in a run, and what proves that results are unchanged.

use weft_units::Time;

use crate::simulate::ChannelRun;

/// How much was skipped, if that was requested.
pub(super) fn counts(run: &ChannelRun) -> Vec<(String, f64)> {
    let Some(own) = &run.forwarded else { return Vec::new() };
    vec![
        ("skipped_periods".to_owned(), own.periods as f64),
        ("skipped_packets".to_owned(), own.packets as f64),
        ("skipped_us".to_owned(), own.time.as_us()),
    ]
}

/// Says how much was skipped and how much of the state was compared for that, or what prevents
/// skipping; `None` if it was not requested.
pub(super) fn sentence(run: &ChannelRun) -> Option<String> {
    let own = run.forwarded.as_ref()?;
    let all = run.until.since(Time::ZERO).as_us();
    Some(match &own.forbidden {
        Some(why) => format!("fast-forward left nothing out, because of {why}"),
        None if own.jumps == 0 => {
            "fast-forward left nothing out: no state came back in time for a jump".to_owned()
        }
        None => format!(
            "fast-forward left out {} periods in {} jumps, {:.2} % of the time and {} of {} packets; before each \
             jump all of the state, up to {} events, ports and messages, was what it had been a period before",
            own.periods,
            own.jumps,
            own.time.as_us() / all * 100.0,
            own.packets,
            run.observations.delivered,
            own.compared,
        ),
    })
}
