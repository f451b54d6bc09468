//! Runs that several processes make together, the ranks of `mpirun -n 4 weft run`.
//!
//! Rank 0 reads the file, plans, observes and has the result; the others know nothing but what it orders: for
//! each channel that is divided the point and the seed, as text. So files are read, and what is wrong with them
//! is said, once. What cannot be divided rank 0 simulates alone, while the others wait.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_fabric::workload::WorkloadSettings;
use weft_kernel::{Halt, Streams};
use weft_units::Time;

use crate::assemble::{Driver, Site};
use crate::composition::{ChannelSettings, Spec};
use crate::drive::Channel;
use crate::drive::engine::Alone;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::job::{CODE, Job};
use crate::spec::Tree;

/// The ranks of a run.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    pub exchange: Arc<dyn Exchange>,
    pub even_if_slower: bool,
}

/// A channel that all ranks are to simulate together.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    job: Job,
    channel: String,
    /// In picoseconds, as all times here.
    from: u64,
    until: u64,
    trace: bool,
    even_if_slower: bool,
}

impl Ranks {
    /// Divides a channel of a point among the ranks, if that may be and is worth it; nothing has run then.
    ///
    /// # Errors
    /// What is wrong with the composition.
    pub fn divide(
        &self,
        spec: &Spec,
        settings: &ChannelSettings,
        workload: &WorkloadSettings,
        site: Site<'_>,
        seed: u64,
    ) -> Result<Result<Driver, Alone>, Error> {
        if spec.run.step_limit.is_some() {
            return Ok(Err(Alone::StepLimit));
        }
        let driver = match Driver::of_rank(settings, workload, site, self)? {
            Ok(driver) => driver,
            Err(why) => return Ok(Err(why)),
        };
        let order = Order {
            job: Job::new(spec, seed),
            channel: site.name.to_owned(),
            from: site.from.0,
            until: site.until.0,
            trace: spec.run.trace,
            even_if_slower: self.even_if_slower,
        };
        let text = serde_json::to_vec(&order)
            .map_err(|error| Error::Job { problem: error.to_string() })?;
        give_all(&*self.exchange, &text);
        Ok(Ok(driver))
    }
}

/// Rank 0 gives the same to all others.
fn give_all(exchange: &dyn Exchange, text: &[u8]) {
    let to = |rank| if rank == 0 { Vec::new() } else { text.to_vec() };
    let mut given: Vec<Vec<u8>> = (0..exchange.ranks()).map(to).collect();
    exchange.exchange(&mut given, &mut |_, _| {});
}

/// What a rank other than 0 does: simulates its part of every channel that rank 0 divides, until rank 0
/// [dismisses](dismiss) it.
///
/// # Errors
/// [`Error::OtherCode`] if rank 0 is another version; [`Error::Spec`] if its orders cannot be read.
pub fn follow(exchange: &Arc<dyn Exchange>) -> Result<(), Error> {
    let mut given = vec![Vec::new(); exchange.ranks() as usize];
    loop {
        let mut text = Vec::new();
        exchange.exchange(&mut given, &mut |from, bytes| {
            if from == 0 {
                text.extend_from_slice(bytes);
            }
        });
        if text.is_empty() {
            return Ok(());
        }
        let order: Order = Tree::from_written("orders", &String::from_utf8_lossy(&text))?.read()?;
        order.carry_out(exchange)?;
    }
}

/// Rank 0 lets the others go: to be called once, when it is through with all runs or has found something wrong.
pub fn dismiss(exchange: &Arc<dyn Exchange>) {
    give_all(&**exchange, &[]);
}

impl Order {
    fn carry_out(self, exchange: &Arc<dyn Exchange>) -> Result<(), Error> {
        let Order { job: Job { code, spec, seed }, channel, .. } = self;
        if code != CODE {
            return Err(Error::OtherCode { asked: code, own: CODE });
        }
        let unknown = || Error::Job { problem: format!("there is no channel {channel}") };
        let settings = spec.channel.get(&channel).ok_or_else(unknown)?;
        let workload = spec.workload.get(&channel).ok_or_else(unknown)?;
        let streams = Streams::new(seed);
        let (from, until) = (Time(self.from), Time(self.until));
        let (hosts, sample) = (spec.system.hosts, spec.run.sample);
        let site = Site { name: &channel, hosts, streams: &streams, from, until, sample };
        let ranks = Ranks { exchange: Arc::clone(exchange), even_if_slower: self.even_if_slower };
        let mut driver = Driver::of_rank(settings, workload, site, &ranks)?
            .map_err(|why| Error::Job { problem: why.to_string() })?;
        if self.trace {
            driver.record_trace();
        }
        // Rank 0 decides when it ends.
        driver.run(until, &Halt::new());
        Ok(())
    }
}
