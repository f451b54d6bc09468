//! What the columns of the tables mean.

use serde::Serialize;

use crate::study::Outcome;

/// The meaning of a column.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// The table.
    pub table: String,
    /// The column.
    pub name: String,
    /// Its unit; empty for a ratio, a name or a count.
    pub unit: String,
    /// Its meaning.
    pub description: String,
}

/// Beginnings of column names and what they mean; the first that fits counts.
const MEANINGS: &[(&str, &str)] = &[
    ("queueing_", "generation of a packet to the start of the transmission that succeeds"),
    ("first_attempt_", "generation of a packet to the start of its first transmission"),
    ("one_way_", "generation of a packet to the arrival of its last byte at the target"),
    ("transit_", "start of the transmission that succeeds to the arrival of its last byte"),
    ("round_trip_", "start of the transmission that succeeds to the end of its acknowledgment"),
    ("offered_load", "packets generated, as a fraction of what the links carry"),
    ("accepted_load", "packets delivered, as a fraction of what the links carry"),
    ("accepted_mb_per_s_per_host", "payload delivered, in 10^6 bytes per second and host"),
    ("accepted_mb_per_s", "payload delivered, in 10^6 bytes per second, all hosts"),
    ("generated_packets", "packets that the workload submitted in one run, mean over runs"),
    ("delivered_packets", "packets that reached their target in one run, mean over runs"),
    ("abandoned_packets", "packets given up by a stated rule in one run, mean over runs"),
    ("backlog_packets", "packets whose transmission had not begun at the end of a run"),
    ("in_flight_packets", "packets in flight at the end of a run"),
    ("attempts", "transmissions started, retransmissions included"),
    ("dropped_", "transmissions dropped by this rule"),
    ("collisions_per_attempt", "collisions as a fraction of the transmissions started"),
    ("collisions_", "collisions with this kind of packet in a bufferless switch"),
    ("interrupts_per_message", "messages that found their program asleep, of those delivered"),
    ("stimuli_counted", "stimuli of interrupt flags that did not interrupt, by their words"),
    ("units_resent", "checked units that had not arrived and were stored again"),
    ("interrupts", "packets whose page interrupts the processor of their target"),
    ("mapped_memory_max_kib", "memory for incoming pages of the node that gives most, in KiB"),
    ("mapped_memory_kib", "memory that all nodes give for their incoming pages, in KiB"),
    ("unmapped_packets", "packets, one per target, to which no outgoing page leads"),
    ("filtered_packets", "packets that a target does not map incoming, or has not enabled"),
    ("remapped_packets", "packets written to an address that their target chose for the page"),
    ("acknowledged_packets", "packets whose page requests an acknowledgment, and that got one"),
    ("acknowledgment_", "from stores to the acknowledgment of their page in memory"),
    ("multicast_wait_", "total waiting time in the hub of a packet for several targets"),
    ("synchronisation_", "from taking up a broadcast until all outputs of the hub are ready"),
    ("q_ratio", "one-way latency over the time of a floating-point operation; printed for 8 bytes"),
    ("turn_of_many_locked_out", "attempts to lock a buffer into which another host wrote"),
    ("turn_of_many_", "first attempt to lock a shared buffer until its write pointer is known"),
    ("connections_accepted", "requests for a connection that were accepted"),
    ("connections_refused", "requests for a connection that were refused"),
    ("connection_mean_us", "first message for a host until the connection for which it waits"),
    ("connection_locked_out", "attempts to request a connection to a host while another host did"),
    ("messages_fallen_through", "messages that were left to the ordinary stack"),
    ("bridge_accepted", "requests that left a ring by a bridge"),
    ("bridge_refused", "requests for which a bridge had no room"),
    ("bridge_given_up", "requests that a bridge gave up and whose initiators do not know it"),
    ("ring_requests", "requests on their first link of a ring, repetitions included"),
    ("ring_damaged", "requests that arrived damaged"),
    ("ring_refused", "requests for which the target, or a bridge, had no buffer"),
    ("ring_given_up", "requests that were repeated so often that they were given up"),
    ("remote_dma_mb_per_s", "payload of a message over the time until its answer has arrived"),
    ("remote_dma_worst_mb_per_s", "remote_dma_mb_per_s of the slowest initiator"),
    ("one_way_min_us", "least time from submission to delivery"),
    ("round_trip_min_us", "least time until the answer has arrived"),
    ("uplink_", "first packet of a frame: FIFO of the initiator to FIFO of its switch"),
    ("switch_analysis_", "reading of a header to the order to move its message"),
    ("switch_transfer_", "set-up of the transfer of a message to its end, in a switch"),
    ("switch_", "first packet of a message: FIFO to FIFO through the switches"),
    ("downlink_", "first packet of a frame: FIFO of the last switch to FIFO of the target"),
    ("path_", "sum of uplink, switch and downlink"),
    ("turn_wait_", "end of a frame of one end of a link to the beginning of its next one"),
    ("data_frames", "frames with packets, on all links"),
    ("packets_per_frame", "packets per frame, of frames with packets, mean over all links"),
    ("jain_index", "fairness among initiators: 1 if all deliver the same, 1/n if one does all"),
    ("stream_jain_index", "fairness among streams: 1 if all get the same, 1/n if one gets all"),
    ("stream_mb_per_s", "payload of the stream that arrived, in 10^6 bytes per second"),
    ("victims", "streams with less than nine tenths of their max-min fair share, mean over runs"),
    ("victim", "whether the stream got less than nine tenths of its max-min fair share"),
    ("share_of_fair", "throughput of all streams, as a fraction of the sum of their fair shares"),
    ("fair_mb_per_s", "throughput of the stream if all resources were shared max-min fairly"),
    ("quenches_per_ms", "quenches that reached a source, per millisecond, all sources"),
    ("quenches", "quenches that reached the source of the stream"),
    ("stops_per_ms", "stops of a cable, per millisecond, all cables"),
    ("most_held_cells", "the most cells that an input held on one virtual channel"),
    ("most_held", "the most cells that the input at the end of the cable held"),
    ("interval_mean_us", "mean time between arrivals of messages of the stream"),
    ("interval_deviation_us", "standard deviation of the time between arrivals of messages"),
    ("messages_per_s", "messages of the stream that arrived per second"),
    ("group", "the group of streams or flows in the workload"),
    ("size", "how large the flows of the row are"),
    ("flows", "flows that ended, of those that began since recording did"),
    ("unfinished_flows", "flows that had not ended at the end of the run"),
    ("completion_", "beginning of a flow to its last byte at the target"),
    (
        "acknowledged_",
        "beginning of a flow until its initiator knows that its target has all of it",
    ),
    ("alone_", "completion time of the flow alone on the same route"),
    ("slowdown_", "completion time over that of the flow alone on the same route, not below 1"),
    ("sent_packets", "packets of flows that were sent, retransmissions included"),
    ("retransmitted_packets", "retransmitted packets of flows"),
    ("unneeded_packets", "packets that arrived and were discarded: duplicates, or after a gap"),
    ("out_of_order_packets", "packets that arrived after one with a higher number of their flow"),
    ("marked_packets", "packets of flows that arrived with a mark"),
    ("congestion_notifications", "notifications of congestion that reached a sender"),
    ("credit_grants", "grants of credits that reached a sender"),
    ("gaps", "losses that a sender inferred from later packets"),
    ("cut_packets", "packets that arrived as headers, since switches had trimmed their payload"),
    ("timeouts", "losses that a sender inferred from its timer"),
    ("way", "the switches that the stream passes, in order"),
    ("link_load", "share of the time in which the direction of the cable was busy"),
    ("indication_load", "link_load including quenches and unquenches"),
    ("link", "the number of the direction of a cable, by the port that sends on it"),
    ("waiting", "cells that wait for the cable"),
    ("held", "cells that the input at the end of the cable holds"),
    ("from_tier", "cables between the beginning and the nearest host"),
    ("to_tier", "cables between the end and the nearest host"),
    ("hops_mean", "switches that a delivered packet passed"),
    (
        "verdict",
        "settled, transient, saturated, stuck, unreachable, stopped or failed; only a settled mean is steady",
    ),
    ("reason", "why a run failed, if one did"),
    ("replications", "runs with different seeds"),
    ("seed", "the seed of the run"),
    ("channel", "the network within the system"),
    ("point", "the number of the combination of swept values"),
    ("waiting_for", "what waits for what, if a run is stuck, or which flows have no route left"),
    ("lower_us", "lower end of the bin"),
    ("upper_us", "upper end of the bin"),
    ("count", "packets in the bin"),
    ("stage", "where the time was spent"),
    ("share", "share of the whole latency"),
    ("collided_with", "what a packet collided with"),
    ("latency", "the definition of latency"),
    ("mean_us", "mean per delivered packet"),
    ("quantity", "what was published or follows by arithmetic"),
    (
        "kind",
        "a number in the document, a statement of it, or neither (computed by us, or unprinted)",
    ),
    ("published", "the number in the document"),
    ("statement", "what the document says if it prints no number, or what was computed"),
    ("counted", "1 in one row of each printed number or statement, the one with the worst verdict"),
    ("also", "other experiments that compare the same number or statement with a run"),
    ("measured", "the number of this run"),
    ("half_width", "half width of the 95 % interval"),
    ("error", "measured / published - 1"),
    ("band", "what counts as reproduced"),
    ("preset", "the reading of the document"),
    ("section", "where the document prints it"),
    ("arithmetic", "how the number follows"),
    ("table", "the table of the document, by the name that the document gives it"),
    ("row", "what is compared"),
    ("printed_", "what the document prints for the system"),
    ("here_", "what the composition of the system says, or what was measured"),
    ("note", "what a reader should know about it"),
    ("program_time_", "from the beginning of the program to the end of its last rank"),
    ("program_messages_per_s", "messages that were received, per second"),
    ("program_messages", "messages that the program submitted, to channels or to its host"),
    ("program_memory_messages", "those of them that went through the memory of a host"),
    ("program_self_messages", "those of them that a rank sent to itself"),
    (
        "program_shorter_messages",
        "those of them that are shorter than the receive of the trace expects",
    ),
    ("program_round_trip_", "a message there and one back"),
    ("program_one_way_", "half a round trip"),
    ("program_exchange_", "from submission until all messages of one round are sent and received"),
    ("program_window_", "a window of messages and the answer to it"),
    ("program_barrier_", "from entering a barrier to leaving it"),
    ("program_lock_", "from requesting a lock to holding it"),
    ("program_locks_per_s", "how often the lock was taken, per second, by all ranks"),
    ("program_reply_", "from the submission of a request to its reply"),
    ("program_replies_per_s", "requests that were answered, per second, of all clients"),
    (
        "program_mb_per_s_per_host",
        "payload that the program received, in 10^6 bytes per second and host",
    ),
    ("program_mb_per_s", "payload that the program received, in 10^6 bytes per second, all hosts"),
    ("program_computing_share", "share of the time of all ranks in which they computed"),
    (
        "program_sending_share",
        "share of the time of all ranks in which they waited for a message to leave",
    ),
    (
        "program_queued_share",
        "share of the time of all ranks in which they waited for a processor of their host",
    ),
    ("program_waiting_share", "share of the time of all ranks in which they waited for others"),
];

/// The meaning of columns that begin with the name of a group, by the rest of the name.
const MEANINGS_OF_GROUPS: &[(&str, &str)] = &[
    ("_flows", "flows of the group that ended"),
    ("_completion_", "flows of the group: beginning to the last byte at the target"),
    ("_acknowledged_", "flows of the group: beginning until the initiator knows of their end"),
    ("_alone_", "flows of the group: completion times alone on the same routes"),
    ("_slowdown_", "flows of the group: completion time over that of the flow alone, not below 1"),
];

/// The unit that the end of a column's name implies.
pub fn unit(name: &str) -> &'static str {
    const ENDS: &[(&str, &str)] = &[
        ("_mb_per_s_per_host", "MB/s"),
        ("_mb_per_s_half_width", "MB/s"),
        ("_mb_per_s_per_host_half_width", "MB/s"),
        ("_mb_per_s", "MB/s"),
        ("messages_per_s", "messages/s"),
        ("_us", "us"),
        ("_per_s", "1/s"),
        ("_packets", "packets"),
        ("_load", "fraction of link bandwidth"),
    ];
    ENDS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

impl Outcome {
    /// The meaning of every column of every table.
    pub fn descriptions(&self) -> Vec<Description> {
        let mut all = Vec::new();
        for (table, columns) in &self.tables {
            for column in columns.columns() {
                let meaning = MEANINGS.iter().find(|(start, _)| column.name.starts_with(start));
                let of_group =
                    || MEANINGS_OF_GROUPS.iter().find(|(part, _)| column.name.contains(part));
                let meaning = meaning.or_else(of_group);
                let swept = "a value of the sweep or of a variant";
                all.push(Description {
                    table: (*table).to_owned(),
                    name: column.name.clone(),
                    unit: unit(&column.name).to_owned(),
                    description: meaning.map_or(swept, |(_, meaning)| meaning).to_owned(),
                });
            }
        }
        all
    }
}
