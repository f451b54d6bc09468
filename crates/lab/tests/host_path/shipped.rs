//! Hosts in front of the adapters of every shipped system.

use weft_lab::{Cell, Options, Outcome};

use super::*;

const CALL: &str = "send = ['call']\nreceive = ['poll']\n\
                    stage = { call = { fixed = '2 us' }, poll = { fixed = '3 us' } }";

fn ping_pong(system: &str, channel: &str, host: &str) -> Result<Outcome, String> {
    let text = format!(
        "base = '{system}'\n[program]\nchannel = '{channel}'\n\
         run.ping_pong = {{ size = '8 B', rounds = 4 }}\n{host}"
    );
    let request = Request::of_text("hosts.toml", &text);
    weft_lab::run(&request, &Options::default(), &mut |_, _| true)
        .map_err(|error| error.to_string())
}

fn stage(outcome: &Outcome, name: &str) -> f64 {
    let budget = outcome.table("budget");
    let row = (0..budget.rows()).find(|row| budget.get(*row, "stage") == Some(Cell::from(name)));
    row.map_or(0.0, |row| budget.number(row, "mean_us").unwrap())
}

/// A call of 2 us and a poll of 3 us lengthen each way by what they take, whatever the adapter: on a
/// channel with slots, or with turns, by as much up to one of those. In Clint's quick channel an answer
/// that is given at once waits for the acknowledgment before it, and one that is not does not.
#[test]
fn a_call_and_a_poll_in_front_of_every_adapter() {
    let channels = [
        ("clint", "bulk", 9.0),
        ("clint", "quick", 0.1),
        ("maestro", "network", 2.5),
        ("clan", "fabric", 0.0),
    ];
    for (system, channel, turn) in channels {
        let bare = ping_pong(system, channel, "").unwrap();
        let hosted = ping_pong(system, channel, &format!("[channel.{channel}.host]\n{CALL}"));
        let hosted = hosted.unwrap_or_else(|error| panic!("{system}.{channel}: {error}"));
        assert_eq!([stage(&hosted, "call"), stage(&hosted, "poll")], [2.0, 3.0], "{system}");
        let round_trip = |outcome: &Outcome| {
            outcome.table("points").number(0, "program_round_trip_mean_us").unwrap()
        };
        let longer = round_trip(&hosted) - round_trip(&bare);
        assert!((longer - 10.0).abs() <= 2.0 * turn + 1e-6, "{system}.{channel}: {longer}");
    }
}
