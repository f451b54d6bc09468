//! The store of finished runs, each under a key of everything that determines it.
//!
//! A stored run is a file `ab/cdef....run` under the folder of the store, named by its key: a line
//! that names the format, the SHA-256 of what follows, and the run. It is written beside its place
//! and renamed, so that a file under its name is whole, whatever ended the process that wrote it.
//! One that is not what its digest says counts as not there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::job::Key;
use crate::simulate::ChannelRun;

const FORMAT: &[u8] = b"weft run 3\n";
const DIGEST: usize = 32;

/// A draft this old, whose process has ended, is removed.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Where the runs of a study are stored while it runs, and afterwards.
#[derive(Debug)]
pub enum Store {
    /// For as long as the study.
    Memory(Mutex<BTreeMap<Key, Arc<[ChannelRun]>>>),
    /// In files that outlast the process, and that several processes may share.
    Folder(Folder),
}

/// A folder of stored runs.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Distinguishes the drafts of this process from those of every other one.
    writer: String,
    written: AtomicU64,
}

impl Store {
    /// A store that ends with the process.
    pub fn in_memory() -> Store {
        Store::Memory(Mutex::new(BTreeMap::new()))
    }

    /// The store in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Store`] if the folder cannot be made.
    pub fn open(root: &Path) -> Result<Store, Error> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let writer = format!("{}-{}", host.trim(), std::process::id());
        let folder = Folder { root: root.to_owned(), writer, written: AtomicU64::new(0) };
        folder.prepare().map_err(|error| folder.refuse(error))?;
        Ok(Store::Folder(folder))
    }

    /// Whether there is a run under a key.
    pub fn holds(&self, key: Key) -> bool {
        match self {
            Store::Memory(runs) => lock(runs).contains_key(&key),
            Store::Folder(folder) => folder.place(key).exists(),
        }
    }

    /// The run under a key: an element per channel.
    pub fn get(&self, key: Key) -> Option<Arc<[ChannelRun]>> {
        match self {
            Store::Memory(runs) => lock(runs).get(&key).cloned(),
            Store::Folder(folder) => decode(&fs::read(folder.place(key)).ok()?).map(Arc::from),
        }
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be written.
    pub fn put(&self, key: Key, run: Vec<ChannelRun>) -> Result<(), Error> {
        match self {
            Store::Memory(runs) => {
                lock(runs).insert(key, run.into());
                Ok(())
            }
            Store::Folder(folder) => folder.write(key, &encode(&run)?),
        }
    }

    /// Keeps a run that another process carried out and [`encode`]d.
    ///
    /// # Errors
    /// [`Error::Job`] if it is not whole, [`Error::Store`] if the file cannot be written.
    pub fn put_encoded(&self, key: Key, bytes: &[u8]) -> Result<(), Error> {
        let run = decode(bytes)
            .ok_or_else(|| Error::Job { problem: "a run came back damaged".to_owned() })?;
        match self {
            Store::Memory(_) => self.put(key, run),
            Store::Folder(folder) => folder.write(key, bytes),
        }
    }
}

impl Folder {
    fn place(&self, key: Key) -> PathBuf {
        let name = key.to_string();
        self.root.join(&name[..2]).join(format!("{}.run", &name[2..]))
    }

    fn drafts(&self) -> PathBuf {
        self.root.join("drafts")
    }

    fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(self.drafts())?;
        for draft in fs::read_dir(self.drafts())? {
            let draft = draft?;
            let age = draft.metadata()?.modified()?.elapsed().unwrap_or_default();
            if age > ABANDONED {
                // Another process may have been faster.
                let _ = fs::remove_file(draft.path());
            }
        }
        Ok(())
    }

    fn write(&self, key: Key, bytes: &[u8]) -> Result<(), Error> {
        self.try_write(&self.place(key), bytes).map_err(|error| self.refuse(error))
    }

    fn try_write(&self, place: &Path, bytes: &[u8]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let draft = self.drafts().join(format!("{}-{number}", self.writer));
        let written = fs::File::create(&draft)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| place.parent().map_or(Ok(()), fs::create_dir_all))
            .and_then(|()| fs::rename(&draft, place));
        if written.is_err() {
            // A partly written run on a full disk would be in the way.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Names the folder that a person gave, not the file in it.
    fn refuse(&self, error: io::Error) -> Error {
        Error::Store { path: self.root.display().to_string(), error }
    }
}

/// A run as it is stored and sent.
///
/// # Errors
/// [`Error::Job`] if it cannot be written; no run that Weft makes is of that kind.
pub fn encode(run: &[ChannelRun]) -> Result<Vec<u8>, Error> {
    let content =
        postcard::to_stdvec(run).map_err(|error| Error::Job { problem: error.to_string() })?;
    let mut bytes = FORMAT.to_vec();
    bytes.extend(Sha256::digest(&content));
    bytes.extend(content);
    Ok(bytes)
}

/// A run that was [`encode`]d; `None` if it is not whole, or of another format.
pub fn decode(bytes: &[u8]) -> Option<Vec<ChannelRun>> {
    let (digest, content) = bytes.strip_prefix(FORMAT)?.split_at_checked(DIGEST)?;
    if Sha256::digest(content).as_slice() != digest {
        return None;
    }
    postcard::from_bytes(content).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
