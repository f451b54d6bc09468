//! How many stations rings may have together.

use super::rings::{RING, file, listed, one_way};
use super::{refusal, run};

/// Stations without a host are numbered behind all hosts, with sixteen bits.
#[test]
fn there_are_as_many_stations_as_have_numbers() {
    let text = |ports: u32| {
        let unused: Vec<String> = (2..ports).map(|port| port.to_string()).collect();
        let fabric = format!(
            "fabric.table = {{ switches = [{{ name = 'r', ports = {ports}, unused = [{}] }}], \
             cables = [{{ from = 'host 0', to = 'r.0' }}, {{ from = 'host 1', to = 'r.1' }}] }}",
            unused.join(", ")
        );
        let ring = format!("switches.r.ring = {{ {RING} }}\nerrors.packet_error_rate = 1e-9");
        file(2, &fabric, &ring, &listed(&[(0, 1, 0)]), "20 ms")
    };
    let said = refusal(&text(65_536));
    assert!(said.contains("channel.c.fabric = 65534 stations of rings without a host"), "{said}");
    assert!(said.contains("at most 65533: 2 hosts and such stations"), "{said}");
    // From host 1 past all of them to host 0: 65533 times 100 ns, 65534 links, and the packet.
    let seen = run(&text(65_535), 1);
    assert_eq!(one_way(&seen), (7_209_040, 7_209_040, 65_533.0));
}
