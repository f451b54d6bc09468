//! Streams of messages over cells: what a header takes of a cable no message gets.

use crate::physics::{number, numbers, written};

/// A greedy stream over a cable of 125 MB/s: payload and packet of the channel, size of a message,
/// and what arrives, `message / (cells x packet)` of the cable.
#[test]
fn headers_of_cells_count_where_nothing_segments() {
    for (payload, packet, message) in
        [(48, 53, 4096), (48, 53, 49), (10, 53, 4800), (100, 100, 100)]
    {
        let text = format!(
            "[system]\ntitle = 'streams'\nhosts = 2\n\
             [channel.d]\npacket = '{packet} B'\npayload = '{payload} B'\n\
             link.rate = '1 Gbit/s'\nadapter.send_buffers = 4\n\
             switch.shared_memory = {{ latency = '10 ns', buffer = 64 }}\n\
             [workload.d]\nsource.streams.one = {{ flows.listed = [{{ from = 0, to = 1 }}], \
             size = '{message} B' }}\n[run]\nlength = '40 ms'\n"
        );
        let outcome = written(&text);
        let cells = f64::ceil(f64::from(message) / f64::from(payload));
        let right = 125.0 * f64::from(message) / (cells * f64::from(packet));
        let case = format!("{payload}/{packet}/{message}");
        let accepted = number(&outcome, "accepted_mb_per_s");
        assert!((accepted / right - 1.0).abs() < 0.005, "{case}: {accepted} for {right} MB/s");
        let [fair] = numbers(&outcome, "streams", "fair_mb_per_s")[..] else { panic!("{case}") };
        assert!((fair / right - 1.0).abs() < 1e-9, "{case}: {fair} for {right} MB/s");
    }
}
