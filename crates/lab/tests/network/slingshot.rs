//! The shipped Slingshot: what it takes by hand, and that its buffers cannot wait for each other in
//! a cycle.

use weft_kernel::Halt;
use weft_lab::{Plan, Request, simulate};

fn plan(preset: Option<&str>, overrides: &[&str]) -> Result<Plan, String> {
    let overrides: Vec<String> = overrides.iter().map(|&own| own.to_owned()).collect();
    Plan::new(&Request::new("slingshot", preset, &overrides)).map_err(|error| error.to_string())
}

/// A packet takes 43.44 ns of a cable, and a switch decides in slots of as much. 13 ns along the cable and 350 in
/// the switch end in the ninth slot, at 390.96 ns; what then leaves is at its host 13 and 43.44 ns later. Each switch
/// behind a cable within a group is one more such round: 403.96 + 350 ends in slot 18, at 781.92 ns.
/// Between groups it is 150 ns along the cable: 781.92 + 500 ends in slot 30, 1303.2 + 363 in slot 39.
#[test]
fn a_packet_takes_what_the_data_sheet_adds_up_to() {
    for (to, picoseconds) in [(1, 447_400), (2, 838_360), (8, 1_359_640), (40, 1_750_600)] {
        let list = format!("workload.net.source.list=[{{ from = 0, to = {to}, time = '0 ns' }}]");
        let plan = plan(None, &[&list, "run.length='5 us'", "run.regime='from_empty'"]);
        let spec = &plan.expect("a legal composition").points[0].spec;
        let runs = simulate(spec, 1, &Halt::new()).expect("a run");
        let seen = &runs[0].observations;
        assert_eq!((seen.delivered, seen.budget.total_ps()), (1, picoseconds), "{to}");
    }
}

#[test]
fn its_virtual_channels_leave_no_cycle_of_buffers() {
    let load = "workload.net.load=0.5";
    let channels =
        |number| format!("channel.net.flow_control.virtual_channel_credits.channels={number}");
    for preset in [None, Some("thousand")] {
        assert!(plan(preset, &[load]).is_ok(), "{preset:?}");
        let said = plan(preset, &[load, &channels(2)]).map(drop).expect_err("detours take three");
        assert!(said.contains("channel.net.deadlock = refused"), "{said}");
        let minimal = "channel.net.routes.per_packet='random'";
        assert!(plan(preset, &[load, minimal, &channels(2)]).is_ok(), "{preset:?}");
    }
}
