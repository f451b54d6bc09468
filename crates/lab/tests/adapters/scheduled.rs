//! Packets that keep to the schedule of another channel, to the picosecond.

use weft_fabric::adapter::Insertion;
use weft_fabric::control::{Route, ScheduledPacket};
use weft_fabric::measure::{Collision, Observations};
use weft_fabric::switch::AcknowledgmentRule;
use weft_kernel::Streams;
use weft_lab::drive::engine::Engine;
use weft_units::{Bytes, Span, Time};

use crate::adapters::cycle_counts::quick;

/// A channel that sends packets of the schedule and requests on demand.
struct Bench(Engine);

impl Bench {
    fn new(rule: AcknowledgmentRule, insertion: Insertion) -> Bench {
        let parts = quick(rule, insertion, Span(5_000_000));
        Bench(parts.channel(Vec::new(), &Streams::new(1), Observations::default()))
    }

    fn send(&mut self, now: u64, route: Route, token: u32) {
        let packet = ScheduledPacket { route, size: Bytes(4), span: Span(60_606), token };
        self.0.send_scheduled(Time(now), packet);
    }

    fn request(&mut self, now: u64, from: u16, to: u16) {
        self.0.offer_packet(Time(now), from, to);
    }

    /// Runs up to and including a time; returns when which packet of the schedule arrived.
    fn run(&mut self, until: u64) -> Vec<(u64, u32)> {
        let mut arrivals = Vec::new();
        while let Some(now) = self.0.step(Time(until)) {
            let arrived = self.0.scheduled_arrivals();
            arrivals.extend(arrived.into_iter().map(|arrival| (now.0, arrival.token)));
        }
        arrivals
    }
}

/// 4 bytes take 60 606 ps. To the switch they have one cable, from it the switch and one cable,
/// through it both.
#[test]
fn routes_have_their_own_lengths() {
    let mut bench = Bench::new(AcknowledgmentRule::Collide, Insertion::Wait);
    bench.send(0, Route::ToSwitch { from: 0 }, 1);
    bench.send(0, Route::FromSwitch { to: 0 }, 2);
    bench.send(0, Route::Through { from: 1, to: 2 }, 3);
    let expected = [(60_606 + 25_000, 1), (60_606 + 115_000, 2), (60_606 + 140_000, 3)];
    assert_eq!(bench.run(1_000_000), expected);
    let upwards = Span(2 * 60_606);
    let time = bench.0.scheduled_time();
    assert_eq!((time.upward, time.downward), (upwards, Span(60_606)));
    assert_eq!(bench.0.broken_schedule(), None);
}

/// A request on the way to output 2 when a scheduled packet passes there: killed where they
/// collide, and later by as much where they are interleaved. Sent from 0 at time 0, it would be
/// there at 685 455 ps.
#[test]
fn a_request_gives_way() {
    for (rule, insertion, first_delivery) in [
        (AcknowledgmentRule::Collide, Insertion::Wait, None),
        (AcknowledgmentRule::Interleave, Insertion::Interleave, Some(685_455 + 60_606)),
    ] {
        let mut bench = Bench::new(rule, insertion);
        bench.request(0, 0, 2);
        bench.run(200_000);
        bench.send(200_000, Route::Through { from: 1, to: 2 }, 7);
        assert_eq!(bench.run(685_455 + 60_605), [(400_606, 7)]);
        assert_eq!(bench.0.observations().delivered, 0);
        bench.run(685_455 + 60_606);
        let delivered = u64::from(first_delivery.is_some());
        let seen = bench.0.observations();
        assert_eq!(
            (seen.delivered, seen.collisions(Collision::Control)),
            (delivered, 1 - delivered)
        );
        bench.run(20_000_000);
        assert_eq!(bench.0.observations().delivered, 1, "it is sent again");
    }
}

/// Two packets of the schedule at one output are a broken schedule, and are noted as one.
#[test]
fn a_broken_schedule_is_noticed() {
    let mut bench = Bench::new(AcknowledgmentRule::Collide, Insertion::Wait);
    bench.send(0, Route::Through { from: 0, to: 2 }, 1);
    bench.send(0, Route::Through { from: 1, to: 2 }, 2);
    assert_eq!(bench.run(1_000_000), [(200_606, 1)]);
    let problem = bench.0.broken_schedule();
    let expected = "at 25 ns two packets of the schedule met at output 2, one from 1";
    assert_eq!(problem, Some(expected));
}
