//! Embeds the shipped compositions and experiments, so that adding one is adding a file.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

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
    fs::write(Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("shipped.rs"), code)
}
