//! Embeds the shipped compositions and experiments, so that adding one is adding a file; and a
//! digest of the sources that a result depends on.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// The crates whose sources make a result what it is.
const CRATES: [&str; 5] = ["units", "kernel", "protocol", "fabric", "lab"];

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../..");
    let mut code = String::new();
    for (table, folder) in [("SYSTEMS", "systems"), ("EXPERIMENTS", "experiments")] {
        let folder = root.join(folder).canonicalize()?;
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files: Vec<PathBuf> = fs::read_dir(&folder)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
            .collect();
        files.sort();
        let _ = writeln!(code, "const {table}: &[(&str, &str)] = &[");
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let _ = writeln!(code, "    ({name:?}, include_str!({:?})),", file.display());
        }
        let _ = writeln!(code, "];");
    }
    println!("cargo::rustc-env=WEFT_SOURCES={}", digest_of_sources(&root)?);
    fs::write(Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("shipped.rs"), code)
}

/// The first twelve digits of the SHA-256 of all source files, in the order of their paths.
fn digest_of_sources(root: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    for name in CRATES {
        let folder = root.join("crates").join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        collect(&folder, &mut files)?;
        files.sort();
        for file in files {
            let shown = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
            digest.update(shown.as_bytes());
            digest.update(fs::read(&file)?);
        }
    }
    Ok(digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
