//! `weft live -- PROGRAM`: becomes the program, with the preload library loaded, without waiting for Python.
//!
//! It is called with a Python command and the arguments of that command. If anything must be said
//! to a person (a setting that the library would ignore, a program that it does nothing for, or
//! that does not exist), it starts that command, which does the same more slowly
//! (`python/weft/live.py`).

#![cfg(target_os = "linux")]
#![no_main]

use std::env;
use std::ffi::{CString, OsStr, OsString, c_char, c_int};
use std::fs::File;
use std::io::{Error, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

const LIBRARY: &str = "libweft_live.so";
/// With less than this, in bytes, the library does nothing (`memory/means.rs`).
const AMPLE: u64 = 8 << 30;
/// Only the GNU loader replaces `$LIB` by a folder, and the parent of the root is the root: the
/// loader of another C library finds nothing there.
const UNREACHABLE: &str = "/$LIB/../../../../../../../..";
/// How many files are checked: a script, its interpreter, the interpreter of that, and so on.
const DEEPEST: u32 = 4;

/// The program inherits signals as they were: Rust's own `main` would ignore `SIGPIPE`.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    let words: Vec<OsString> = env::args_os().collect();
    if let [_, _, live, dashes, program @ ..] = words.as_slice()
        && (live.as_bytes(), dashes.as_bytes()) == (b"live", b"--")
        && let Some(name) = program.first()
        && is_plain(name)
        && let Some(path) = library()
        && load(&path)
    {
        become_program(name, program);
    }
    if let [_, command, ..] = words.as_slice() {
        become_program(command, &words[1..]);
    }
    127
}

/// Whether nothing is to be said about the settings and the program.
fn is_plain(program: &OsStr) -> bool {
    are_settings_taken()
        && has_ample_memory()
        && find(program).is_some_and(|path| is_accelerated(&path, DEEPEST))
}

fn are_settings_taken() -> bool {
    env::vars_os().all(|(name, value)| {
        !name.as_bytes().starts_with(b"WEFT_LIVE") || is_taken(name.as_bytes(), &value)
    })
}

fn is_taken(name: &[u8], value: &OsStr) -> bool {
    let bytes = value.as_bytes();
    let number = || -> Option<u64> {
        let is_count = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
        value.to_str().filter(|_| is_count)?.parse().ok()
    };
    match name {
        b"WEFT_LIVE" => matches!(bytes, b"" | b"on" | b"off"),
        b"WEFT_LIVE_RING" => {
            number().is_some_and(|it| it.is_power_of_two() && (4096..=1 << 28).contains(&it))
        }
        b"WEFT_LIVE_LIMIT" => number().is_some(),
        b"WEFT_LIVE_DIRECTORY" => {
            bytes.starts_with(b"/") && bytes.len() <= 78 && Path::new(value).is_dir()
        }
        b"WEFT_LIVE_LOG" => matches!(bytes, b"" | b"stderr") || is_writable(Path::new(value)),
        b"WEFT_LIVE_LIBRARY" => true,
        _ => false,
    }
}

/// Whether a path is that of a file that can be written, or made.
fn is_writable(path: &Path) -> bool {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let there = if path.exists() { path } else { folder };
    path.as_os_str().len() < 256 && !path.is_dir() && may(there, libc::W_OK)
}

/// Whether this user may do something with a file.
fn may(path: &Path, what: c_int) -> bool {
    let name = CString::new(path.as_os_str().as_bytes()).ok();
    // SAFETY: the name is a C string.
    name.is_some_and(|name| unsafe { libc::access(name.as_ptr(), what) } == 0)
}

fn has_ample_memory() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA].into_iter().all(|kind| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: there is room for a limit.
        let asked = unsafe { libc::getrlimit(kind, &mut limit) };
        asked == 0 && (limit.rlim_cur == libc::RLIM_INFINITY || limit.rlim_cur >= AMPLE)
    })
}

/// The file of a program, as a shell finds it.
fn find(program: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &Path| may(path, libc::X_OK) && path.is_file();
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let path = env::var_os("PATH")?;
    let mut all = env::split_paths(&path).filter(|it| it.is_absolute());
    all.find_map(|folder| Some(folder.join(program)).filter(|path| is_program(path)))
}

/// Whether a file is a program that the library can be loaded into, or is run by one.
fn is_accelerated(path: &Path, deepest: u32) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(about) = file.metadata() else { return false };
    let mut head = [0u8; 256];
    let Ok(length) = (&file).read(&mut head) else { return false };
    let gives_rights = about.permissions().mode() & (libc::S_ISUID | libc::S_ISGID) != 0;
    if gives_rights || deepest == 0 {
        return false;
    }
    match head[..length].strip_prefix(b"#!") {
        Some(rest) => interpreter(rest).is_some_and(|it| is_accelerated(&it, deepest - 1)),
        None => is_elf_of_gnu(&file, &head).unwrap_or(false),
    }
}

/// The program that runs a script, which is named by its first line.
fn interpreter(rest: &[u8]) -> Option<PathBuf> {
    let line = &rest[..rest.iter().position(|byte| *byte == b'\n')?];
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next()?;
    let named = if first.ends_with(b"/env") { words.next_back()? } else { first };
    find(OsStr::from_bytes(named))
}

/// Whether a file is a program of this machine's that the GNU C library's loader loads, and that Go has not
/// made. `None` if it is cut off.
fn is_elf_of_gnu(file: &File, head: &[u8; 256]) -> Option<bool> {
    const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    const INTERPRETER: u32 = 3;
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    if !head.starts_with(b"\x7fELF\x02\x01") || word(18) != MACHINE {
        return Some(false);
    }
    let segments = table(file, long(head, 32)?, word(54), word(56))?;
    let named = segments.iter().find(|it| it.starts_with(&INTERPRETER.to_le_bytes()))?;
    let mut loader = vec![0; usize::try_from(long(named, 32)?).ok().filter(|it| *it < 4096)?];
    file.read_exact_at(&mut loader, long(named, 8)?).ok()?;
    let name = loader.rsplit(|byte| *byte == b'/').next()?;
    let sections = table(file, long(head, 40)?, word(58), word(60))?;
    let names = sections.get(usize::from(word(62)))?;
    let mut all = vec![0; usize::try_from(long(names, 32)?).ok().filter(|it| *it < 1 << 20)?];
    file.read_exact_at(&mut all, long(names, 24)?).ok()?;
    let is_go = all.split(|byte| *byte == 0).any(|it| it.starts_with(b".go."));
    Some(name.starts_with(b"ld-linux") && !is_go)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The `count` entries, of `size` bytes each, of a table in a file. `None` if there are none.
fn table(file: &File, place: u64, size: u16, count: u16) -> Option<Vec<Vec<u8>>> {
    let mut all = vec![0; usize::from(size) * usize::from(count)];
    file.read_exact_at(&mut all, place).ok()?;
    let entries: Vec<_> = all.chunks_exact(usize::from(size.max(1))).map(<[u8]>::to_vec).collect();
    (!entries.is_empty() && size >= 56).then_some(entries)
}

/// The preload library: the one that is named, or that which lies beside this program.
fn library() -> Option<PathBuf> {
    let named = env::var_os("WEFT_LIVE_LIBRARY").filter(|it| !it.is_empty()).map(PathBuf::from);
    let path = named.or_else(|| Some(env::current_exe().ok()?.with_file_name(LIBRARY)))?;
    path.canonicalize().ok().filter(|path| path.is_file())
}

/// Lets the program that this one becomes load the library before all others. False if the loader does not
/// find it where others do not look.
fn load(path: &Path) -> bool {
    let mut there = OsString::from(UNREACHABLE);
    there.push(path);
    let before = env::var_os("WEFT_LIVE");
    let Ok(name) = CString::new(there.clone().into_vec()) else { return false };
    // SAFETY: there is one thread. The library does nothing when it is loaded here, and stays.
    let found = unsafe {
        env::set_var("WEFT_LIVE", "off");
        let found = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY);
        match before {
            Some(before) => env::set_var("WEFT_LIVE", before),
            None => env::remove_var("WEFT_LIVE"),
        }
        found
    };
    if found.is_null() {
        return false;
    }
    let preloaded = env::var_os("LD_PRELOAD").unwrap_or_default();
    let others = preloaded.as_bytes().split(|byte| *byte == b':');
    let others = others.filter(|it| {
        !it.is_empty() && *it != path.as_os_str().as_bytes() && *it != there.as_bytes()
    });
    let all = others.fold(there.clone().into_vec(), |all, it| [&all, &b":"[..], it].concat());
    // SAFETY: there is one thread.
    unsafe {
        env::set_var("LD_PRELOAD", OsString::from_vec(all));
        env::set_var("ASAN_OPTIONS", sanitizer_options());
    }
    true
}

/// The address sanitizer's options: it ends programs if a library precedes its own.
fn sanitizer_options() -> OsString {
    const NAME: &str = "verify_asan_link_order";
    let mut options = env::var_os("ASAN_OPTIONS").unwrap_or_default();
    if options.as_bytes().windows(NAME.len()).any(|it| it == NAME.as_bytes()) {
        return options;
    }
    if !options.is_empty() {
        options.push(":");
    }
    options.push(NAME);
    options.push("=0");
    options
}

/// Becomes a program; returns if there is none.
fn become_program(name: &OsStr, words: &[OsString]) -> Error {
    let c_string = |word: &OsStr| CString::new(word.as_bytes()).unwrap_or_default();
    let words: Vec<CString> = words.iter().map(|word| c_string(word)).collect();
    let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: a null pointer ends the list of C strings.
    unsafe { libc::execvp(c_string(name).as_ptr(), pointers.as_ptr()) };
    Error::last_os_error()
}
