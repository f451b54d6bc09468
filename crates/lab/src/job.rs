//! The inputs of a run, and the key under which it is stored.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weft_kernel::Halt;
use weft_units::PositiveCount;

use crate::composition::Spec;
use crate::error::Error;
use crate::failure::{Failure, attempt};
use crate::simulate::ChannelRun;
use crate::spec::Tree;
use crate::threads::Threads;

/// Identifies the code that runs: the version, and a digest of the sources that a result depends
/// on. Runs of other code are other runs.
pub const CODE: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("WEFT_SOURCES"));

/// One run that may be carried out anywhere: the resolved point, a seed, and the code that it is
/// for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The [`CODE`] of the requester.
    pub code: String,
    /// The resolved point, without what does not change its runs.
    pub spec: Spec,
    /// The seed.
    pub seed: u64,
}

/// The SHA-256 of a [`Job`]: of the code, of the resolved point in its canonical form, and of the
/// seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a key: 64 hexadecimal digits")]
pub struct KeyError(String);

/// The canonical text of a point: everything that its runs are a function of apart from the seed,
/// with every default written out and every quantity in one spelling.
pub fn identity(spec: &Spec) -> Result<String, Error> {
    let mut bare = essence(spec.clone());
    let trace = bare.program.as_mut().and_then(|program| program.trace.as_mut());
    // A trace is what its file holds, not what the file is called.
    let digest = trace.map_or(Ok(None), |trace| {
        let digest = trace.digest();
        trace.forget_file();
        digest
    })?;
    let mut text =
        serde_json::to_string(&bare).map_err(|error| Error::Job { problem: error.to_string() })?;
    text.extend(digest);
    Ok(text)
}

/// The point without its descriptions and the number of its runs.
fn essence(mut spec: Spec) -> Spec {
    spec.system.title.clear();
    spec.system.document.clear();
    spec.experiment = crate::experiment::ExperimentSettings::default();
    spec.published.clear();
    spec.figure.clear();
    spec.run.seeds = PositiveCount::ONE;
    spec.run.seed = 0;
    spec.run.precision = None;
    spec
}

impl Job {
    /// A run of a point.
    pub fn new(spec: &Spec, seed: u64) -> Job {
        Job { code: CODE.to_owned(), spec: essence(spec.clone()), seed }
    }

    /// The runs that were written down as a list in JSON.
    ///
    /// # Errors
    /// [`Error::Spec`] if the text is no JSON, or no list of runs of this version.
    pub fn read_all(text: &str) -> Result<Vec<Job>, Error> {
        Ok(Tree::from_written("jobs", text)?.read()?)
    }

    /// Carries it out, if it is for this code. A run that fails has a key, too.
    pub fn carry_out(&self, halt: &Halt) -> Result<(Key, Result<Vec<ChannelRun>, Failure>), Error> {
        if self.code != CODE {
            return Err(Error::OtherCode { asked: self.code.clone(), own: CODE });
        }
        let key = Key::new(&identity(&self.spec)?, self.seed);
        Ok((key, attempt(&self.spec, self.seed, halt, &Threads::one())))
    }
}

impl Key {
    /// The key of a point, given by its [`identity`], and a seed.
    pub fn new(identity: &str, seed: u64) -> Key {
        let mut digest = Sha256::new();
        for part in [CODE, identity] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.update(seed.to_le_bytes());
        Key(digest.finalize().into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let mut key = Key([0; 32]);
        let digits = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        for (place, byte) in key.0.iter_mut().enumerate().filter(|_| digits) {
            let pair = &text[2 * place..2 * place + 2];
            *byte = u8::from_str_radix(pair, 16).map_err(|_| KeyError(text.to_owned()))?;
        }
        if digits { Ok(key) } else { Err(KeyError(text.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::shipped;
    use crate::source::Request;

    fn spec(text: &str) -> Spec {
        Plan::new(&Request::of_text("a.toml", text)).unwrap().points.remove(0).spec
    }

    const BASE: &str = "base = \"clint\"\nworkload.bulk.load = 0.5\n";

    #[test]
    fn every_shipped_point_survives_the_way_to_another_machine() {
        for name in shipped::experiments() {
            let plan = Plan::new(&Request::new(name, None, &[])).unwrap();
            for point in plan.points {
                let job = Job::new(&point.spec, 7);
                let sent = serde_json::to_string(&job).unwrap();
                let back = Job::read_all(&format!("[{sent}]")).unwrap().remove(0);
                assert_eq!(serde_json::to_string(&back).unwrap(), sent, "{name}");
                assert_eq!(identity(&back.spec).unwrap(), identity(&point.spec).unwrap());
            }
        }
    }

    #[test]
    fn what_does_not_change_a_run_does_not_change_its_key() {
        let one = identity(&spec(BASE)).unwrap();
        for more in [
            "run.seeds = 9\n",
            "run.seed = 5\n",
            "run.precision.relative = 0.05\n",
            "experiment.title = \"x\"\n",
            "channel.bulk.link.rate = \"2000 Mbit/s\"\n",
        ] {
            assert_eq!(identity(&spec(&format!("{BASE}{more}"))).unwrap(), one, "{more}");
        }
    }

    #[test]
    fn what_changes_a_run_changes_its_key() {
        let mut keys = vec![Key::new(&identity(&spec(BASE)).unwrap(), 1)];
        keys.push(Key::new(&identity(&spec(BASE)).unwrap(), 2));
        for more in [
            "workload.quick.load = 0.1\n",
            "run.length = \"1 ms\"\n",
            "run.regime = \"from_empty\"\n",
            "channel.bulk.link.rate = \"2001 Mbit/s\"\n",
            "channel.bulk.adapter.send_buffers = 15\n",
        ] {
            keys.push(Key::new(&identity(&spec(&format!("{BASE}{more}"))).unwrap(), 1));
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn a_job_for_other_code_is_refused() {
        let job = Job { code: "0.0.1+abc".to_owned(), ..Job::new(&spec(BASE), 1) };
        let refusal = job.carry_out(&Halt::new()).unwrap_err().to_string();
        assert!(refusal.starts_with("the run is for weft 0.0.1+abc, and this is "), "{refusal}");
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key = Key::new("a point", 3);
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("12".parse::<Key>().is_err());
        assert!("é".repeat(32).parse::<Key>().is_err());
    }
}
