//! Stores, loads and remote reads.

use std::rc::Rc;

use weft_lab::drive::carrier::Destination;
use weft_units::{Bytes, Span, Time};

use super::{Log, PACKET, STAR, WAY, crew, run};

#[test]
fn a_store_is_seen_when_its_message_is_there() {
    let seen: Log<(u64, Time)> = Log::default();
    let end = run(&mut crew(2, STAR), |me| {
        let seen = Rc::clone(&seen);
        async move {
            if me.rank() == 0 {
                me.store(1, 64, 5, Bytes(4)).await;
                me.store(1, 64, 7, Bytes(4)).await;
                assert_eq!(me.load(64), 0, "the own memory is another one");
            } else {
                assert_eq!(me.load(64), 0);
                let first = me.until(64, 1).await.value;
                seen.borrow_mut().push((first, me.now()));
                let second = me.until(64, 6).await.value;
                seen.borrow_mut().push((second, me.now()));
                assert_eq!(me.until(64, 6).await.value, me.load(64));
            }
        }
    });
    assert_eq!(*seen.borrow(), [(5, Time(WAY)), (7, Time(WAY + PACKET))]);
    assert_eq!(end, Ok(Time(WAY + PACKET)));
}

#[test]
fn a_store_to_several_is_seen_by_each_and_by_the_rank_itself() {
    let end = run(&mut crew(4, STAR), |me| async move {
        if me.rank() == 1 {
            let sent = me.store_to(Destination::Hosts(0b1111), 8, 1, Bytes(4));
            assert_eq!(me.load(8), 1, "the own copy is there at once");
            sent.await;
        }
        me.until(8, 1).await;
    });
    // Three copies, one after another.
    assert_eq!(end, Ok(Time(2 * PACKET + WAY)));
}

#[test]
fn a_remote_read_takes_two_ways_and_no_time_of_the_other_program() {
    let end = run(&mut crew(2, STAR), |me| async move {
        if me.rank() == 0 {
            me.store(1, 0, 42, Bytes(4)).await;
            let read = me.read(1, 0, Bytes(150)).await;
            assert_eq!((read.value, read.size, read.from), (42, Bytes(150), 1));
        } else {
            me.compute(Span(30)).await;
        }
    });
    // The store, the question behind it, two packets back.
    assert_eq!(end, Ok(Time(PACKET + WAY + PACKET + WAY)));
}
