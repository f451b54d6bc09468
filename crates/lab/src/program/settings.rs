//! Settings of the program that runs, and of the channels that its messages take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::{Halt, Streams};
use weft_protocol::misfit::Misfit;
use weft_units::{PositiveCount, Time};

use super::account::Account;
use super::background::ProgramChannel;
use super::library::{LibraryProgram, Metrics};
use super::machine::Machine;
use super::node::Crew;
use super::placement::{Placement, Shared, first_shared};
use super::policy::{Policy, Rule};
use super::tables::RankReport;
use crate::assemble::Site;
use crate::composition::Spec;
use crate::couple::program::{alone, both_in_use, halves, scheduled_with_carriers, with_partners};
use crate::drive::engine::FastForward;
use crate::error::{ABSENT, Error};
use crate::fit;
use crate::keys;
use crate::source::Request;
use crate::trace::play;
use crate::trace::settings::TraceSettings;

/// A program that the hosts run. It runs to its end, whatever `run.length` is; `run.step_limit` can
/// stop it. A workload of a channel that the program uses, or of one that acts together with such a
/// channel, is background traffic until the program or `run.length` ends. A workload of another
/// channel runs as long as the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramSettings {
    /// A program of the library. Give either this or `trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<LibraryProgram>,
    /// A recorded program, or a collective operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSettings>,
    /// The number of ranks; by default as many as `placement` lists, or as hosts have places for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<PositiveCount>,
    /// Which host each rank runs on: "block" (the first ranks on host 0, and so on) if not given,
    /// "cyclic" (round robin), "random", or `hosts = [...]` in order of the ranks.
    #[serde(default, skip_serializing_if = "Placement::is_block")]
    pub placement: Placement,
    /// The largest number of ranks on a host; by default one, or with a list of hosts as many as it
    /// says. Several ranks on a host need `system.memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_per_host: Option<PositiveCount>,
    /// The channel that all messages take. Optional if there is only one channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Rules instead of `channel`: a message takes the channel of the first rule that matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<Rule>,
}

/// The results of a program.
#[derive(Debug)]
pub struct ProgramRun {
    /// When it ended.
    pub end: Time,
    /// What it measured: name of the column, value.
    pub metrics: Metrics,
    /// What each rank did; interval by interval if `run.trace` is set.
    pub ranks: RankReport,
    /// The channels that could take its messages, with their names.
    pub channels: Vec<(String, ProgramChannel)>,
    /// What was skipped on each of them, if that was requested.
    pub forwarded: Vec<FastForward>,
}

/// Which channels the messages of a program can take, by name, and from which hosts.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a> {
    /// The channel of all messages.
    pub channel: Option<&'a str>,
    /// Rules in its place.
    pub route: &'a [Rule],
    /// Which host each rank runs on.
    pub placement: &'a Placement,
    /// How many ranks a host has at most.
    pub ranks_per_host: Option<PositiveCount>,
}

impl Ways<'_> {
    /// The rules as they are read, and the names of the channels that they name.
    fn rules(&self, spec: &Spec) -> Result<(Vec<Rule>, Vec<String>), Error> {
        let all: Vec<String> = spec.channel.keys().cloned().collect();
        let refuse = |key: &str, value: &str, accepted: String| {
            Err(Error::Assembly { key: key.to_owned(), value: value.to_owned(), accepted })
        };
        let one = |channel: &str| Rule {
            up_to: None,
            kind: None,
            nic: None,
            channel: channel.to_owned(),
        };
        let rules = match (self.channel, self.route, &all[..]) {
            (Some(_), [_, ..], _) => {
                let accepted = "it or program.channel, not both".to_owned();
                return refuse("program.route", "given", accepted);
            }
            (Some(channel), [], _) => vec![one(channel)],
            (None, [], [only]) => vec![one(only)],
            (None, [], _) => return refuse("program.channel", ABSENT, all.join(", ")),
            (None, route, _) => route.to_vec(),
        };
        let mut names = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            if !all.contains(&rule.channel) {
                let key = match self.route {
                    [] => "program.channel".to_owned(),
                    _ => format!("program.route[{number}].channel"),
                };
                return refuse(&key, &rule.channel, all.join(", "));
            }
            if !names.contains(&rule.channel) {
                names.push(rule.channel.clone());
            }
        }
        Ok((rules, names))
    }

    /// A machine of `ranks` on the channels of a composition, with the randomness of one seed.
    pub fn machine(
        &self,
        spec: &Spec,
        ranks: u16,
        seed: u64,
        picture: bool,
    ) -> Result<Machine<ProgramChannel>, Error> {
        let (rules, names) = self.rules(spec)?;
        let streams = Streams::new(seed);
        let places = self.places(spec, ranks, &streams)?;
        let channels = carriers(spec, &names, &streams)?;
        let policy = Policy::new(&rules, &names).unwrap_or_default();
        let (memory, processors) = (spec.system.memory, spec.system.processors);
        let machine = Machine::new(ranks, channels, policy, picture);
        Ok(machine.placed(places).on_hosts(memory, processors))
    }

    /// The host of each rank. What they share must have been given.
    fn places(&self, spec: &Spec, ranks: u16, streams: &Streams) -> Result<Vec<u16>, Error> {
        let refuse = |key: &str, value: String, accepted: String| Error::Assembly {
            key: key.to_owned(),
            value,
            accepted,
        };
        let hosts = spec.system.hosts;
        let Ok(counted) = u16::try_from(hosts) else {
            let accepted = "at most 65535 where hosts run a program".to_owned();
            return Err(refuse("system.hosts", hosts.to_string(), accepted));
        };
        let on_each = self.ranks_per_host.map_or(1, PositiveCount::get);
        let most = u64::from(hosts) * u64::from(on_each);
        if self.placement.len().is_none() && u64::from(ranks) > most {
            let why = match self.ranks_per_host {
                None => "one a host unless program.ranks_per_host says otherwise".to_owned(),
                Some(count) => format!("{count} on each of {hosts} hosts"),
            };
            return Err(refuse("program.ranks", ranks.to_string(), format!("1 to {most}, {why}")));
        }
        let places = self.placement.places(ranks, counted, self.ranks_per_host, streams);
        let places =
            places.map_err(|error| refuse("program.placement", error.value, error.accepted))?;
        match first_shared(&places) {
            Some(Shared { ranks: [one, other], host }) if spec.system.memory.is_none() => {
                let accepted = format!(
                    "one rank a host, or system.memory = {{ latency = \"...\", rate = \"...\" }} of a copy \
                     between ranks {one} and {other}, which are both on host {host}"
                );
                Err(match self.ranks_per_host {
                    Some(count) => {
                        refuse("program.ranks_per_host", count.get().to_string(), accepted)
                    }
                    None => refuse("program.placement", format!("{places:?}"), accepted),
                })
            }
            _ => Ok(places),
        }
    }

    /// How many ranks there are by default: as many as are placed, or as fit on the hosts.
    fn ranks(&self, spec: &Spec) -> u16 {
        let on_each = self.ranks_per_host.map_or(1, PositiveCount::get);
        let all = (spec.system.hosts as usize).saturating_mul(on_each as usize);
        self.placement.len().unwrap_or(all).try_into().unwrap_or(u16::MAX)
    }
}

/// The channels of these names, followed by those that act together with one of them and have
/// traffic: this counts as traffic beside the program, too.
fn carriers(
    spec: &Spec,
    names: &[String],
    streams: &Streams,
) -> Result<Vec<(String, ProgramChannel)>, Error> {
    let until = Time::ZERO + spec.run.length;
    let (hosts, from) = (spec.system.hosts, Time::ZERO);
    let anywhere = Site { name: "", hosts, streams, from, until, sample: None };
    let pairs = both_in_use(spec, names)?;
    let mut together = Vec::new();
    for pair in &pairs {
        together.extend(halves(spec, *pair, anywhere)?);
    }
    let carrier = |name: String| {
        let (settings, site) = (&spec.channel[&name], Site { name: &name, ..anywhere });
        let half = together.iter().position(|(other, _)| *other == name);
        let driver = match half {
            Some(half) => together.swap_remove(half).1,
            None => alone(spec, site)?,
        };
        let workload = spec.workload.get(&name);
        let channel = ProgramChannel::around(driver, settings, workload, site, spec.run.trace)?;
        Ok((name, channel))
    };
    with_partners(names, &pairs).into_iter().map(carrier).collect()
}

/// A machine on the channels of a system, for a program that is written elsewhere: all hosts are
/// ranks if neither `ranks` nor the placement says how many. Workloads in the overrides of the
/// request are traffic beside it. With `run.fast_forward` the caller must let the machine
/// [skip](Machine::fast_forward) periods.
pub fn open(
    request: &Request,
    ways: Ways<'_>,
    ranks: Option<u16>,
    seed: u64,
) -> Result<Machine<ProgramChannel>, Error> {
    let mut tree = request.read()?.tree;
    // The file's own traffic and study are not what runs here.
    for section in
        ["workload", "program", "sweep", "variant", "experiment", "published", "figure", "beside"]
    {
        tree.take(section);
    }
    for own in request.settings()? {
        tree.set(own.key, own.value)?;
    }
    let tree = tree.without_presets();
    let spec = keys::read(&tree)?;
    fit::check(&tree, &spec)?;
    let (_, names) = ways.rules(&spec)?;
    let names = with_partners(&names, &both_in_use(&spec, &names)?);
    if let Some(name) = spec.workload.keys().find(|name| !names.contains(name)) {
        return Err(Error::Assembly {
            key: format!("workload.{name}"),
            value: "given".to_owned(),
            accepted: format!("traffic on channels of the program: {}", names.join(", ")),
        });
    }
    let ranks = ranks.unwrap_or_else(|| ways.ranks(&spec));
    let mut machine = ways.machine(&spec, ranks, seed, true)?;
    if spec.run.fast_forward {
        machine.begin_fast_forward();
    }
    Ok(machine)
}

impl ProgramSettings {
    fn ways(&self) -> Ways<'_> {
        let (channel, route) = (self.channel.as_deref(), &self.route[..]);
        let (placement, ranks_per_host) = (&self.placement, self.ranks_per_host);
        Ways { channel, route, placement, ranks_per_host }
    }

    fn ranks(&self, spec: &Spec) -> u16 {
        let all = || u32::from(self.ways().ranks(spec));
        self.ranks.map_or_else(all, PositiveCount::get).try_into().unwrap_or(u16::MAX)
    }

    /// Whether it only chooses channels for messages, for programs that are given elsewhere, and
    /// runs nothing itself.
    pub fn is_policy(&self) -> bool {
        let runs = self.run.is_some() || self.trace.is_some();
        !runs && self.ranks.is_none() && self.channel.is_none() && !self.route.is_empty()
    }

    /// The channels that have hosts only because this program runs on them: scheduled channels that
    /// are simulated by events, and the channels that carry their signalling. Empty if the program
    /// names a channel that does not exist.
    pub(crate) fn scheduled_channels(&self, spec: &Spec) -> Vec<String> {
        let names = self.ways().rules(spec).map(|(_, names)| names);
        names.and_then(|names| scheduled_with_carriers(spec, &names)).unwrap_or_default()
    }

    /// Refuses what no run could have: ranks and channels that do not exist.
    pub fn check(&self, spec: &Spec) -> Result<(), Error> {
        if self.is_policy() {
            return self.ways().rules(spec).map(drop);
        }
        let ranks = self.ranks(spec);
        let fault = |key: &str, value: String, accepted: String| Error::Assembly {
            key: key.to_owned(),
            value,
            accepted,
        };
        if ranks < 2 {
            return Err(fault(
                "program.ranks",
                ranks.to_string(),
                "a whole number in 2..=65535".to_owned(),
            ));
        }
        if self.run.is_some() == self.trace.is_some() {
            let value = if self.run.is_some() { "given" } else { ABSENT };
            let accepted = "either program.run or program.trace".to_owned();
            return Err(fault("program.trace", value.to_owned(), accepted));
        }
        if let Some(trace) = &self.trace {
            trace.schedule_for(ranks)?;
        }
        let named = self.run.as_ref().map_or(Vec::new(), LibraryProgram::named_ranks);
        if let Some(rank) = named.iter().find(|rank| **rank >= ranks) {
            let accepted = format!("ranks from 0 to {}", ranks - 1);
            return Err(fault("program.run", format!("rank {rank}"), accepted));
        }
        if let [one, two] = named[..]
            && one == two
        {
            let accepted = "two different ranks".to_owned();
            return Err(fault("program.run", format!("pair = [{one}, {two}]"), accepted));
        }
        if let Some(misfit) = self.run.as_ref().and_then(|run| run.misfit(ranks)) {
            let Misfit { key, value, accepted } = misfit;
            return Err(fault(&format!("program.run.{key}"), value, accepted));
        }
        self.ways().machine(spec, ranks, spec.run.seed, false).map(drop)
    }

    /// Runs the program with one seed.
    pub fn run(&self, spec: &Spec, seed: u64, halt: &Halt) -> Result<ProgramRun, Error> {
        let ranks = self.ranks(spec);
        let mut machine = self.ways().machine(spec, ranks, seed, spec.run.trace)?;
        if spec.run.fast_forward {
            machine.begin_fast_forward();
        }
        let refused = |error| Error::Program { seed, error };
        let (end, ends, machine, own) = match (&self.run, &self.trace) {
            (Some(program), _) => {
                let mut crew = Crew::new(machine);
                let finish = program.start(&mut crew);
                let end = crew.run(halt).map_err(refused)?;
                (end, crew.ends().to_vec(), crew.into_machine(), finish())
            }
            (None, Some(trace)) => {
                let schedule = trace.schedule_for(ranks)?;
                let played = play(&schedule, machine, halt, &mut |_, _| true).map_err(refused)?;
                let mut own = Metrics::new();
                if played.shorter > 0 {
                    own.push(("program_shorter_messages", played.shorter as f64));
                }
                (played.end(), played.ends, played.machine, own)
            }
            (None, None) => (Time::ZERO, Vec::new(), machine, Metrics::new()),
        };
        let mut metrics = vec![
            ("program_time_us", end.since(Time::ZERO).as_us()),
            ("program_messages", machine.messages() as f64),
        ];
        metrics.extend(own);
        let all = end.since(Time::ZERO).as_us() * ends.len() as f64;
        metrics.extend(shares(machine.account(), all));
        if machine.processors().is_some() {
            metrics.push(("program_queued_share", share(machine.account(), all, |own| own.queued)));
        }
        if let Some(copied) = machine.copied() {
            metrics.push(("program_memory_messages", copied as f64));
        }
        if machine.to_self() > 0 {
            metrics.push(("program_self_messages", machine.to_self() as f64));
        }
        let ranks = machine.report(ends);
        let forwarded = machine.fast_forwarded();
        Ok(ProgramRun { end, metrics, ranks, forwarded, channels: machine.into_channels() })
    }
}

/// Shares of the time of all ranks, in microseconds. Hosts without a rank do not count.
fn shares(account: &Account, all: f64) -> Metrics {
    vec![
        ("program_computing_share", share(account, all, |spent| spent.computing)),
        ("program_sending_share", share(account, all, |spent| spent.sending)),
        ("program_waiting_share", share(account, all, |spent| spent.waiting)),
    ]
}

fn share(account: &Account, all: f64, of: fn(&super::Spent) -> weft_units::Span) -> f64 {
    account.ranks().iter().map(|spent| of(spent).as_us()).sum::<f64>() / all
}
