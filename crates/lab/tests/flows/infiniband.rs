//! The results of the shipped InfiniBand system and its experiment, at a size that a test can run.

use super::roce::{of, outcome};

/// Long answers of many hosts at once take the credits of cables that lead elsewhere. FECN and BECN slow the answers down and give
/// the median message back nearly what it would have alone; a gentle table does less of both.
#[test]
fn victims_of_an_incast_are_spared_and_the_incast_pays() {
    let incast = outcome("infiniband-incast", "2 ms");
    let at =
        |answer, control, column| of(&incast, &[("answer", answer), ("control", control)], column);
    for (answer, control) in
        [("short", "none"), ("short", "becn"), ("long", "none"), ("long", "becn")]
    {
        assert_eq!(at(answer, control, "class_0_dropped"), 0.0, "{answer} {control}");
        assert_eq!(at(answer, control, "retransmitted_packets"), 0.0, "{answer} {control}");
        assert!(at(answer, control, "congestion_notifications") > 0.0, "{answer} {control}");
    }
    let victims = |control| at("long", control, "uniform_slowdown_p50");
    let answers = |control| at("long", control, "incast_completion_p50_us");
    assert!(
        victims("none") > 5.0 && victims("becn") < 3.0,
        "{} {}",
        victims("none"),
        victims("becn")
    );
    assert!(victims("becn") < victims("quadratic") && victims("quadratic") < victims("none"));
    assert!(answers("none") < answers("quadratic") && answers("quadratic") < answers("becn"));
    assert!(
        at("long", "becn", "class_0_paused_us") < 0.5 * at("long", "none", "class_0_paused_us")
    );
}
