//! The files of the repository, and findings in them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the root, with slashes.
    pub path: String,
    pub text: String,
}

/// A rule that a file breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

impl File {
    pub fn new(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    pub fn ends_with(&self, ending: &str) -> bool {
        self.path.ends_with(ending)
    }

    /// The lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every text file of the repository in order of path, without what `.gitignore` names.
pub fn all() -> Vec<File> {
    let root = root();
    let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let mut files = Vec::new();
    walk(&root, &root, &Ignored::new(&ignored), &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 50, "the walk over {} found {} files", root.display(), files.len());
    files
}

/// The files whose names end so; a rule that looks at none would prove nothing.
pub fn ending(ending: &str) -> Vec<File> {
    let files: Vec<File> = all().into_iter().filter(|file| file.ends_with(ending)).collect();
    assert!(!files.is_empty(), "no file ends in {ending}");
    files
}

/// Fails with one finding a line.
#[track_caller]
pub fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
}

/// Of `.gitignore` what this repository uses: names of folders, and endings.
struct Ignored {
    names: Vec<String>,
    endings: Vec<String>,
}

impl Ignored {
    fn new(text: &str) -> Ignored {
        let (mut names, mut endings) = (Vec::new(), Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.trim_matches('/').strip_prefix('*') {
                Some(ending) => endings.push(ending.to_owned()),
                None => names.push(line.trim_matches('/').trim_end_matches('*').to_owned()),
            }
        }
        Ignored { names, endings }
    }

    fn covers(&self, name: &str) -> bool {
        name == ".git"
            || self.names.iter().any(|ignored| {
                name == ignored || (ignored.ends_with('.') && name.starts_with(ignored.as_str()))
            })
            || self.endings.iter().any(|ending| name.ends_with(ending.as_str()))
    }
}

fn walk(root: &Path, folder: &Path, ignored: &Ignored, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        if ignored.covers(&name.to_string_lossy()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            walk(root, &path, ignored, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let relative = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            files.push(File { path: relative, text });
        }
    }
}

#[test]
fn what_git_ignores_is_not_part_of_the_repository() {
    let ignored = Ignored::new("/target/\n*.so\n__pycache__/\ncallgrind.out.*\n");
    for name in ["target", "_core.so", "__pycache__", ".git", "callgrind.out.17"] {
        assert!(ignored.covers(name), "{name}");
    }
    for name in ["targets", "src", "so", ".ci"] {
        assert!(!ignored.covers(name), "{name}");
    }
}
