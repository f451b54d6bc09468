//! Whether the program makes system calls by instructions of its own.
//!
//! Such a call bypasses every interposed function: it would not find the bytes of an accelerated
//! connection, which are in the ring. So a process is accelerated only if no object that is loaded
//! into it contains such an instruction for a call that moves a socket's bytes: a statically linked
//! `liburing`, Go libraries, an allocator's or a sanitizer's private copy of `read`. The C library
//! and the loader may contain them, since this library interposes their functions.
//!
//! Instructions are found in the order in which compilers and assemblers emit them: the call's
//! number, arguments, the instruction, the check of the result. `python/weft/live_elf.py` reads
//! files by the same rules.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_long, c_void, dl_phdr_info, size_t};

/// The calls that move bytes of a socket, or let the kernel move them.
const MOVING: [c_long; 15] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_io_uring_setup,
];

/// Objects whose own calls are the ones that the library stands before. A program may be linked with
/// a shared `liburing` and never make a ring.
const BELOW: [&[u8]; 7] =
    [b"libc.so", b"libc-", b"libpthread", b"ld-linux", b"ld-2", b"linux-vdso", b"liburing.so"];

/// How many objects are remembered as looked through; those beyond are looked through again.
const REMEMBERED: usize = 1024;

static LOOKED_AT: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];
/// How many objects were ever loaded and unloaded when they were last looked through.
static LOADED: AtomicU64 = AtomicU64::new(0);
static UNLOADED: AtomicU64 = AtomicU64::new(0);
static FOUND: AtomicBool = AtomicBool::new(false);
/// Whether the process has ever accepted a connection.
static EXPECTED: AtomicBool = AtomicBool::new(false);

/// Looks through the objects that were loaded since the last time. True if any ever held a call of
/// its own that moves a socket's bytes.
pub fn are_there() -> bool {
    if FOUND.load(Ordering::Relaxed) {
        return true;
    }
    // SAFETY: the function takes what it is declared to take, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(look_through), std::ptr::null_mut()) };
    FOUND.load(Ordering::Relaxed)
}

fn headers_of(object: &dl_phdr_info) -> &[libc::Elf64_Phdr] {
    // SAFETY: the loader says that there are that many headers.
    unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) }
}

/// Whether a part of an object is code that can be read.
const fn is_code(part: &libc::Elf64_Phdr) -> bool {
    const CODE: u32 = libc::PF_X | libc::PF_R;
    part.p_type == libc::PT_LOAD && part.p_flags & CODE == CODE
}

/// To be called where a connection was accepted: the process is a server.
#[inline]
pub fn expect() {
    if !EXPECTED.load(Ordering::Relaxed) {
        EXPECTED.store(true, Ordering::Relaxed);
    }
}

/// Looks once, before a server forks: those that it forks then know already, and one whose
/// connections never last need not look at all.
pub fn look_before_fork() {
    if EXPECTED.load(Ordering::Relaxed) && LOADED.load(Ordering::Relaxed) == 0 {
        are_there();
    }
}

/// Looks through one object; not zero ends the walk.
unsafe extern "C" fn look_through(
    object: *mut dl_phdr_info,
    size: size_t,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid description, and holds its lock meanwhile.
    let object = unsafe { &*object };
    if size < size_of::<dl_phdr_info>() {
        // A loader that does not count: every object is looked through each time.
        LOADED.store(0, Ordering::Relaxed);
    } else {
        if UNLOADED.swap(object.dlpi_subs, Ordering::Relaxed) != object.dlpi_subs {
            LOOKED_AT.iter().for_each(|place| place.store(0, Ordering::Relaxed));
            LOADED.store(0, Ordering::Relaxed);
        }
        if is_last_known(object) {
            return 1;
        }
    }
    let headers = headers_of(object);
    if is_below(object) || is_itself(object, headers) || is_remembered(object) {
        return 0;
    }
    let found = headers.iter().filter(|it| is_code(it)).any(|it| {
        let place = (object.dlpi_addr + it.p_vaddr) as *const u8;
        // SAFETY: the loader has mapped the segment, readable, and keeps it while its lock is held.
        has_own_calls(unsafe { std::slice::from_raw_parts(place, it.p_filesz as usize) })
    });
    FOUND.fetch_or(found, Ordering::Relaxed);
    c_int::from(found)
}

/// Whether nothing was loaded since the last walk. The first object of each walk is the program
/// itself, which is remembered from the first one on.
fn is_last_known(object: &dl_phdr_info) -> bool {
    LOADED.swap(object.dlpi_adds, Ordering::Relaxed) == object.dlpi_adds && is_known(object)
}

/// The word by which an object is remembered.
fn mark(object: &dl_phdr_info) -> usize {
    object.dlpi_phdr as usize
}

fn is_known(object: &dl_phdr_info) -> bool {
    let mark = mark(object);
    let known = LOOKED_AT.iter().map(|place| place.load(Ordering::Relaxed));
    known.take_while(|it| *it != 0).any(|it| it == mark)
}

/// Whether an object was looked through before; from now on it was.
fn is_remembered(object: &dl_phdr_info) -> bool {
    let mark = mark(object);
    for place in &LOOKED_AT {
        match place.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return false,
            Err(other) if other == mark => return true,
            Err(_) => {}
        }
    }
    false
}

/// Whether an object is this library, under whatever name it was loaded.
#[cfg(not(test))]
fn is_itself(object: &dl_phdr_info, headers: &[libc::Elf64_Phdr]) -> bool {
    let here = is_itself as *const () as u64;
    headers.iter().any(|it| {
        let begin = object.dlpi_addr + it.p_vaddr;
        it.p_type == libc::PT_LOAD && (begin..begin + it.p_memsz).contains(&here)
    })
}

/// The tests are no preload library: what stands beside them is the program's.
#[cfg(test)]
fn is_itself(_object: &dl_phdr_info, _headers: &[libc::Elf64_Phdr]) -> bool {
    false
}

fn is_below(object: &dl_phdr_info) -> bool {
    if object.dlpi_name.is_null() {
        return false;
    }
    // SAFETY: the loader's names are C strings.
    let name = unsafe { CStr::from_ptr(object.dlpi_name) }.to_bytes();
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    BELOW.iter().any(|below| last.starts_with(below))
}

/// Whether code holds a system call by an instruction of its own that moves a socket's bytes, or
/// one whose number is not told and which looks at its result as system calls do.
#[cfg(target_arch = "x86_64")]
fn has_own_calls(code: &[u8]) -> bool {
    // A block is whole if there is one more byte.
    let whole = code.len().saturating_sub(1) / 16 * 16;
    let in_blocks = (0..whole).step_by(16).any(|from| {
        let block = code[from..].first_chunk();
        block.is_some_and(|it| instructions_in(it).any(|at| moves_bytes(code, from + at)))
    });
    let is_one = |at: &usize| code[*at..].starts_with(&INSTRUCTION);
    in_blocks || (whole..code.len()).filter(is_one).any(|at| moves_bytes(code, at))
}

/// The instruction of a system call.
#[cfg(target_arch = "x86_64")]
const INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// Where the instruction may begin within sixteen bytes, of which the next is told too.
#[cfg(target_arch = "x86_64")]
fn instructions_in(bytes: &[u8; 17]) -> impl Iterator<Item = usize> + use<> {
    use std::arch::x86_64::{
        _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
    };
    let (first, second) = (bytes.as_ptr(), bytes[1..].as_ptr());
    // SAFETY: both places have sixteen bytes, and each processor of this kind has these instructions.
    let mut found = unsafe {
        let is = |place: *const u8, byte: u8| {
            _mm_cmpeq_epi8(_mm_loadu_si128(place.cast()), _mm_set1_epi8(byte as i8))
        };
        let both = _mm_and_si128(is(first, INSTRUCTION[0]), is(second, INSTRUCTION[1]));
        _mm_movemask_epi8(both) as u32
    };
    std::iter::from_fn(move || {
        let at = found.trailing_zeros();
        found &= found.wrapping_sub(1);
        (at < 16).then_some(at as usize)
    })
}

/// Whether the instruction at this place is a call that moves bytes. The two bytes alone also stand
/// in addresses and numbers, so what stands around them decides.
#[cfg(target_arch = "x86_64")]
fn moves_bytes(code: &[u8], at: usize) -> bool {
    let after = &code[at + 2..];
    if after.len() < 6 || is_address(&code[..at]) {
        return false;
    }
    if let Some(number) = number_before(&code[..at]) {
        // Looks at the result, keeps it, sets the next call up, or returns.
        let likely = [0x48, 0x49, 0x3d, 0x83, 0x85, 0x89, 0xba, 0xc3, 0x5d].contains(&after[0]);
        return likely && MOVING.contains(&number);
    }
    // `cmp rax, -4095`, the kernel's own boundary between results and errors.
    if after.starts_with(&[0x48, 0x3d]) && after[3..6] == [0xf0, 0xff, 0xff] {
        return true;
    }
    is_argument_move(&code[..at])
        && (matches!(after[0], 0xc3 | 0x5d | 0x89)
            || after[0] == 0x48 && matches!(after[1], 0x83 | 0x85 | 0x89))
}

/// Whether the code ends in the middle of `lea REGISTER, [rip + DISTANCE]`, so that what follows are the upper bytes
/// of the distance: 80 MB and more, as large libraries have it.
#[cfg(target_arch = "x86_64")]
fn is_address(before: &[u8]) -> bool {
    matches!(*before, [.., 0x48 | 0x4c, 0x8d, place, _, _] if place & 0xc7 == 0x05)
}

/// The number that is put into `eax` shortly before, with no call, return or jump in between.
#[cfg(target_arch = "x86_64")]
fn number_before(before: &[u8]) -> Option<c_long> {
    let immediate = |end: usize| {
        let bytes = [before[end - 4], before[end - 3], before[end - 2], before[end - 1]];
        c_long::from(u32::from_le_bytes(bytes))
    };
    for gap in 0..=16 {
        let end = before.len().checked_sub(gap)?;
        let head = &before[..end];
        if end >= 5 && head[end - 5] == 0xb8 && immediate(end) < 0x10000 {
            return Some(immediate(end));
        }
        if head.ends_with(&[0x31, 0xc0]) {
            return Some(0);
        }
        if end >= 7 && head[end - 7..end - 4] == [0x48, 0xc7, 0xc0] {
            return Some(immediate(end));
        }
        if matches!(head.last(), Some(0xc3 | 0xe8 | 0xe9 | 0xeb | 0xcc)) {
            return None;
        }
    }
    None
}

/// Whether the code ends with a move between 64-bit registers, or from the frame into one.
#[cfg(target_arch = "x86_64")]
fn is_argument_move(before: &[u8]) -> bool {
    let wide = |byte: u8| matches!(byte, 0x48 | 0x49 | 0x4c | 0x4d);
    match *before {
        [.., prefix, 0x89 | 0x8b, register] if wide(prefix) && register >= 0xc0 => true,
        [.., prefix, 0x8b, place, _] => wide(prefix) && place & 0xc7 == 0x45,
        _ => false,
    }
}

/// Whether the code has system calls of its own, in instructions of four bytes: `mov x8, NUMBER`,
/// `svc 0`, `cmn x0, 4095`.
#[cfg(target_arch = "aarch64")]
fn has_own_calls(code: &[u8]) -> bool {
    const CALL: u32 = 0xd400_0001;
    const LOOKS_AT_RESULT: u32 = 0xb13f_fc1f;
    let word = |at: usize| {
        let bytes = code.get(4 * at..4 * at + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    (0..code.len() / 4).filter(|at| word(*at) == Some(CALL)).any(|at| {
        let number = (at.saturating_sub(12)..at).rev().find_map(|before| {
            let instruction = word(before)?;
            let sets = instruction & 0x7fe0_001f == 0x5280_0008;
            sets.then(|| c_long::from(instruction >> 5 & 0xffff))
        });
        match number {
            Some(number) => MOVING.contains(&number),
            None => word(at + 1) == Some(LOOKS_AT_RESULT),
        }
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const READ: [u8; 13] =
        [0x31, 0xc0, 0x48, 0x89, 0xee, 0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7e, 0x10, 0x90];

    #[test]
    fn a_read_by_an_instruction_is_found_wherever_it_stands() {
        for (place, behind) in (0..64).flat_map(|place| [(place, 0), (place, 1), (place, 40)]) {
            let mut code = vec![0x90; place];
            code.extend(READ);
            code.extend(vec![0x90; behind]);
            assert!(has_own_calls(&code), "{place} {behind}");
        }
    }

    #[test]
    fn each_place_of_the_two_bytes_is_found_once() {
        for place in 0..16 {
            let mut bytes = [0x05; 17];
            bytes[place] = 0x0f;
            assert!(instructions_in(&bytes).eq([place]), "{place}");
        }
        let all = instructions_in(&std::array::from_fn(|at| INSTRUCTION[at % 2]));
        assert!(all.eq((0..16).step_by(2)));
        assert_eq!(instructions_in(&[0x0f; 17]).next(), None);
    }

    #[test]
    fn other_calls_and_other_bytes_are_not() {
        // getpid; a read whose number belongs to a call before it; the bytes within a number.
        let getpid = [0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
        let called = [0x31, 0xc0, 0xe8, 0x12, 0x34, 0x0f, 0x05, 0x00, 0x48, 0x85, 0xc0, 0x90, 0x90];
        let number = [0x48, 0x8d, 0x0d, 0x0f, 0x05, 0x20, 0x00, 0x48, 0x85, 0xc0, 0x90, 0x90, 0x90];
        // The upper half of a distance, as in PyTorch.
        let distance = [
            0x31, 0xc0, 0x48, 0x8d, 0x05, 0x1a, 0x7a, 0x0f, 0x05, 0x48, 0x89, 0x47, 0xb8, 0x90,
            0x90,
        ];
        assert!(!has_own_calls(&distance));
        for code in [getpid, called, number] {
            assert!(!has_own_calls(&code), "{code:x?}");
        }
    }

    #[test]
    fn a_call_whose_number_is_a_variable_is_found_by_its_look_at_the_result() {
        // Go's `syscall.RawSyscall6`, and gcc's `syscall` with a frame.
        let go = [0x4c, 0x89, 0xc8, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x76, 0x20];
        let gcc = [0x48, 0x8b, 0x55, 0xd8, 0x0f, 0x05, 0x48, 0x89, 0x45, 0xf8, 0x48, 0x8b, 0x45];
        assert!(has_own_calls(&go));
        assert!(has_own_calls(&gcc));
    }

    #[test]
    fn what_is_loaded_is_looked_through() {
        // The library's own calls stand in this program, which does not bear its name.
        assert!(are_there());
    }
}
