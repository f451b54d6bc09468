//! How much memory the process may have, as far as the system tells.

use std::fmt::Write;

use crate::sys;

/// Where control groups are, and how they call their limits.
struct Groups {
    /// The text between the colons of a process's line for them.
    kind: &'static str,
    folder: &'static str,
    limits: &'static [&'static str],
}

/// Those of the second version first.
const GROUPS: [Groups; 2] = [
    Groups { kind: "", folder: "/sys/fs/cgroup", limits: &["memory.max", "memory.high"] },
    Groups { kind: "memory", folder: "/sys/fs/cgroup/memory", limits: &["memory.limit_in_bytes"] },
];

/// A path with a zero at its end, and what a file says. Needs no heap.
struct Text {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Text {
    const ROOM: usize = 1024;

    const fn new() -> Self {
        Self { bytes: [0; Self::ROOM], length: 0 }
    }

    /// The beginning of a file.
    fn of(path: &Self) -> Option<Self> {
        let file = sys::open_for_reading(path.bytes.as_ptr()).ok()?;
        let mut text = Self::new();
        let read = sys::read_at(file, text.bytes.as_mut_ptr(), Self::ROOM - 1, 0);
        sys::close(file);
        text.length = read.ok()?;
        Some(text)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let end = self.length + part.len();
        // The last stays zero.
        let to = self.bytes[..Self::ROOM - 1].get_mut(self.length..end).ok_or(std::fmt::Error)?;
        to.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The smallest limit of the control groups that the process is in, in bytes; `None` if none is
/// known.
pub fn of_control_group() -> Option<u64> {
    let mut own = Text::new();
    own.write_str("/proc/self/cgroup").ok()?;
    let groups = Text::of(&own)?;
    GROUPS.iter().filter_map(|it| least(it, path_of(groups.as_str(), it.kind)?)).min()
}

/// Where the process stands among the groups of a kind.
fn path_of<'a>(groups: &'a str, kind: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (_, after) = line.split_once(':')?;
        let (kinds, path) = after.split_once(':')?;
        kinds.split(',').any(|it| it == kind).then_some(path)
    })
}

/// The least limit of a group and those above it.
fn least(groups: &Groups, mut path: &str) -> Option<u64> {
    let mut least = None;
    loop {
        for name in groups.limits {
            let mut file = Text::new();
            write!(file, "{}{}/{name}", groups.folder, path.trim_end_matches('/')).ok()?;
            let limit = Text::of(&file).and_then(|said| said.as_str().trim().parse::<u64>().ok());
            least = limit.into_iter().chain(least).min();
        }
        if path.trim_end_matches('/').is_empty() {
            return least;
        }
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// Whether the process may have as much address space as it likes by now, or more than matters in what a
/// library takes.
pub fn is_address_space_ample() -> bool {
    /// Each accelerated connection takes half a megabyte of it, and each `epoll` instance one.
    const AMPLE: u64 = 8 << 30;
    [libc::RLIMIT_AS, libc::RLIMIT_DATA]
        .into_iter()
        .all(|kind| sys::resource_limit(kind).is_none_or(|limit| limit.rlim_cur >= AMPLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processs_place_among_groups_of_both_versions_is_found() {
        let old = "12:pids:/a\n7:cpu,memory:/docker/1:2/x\n1:name=systemd:/s\n0::/u\n";
        assert_eq!(path_of(old, "memory"), Some("/docker/1:2/x"));
        assert_eq!(path_of(old, ""), Some("/u"));
        assert_eq!((path_of("0::/\n", ""), path_of("0::/\n", "memory")), (Some("/"), None));
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_counts() {
        let folder = std::env::temp_dir().join(format!("weft-live-means-{}", std::process::id()));
        let inner = folder.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let write = |name: &str, said: &str| std::fs::write(folder.join(name), said).unwrap();
        let named = folder.to_str().unwrap().to_owned().leak();
        let groups = Groups { kind: "", folder: named, limits: &["max", "high"] };
        assert_eq!(least(&groups, "/a/b"), None);
        write("a/b/max", "max\n");
        assert_eq!(least(&groups, "/a/b"), None);
        write("a/b/max", "5000\n");
        assert_eq!((least(&groups, "/a/b"), least(&groups, "/a")), (Some(5000), None));
        write("a/high", "700\n");
        write("max", "900\n");
        assert_eq!((least(&groups, "/a/b"), least(&groups, "/")), (Some(700), Some(900)));
        assert_eq!(least(&groups, &"/long".repeat(400)), None, "there is no room for the path");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
