//! The way between the memory of a host and its FIFOs, worked out by hand: what its movers share, the
//! memory of the adapter, and what its processor does for a message. Turns as in [`super::times`].

use weft_fabric::measure::Latency;

use super::{listed, one_way_ns, run};

/// A message of 100 bytes, 7 packets, handed over at 10000 ns.
fn hundred(transfer: &str) -> u64 {
    let keys = format!("[channel.network.transfer]\n{transfer}\n");
    one_way_ns(&run(&listed(100, &[(10_000, 0, 1)], &keys), 1))
}

/// The processor of the adapter takes 3000 ns for a message and 1000 for the address of its page:
/// the first packet is in the FIFO at 14360, the last at 16280. Turn at 15960: at the switch at 17740
/// to 21580. Analysed at 19640, the first packet has passed at 20000, and the turn of the switch at
/// 21660 brings all to the target at 23440 to 27280. There the processor has the same to do until
/// 27440; set up at 27480, the seven are in memory at 29720.
#[test]
fn the_manager_is_waited_for_at_both_ends() {
    let manager = "manager = { message = '3 us', translation = '1 us', page = '4 KiB' }";
    assert_eq!(hundred(manager), 29_720 - 10_000);
    // Two pages of 64 bytes: 1 us more at both ends, at the first of which the turn is the same.
    let pages = "manager = { message = '3 us', translation = '1 us', page = '64 B' }";
    assert_eq!(hundred(pages), 29_720 + 1_000 - 10_000);
}

/// By DMA into the memory of the adapter until 10000 + 40 + 7 x 320 = 12280, from there into the FIFO
/// by 12600 to 14520. Turn at 13680: at the switch at 15460 to 19300; the first packet has passed at
/// 17720. Turn at 19380: at the target at 21160 to 25000, in the memory of the adapter at 25320, and by
/// DMA in that of the host 2280 ns later.
#[test]
fn through_the_memory_of_the_adapter_a_message_is_stored_twice() {
    assert_eq!(hundred("path.memory.rate = '400 Mbit/s'"), 25_320 + 2_280 - 10_000);
}

/// What a processor moves goes straight into the FIFO, whatever the way of DMA. That of the host needs
/// nothing from the processor of the adapter; if it is that of the adapter, the packet is in the FIFO
/// 3000 + 320 ns later, at 14400: at the switch at 17740, in the next FIFO at 20000, with the turn at
/// 21660 at the target at 23440, and read 3320 ns later.
#[test]
fn programmed_io_goes_straight_into_the_fifo() {
    let short = |transfer: &str| {
        let keys = format!("[channel.network.transfer]\n{transfer}\n");
        one_way_ns(&run(&listed(11, &[(11_080, 0, 1)], &keys), 1))
    };
    let direct = 19_200 - 11_080;
    assert_eq!(short("path.memory.rate = '400 Mbit/s'"), direct);
    let manager = "manager.message = '3 us'\npath.memory.rate = '400 Mbit/s'\npio.by";
    assert_eq!(short(&format!("{manager} = 'host'")), direct);
    assert_eq!(short(&format!("{manager} = 'manager'")), 23_440 + 3_320 - 11_080);
}

/// Host 0 sends 300 bytes and is sent 300 bytes, at 2 us a packet. On a shared bus the 40 packets
/// follow each other without a pause, since those that are to be sent are all there, and all that
/// came meanwhile wait when they are gone: from 10040 to 90040 ns.
#[test]
fn a_shared_bus_serves_both_directions_one_after_another() {
    let both = |bus: &str| {
        let keys = format!(
            "[channel.network.transfer]\ndma.rate = '64 Mbit/s'\nbus = '{bus}'\n\
             [channel.network.adapter]\nsend_buffers = 1\n"
        );
        one_way_ns(&run(&listed(300, &[(10_000, 0, 1), (10_000, 2, 0)], &keys), 1))
    };
    assert_eq!(both("shared"), 80_040);
    assert!(both("independent") < 60_000);
}

/// Where the set-up of a DMA takes 3 us, a short message is 3 us later in the FIFO and 3 us later in
/// memory by DMA, and waits for the next turns, as worked out above; by the processor it is not.
#[test]
fn the_size_decides_between_dma_and_programmed_io() {
    let short = |up_to: u64| {
        let keys =
            format!("[channel.network.transfer]\ndma.set_up = '3 us'\npio.up_to = '{up_to} B'\n");
        one_way_ns(&run(&listed(11, &[(11_080, 0, 1)], &keys), 1))
    };
    assert_eq!(short(11), 19_200 - 11_080);
    assert_eq!(short(10), 23_440 + 3_320 - 11_080);
}

/// A host puts as much of a message into its FIFO as there is room for, and need not wait for a place
/// for all of it (Maestro 3.2): 7 packets go through FIFOs of 4, at most 4 in a frame.
#[test]
fn a_message_longer_than_a_fifo_is_spooled_through_it() {
    let frames = |fifo: &str| {
        let text = listed(100, &[(10_000, 0, 1)], "").replace("[run]\n", "[run]\ntrace = true\n");
        let keys = format!("turns.fifo = '{fifo}'\nturns.phase");
        let run = run(&text.replace("turns.phase", &keys), 1);
        assert_eq!(run.observations.delivered, 1);
        let of_host =
            run.trace.iter().filter(|entry| entry.kind == "frame" && entry.initiator == Some(0));
        let packets = of_host.filter_map(|entry| entry.content.split(' ').next()?.parse().ok());
        packets.collect()
    };
    let (small, large): (Vec<u32>, Vec<u32>) = (frames("64 B"), frames("2048 B"));
    assert_eq!(large, [7]);
    assert_eq!((small.iter().sum::<u32>(), small.iter().max()), (7, Some(&4)));
}

/// Three messages of 300 bytes at the same time. Without a limit the third begins when two have been
/// put into the FIFO, each in 40 + 20 x 320 ns. In 600 bytes of reserved memory there is no room for it
/// until the first one has left: at 27620 ns, as without others ([`super::times`]).
#[test]
fn what_finds_no_room_in_the_reserved_memory_waits() {
    let waits = |reserved: &str| {
        let keys = format!("[channel.network.transfer]\n{reserved}\n");
        let run = run(&listed(300, &[(10_000, 0, 1); 3], &keys), 1);
        assert_eq!(run.observations.delivered, 3);
        run.observations.recorder(Latency::Queueing).max().expect("three").0 / 1_000
    };
    assert_eq!(waits(""), 2 * 6_440);
    assert_eq!(waits("reserved = '900 B'"), 2 * 6_440);
    assert_eq!(waits("reserved = '600 B'"), 27_620 - 10_000);
}
