//! Records with wrong fields, and noise in place of records.

use super::*;

/// So many rounds, or as many times more as `make test-hostile TIMES=...` says.
fn rounds(few: usize) -> usize {
    let times = std::env::var("WEFT_TEST_TIMES").ok().and_then(|value| value.parse().ok());
    few * times.unwrap_or(1)
}

/// A program with one registered region, between bytes that are not.
struct Registered {
    memory: Vec<u8>,
}

const REGION: std::ops::Range<usize> = 4096..8192;
const KEY: u64 = 1;

impl Events for Registered {
    fn on_event(&mut self, _: Event) {}

    fn resolve(&mut self, range: &Range, _: Touch) -> Result<*mut u8, i32> {
        let end = range.address.checked_add(range.length).ok_or(libc::EFAULT)?;
        if range.key != KEY || end > REGION.len() as u64 {
            return Err(libc::EACCES);
        }
        Ok(self.memory[REGION.start + range.address as usize..].as_mut_ptr())
    }
}

/// A hostile process sends records whose fields are wrong, one by one: requests for memory, pieces and replies that
/// nobody asked for, long messages, announcements. It loses its channel; memory that is not registered stays as it is.
fn wrong_fields(name: &str, set: impl Fn(&mut Endpoint)) {
    let place = Place::new(name);
    let mut victim = End::new(&place);
    set(&mut victim.endpoint);
    // The hostile process is this one, whose memory the kernel would let be written.
    victim.endpoint.disable_fetch();
    let mut program = Registered { memory: vec![0xab; 12_288] };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..rounds(2000) {
        let hostile = Name::new();
        let (_peer, segment) =
            rendezvous::connect(&place.directory(), hostile, victim.endpoint.name()).unwrap();
        victim.endpoint.poll_kernel(&mut victim.peers, &mut program);
        let (ring, mut writer) = (segment.ring(Side::Sender), segment.writer(Side::Sender));
        for _ in 0..20 {
            let kind = if next() % 2 == 0 { 4 } else { 1 + next() as u32 % 7 };
            let what = NonZeroU32::new(kind | (next() as u32 & 0x300)).unwrap();
            let ranges = next() % 5;
            let mut words = vec![next() % 4, next()];
            let code = [(4, 0), (20, 8), (11, 16), (4, 24)].map(|(of, bit)| (next() % of) << bit);
            words.push(code.iter().sum::<u64>() | ranges << 32 | (next() % 6 / 5) << 40);
            for _ in 0..ranges {
                let far = if next() % 8 == 0 { next() } else { next() % 5000 };
                words.extend([far, next() % 8 * 8, next() % 8 / 7 * 6 + KEY]);
            }
            // Most often as many bytes as the ranges have, so that some requests are as they should be.
            let fits = words[3..].chunks(3).map(|range| range[1] / 8).sum::<u64>();
            let is_other = next() % 4 == 0;
            let count = if is_other { next() % 12 } else { fits };
            words.extend((0..count).map(|_| next() % 9));
            let length = words.len() as u64 * 8 - if is_other { next() % 9 } else { 0 };
            let written = ring.write(&mut writer, what, length, |at| {
                // SAFETY: the record has room for its length.
                unsafe {
                    std::ptr::copy_nonoverlapping(words.as_ptr().cast(), at, length as usize)
                };
            });
            if written != Ok(true) {
                break;
            }
            victim.endpoint.progress(&mut victim.peers, &mut program);
        }
        let outside = program.memory[..REGION.start].iter().chain(&program.memory[REGION.end..]);
        assert!(outside.copied().all(|byte| byte == 0xab), "written outside of what is registered");
    }
    assert!(program.memory[REGION].iter().any(|byte| *byte != 0xab), "nothing was ever written");
}

#[test]
fn records_with_wrong_fields_reach_nothing_that_is_not_registered() {
    wrong_fields("fields", |_| {});
}

#[test]
fn records_with_wrong_fields_reach_nothing_under_emulation_either() {
    wrong_fields("fields-as-if", |victim| victim.emulate(costs(0, 0, 0), 0));
}

/// A hostile process writes noise over its channel: it loses the channel, and nobody else anything.
#[test]
fn noise_costs_the_channel_that_it_comes_by_and_no_other() {
    let place = Place::new("noise");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    let (to, from) = (one.knows(other.endpoint.name()), other.knows(one.endpoint.name()));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..rounds(200) {
        let hostile = Name::new();
        let id = other.knows(hostile);
        let mut buffer = [0; 64];
        other.receive(Some(id), 1_000_000 + round, ANY, &mut buffer);
        let (_peer, segment) =
            rendezvous::connect(&place.directory(), hostile, other.endpoint.name()).unwrap();
        segment.corrupt(|| next() & next() & 0x0000_00ff_0000_ffff | next() << 63);
        let (bytes, mut good) = (pattern(3000, round), vec![0; 3000]);
        other.receive(Some(from), round, 1, &mut good);
        one.post(to, 500_000 + round, 1, &bytes).unwrap();
        until(&mut [&mut one, &mut other], |ends| {
            ends[1].outcome(round).is_some() && ends[1].outcome(1_000_000 + round).is_some()
        });
        assert!(good == bytes);
    }
}
