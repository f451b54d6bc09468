//! A scheduler in the place of request sampling.

use weft_kernel::Stream;

use super::request_sampling::Sampled;
use crate::scheduler::{Matcher, Matching, Scheduler, SchedulerError, SchedulerSettings};

/// One scheduler for all outputs of a hub, and what it draws from.
#[derive(Debug)]
pub struct HubScheduler {
    matcher: Matcher<1>,
    random: Stream,
}

impl HubScheduler {
    /// A scheduler in its first state.
    ///
    /// # Errors
    /// [`SchedulerError::Ports`] unless the hub has 1 to [`MAX_HUB_PORTS`](super::MAX_HUB_PORTS)
    /// ports.
    pub fn new(
        settings: &SchedulerSettings,
        ports: usize,
        random: Stream,
    ) -> Result<HubScheduler, SchedulerError> {
        Ok(HubScheduler { matcher: Matcher::new(settings, ports)?, random })
    }

    /// Which inputs send to the outputs of `ready`, a bit each, among the requests of these outputs. No
    /// output may be ready that has none: a decision without requests would move the priorities of a
    /// scheduler on for nothing.
    pub(in crate::switch) fn decide(
        &mut self,
        ready: u64,
        requests: impl Fn(usize) -> Sampled,
    ) -> &Matching<1> {
        let Matcher { scheduler, requests: asked, matching } = &mut self.matcher;
        asked.clear_all();
        for output in (0..64).filter(|output| ready >> output & 1 == 1) {
            requests(output).inputs().for_each(|input| asked.set(input, output));
        }
        scheduler.schedule(asked, &mut self.random, matching);
        matching
    }
}
